// SPDX-License-Identifier: MIT
// Streams: one direction of one cipher, its place, and the choice of lane, call by call.
//
// Guarantees: the bytes are OpenSSL's, whatever lane each of them takes; a stream holds all that it
// needs to go on alone. Must not know how a channel talks to the daemon.
#include <errno.h>
#include <string.h>

#include "session.h"
#include "counters.h"
#include "cryptod.h"
#include "lane.h"
#include "secret.h"
#include "stream.h"

_Static_assert((int)CRYPTOD_AES_128_CBC == (int)ALGORITHM_AES_128_CBC, "protocol");
_Static_assert((int)CRYPTOD_AES_192_CBC == (int)ALGORITHM_AES_192_CBC, "protocol");
_Static_assert((int)CRYPTOD_AES_256_CBC == (int)ALGORITHM_AES_256_CBC, "protocol");
_Static_assert((int)CRYPTOD_AES_128_CTR == (int)ALGORITHM_AES_128_CTR, "protocol");
_Static_assert((int)CRYPTOD_AES_192_CTR == (int)ALGORITHM_AES_192_CTR, "protocol");
_Static_assert((int)CRYPTOD_AES_256_CTR == (int)ALGORITHM_AES_256_CTR, "protocol");
_Static_assert((int)CRYPTOD_DES_EDE3_CBC == (int)ALGORITHM_DES_EDE3_CBC, "protocol");
_Static_assert((int)CRYPTOD_CHACHA20 == (int)ALGORITHM_CHACHA20, "protocol");
_Static_assert(CRYPTOD_ALGORITHM_COUNT == ALGORITHM_COUNT, "protocol");
_Static_assert(CRYPTOD_LANE_BIT(CRYPTOD_LANE_SOFTWARE) == MESSAGE_LANE_SOFTWARE, "protocol");
_Static_assert(CRYPTOD_LANE_BIT(CRYPTOD_LANE_REQUEST) == MESSAGE_LANE_REQUEST, "protocol");
_Static_assert(CRYPTOD_LANE_BIT(CRYPTOD_LANE_KEYSTREAM) == MESSAGE_LANE_KEYSTREAM, "protocol");
_Static_assert(sizeof(struct cryptod_stream) <= SECRET_BLOCK_SIZE, "a stream fits a secret block");

// How often the daemon learns what was done without it, in software bytes (a power of two).
#define STREAM_REPORT_SHIFT 20

int cryptod_stream_new(enum cryptod_algorithm algorithm, cryptod_stream **ret)
{
    const struct algorithm_info *info = algorithm_get(algorithm);

    if (!info)
        return -EINVAL;
    struct cryptod_stream *stream = secret_new();
    if (!stream)
        return -ENOMEM;
    int r = software_init(info->id, &stream->software);
    if (r < 0) {
        secret_free(stream);
        return r;
    }
    stream->info = info;
    *ret = stream;
    return 0;
}

int cryptod_stream_dup(const cryptod_stream *stream, cryptod_stream **ret)
{
    struct cryptod_stream *copy;
    int r = cryptod_stream_new((enum cryptod_algorithm)stream->info->id, &copy);

    if (r < 0)
        return r;
    copy->has_key = stream->has_key;
    copy->encrypt = stream->encrypt;
    copy->must_rekey = copy->must_seek = true;
    copy->position = stream->position;
    memcpy(copy->key, stream->key, sizeof copy->key);
    memcpy(copy->iv, stream->iv, sizeof copy->iv);
    memcpy(copy->chain, stream->chain, sizeof copy->chain);
    *ret = copy;
    return 0;
}

void cryptod_stream_free(cryptod_stream *stream)
{
    if (!stream)
        return;
    slot_let_go(&stream->lease);
    software_fini(&stream->software);
    secret_free(stream);
}

int cryptod_stream_init(cryptod_stream *stream, const uint8_t *key, const uint8_t *iv, bool encrypt)
{
    if (iv && stream->info->mode == ALGORITHM_CHACHA)
        packet_guess_next(&stream->guess, packet_guess_place(stream->iv, stream->position), iv);
    if (iv)
        memcpy(stream->iv, iv, stream->info->n_iv);
    memcpy(stream->chain, stream->iv, sizeof stream->chain);
    stream->position = 0;
    stream->n_inits++;
    stream->must_seek = true;
    if (key) {
        slot_let_go(&stream->lease);
        memcpy(stream->key, key, stream->info->n_key);
        stream->has_key = true;
        stream->n_bulk = 0;
        stream->is_settled = false;
        stream->errors = 0;
        stream->cost = (struct lane_cost){.phase = LANE_PHASE_START};
    }
    if (key || encrypt != stream->encrypt)
        stream->must_rekey = true; // another key schedule
    stream->encrypt = encrypt;
    return stream->has_key ? 0 : -ENOKEY;
}

void stream_place(const struct cryptod_stream *stream, uint64_t n_blocks, uint8_t *ret_iv)
{
    const struct algorithm_info *info = stream->info;

    if (info->mode == ALGORITHM_CBC) {
        memcpy(ret_iv, stream->chain, info->n_iv);
        return;
    }
    memcpy(ret_iv, stream->iv, info->n_iv);
    if (info->mode == ALGORITHM_CTR) {
        algorithm_ctr_add(ret_iv, n_blocks);
        return;
    }
    // ChaCha20: OpenSSL carries from the 32-bit counter into the next word.
    uint64_t counter = 0;
    for (unsigned i = 8; i-- > 0;)
        counter = counter << 8 | ret_iv[i];
    counter += n_blocks;
    for (unsigned i = 0; i < 8; i++)
        ret_iv[i] = (uint8_t)(counter >> (8 * i));
}

static int stream_seek(struct cryptod_stream *stream)
{
    uint8_t iv[ALGORITHM_IV_LEN_MAX];
    uint64_t n_blocks = stream->position / stream->info->n_cipher_block;

    stream_place(stream, n_blocks, iv);
    int r = software_set(&stream->software, stream->must_rekey ? stream->key : NULL, iv,
                         stream->encrypt, stream_used(stream));
    if (r == 0)
        stream->must_rekey = stream->must_seek = false;
    return r;
}

int stream_crypt_software(struct cryptod_stream *stream, uint8_t *out, const uint8_t *in,
                          size_t n_bytes)
{
    uint32_t n_chain = stream->info->n_iv;
    uint8_t chain[ALGORITHM_IV_LEN_MAX];
    bool is_cbc = stream->info->mode == ALGORITHM_CBC;
    int r = 0;

    if (n_bytes == 0)
        return 0;
    if (stream->must_seek || stream->must_rekey)
        r = stream_seek(stream);
    if (r < 0)
        return r;
    if (is_cbc && !stream->encrypt) // in place it is gone afterwards
        memcpy(chain, in + n_bytes - n_chain, n_chain);
    r = software_crypt(&stream->software, out, in, n_bytes);
    if (r < 0) {
        stream->must_seek = stream->must_rekey = true;
        return r;
    }
    if (is_cbc)
        memcpy(stream->chain, stream->encrypt ? out + n_bytes - n_chain : chain, n_chain);
    else
        stream->position += n_bytes;
    uint64_t before =
        atomic_fetch_add_explicit(&counters_process.software_bytes, n_bytes, memory_order_relaxed);
    if (before >> STREAM_REPORT_SHIFT != (before + n_bytes) >> STREAM_REPORT_SHIFT)
        session_report();
    return 0;
}

int cryptod_stream_crypt(cryptod_stream *stream, uint8_t *out, const uint8_t *in, size_t n_bytes)
{
    if (!stream->has_key)
        return -ENOKEY;
    if (n_bytes % stream->info->n_block != 0)
        return -EINVAL;
    while (n_bytes > 0) {
        size_t n_piece;
        int r = lane_crypt(stream, out, in, n_bytes, &n_piece);
        if (r < 0)
            return r;
        stream->n_bulk += n_piece;
        out += n_piece;
        in += n_piece;
        n_bytes -= n_piece;
    }
    return 0;
}

int cryptod_stream_iv(const cryptod_stream *stream, uint8_t *ret_iv, unsigned *ret_num)
{
    uint64_t n_block = stream->info->n_cipher_block;
    uint64_t n_begun = stream->position / n_block + (stream->position % n_block != 0);

    if (!stream->has_key)
        return -ENOKEY;
    stream_place(stream, n_begun, ret_iv);
    *ret_num = stream_used(stream);
    return 0;
}

const char *cryptod_algorithm_name(enum cryptod_algorithm algorithm)
{
    const struct algorithm_info *info = algorithm_get(algorithm);

    return info ? info->name : NULL;
}
