# cryptod: `make` builds, `make demo` shows the main job, `make check` runs every test; see README.md.
# VARIANT=release (default), asan (address and undefined behaviour), tsan: each in build/VARIANT.
VERSION := 0.1.0
VARIANT ?= release
B       := build/$(VARIANT)
V       ?= 0
Q       := $(if $(filter 0,$(V)),@)
say      = $(if $(filter 0,$(V)),@printf '  %-7s %s\n' $(1) $(2))

PREFIX     ?= /usr
SYSCONFDIR ?= /etc
MULTIARCH  := $(shell $(CC) -print-multiarch 2>/dev/null)
LIBDIR     ?= $(PREFIX)/lib$(if $(MULTIARCH),/$(MULTIARCH))
MODULESDIR ?= $(LIBDIR)/ossl-modules
UNITDIR    ?= $(PREFIX)/lib/systemd/system

CC       ?= cc
WARN     := -Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wvla $(WERROR)
HARDEN   := -fstack-protector-strong -fstack-clash-protection -D_FORTIFY_SOURCE=2 -ftrivial-auto-var-init=zero \
            $(if $(filter x86_64-%,$(MULTIARCH)),-fcf-protection) $(if $(filter aarch64-%,$(MULTIARCH)),-mbranch-protection=standard)
OPT.release := -O2 $(HARDEN)
OPT.asan    := -O1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined
# Without FORTIFY and inlining gcc sees reads over the end where a length is checked by the callee.
OPT.tsan    := -O1 -fno-omit-frame-pointer -fsanitize=thread -Wno-stringop-overread
CFLAGS   ?= -g
ALL_CFLAGS := -std=gnu11 -D_GNU_SOURCE -DCRYPTOD_VERSION='"$(VERSION)"' $(WARN) $(OPT.$(VARIANT)) -fPIC -fvisibility=hidden \
            -ffile-prefix-map=$(CURDIR)=. -MMD -MP $(CFLAGS)
ALL_LDFLAGS := $(OPT.$(VARIANT)) -Wl,-z,relro,-z,now,-z,noexecstack $(LDFLAGS)

pkg = $(shell pkg-config --$(1) $(2) 2>/dev/null)

# Who may include whom is what the include paths allow: dependencies point one way (design: protocol <- client-lib
# <- provider, cryptoctl; protocol, sandbox <- daemon). tools/check-deps.sh holds the rest.
INC.protocol       := -Iprotocol
INC.client-lib     := -Iclient-lib -Iprotocol
INC.provider       := -Iclient-lib
INC.cryptoctl      := -Iclient-lib $(call pkg,cflags,smartcols)
INC.sandbox        := -Isandbox
INC.daemon         := -Idaemon/common -Iprotocol -Isandbox
INC.tests          := -Itests -Iprotocol -Iclient-lib -Isandbox -Idaemon/common -Idaemon/front -Idaemon/engine -Idaemon/monitor
INC.bench          := -Ibench/lib -Iclient-lib

LIBS.crypto    := $(call pkg,libs,libcrypto)
LIBS.daemon    := $(LIBS.crypto) $(call pkg,libs,libkcapi) $(call pkg,libs,libseccomp) $(call pkg,libs,libevent_core) \
                  $(call pkg,libs,libevent_pthreads) $(call pkg,libs,libsystemd) $(call pkg,libs,inih) $(call pkg,libs,libcap) -pthread
LIBS.cryptoctl := $(call pkg,libs,smartcols) $(call pkg,libs,json-c)
LIBS.tests     := -lcriterion $(LIBS.daemon)

src  = $(foreach d,$(1),$(sort $(wildcard $(d)/*.c)))
obj  = $(patsubst %.c,$(B)/obj/%.o,$(1))
PROTOCOL_OBJ := $(call obj,$(call src,protocol))
CLIENT_OBJ   := $(call obj,$(call src,client-lib))
PROVIDER_OBJ := $(call obj,$(call src,provider))
CTL_OBJ      := $(call obj,$(call src,cryptoctl))
SANDBOX_OBJ  := $(call obj,$(call src,sandbox))
DAEMON_OBJ   := $(call obj,$(filter-out daemon/main.c,$(call src,daemon/common daemon/monitor daemon/front daemon/engine)))
DAEMON_MAIN  := $(call obj,daemon/main.c)
BENCH_SRC    := $(call src,bench)
SUITES       := unit integration sandbox lab
TEST_COMMON  := $(call obj,$(call src,tests))

PROGRAMS := $(B)/cryptod $(B)/cryptoctl $(B)/libcryptod.so.0 $(B)/cryptod.so
TESTS    := $(foreach s,$(SUITES),$(if $(wildcard tests/$(s)/*.c),$(B)/test-$(s)))
BENCHES  := $(patsubst bench/%.c,$(B)/bench-%,$(BENCH_SRC))

.PHONY: all tests benches deb demo check lint bench install clean setup fuzz FORCE
all: $(PROGRAMS)
tests: $(PROGRAMS) $(TESTS)
benches: $(PROGRAMS) $(BENCHES)

# The folder of a source file picks its include path; longer names first.
inc_of = $(INC.$(firstword $(subst /, ,$(1)))) $(if $(filter daemon/%,$(1)),-I$(patsubst %/,%,$(dir $(1))))

$(B)/obj/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(ALL_CFLAGS) $(call inc_of,$<) -c -o $@ $<

$(B)/libcryptod.so.0: $(CLIENT_OBJ) $(PROTOCOL_OBJ) client-lib/libcryptod.map
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -shared -Wl,-soname,libcryptod.so.0 -Wl,-z,nodelete -Wl,--version-script=client-lib/libcryptod.map \
		-o $@ $(CLIENT_OBJ) $(PROTOCOL_OBJ) $(LIBS.crypto) -pthread
	@ln -sf libcryptod.so.0 $(B)/libcryptod.so

# The provider and the command find an uninstalled library beside them; `make install` links them again without that.
$(B)/cryptod.so: $(PROVIDER_OBJ) $(B)/libcryptod.so.0 provider/provider.map
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -shared -Wl,--version-script=provider/provider.map $(RPATH) -o $@ $(PROVIDER_OBJ) \
		-L$(B) -lcryptod $(LIBS.crypto)

$(B)/cryptoctl: $(CTL_OBJ) $(B)/libcryptod.so.0
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -pie $(RPATH) -o $@ $(CTL_OBJ) -L$(B) -lcryptod $(LIBS.cryptoctl)

RPATH ?= -Wl,-rpath,'$$ORIGIN'

$(B)/cryptod: $(DAEMON_MAIN) $(DAEMON_OBJ) $(SANDBOX_OBJ) $(PROTOCOL_OBJ)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -pie -o $@ $^ $(LIBS.daemon)

# One Criterion program a suite. It links the objects themselves, so that internals are tested through their headers.
define suite_rule
$(B)/test-$(1): $$(call obj,$$(call src,tests/$(1))) $$(TEST_COMMON) $$(CLIENT_OBJ) $$(DAEMON_OBJ) $$(SANDBOX_OBJ) $$(PROTOCOL_OBJ)
	$$(call say,LINK,$$@)
	$$(Q)$$(CC) $$(ALL_LDFLAGS) -pie -o $$@ $$^ $$(LIBS.tests)
endef
$(foreach s,$(SUITES),$(eval $(call suite_rule,$(s))))

# They have the library in common with the provider, and so see what that one's streams do.
BENCH_LIB := $(call obj,$(call src,bench/lib))
.SECONDARY: $(BENCH_LIB) $(call obj,$(BENCH_SRC))
$(B)/bench-%: $(B)/obj/bench/%.o $(BENCH_LIB) $(B)/libcryptod.so.0
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -pie $(RPATH) -o $@ $(filter %.o,$^) -L$(B) -lcryptod $(LIBS.crypto) $(call pkg,libs,libkcapi)

clean:
	$(Q)rm -rf build compile_commands.json

-include tools/make/*.mk
-include $(shell find build/$(VARIANT)/obj -name '*.d' 2>/dev/null)
