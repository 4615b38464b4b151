# `make fuzz [FUZZ_SECONDS=n]`: each entry of tests/fuzz for so long, with clang, under address and undefined behaviour
# sanitizers. What it finds stays in build/fuzz (the corpus too).
FUZZ_SECONDS ?= 60
FUZZERS := $(patsubst tests/fuzz/%.c,$(B)/%,$(wildcard tests/fuzz/*.c))

fuzz:
	$(Q)tools/setup.sh --all
	$(Q)$(MAKE) --no-print-directory CC=clang VARIANT=fuzz \
		'OPT.fuzz=-O1 -fno-omit-frame-pointer -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined' \
		run-fuzzers

$(B)/fuzz_%: $(B)/obj/tests/fuzz/fuzz_%.o $(DAEMON_OBJ) $(SANDBOX_OBJ) $(PROTOCOL_OBJ)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -fsanitize=fuzzer -o $@ $^ $(LIBS.daemon)

.PRECIOUS: $(B)/obj/tests/fuzz/%.o
.PHONY: run-fuzzers
run-fuzzers: $(FUZZERS)
	$(Q)for fuzzer in $(FUZZERS); do \
		echo "$$fuzzer: $(FUZZ_SECONDS) s" && mkdir -p $$fuzzer-corpus && \
		$$fuzzer -max_total_time=$(FUZZ_SECONDS) -artifact_prefix=$(B)/ $$fuzzer-corpus >$$fuzzer.log 2>&1 || \
			{ tail -n 40 $$fuzzer.log; exit 1; }; \
		tail -n 1 $$fuzzer.log; \
	done
