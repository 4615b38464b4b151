# `make fuzz [SECONDS=n]`: each entry of tests/fuzz for so long, with clang, under the address (leaks too) and undefined
# behaviour sanitizers. It begins with the inputs of tests/fuzz/corpus. What it finds stays in build/fuzz. `make fuzz-build`
# only builds them; tools/fuzz.sh runs them.
SECONDS ?= 60
FUZZERS := $(patsubst tests/fuzz/%.c,$(B)/%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_OPT := -O1 -fno-omit-frame-pointer -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined -Wno-pass-failed

.PHONY: fuzz fuzz-build fuzzers
fuzz:
	$(Q)tools/setup.sh
	$(Q)$(MAKE) --no-print-directory fuzz-build
	$(Q)tools/fuzz.sh --seconds $(SECONDS)

fuzz-build:
	$(Q)$(MAKE) --no-print-directory CC=clang VARIANT=fuzz 'OPT.fuzz=$(FUZZ_OPT)' fuzzers

fuzzers: $(FUZZERS)

# Each takes what it needs from everything there is. (q: some parts have files of the same name.)
$(B)/fuzz-parts.a: $(CLIENT_OBJ) $(PROVIDER_OBJ) $(filter-out %/main.o,$(CTL_OBJ)) $(DAEMON_OBJ) $(SANDBOX_OBJ) $(PROTOCOL_OBJ)
	@rm -f $@
	$(Q)$(AR) qcs $@ $^

$(B)/obj/tests/fuzz/%.o: ALL_CFLAGS += -Icryptoctl -Iprovider

# The calls that an entry answers itself.
FUZZ_WRAP.fuzz_client   := wire_connect read ppoll clock_gettime
FUZZ_WRAP.fuzz_engine   := calibration_start
FUZZ_WRAP.fuzz_cipher   := cryptod_offers cryptod_open
FUZZ_WRAP.fuzz_params   := cryptod_offers
FUZZ_WRAP.fuzz_status   := wire_connect

$(B)/fuzz_%: $(B)/obj/tests/fuzz/fuzz_%.o $(B)/fuzz-parts.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -fsanitize=fuzzer $(addprefix -Wl$(comma)--wrap=,$(FUZZ_WRAP.$(@F))) -o $@ $^ \
		$(LIBS.daemon) $(LIBS.cryptoctl)

comma := ,
.PRECIOUS: $(B)/obj/tests/fuzz/%.o
