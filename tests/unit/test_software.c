// SPDX-License-Identifier: MIT
// client-lib/software.c, secret.c and the errors of streams: what a program meets without a daemon,
// and what it does not notice.
#include <criterion/criterion.h>
#include <errno.h>
#include <openssl/err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cryptod.h"
#include "reference.h"

TestSuite(software, .timeout = 120);

Test(software, refuses_what_it_must)
{
    cryptod_stream *none = NULL, *cbc;
    uint8_t data[64] = {0}, key[32] = {1}, iv[16];
    unsigned num = 7;

    cr_assert_eq(cryptod_stream_new((enum cryptod_algorithm)99, &none), -EINVAL);
    cr_assert_eq(cryptod_stream_new((enum cryptod_algorithm) - 1, &none), -EINVAL);
    cr_assert_null(none);
    cr_assert_eq(cryptod_stream_new(CRYPTOD_AES_256_CBC, &cbc), 0);
    cr_assert_eq(cryptod_stream_crypt(cbc, data, data, 16), -ENOKEY);
    cr_assert_eq(cryptod_stream_iv(cbc, iv, &num), -ENOKEY);
    cr_assert_eq(num, 7);
    cr_assert_eq(cryptod_stream_init(cbc, key, data, true), 0);
    for (size_t n = 1; n < 16; n++)
        cr_assert_eq(cryptod_stream_crypt(cbc, data, data, n), -EINVAL);
    cr_assert_eq(cryptod_stream_crypt(cbc, data, data, 0), 0);
    cryptod_stream_free(cbc);
    cryptod_stream_free(NULL);
    cr_assert_null(cryptod_algorithm_name((enum cryptod_algorithm)ALGORITHM_COUNT));
    cr_assert_str_eq(cryptod_algorithm_name(CRYPTOD_CHACHA20), "chacha20");
}

Test(software, without_a_channel_all_is_software)
{
    struct cryptod_counters counters;
    cryptod_stream *stream;
    uint8_t *data = calloc(1, 300000), key[32] = {1}, iv[16] = {2};

    cr_assert_not_null(data);
    cr_assert_eq(cryptod_stream_new(CRYPTOD_AES_128_CBC, &stream), 0);
    cr_assert_eq(cryptod_stream_init(stream, key, iv, true), 0);
    cr_assert_eq(cryptod_stream_crypt(stream, data, data, 299984), 0);
    cr_assert_eq(cryptod_stream_lane(stream), CRYPTOD_LANE_SOFTWARE);
    for (int id = -1; id <= (int)ALGORITHM_COUNT; id++)
        cr_assert_not(cryptod_offers((enum cryptod_algorithm)id));
    cryptod_counters_get(&counters);
    cr_assert_eq(counters.software_bytes, 299984);
    cr_assert_eq(counters.request_operations, 0);
    cr_assert_eq(counters.fallbacks, 0);
    cryptod_stream_free(stream);
    free(data);
}

// Whatever the program has done to OpenSSL's default context is of no concern here, and nothing of
// ours is left in its error queue.
Test(software, stays_out_of_the_programs_openssl)
{
    cryptod_stream *stream;
    uint8_t key[32] = {1}, iv[16] = {2}, data[64] = {0}, expected[64];

    reference_crypt(ALGORITHM_AES_256_CTR, key, iv, true, expected, data, 64);
    cr_assert_eq(EVP_set_default_properties(NULL, "provider=nobody"), 1);
    ERR_clear_error();
    cr_assert_eq(cryptod_stream_new(CRYPTOD_AES_256_CTR, &stream), 0);
    cr_assert_eq(cryptod_stream_init(stream, key, iv, true), 0);
    cr_assert_eq(cryptod_stream_crypt(stream, data, data, 64), 0);
    cr_assert_arr_eq(data, expected, 64);
    cr_assert_eq(ERR_peek_error(), 0);
    cryptod_stream_free(stream);
}

// Loading the program's configuration file could not be done in a sandbox. Here whoever opens it
// waits for ever.
Test(software, loads_no_configuration_file, .timeout = 30)
{
    // SP 800-38A, F.5.1 (CTR-AES128.Encrypt), first block
    static const uint8_t key[16] = {0x2b, 0x7e, 0x15, 0x16, 0x28, 0xae, 0xd2, 0xa6,
                                    0xab, 0xf7, 0x15, 0x88, 0x09, 0xcf, 0x4f, 0x3c};
    static const uint8_t iv[16] = {0xf0, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7,
                                   0xf8, 0xf9, 0xfa, 0xfb, 0xfc, 0xfd, 0xfe, 0xff};
    static const uint8_t plain[16] = {0x6b, 0xc1, 0xbe, 0xe2, 0x2e, 0x40, 0x9f, 0x96,
                                      0xe9, 0x3d, 0x7e, 0x11, 0x73, 0x93, 0x17, 0x2a};
    static const uint8_t expected[16] = {0x87, 0x4d, 0x61, 0x91, 0xb6, 0x20, 0xe3, 0x26,
                                         0x1b, 0xef, 0x68, 0x64, 0x99, 0x0d, 0xb6, 0xce};
    char folder[] = P_tmpdir "/cryptod-stream.XXXXXX", path[64];
    uint8_t got[16];
    cryptod_stream *stream;

    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/openssl.cnf", folder);
    cr_assert_eq(mkfifo(path, 0600), 0);
    setenv("OPENSSL_CONF", path, 1);
    cr_assert_eq(cryptod_stream_new(CRYPTOD_AES_128_CTR, &stream), 0);
    cr_assert_eq(cryptod_stream_init(stream, key, iv, true), 0);
    cr_assert_eq(cryptod_stream_crypt(stream, got, plain, sizeof got), 0);
    cr_assert_arr_eq(got, expected, sizeof got);
    cryptod_stream_free(stream);
    unsetenv("OPENSSL_CONF");
    unlink(path);
    rmdir(folder);
}

// More streams than the locked arena has room for.
Test(software, many_streams_at_once)
{
    cryptod_stream *streams[200];
    uint8_t key[32] = {1}, iv[16] = {2}, expected[48] = {0};

    reference_crypt(ALGORITHM_AES_192_CTR, key, iv, true, expected, expected, 48);
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < 200; i++) {
            cr_assert_eq(cryptod_stream_new(CRYPTOD_AES_192_CTR, &streams[i]), 0);
            cr_assert_eq(cryptod_stream_init(streams[i], key, iv, true), 0);
        }
        for (size_t i = 0; i < 200; i++) {
            uint8_t data[48] = {0};
            cr_assert_eq(cryptod_stream_crypt(streams[i], data, data, 48), 0);
            cr_assert_arr_eq(data, expected, 48);
            cryptod_stream_free(streams[i]);
        }
        (void)cryptod_open("/nonexistent/cryptod.sock", 0); // makes the arena, if nothing else
    }
}
