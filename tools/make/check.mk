# What people call: demo, check, lint, bench, install. The work is in tools/.
setup:
	$(Q)tools/setup.sh

demo:
	$(Q)tools/demo.sh

check:
	$(Q)tools/check.sh

# Debian packages, into build/package
deb:
	$(Q)tools/setup.sh
	$(Q)tools/package.sh

lint:
	$(Q)tools/setup.sh --all
	$(Q)tools/lint.sh

# ARGS='--json FILE' or names of figures
bench:
	$(Q)tools/setup.sh
	$(Q)bench/all $(ARGS)

# For editors and clang-tidy; without running the compiler.
compile_commands.json: FORCE
	$(Q)$(MAKE) -s --no-print-directory -Bn V=1 all tests benches | tools/compile-commands.sh > $@

# SOAK_SEED=n SOAK_LOGINS=n SOAK_FAULTS=n; see tools/soak.sh
.PHONY: soak
soak:
	$(Q)tools/soak.sh

# The units under a real systemd, in the laboratory
.PHONY: systemd-test
systemd-test:
	$(Q)tools/setup.sh
	$(Q)tools/systemd-test.sh

# 32 bits (i386), in the laboratory's amd64 kernel where this machine's has no 32-bit entry
.PHONY: check-32
check-32:
	$(Q)tools/setup.sh
	$(Q)tools/check-32.sh
