// SPDX-License-Identifier: MIT
// The keystream lane. See keystream.h. Knows which keystream a stream will want; what was asked for
// is the business of keystream_window.h.
#include "keystream.h"

#include <errno.h>

#include "counters.h"
#include "ring.h"

// A window begins at most so many bytes ahead: software does them meanwhile.
#define KEYSTREAM_LEAD ((size_t)65536)

// Where the stream is. ChaCha20: the packet's number is the tag. CTR: each IV has a tag of its own,
// so what was made for another one, or for the same one earlier, is passed over.
static struct keystream_place keystream_here(const struct cryptod_stream *stream)
{
    if (stream->info->mode == ALGORITHM_CHACHA)
        return (struct keystream_place){.tag = packet_guess_number(stream->iv),
                                        .position =
                                            packet_guess_place(stream->iv, stream->position)};
    return (struct keystream_place){.tag = stream->n_inits, .position = stream->position};
}

static void keystream_put_blocks(struct session *session, const struct cryptod_stream *stream,
                                 struct keystream_place from, uint32_t n_pieces)
{
    uint32_t n_block = stream->info->n_cipher_block;
    uint8_t iv[ALGORITHM_IV_LEN_MAX];

    from.position -= from.position % n_block;
    for (uint32_t i = 0; i < n_pieces; i++) {
        stream_place(stream, from.position / n_block, iv);
        keystream_put(session, stream->lease.index, from, SHM_SLOT_SIZE, iv);
        from.position += SHM_SLOT_SIZE;
    }
}

// A piece a packet, after the packet of a place.
static void keystream_put_packets(struct session *session, const struct cryptod_stream *stream,
                                  struct keystream_place from, uint32_t n_pieces)
{
    uint32_t n_bytes = packet_guess_bytes(&stream->guess);
    uint8_t iv[ALGORITHM_IV_LEN_MAX];

    from.position = 0;
    for (uint32_t i = 0; i < n_pieces; i++) {
        from.tag++;
        packet_guess_iv(from.tag, iv);
        keystream_put(session, stream->lease.index, from, n_bytes, iv);
    }
}

// Asks for what comes after the window or, if that is empty, for what comes from a place on.
static int keystream_fill(struct session *session, const struct cryptod_stream *stream,
                          struct keystream_place from)
{
    uint32_t index = stream->lease.index;
    uint32_t room = keystream_room(session, index);

    if (room == 0)
        return 0;
    if (session->keystream.windows[index].n > 0)
        from = keystream_end(session, index);
    if (stream->info->mode == ALGORITHM_CHACHA)
        keystream_put_packets(session, stream, from, room);
    else
        keystream_put_blocks(session, stream, from, room);
    return ring_publish(session);
}

static int keystream_consume(struct session *session, struct cryptod_stream *stream, uint8_t *out,
                             const uint8_t *in, size_t n_bytes, size_t *ret_n)
{
    uint32_t index = stream->lease.index;
    size_t n_done = 0;
    int r = 0;

    while (r == 0 && n_done < n_bytes &&
           keystream_seek(session, index, keystream_here(stream)) == KEYSTREAM_HERE) {
        r = keystream_await(session, index);
        if (r == 0)
            r = keystream_fill(session, stream, keystream_here(stream));
        if (r < 0)
            break;
        size_t n = keystream_use(session, index, out + n_done, in + n_done, n_bytes - n_done);
        n_done += n;
        stream->position += n;
        stream->must_seek = true;
        if (!session_is_intact(session))
            r = -EPIPE;
    }
    counters_add(&counters_process.keystream_bytes, n_done);
    *ret_n = n_done;
    return r;
}

// How many bytes of a call lie before the window. It may begin with the next packet; if it begins
// later the stream has gone back to an old one, and it is dropped.
static uint64_t keystream_gap(struct session *session, uint32_t index, struct keystream_place place)
{
    if (keystream_seek(session, index, place) != KEYSTREAM_AHEAD)
        return UINT64_MAX;
    struct keystream_place next = keystream_next(session, index);
    if (next.tag == place.tag)
        return next.position - place.position;
    if (next.tag - place.tag > 1)
        keystream_drop(session, index);
    return UINT64_MAX;
}

// For the next call, or the rest of this one: *ret_n_software of n_left bytes come before what the
// window has then.
static int keystream_prepare(struct session *session, const struct cryptod_stream *stream,
                             size_t n_left, size_t *ret_n_software)
{
    uint32_t index = stream->lease.index;
    struct keystream_place place = keystream_here(stream);
    size_t n_software = n_left < KEYSTREAM_LEAD ? n_left : KEYSTREAM_LEAD;

    uint64_t gap = keystream_gap(session, index, place);
    if (gap < n_software)
        n_software = (size_t)gap;
    place.position += n_software;
    *ret_n_software = n_software;
    return keystream_fill(session, stream, place);
}

int keystream_crypt(struct session *session, struct cryptod_stream *stream, uint8_t *out,
                    const uint8_t *in, size_t n_bytes, size_t *ret_n, size_t *ret_n_software)
{
    uint32_t index = stream->lease.index;
    int r = keystream_consume(session, stream, out, in, n_bytes, ret_n);

    if (r == -ESTALE) { // an idle time has passed: what was ahead is gone, and that is all right
        keystream_drop(session, index);
        r = 0;
    }
    if (r == 0)
        r = keystream_prepare(session, stream, n_bytes - *ret_n, ret_n_software);
    if (r == 0)
        return 0;
    if (!session_is_intact(session)) // the memory is the parent's
        return -EPIPE;
    // After an error of the engine others are none the worse.
    uint64_t slots = r == -EIO || r == -EUSERS ? 0 : keystream_slots(session, index);
    keystream_drop(session, index);
    return ring_give_up(session, slots, r);
}
