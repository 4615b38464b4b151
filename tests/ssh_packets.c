// SPDX-License-Identifier: MIT
// ChaCha20 as ssh uses it. See ssh_packets.h.
#include "ssh_packets.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define N_SLACK  64u
#define N_POLY   32u
#define N_BEFORE 4u // the packet's length lies before its payload: alignments are odd

void ssh_packets_init(struct ssh_packets *packets, uint64_t number, bool encrypt)
{
    memset(packets, 0, sizeof *packets);
    packets->number = number;
    packets->encrypt = encrypt;
    packets->in = malloc(SSH_PACKETS_MOST + N_SLACK);
    packets->out = malloc(SSH_PACKETS_MOST + N_SLACK);
    packets->expected = malloc(SSH_PACKETS_MOST + N_SLACK);
    cr_assert(packets->in && packets->out && packets->expected, "no memory");
    reference_random_init(&packets->random);
    cr_assert_eq(cryptod_stream_new(CRYPTOD_CHACHA20, &packets->stream), 0);
    ssh_packets_rekey(packets);
}

void ssh_packets_fini(struct ssh_packets *packets)
{
    cryptod_stream_free(packets->stream);
    free(packets->in);
    free(packets->out);
    free(packets->expected);
}

void ssh_packets_rekey(struct ssh_packets *packets)
{
    reference_random_fill(&packets->random, packets->key, sizeof packets->key);
    cr_assert_eq(cryptod_stream_init(packets->stream, packets->key, NULL, packets->encrypt), 0);
}

static void packet_iv(uint64_t number, uint8_t counter, uint8_t iv[16])
{
    memset(iv, 0, 16);
    iv[0] = counter;
    for (unsigned i = 0; i < 8; i++)
        iv[15 - i] = (uint8_t)(number >> (8 * i));
}

// n_bytes at out from in, which may be the same; the right ones are in packets->expected.
static bool part_is_right(struct ssh_packets *packets, uint8_t counter, uint8_t *out,
                          const uint8_t *in, size_t n_bytes)
{
    uint8_t iv[16];
    int n_out = 0;

    packet_iv(packets->number, counter, iv);
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    bool right =
        ctx &&
        EVP_CipherInit_ex(ctx, EVP_chacha20(), NULL, packets->key, iv, packets->encrypt) == 1 &&
        EVP_CipherUpdate(ctx, packets->expected, &n_out, in, (int)n_bytes) == 1 &&
        cryptod_stream_init(packets->stream, NULL, iv, packets->encrypt) == 0 &&
        cryptod_stream_crypt(packets->stream, out, in, n_bytes) == 0 &&
        memcmp(out, packets->expected, n_bytes) == 0;
    EVP_CIPHER_CTX_free(ctx);
    return right;
}

bool ssh_packets_send_is_right(struct ssh_packets *packets, size_t n_bytes)
{
    uint8_t poly[N_POLY] = {0};
    size_t shift = reference_random_below(&packets->random, N_SLACK);
    uint8_t *in = packets->in + shift, *out = packets->out + (shift + N_BEFORE) % N_SLACK;

    if (reference_random_below(&packets->random, 2) == 0)
        out = in;
    reference_random_fill(&packets->random, in, n_bytes);
    bool right = part_is_right(packets, 0, poly, poly, N_POLY) &&
                 part_is_right(packets, 1, out, in, n_bytes);
    packets->number++;
    return right;
}

void ssh_packets_send(struct ssh_packets *packets, size_t n_bytes)
{
    cr_assert_leq(n_bytes, SSH_PACKETS_MOST);
    cr_assert(ssh_packets_send_is_right(packets, n_bytes), "packet %llu of %zu bytes is wrong",
              (unsigned long long)packets->number - 1, n_bytes);
}

void ssh_packets_enter_lane(struct ssh_packets *packets, size_t n_bytes)
{
    for (int i = 0; cryptod_stream_lane(packets->stream) != CRYPTOD_LANE_KEYSTREAM; i++) {
        cr_assert_lt(i, 5000, "the packets never got their lane");
        ssh_packets_send(packets, n_bytes);
        usleep(1000);
    }
}
