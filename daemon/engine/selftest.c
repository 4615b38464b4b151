// SPDX-License-Identifier: MIT
// What is tried of a backend before it is believed. Guarantees: 0 means that every byte of every
// request was right. Must not know what follows from a failure.
//
// What is tried is what drivers in the field have failed on: more than a page, buffers that are not
// aligned, exactly 64 KiB, requests that go on where the last one ended, counters that carry.
#include "selftest.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#include "selftest_impl.h"

#define SMALL_MAX 4200u // up to here a request is tried in all four ways

// Reproducible bytes that no cipher is at home with.
static void fill(uint8_t *data, size_t n_bytes, uint32_t seed)
{
    for (size_t i = 0; i < n_bytes; i++) {
        seed = seed * 1664525u + 1013904223u;
        data[i] = (uint8_t)(seed >> 24);
    }
}

static int reference_crypt(const struct selftest *test, const uint8_t *iv, size_t n_bytes)
{
    return test->reference.ops->crypt(test->reference.key, true, iv, test->cipher, test->plain,
                                      n_bytes);
}

static int reference_keystream(const struct selftest *test, const uint8_t *iv, size_t n_bytes)
{
    return test->reference.ops->keystream(test->reference.key, iv, test->cipher, n_bytes);
}

// ---------------------------------------------------------------- sizes and places

struct size {
    uint32_t n_bytes; // less what the cipher cannot do
    uint32_t offset;
};

static const struct size sizes[] = {
    {16, 0},     {17, 1},     {32, 3},    {55, 4},    {64, 8},    {240, 5},
    {1000, 7},   {4080, 0},   {4095, 9},  {4096, 0},  {4096, 3},  {4161, 2},
    {8192, 0},   {8192, 3},   {12317, 5}, {16384, 1}, {22528, 6}, {32768, 12},
    {49153, 11}, {65521, 15}, {65535, 4}, {65536, 0}, {65536, 1},
};
#define N_SIZES (sizeof(sizes) / sizeof(sizes[0]))

// In turn a plain IV, and one whose counter carries over 32, 64 and 128 bits in the request (of a
// block cipher's with its last bytes, of ChaCha20's with its first), after its third block.
static const char *make_iv(const struct algorithm_info *info, uint32_t number, uint8_t iv[16])
{
    static const char *const remarks[] = {NULL, "32-bit carry", "64-bit carry", "128-bit carry"};
    const uint32_t n_ones = 2u << number % 4;

    fill(iv, 16, number);
    if (number % 4 == 0)
        return NULL;
    if (info->mode == ALGORITHM_CHACHA) {
        memset(iv, 0xff, n_ones);
        iv[0] = 0xfd;
        return number % 4 == 3 ? NULL : remarks[number % 4]; // the rest is the nonce
    }
    memset(iv + 16 - n_ones, 0xff, n_ones);
    iv[15] = 0xfd;
    return info->mode == ALGORITHM_CTR ? remarks[number % 4] : NULL;
}

// Which of the four ways (bit 0: decrypt, bit 1: in place) a size is tried in: the large ones in
// two, in turn.
static bool is_tried(const struct size *size, uint32_t number, uint32_t way)
{
    return size->n_bytes <= SMALL_MAX || size->n_bytes == SELFTEST_REQUEST_MAX ||
           (way & 1) == ((way >> 1 ^ number) & 1);
}

static int try_requests(struct selftest *test, uint32_t number, const uint8_t *iv,
                        const char *remark)
{
    const struct size *size = &sizes[number];
    struct selftest_request request = {
        .n_bytes = size->n_bytes - size->n_bytes % test->info->n_block,
        .offset = size->offset,
        .remark = remark,
        .iv = iv,
    };
    int r = reference_crypt(test, iv, request.n_bytes);

    for (uint32_t way = 0; r == 0 && way < 4; way++) {
        if (!is_tried(size, number, way))
            continue;
        request.operation = way & 1 ? SELFTEST_DECRYPT : SELFTEST_ENCRYPT;
        request.in_place = way & 2;
        request.input = way & 1 ? test->cipher : test->plain;
        request.expected = way & 1 ? test->plain : test->cipher;
        r = selftest_try(test, &request);
    }
    return r;
}

static int try_keystream(struct selftest *test, uint32_t number, const uint8_t *iv,
                         const char *remark)
{
    const uint32_t n_block = test->info->n_cipher_block;
    struct selftest_request request = {
        .operation = SELFTEST_KEYSTREAM,
        .n_bytes = sizes[number].n_bytes - sizes[number].n_bytes % n_block,
        .offset = sizes[number].offset,
        .remark = remark,
        .iv = iv,
        .expected = test->cipher,
    };
    int r;

    if (request.n_bytes == 0)
        request.n_bytes = n_block;
    r = reference_keystream(test, iv, request.n_bytes);
    return r == 0 ? selftest_try(test, &request) : r;
}

static int try_sizes(struct selftest *test)
{
    uint8_t iv[ALGORITHM_IV_LEN_MAX];
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < N_SIZES; i++) {
        const char *remark = make_iv(test->info, i, iv);

        if (test->makes & BACKEND_MAKES_REQUESTS)
            r = try_requests(test, i, iv, remark);
        if (r == 0 && test->makes & BACKEND_MAKES_KEYSTREAM)
            r = try_keystream(test, i, iv, remark);
    }
    return r;
}

// ---------------------------------------------------------------- requests that follow each other

static const uint32_t pieces[] = {32,    32, 65536,
                                  16448, 64, 65472}; // a block at least of any cipher
#define N_PIECES   (sizeof(pieces) / sizeof(pieces[0]))
#define N_FIRST    2u // of them are too short for ChaCha20
#define N_PIECES_B (32u + 32u + 65536u + 16448u + 64u + 65472u)
_Static_assert(N_PIECES_B <= SELFTEST_STRETCH_MAX, "room");

// The IV of the piece after this one, which is at `ciphertext`.
static void next_iv(const struct algorithm_info *info, const uint8_t *ciphertext, uint32_t n_bytes,
                    uint8_t iv[ALGORITHM_IV_LEN_MAX])
{
    uint64_t counter;

    switch (info->mode) {
    case ALGORITHM_CBC:
        memcpy(iv, ciphertext + n_bytes - info->n_cipher_block, info->n_cipher_block);
        break;
    case ALGORITHM_CTR:
        algorithm_ctr_add(iv, n_bytes / info->n_cipher_block);
        break;
    case ALGORITHM_CHACHA:
        memcpy(&counter, iv, sizeof(counter));
        counter = htole64(le64toh(counter) + n_bytes / info->n_cipher_block);
        memcpy(iv, &counter, sizeof(counter));
        break;
    }
}

static int try_chain(struct selftest *test, enum selftest_operation operation,
                     const uint8_t first_iv[ALGORITHM_IV_LEN_MAX])
{
    const bool decrypt = operation == SELFTEST_DECRYPT;
    const uint8_t *from = decrypt ? test->cipher : test->plain;
    const uint8_t *to = decrypt ? test->plain : test->cipher;
    const uint32_t first = test->info->mode == ALGORITHM_CHACHA ? N_FIRST : 0;
    uint8_t iv[ALGORITHM_IV_LEN_MAX];
    int r = 0;

    memcpy(iv, first_iv, sizeof(iv));
    for (size_t i = first, at = 0; r == 0 && i < N_PIECES; at += pieces[i++]) {
        const struct selftest_request request = {
            .operation = operation,
            .in_place = true,
            .n_bytes = pieces[i],
            .remark = "chained IV",
            .iv = iv,
            .input = from + at,
            .expected = to + at,
        };

        r = selftest_try(test, &request);
        next_iv(test->info, test->cipher + at, pieces[i], iv);
    }
    return r;
}

static int try_chains(struct selftest *test)
{
    uint8_t iv[ALGORITHM_IV_LEN_MAX];
    int r = 0;

    (void)make_iv(test->info, 2, iv);
    if (test->info->mode == ALGORITHM_CTR)
        iv[14] = 0xf0; // carries in the third piece
    if (test->makes & BACKEND_MAKES_REQUESTS) {
        r = reference_crypt(test, iv, N_PIECES_B);
        if (r == 0)
            r = try_chain(test, SELFTEST_ENCRYPT, iv);
        if (r == 0)
            r = try_chain(test, SELFTEST_DECRYPT, iv);
    }
    if (r == 0 && test->makes & BACKEND_MAKES_KEYSTREAM) {
        r = reference_keystream(test, iv, N_PIECES_B);
        if (r == 0)
            r = try_chain(test, SELFTEST_KEYSTREAM, iv);
    }
    return r;
}

// ---------------------------------------------------------------- all of it

static int try_all(struct selftest *test)
{
    int r = try_sizes(test);

    return r == 0 ? try_chains(test) : r;
}

static int try_one(struct selftest *test)
{
    const uint8_t iv[ALGORITHM_IV_LEN_MAX] = {1, 2, 3};
    struct selftest_request request = {
        .operation = SELFTEST_KEYSTREAM,
        .in_place = true,
        .n_bytes = test->info->n_cipher_block,
        .iv = iv,
        .input = test->plain,
        .expected = test->cipher,
    };
    int r;

    if (test->makes & BACKEND_MAKES_REQUESTS) {
        request.operation = SELFTEST_ENCRYPT;
        r = reference_crypt(test, iv, request.n_bytes);
    } else {
        r = reference_keystream(test, iv, request.n_bytes);
    }
    return r == 0 ? selftest_try(test, &request) : r;
}

// With a key of its own for each algorithm.
static int with_keys(struct selftest *test, struct backend *backend, struct backend *reference,
                     int (*body)(struct selftest *test))
{
    uint8_t key[ALGORITHM_KEY_MAX];
    int r;

    fill(key, sizeof(key), test->info->id);
    r = test->tested.ops->open(backend, test->info->id, key, &test->tested.key);
    if (r == 0)
        r = test->reference.ops->open(reference, test->info->id, key, &test->reference.key);
    if (r == 0)
        r = body(test);
    test->tested.ops->close(test->tested.key);
    test->reference.ops->close(test->reference.key);
    test->tested.key = test->reference.key = NULL;
    return r;
}

static int begin(struct selftest *test, char text[SELFTEST_TEXT_MAX])
{
    int r = selftest_allocate(test);

    text[0] = '\0';
    test->text = text;
    if (r == 0)
        fill(test->plain, N_PIECES_B, 77);
    return r;
}

static int end(struct selftest *test, int r)
{
    selftest_release(test);
    if (r < 0 && test->text[0] == '\0')
        (void)strncpy(test->text, strerrorname_np(-r), SELFTEST_TEXT_MAX - 1);
    return r;
}

int selftest_run(const struct backend_ops *ops, struct backend *backend,
                 const struct backend_ops *reference_ops, struct backend *reference,
                 const struct algorithm_info *info, uint32_t makes,
                 char ret_text[SELFTEST_TEXT_MAX])
{
    struct selftest test = {
        .info = info, .makes = makes, .tested = {.ops = ops}, .reference = {.ops = reference_ops}};
    int r = begin(&test, ret_text);

    if (r == 0)
        r = selftest_try_known(&test, backend);
    if (r == 0)
        r = with_keys(&test, backend, reference, try_all);
    return end(&test, r);
}

int selftest_run_one(const struct backend_ops *ops, struct backend *backend,
                     const struct backend_ops *reference_ops, struct backend *reference,
                     const struct algorithm_info *info, uint32_t makes)
{
    struct selftest test = {
        .info = info, .makes = makes, .tested = {.ops = ops}, .reference = {.ops = reference_ops}};
    char text[SELFTEST_TEXT_MAX];
    int r = begin(&test, text);

    if (r == 0)
        r = with_keys(&test, backend, reference, try_one);
    return end(&test, r);
}
