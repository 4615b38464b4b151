// SPDX-License-Identifier: MIT
// libFuzzer entry for the message decoder: a packet is refused, or its message encodes to the very
// same bytes.
#include "fuzz_input.h"
#include "message.h"

// Small inputs never get past length and type by chance: with these tables the fuzzer starts
// inside.
static size_t seed_message(uint8_t *data, size_t n_max, unsigned seed)
{
    struct message m = {.serial = seed};
    const struct message_info *info;
    size_t n = 0;

    do {
        m.type = (enum message_type)(seed++ % 128);
        info = message_info((uint32_t)m.type);
    } while (!info);
    if (message_encode(&m, data, n_max, &n) < 0)
        return 0;
    return n;
}

size_t LLVMFuzzerMutate(uint8_t *data, size_t n, size_t n_max);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t n_max, unsigned seed);

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t n_max, unsigned seed)
{
    if (seed % 16 == 0) {
        size_t n_new = seed_message(data, n_max, seed / 16);
        if (n_new > 0)
            return n_new;
    }
    if (seed % 2 == 0 && n > MESSAGE_HEADER_LEN) // fields alone
        return MESSAGE_HEADER_LEN + LLVMFuzzerMutate(data + MESSAGE_HEADER_LEN,
                                                     n - MESSAGE_HEADER_LEN,
                                                     n - MESSAGE_HEADER_LEN);
    return LLVMFuzzerMutate(data, n, n_max);
}

static void check_decoded(const uint8_t *data, size_t n, enum message_direction direction,
                          const struct message *m)
{
    uint8_t again[MESSAGE_LEN_MAX];
    size_t n_again = 0;
    const struct message_info *info = message_info((uint32_t)m->type);

    if (!info || info->n_bytes != n || (info->directions & (uint32_t)direction) == 0)
        abort();
    if (message_encode(m, again, sizeof again, &n_again) < 0)
        abort();
    if (n_again != n || memcmp(again, data, n) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    for (unsigned d = MESSAGE_CLIENT_TO_FRONT; d <= MESSAGE_ROLE_TO_MONITOR; d <<= 1) {
        struct message m;
        if (message_decode(data, n, (enum message_direction)d, &m) == 0)
            check_decoded(data, n, (enum message_direction)d, &m);
    }
    return 0;
}
