// SPDX-License-Identifier: MIT
// The choice of lane. See lane.h.
#include "lane.h"

#include <errno.h>
#include <string.h>

#include "session.h"
#include "cryptod.h"
#include "keystream.h"
#include "message.h"
#include "ring.h"
#include "submit.h"

// A large call that has to begin in software looks for its lane again after this many bytes (a
// multiple of every block).
#define LANE_LOOK_AGAIN ((size_t)65536)

// After so many failures in a row the engine gets no more of this key.
#define LANE_ERRORS_MAX 3u

#define LANE_REFUSALS_MAX 6u

// A call, or what is left of it.
struct lane_call {
    uint8_t *out;
    const uint8_t *in;
    size_t n_bytes;
    size_t n_done;     // by the lane, and by software before it
    size_t n_software; // bytes after these that are for software in any case
};

// The request lane has whole blocks only; CTR may be in the middle of one.
static size_t lane_head(const struct cryptod_stream *stream)
{
    unsigned used = stream_used(stream);

    return used == 0 ? 0 : stream->info->n_cipher_block - used;
}

static size_t lane_whole(const struct cryptod_stream *stream, size_t n_bytes)
{
    size_t head = lane_head(stream);

    return n_bytes < head
               ? 0
               : (n_bytes - head) / stream->info->n_cipher_block * stream->info->n_cipher_block;
}

static bool lane_is_bulk(const struct cryptod_stream *stream, uint32_t threshold)
{
    return stream->n_bulk >= (uint64_t)threshold << stream->refusals;
}

// The lane that the stream may get with this key, CRYPTOD_LANE_SOFTWARE if none; *ret_now: whether
// a call of n_bytes is for it.
static enum cryptod_lane lane_pick(const struct cryptod_stream *stream, size_t n_bytes,
                                   bool *ret_now)
{
    const struct algorithm_info *info = stream->info;
    uint32_t least, threshold;

    if (stream->is_settled)
        return CRYPTOD_LANE_SOFTWARE;
    if (info->mode != ALGORITHM_CBC &&
        session_offers_lane(info->id, MESSAGE_LANE_KEYSTREAM, &least, &threshold)) {
        *ret_now = lane_is_bulk(stream, threshold) &&
                   (info->mode == ALGORITHM_CTR || packet_guess_bytes(&stream->guess) > 0);
        return CRYPTOD_LANE_KEYSTREAM;
    }
    if (info->mode != ALGORITHM_CHACHA &&
        session_offers_lane(info->id, MESSAGE_LANE_REQUEST, &least, &threshold)) {
        size_t whole = lane_whole(stream, n_bytes);
        *ret_now = lane_is_bulk(stream, threshold) && whole > 0 && whole >= least;
        return CRYPTOD_LANE_REQUEST;
    }
    return CRYPTOD_LANE_SOFTWARE;
}

static void lane_settle(struct session *session, struct cryptod_stream *stream)
{
    slot_release(session, &stream->lease);
    stream->is_settled = true;
}

// Whether the daemon has the stream's key; asks for it if not.
static bool lane_is_open(struct session *session, struct cryptod_stream *stream)
{
    switch (slot_look(session, &stream->lease)) {
    case SLOT_OPEN:
        stream->refusals = 0;
        return true;
    case SLOT_ASKED:
        return false;
    case SLOT_FREE: { // none yet, or one of a channel that is gone
        int r = slot_ask(session, stream->info->id, stream->key, &stream->lease);
        if (r == 0 || r == -EUSERS) // with every number taken: until another stream goes
            return false;
        break;
    }
    default:
        break;
    }
    lane_settle(session, stream);
    if (stream->refusals < LANE_REFUSALS_MAX)
        stream->refusals++;
    return false;
}

static void lane_judge(struct session *session, struct cryptod_stream *stream, int result)
{
    if (result == 0)
        stream->errors = 0;
    else if (result == -EIO && ++stream->errors >= LANE_ERRORS_MAX)
        lane_settle(session, stream);
}

// The whole blocks after the head. What the lane does not do is left.
static size_t lane_submit(struct session *session, struct cryptod_stream *stream, uint8_t *out,
                          const uint8_t *in, size_t n_bytes)
{
    const struct algorithm_info *info = stream->info;
    struct submit_job job = {
        .stream = stream->lease.index,
        .mode = info->mode,
        .n_block = info->n_cipher_block,
        .encrypt = stream->encrypt,
        .out = out,
        .in = in,
        .n_bytes = n_bytes,
    };

    stream_place(stream, stream->position / info->n_cipher_block, job.iv);
    int r = submit_run(session, &job);
    size_t n_done = n_bytes - job.n_bytes;
    if (n_done > 0) {
        if (info->mode == ALGORITHM_CBC)
            memcpy(stream->chain, job.iv, sizeof stream->chain);
        else
            stream->position += n_done;
        stream->must_seek = true;
    }
    lane_judge(session, stream, r);
    return n_done;
}

// The head in software, whole blocks in the lane, and what is left in software.
static int lane_request(struct session *session, struct cryptod_stream *stream,
                        struct lane_call *call)
{
    size_t head = lane_head(stream), whole = lane_whole(stream, call->n_bytes);
    int r = stream_crypt_software(stream, call->out, call->in, head);

    if (r < 0)
        return r;
    size_t n_done = lane_submit(session, stream, call->out + head, call->in + head, whole);
    call->n_done = head + n_done;
    call->n_software = n_done < whole ? call->n_bytes - call->n_done : 0;
    return 0;
}

static void lane_keystream(struct session *session, struct cryptod_stream *stream,
                           struct lane_call *call)
{
    size_t n_software = 0;
    int r = keystream_crypt(session, stream, call->out, call->in, call->n_bytes, &call->n_done,
                            &n_software);

    call->n_software = r == 0 ? n_software : call->n_bytes - call->n_done;
    if (r < 0 || call->n_done > 0)
        lane_judge(session, stream, r);
}

// 0, with nothing done if the lane is not to be had just now; -EIO: OpenSSL failed.
static int lane_try(enum cryptod_lane lane, struct cryptod_stream *stream, struct lane_call *call)
{
    struct session *session = session_acquire();
    int r = 0;

    if (!session)
        return 0;
    if (ring_is_ready(session) && lane_is_open(session, stream)) {
        if (lane == CRYPTOD_LANE_KEYSTREAM)
            lane_keystream(session, stream, call);
        else
            r = lane_request(session, stream, call);
    }
    session_release(session);
    return r;
}

int lane_crypt(struct cryptod_stream *stream, uint8_t *out, const uint8_t *in, size_t n_bytes,
               size_t *ret_n)
{
    struct lane_call call = {.out = out, .in = in, .n_bytes = n_bytes, .n_software = n_bytes};
    bool now = false;
    enum cryptod_lane lane = lane_pick(stream, n_bytes, &now);
    int r = 0;

    if (lane != CRYPTOD_LANE_SOFTWARE && call.n_software > LANE_LOOK_AGAIN)
        call.n_software = LANE_LOOK_AGAIN;
    if (now)
        r = lane_try(lane, stream, &call);
    if (r == 0)
        r = stream_crypt_software(stream, out + call.n_done, in + call.n_done, call.n_software);
    if (r == 0)
        *ret_n = call.n_done + call.n_software;
    return r;
}

enum cryptod_lane cryptod_stream_lane(const cryptod_stream *stream)
{
    bool now = false;
    enum cryptod_lane lane = lane_pick(stream, SIZE_MAX, &now);

    if (!stream->has_key || !now)
        return CRYPTOD_LANE_SOFTWARE;
    struct session *session = session_acquire();
    if (!session) // another thread has it just now
        return slot_peek(session_slots(), &stream->lease) == SLOT_OPEN ? lane
                                                                       : CRYPTOD_LANE_SOFTWARE;
    bool open = ring_is_ready(session) && slot_look(session, &stream->lease) == SLOT_OPEN;
    session_release(session);
    return open ? lane : CRYPTOD_LANE_SOFTWARE;
}
