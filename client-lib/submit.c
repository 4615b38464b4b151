// SPDX-License-Identifier: MIT
// The request lane. See submit.h. Everything in the shared memory is the engine's to change at any
// time: each word is read once, and data is only copied.
#include "submit.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "counters.h"
#include "relax.h"

// An engine that misses this many deadlines is given up.
#define SUBMIT_DEADLINES_MAX 3u

struct submit_piece {
    uint8_t iv[ALGORITHM_IV_LEN_MAX];
    uint32_t n_bytes;
};

// Published and not yet copied out: the last n pieces before session->sequence.
struct submit_flight {
    struct submit_piece pieces[HANDSHAKE_SLOTS];
    uint32_t n;
    size_t n_ahead;                   // bytes of the job that are in the flight
    uint8_t iv[ALGORITHM_IV_LEN_MAX]; // of the piece after them
};

static bool submit_is_done(const struct session *session, uint32_t sequence)
{
    return atomic_load_explicit(&shm_done(&session->map, sequence)->sequence,
                                memory_order_acquire) == sequence + 1;
}

bool submit_is_ready(struct session *session)
{
    while (session->outstanding > 0 &&
           submit_is_done(session, session->sequence - session->outstanding))
        session->outstanding--;
    return session->outstanding == 0;
}

// 0; -EAGAIN: nothing within the deadline; or what a lost channel says.
static int bell_read(const struct session *session)
{
    uint8_t byte;
    ssize_t n = read(session->bell, &byte, 1);

    if (n == 0)
        return -ENODATA;
    return n < 0 && errno != EINTR ? -errno : 0;
}

static int bell_wait(const struct session *session, uint64_t left_ms)
{
    struct pollfd item = {.fd = session->bell, .events = POLLIN};
    struct timespec left = {.tv_sec = (time_t)(left_ms / 1000u),
                            .tv_nsec = (long)(left_ms % 1000u) * 1000000L};
    int n = ppoll(&item, 1, &left, NULL);

    if (n == 0)
        return -EAGAIN;
    if (n < 0)
        return errno == EINTR ? 0 : -errno;
    return bell_read(session);
}

// Sleeps until the request is done. 0, -EAGAIN after the deadline, or what a lost channel says.
static int submit_sleep(const struct session *session, uint32_t sequence)
{
    struct shm_header *header = shm_header(&session->map);
    uint64_t until_ms = 0;

    for (;;) {
        shm_wait_begin(&header->client_waits);
        if (submit_is_done(session, sequence)) {
            shm_wait_end(&header->client_waits);
            return 0;
        }
        int r;
        if (until_ms == 0) {
            r = bell_read(session); // bounded by the socket's own timeout
        } else {
            uint64_t now = clock_now_ms();
            r = now < until_ms ? bell_wait(session, until_ms - now) : -EAGAIN;
        }
        if (submit_is_done(session, sequence))
            return 0;
        if (r < 0)
            return r;
        // Woken for an older request or by a signal: from here on the clock counts.
        if (until_ms == 0)
            until_ms = clock_now_ms() + session->deadline_ms;
    }
}

static int submit_wait(const struct session *session, uint32_t sequence)
{
    for (uint32_t i = 0; !submit_is_done(session, sequence); i++) {
        if (i >= session->spins)
            return submit_sleep(session, sequence);
        relax();
    }
    return 0;
}

// 0, or what a lost channel says.
static int submit_ring(const struct session *session)
{
    static const uint8_t byte = 1;

    if (!shm_must_ring(&shm_header(&session->map)->engine_waits))
        return 0;
    while (write(session->bell, &byte, 1) < 0) {
        if (errno == EAGAIN)
            return 0; // full of rings that are not heard yet
        if (errno != EINTR)
            return -errno;
    }
    return 0;
}

// The IV of the piece after this one.
static void submit_next_iv(const struct submit_job *job, const uint8_t *ciphertext,
                           uint32_t n_bytes, uint8_t iv[ALGORITHM_IV_LEN_MAX])
{
    if (job->mode == ALGORITHM_CTR)
        algorithm_ctr_add(iv, n_bytes / job->n_block);
    else
        memcpy(iv, ciphertext + n_bytes - job->n_block, job->n_block);
}

static int submit_publish(struct session *session, const struct submit_job *job,
                          struct submit_flight *flight)
{
    const uint8_t *in = job->in + flight->n_ahead;
    size_t left = job->n_bytes - flight->n_ahead;
    uint32_t n_bytes = left < SHM_SLOT_SIZE ? (uint32_t)left : SHM_SLOT_SIZE;
    uint32_t sequence = session->sequence;
    struct submit_piece *piece = &flight->pieces[sequence % HANDSHAKE_SLOTS];
    struct shm_request request = {
        .sequence = sequence,
        .stream = job->stream,
        .operation = job->encrypt ? SHM_OP_ENCRYPT : SHM_OP_DECRYPT,
        .n_bytes = n_bytes,
    };

    memcpy(request.iv, flight->iv, sizeof request.iv);
    memcpy(piece->iv, flight->iv, sizeof piece->iv);
    piece->n_bytes = n_bytes;
    memcpy(shm_data(&session->map, sequence), in, n_bytes);
    *shm_request(&session->map, sequence) = request;
    session->sequence = sequence + 1;
    flight->n++;
    flight->n_ahead += n_bytes;
    if (job->mode == ALGORITHM_CTR || !job->encrypt)
        submit_next_iv(job, in, n_bytes, flight->iv);
    atomic_store_explicit(&shm_header(&session->map)->submitted, sequence + 1,
                          memory_order_release);
    return submit_ring(session);
}

// Waits for the oldest piece and copies it out.
static int submit_collect(struct session *session, struct submit_job *job,
                          struct submit_flight *flight)
{
    uint32_t sequence = session->sequence - flight->n;
    const struct submit_piece *piece = &flight->pieces[sequence % HANDSHAKE_SLOTS];
    uint32_t n_bytes = piece->n_bytes;

    int r = submit_wait(session, sequence);
    if (r < 0)
        return r == -EAGAIN ? -ETIMEDOUT : r;
    int32_t result = __atomic_load_n(&shm_done(&session->map, sequence)->result, __ATOMIC_RELAXED);
    if (result != 0)
        return -EIO;
    memcpy(job->out, shm_data(&session->map, sequence), n_bytes);
    if (job->mode == ALGORITHM_CBC && job->encrypt)
        submit_next_iv(job, job->out, n_bytes, flight->iv);
    job->out += n_bytes;
    job->in += n_bytes;
    job->n_bytes -= n_bytes;
    flight->n--;
    flight->n_ahead -= n_bytes;
    const uint8_t *iv =
        flight->n > 0 ? flight->pieces[(sequence + 1) % HANDSHAKE_SLOTS].iv : flight->iv;
    memcpy(job->iv, iv, sizeof job->iv);
    counters_add(&counters_process.request_operations, 1);
    counters_add(&counters_process.request_bytes, n_bytes);
    return 0;
}

// What is left of a flight may still be written by the engine: no new request until it is done.
static int submit_give_up(struct session *session, const struct submit_flight *flight, int error)
{
    counters_add(&counters_process.fallbacks, 1);
    session->outstanding = flight->n;
    if (error == -EIO)
        return error;
    if (error != -ETIMEDOUT) {
        session_fail(session, error);
        return -EPIPE;
    }
    counters_add(&counters_process.timeouts, 1);
    if (++session->deadlines >= SUBMIT_DEADLINES_MAX)
        session_fail(session, error);
    return error;
}

int submit_run(struct session *session, struct submit_job *job)
{
    bool chained =
        job->mode == ALGORITHM_CBC && job->encrypt; // each IV comes from the result before
    uint32_t window = chained ? 1 : HANDSHAKE_SLOTS;
    struct submit_flight flight = {.n = 0};
    int r = 0;

    memcpy(flight.iv, job->iv, sizeof flight.iv);
    while (r == 0 && job->n_bytes > 0) {
        while (r == 0 && flight.n < window && flight.n_ahead < job->n_bytes)
            r = submit_publish(session, job, &flight);
        if (r == 0)
            r = submit_collect(session, job, &flight);
    }
    return r < 0 ? submit_give_up(session, &flight, r) : 0;
}
