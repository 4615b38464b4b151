// SPDX-License-Identifier: MIT
// The choice of lane. See lane.h.
#include "lane.h"

#include <errno.h>
#include <string.h>

#include "session.h"
#include "clock.h"
#include "counters.h"
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
    bool is_open;      // the lane, whatever it did
};

struct lane_choice {
    enum cryptod_lane lane; // SOFTWARE: none
    bool is_young;          // not bulk yet
    bool is_now;            // this call is for the lane
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

// The lane that the stream may get with this key, and whether a call of n_bytes is for it.
static struct lane_choice lane_choose(const struct cryptod_stream *stream, size_t n_bytes)
{
    const struct algorithm_info *info = stream->info;
    struct lane_choice choice = {.lane = CRYPTOD_LANE_SOFTWARE};
    uint32_t least, threshold;
    bool fits = true;

    if (stream->is_settled)
        return choice;
    if (info->mode != ALGORITHM_CBC &&
        session_offers_lane(info->id, MESSAGE_LANE_KEYSTREAM, &least, &threshold)) {
        choice.lane = CRYPTOD_LANE_KEYSTREAM;
        fits = info->mode == ALGORITHM_CTR || packet_guess_bytes(&stream->guess) > 0;
    } else if (info->mode != ALGORITHM_CHACHA &&
               session_offers_lane(info->id, MESSAGE_LANE_REQUEST, &least, &threshold)) {
        size_t whole = lane_whole(stream, n_bytes);
        choice.lane = CRYPTOD_LANE_REQUEST;
        fits = whole > 0 && whole >= least;
    } else {
        return choice;
    }
    choice.is_young = stream->n_bulk < (uint64_t)threshold << stream->refusals;
    choice.is_now = !choice.is_young && fits && lane_cost_allows(&stream->cost);
    return choice;
}

static bool lane_is_dear(const struct cryptod_stream *stream)
{
    uint32_t least, threshold;

    return session_offers_lane(stream->info->id, MESSAGE_OFFER_KEYSTREAM_DEAR, &least, &threshold);
}

static void lane_settle(struct session *session, struct cryptod_stream *stream)
{
    slot_release(session, &stream->lease);
    stream->is_settled = true;
}

static void lane_refuse(struct session *session, struct cryptod_stream *stream)
{
    lane_settle(session, stream);
    if (stream->refusals < LANE_REFUSALS_MAX)
        stream->refusals++;
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
    lane_refuse(session, stream);
    return false;
}

static void lane_judge(struct session *session, struct cryptod_stream *stream, int result)
{
    if (result == -EUSERS) // the engine has no room for the key: as if it had refused it
        lane_refuse(session, stream);
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
    if (r == 0)
        stream->errors = 0;
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
    if (call->n_done > 0)
        stream->errors = 0;
    lane_judge(session, stream, r);
}

// 0, with nothing done if the lane is not to be had just now; -EIO: OpenSSL failed.
static int lane_try(enum cryptod_lane lane, struct cryptod_stream *stream, struct lane_call *call)
{
    struct session *session = session_acquire();
    int r = 0;

    if (!session)
        return 0;
    call->is_open = ring_is_ready(session) && lane_is_open(session, stream);
    if (call->is_open) {
        if (lane == CRYPTOD_LANE_KEYSTREAM)
            lane_keystream(session, stream, call);
        else
            r = lane_request(session, stream, call);
    }
    session_release(session);
    return r;
}

static int lane_run(enum cryptod_lane lane, struct cryptod_stream *stream, struct lane_call *call)
{
    int r = lane != CRYPTOD_LANE_SOFTWARE ? lane_try(lane, stream, call) : 0;

    if (r < 0)
        return r;
    return stream_crypt_software(stream, call->out + call->n_done, call->in + call->n_done,
                                 call->n_software);
}

static struct lane_time lane_clock(void)
{
    return (struct lane_time){.wall_ns = clock_now_ns(), .cpu_ns = clock_thread_ns()};
}

// The running cost, of streams that may have a lane.
static void lane_note(struct cryptod_stream *stream, const struct lane_call *call,
                      const struct lane_time *began)
{
    struct lane_span span;

    if (began)
        span = (struct lane_span){.began = *began, .ended = lane_clock()};
    if (!lane_cost_note(&stream->cost, call->is_open, call->n_done + call->n_software,
                        began ? &span : NULL))
        return;
    slot_let_go(&stream->lease);
    counters_add(&counters_process.lane_changes, 1);
}

int lane_crypt(struct cryptod_stream *stream, uint8_t *out, const uint8_t *in, size_t n_bytes,
               size_t *ret_n)
{
    struct lane_call call = {.out = out, .in = in, .n_bytes = n_bytes, .n_software = n_bytes};
    struct lane_choice choice = lane_choose(stream, n_bytes);
    struct lane_time began;
    bool is_timed = false;

    if (choice.lane != CRYPTOD_LANE_SOFTWARE) {
        if (call.n_software > LANE_LOOK_AGAIN)
            call.n_software = LANE_LOOK_AGAIN;
        is_timed = lane_cost_wants_clock(&stream->cost, choice.is_young, n_bytes);
    }
    if (is_timed) {
        stream->cost.is_dear = lane_is_dear(stream);
        began = lane_clock();
    }
    int r = lane_run(choice.is_now ? choice.lane : CRYPTOD_LANE_SOFTWARE, stream, &call);
    if (r < 0)
        return r;
    if (choice.lane != CRYPTOD_LANE_SOFTWARE)
        lane_note(stream, &call, is_timed ? &began : NULL);
    *ret_n = call.n_done + call.n_software;
    return 0;
}

enum cryptod_lane cryptod_stream_lane(const cryptod_stream *stream)
{
    struct lane_choice choice = lane_choose(stream, SIZE_MAX);

    if (!stream->has_key || !choice.is_now)
        return CRYPTOD_LANE_SOFTWARE;
    struct session *session = session_acquire();
    if (!session) // another thread has it just now
        return slot_peek(session_slots(), &stream->lease) == SLOT_OPEN ? choice.lane
                                                                       : CRYPTOD_LANE_SOFTWARE;
    bool open = ring_is_ready(session) && slot_look(session, &stream->lease) == SLOT_OPEN;
    session_release(session);
    return open ? choice.lane : CRYPTOD_LANE_SOFTWARE;
}
