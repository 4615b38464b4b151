// SPDX-License-Identifier: MIT
// The self-test against drivers that are wrong in one way each: it finds every one of them, and
// says with which request.
#include "selftest.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "reference.h"

TestSuite(selftest, .timeout = 120);

struct sides {
    struct backend *cpu;
    struct backend *fault;
};

static struct backend *start(const struct backend_ops *ops, const char *fault)
{
    const struct backend_settings settings = {.workers = 1, .fault = fault};
    struct backend *backend = NULL;

    cr_assert_eq(ops->init(&settings, &backend), 0);
    return backend;
}

static struct sides sides_new(const char *fault)
{
    return (struct sides){.cpu = start(&backend_cpu_ops, NULL),
                          .fault = start(&backend_fault_ops, fault)};
}

static void sides_free(struct sides *sides)
{
    backend_fault_ops.fini(sides->fault);
    backend_cpu_ops.fini(sides->cpu);
}

static uint32_t makes_of(struct backend *cpu, uint32_t algorithm)
{
    struct backend_probe probe;

    backend_cpu_ops.probe(cpu, algorithm, &probe);
    return probe.makes;
}

static int run(struct sides *sides, uint32_t algorithm, uint32_t makes,
               char ret_text[SELFTEST_TEXT_MAX])
{
    return selftest_run(&backend_fault_ops, sides->fault, &backend_cpu_ops, sides->cpu,
                        algorithm_get(algorithm), makes, ret_text);
}

// What every algorithm's self-test says of such a driver, for all that it makes and for each alone.
static void expect(const char *fault, int error, const char *text_part)
{
    static const uint32_t alone[] = {BACKEND_MAKES_REQUESTS, BACKEND_MAKES_KEYSTREAM,
                                     BACKEND_MAKES_REQUESTS | BACKEND_MAKES_KEYSTREAM};

    for (uint32_t a = 0; a < ALGORITHM_COUNT; a++) {
        for (size_t i = 0; i < sizeof(alone) / sizeof(alone[0]); i++) {
            struct sides sides = sides_new(fault);
            const uint32_t makes = makes_of(sides.cpu, a) & alone[i];
            char text[SELFTEST_TEXT_MAX];

            if (makes != 0) {
                cr_expect_eq(run(&sides, a, makes, text), error, "%s, %s: %s",
                             algorithm_get(a)->name, fault, text);
                cr_expect_not_null(strstr(text, text_part), "%s, %s: '%s' and not '%s'",
                                   algorithm_get(a)->name, fault, text, text_part);
            }
            sides_free(&sides);
        }
    }
}

Test(selftest, passes_what_is_right)
{
    expect("delay_ms=0", 0, "");
}

Test(selftest, finds_a_wrong_bit_now_and_then)
{
    expect("wrong_every=7", -EBADMSG, "wrong bytes at ");
    expect("wrong_after=20", -EBADMSG, "wrong bytes at ");
}

Test(selftest, finds_errors)
{
    expect("error_every=7", -EIO, "EIO at ");
    expect("error_after=0", -EIO, "EIO at ");
    expect("open_error", -EIO, "EIO");
}

Test(selftest, finds_wrong_bytes_over_a_size)
{
    expect("wrong_every=1,if_over=4096", -EBADMSG, "wrong bytes at 4");
    expect("wrong_every=1,if_over=8192", -EBADMSG, "wrong bytes at 12");
    expect("wrong_every=1,if_over=32768", -EBADMSG, "wrong bytes at 49");
    expect("wrong_every=1,if_over=65535", -EBADMSG, "wrong bytes at 65536 bytes");
    expect("error_every=1,if_size=65536", -EIO, "EIO at 65536 bytes");
}

Test(selftest, finds_wrong_bytes_at_odd_addresses)
{
    expect("wrong_every=1,if_unaligned", -EBADMSG, "offset 1 ");
    expect("wrong_every=1,if_unaligned,if_over=4096", -EBADMSG, "offset 2 ");
}

Test(selftest, finds_what_breaks_with_a_chained_iv)
{
    expect("wrong_every=1,if_chained", -EBADMSG, "chained IV");
    expect("wrong_every=1,if_chained,if_over=65000", -EBADMSG, "chained IV");
}

Test(selftest, finds_results_that_are_not_all_there)
{
    expect("short=16384", -EBADMSG, "wrong bytes at 22");
    expect("short=16384,if_unaligned", -EBADMSG, "wrong bytes at 22");
    expect("short=0", -EBADMSG, "wrong bytes");
    expect("short=4095", -EBADMSG, "wrong bytes at 4");
}

// What both sides agree on is compared with what was published too.
Test(selftest, has_published_answers)
{
    static const char *const sources[] = {"SP 800-38A", "SP 800-38A", "SP 800-38A", "SP 800-38A",
                                          "SP 800-38A", "SP 800-38A", "RFC 3217",   "RFC 8439"};

    for (uint32_t a = 0; a < ALGORITHM_COUNT; a++) {
        struct sides sides = sides_new("wrong_every=1");
        struct backend *same = start(&backend_fault_ops, "wrong_every=1");
        char text[SELFTEST_TEXT_MAX];

        cr_expect_eq(selftest_run(&backend_fault_ops, sides.fault, &backend_fault_ops, same,
                                  algorithm_get(a), makes_of(sides.cpu, a), text),
                     -EBADMSG);
        cr_expect_not_null(strstr(text, sources[a]), "%s: %s", algorithm_get(a)->name, text);
        backend_fault_ops.fini(same);
        sides_free(&sides);
    }
}

// The counter of CTR and ChaCha20 carries in the middle of a request: a driver that handles 32 bits
// of it only, as a wrapper that restarts the low word.
static int narrow_crypt(struct backend_key *key, bool encrypt,
                        const uint8_t iv[ALGORITHM_IV_LEN_MAX], uint8_t *out, const uint8_t *in,
                        size_t n_bytes)
{
    const uint64_t left = UINT64_C(0x100000000) -
                          ((uint64_t)iv[12] << 24 | (uint64_t)iv[13] << 16 | iv[14] << 8 | iv[15]);
    const size_t n_first = left * 16 < n_bytes ? (size_t)left * 16 : n_bytes;
    uint8_t restarted[ALGORITHM_IV_LEN_MAX];
    int r = backend_cpu_ops.crypt(key, encrypt, iv, out, in, n_first);

    memcpy(restarted, iv, sizeof(restarted));
    memset(restarted + 12, 0, 4);
    if (r == 0 && n_first < n_bytes)
        r = backend_cpu_ops.crypt(key, encrypt, restarted, out + n_first, in + n_first,
                                  n_bytes - n_first);
    return r;
}

Test(selftest, finds_a_counter_of_32_bits)
{
    struct backend_ops narrow = backend_cpu_ops;
    struct backend *cpu = start(&backend_cpu_ops, NULL);
    char text[SELFTEST_TEXT_MAX];

    narrow.crypt = narrow_crypt;
    for (uint32_t a = ALGORITHM_AES_128_CTR; a <= ALGORITHM_AES_256_CTR; a++) {
        cr_expect_eq(selftest_run(&narrow, cpu, &backend_cpu_ops, cpu, algorithm_get(a),
                                  BACKEND_MAKES_REQUESTS, text),
                     -EBADMSG);
        cr_expect_not_null(strstr(text, "bit carry"), "%s", text);
    }
    backend_cpu_ops.fini(cpu);
}

// One byte too many, behind the output.
static int long_crypt(struct backend_key *key, bool encrypt, const uint8_t iv[ALGORITHM_IV_LEN_MAX],
                      uint8_t *out, const uint8_t *in, size_t n_bytes)
{
    int r = backend_cpu_ops.crypt(key, encrypt, iv, out, in, n_bytes);

    out[n_bytes] = 0;
    return r;
}

Test(selftest, finds_bytes_outside_of_the_output)
{
    struct backend_ops overlong = backend_cpu_ops;
    struct backend *cpu = start(&backend_cpu_ops, NULL);
    char text[SELFTEST_TEXT_MAX];

    overlong.crypt = long_crypt;
    cr_expect_eq(selftest_run(&overlong, cpu, &backend_cpu_ops, cpu,
                              algorithm_get(ALGORITHM_AES_192_CBC), BACKEND_MAKES_REQUESTS, text),
                 -EBADMSG);
    cr_expect_eq(strncmp(text, "bytes outside of the output at ", 31), 0, "%s", text);
    backend_cpu_ops.fini(cpu);
}

Test(selftest, tries_one_request)
{
    static const struct {
        const char *fault;
        int error;
    } cases[] = {
        {"delay_ms=0", 0},
        {"wrong_every=1", -EBADMSG},
        {"error_after=0", -EIO},
        {"open_error", -EIO},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sides sides = sides_new(cases[i].fault);

        for (uint32_t a = 0; a < ALGORITHM_COUNT; a++)
            cr_expect_eq(selftest_run_one(&backend_fault_ops, sides.fault, &backend_cpu_ops,
                                          sides.cpu, algorithm_get(a), makes_of(sides.cpu, a)),
                         cases[i].error, "%s, %s", algorithm_get(a)->name, cases[i].fault);
        sides_free(&sides);
    }
}
