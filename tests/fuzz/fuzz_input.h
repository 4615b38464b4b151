// SPDX-License-Identifier: MIT
// An input as the entries of this folder read it: from its beginning to its end, and zeroes after
// that, so that every input is one that means something.
#ifndef CRYPTOD_TESTS_FUZZ_INPUT_H
#define CRYPTOD_TESTS_FUZZ_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerInitialize(int *argc, char ***argv);

struct fuzz_input {
    const uint8_t *at;
    const uint8_t *end;
};

static inline size_t fuzz_left(const struct fuzz_input *in)
{
    return (size_t)(in->end - in->at);
}

static inline void fuzz_take(struct fuzz_input *in, void *to, size_t n)
{
    size_t n_there = n < fuzz_left(in) ? n : fuzz_left(in);

    memset(to, 0, n);
    memcpy(to, in->at, n_there);
    in->at += n_there;
}

static inline uint8_t fuzz_byte(struct fuzz_input *in)
{
    uint8_t byte;

    fuzz_take(in, &byte, sizeof(byte));
    return byte;
}

static inline uint32_t fuzz_u32(struct fuzz_input *in)
{
    uint32_t word;

    fuzz_take(in, &word, sizeof(word));
    return word;
}

// Up to n of the bytes that are left, without a copy; *ret_n of them.
static inline const uint8_t *fuzz_bytes(struct fuzz_input *in, size_t n, size_t *ret_n)
{
    const uint8_t *bytes = in->at;

    *ret_n = n < fuzz_left(in) ? n : fuzz_left(in);
    in->at += *ret_n;
    return bytes;
}

// What must hold whatever the input says.
#define fuzz_require(condition) ((condition) ? (void)0 : fuzz_fail(__FILE__, __LINE__, #condition))

static inline void fuzz_fail(const char *file, int line, const char *condition)
{
    fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, condition);
    abort();
}

#endif
