// SPDX-License-Identifier: MIT
// The request lane. See submit.h. What the engine gives back is only copied.
#include "submit.h"

#include <errno.h>
#include <string.h>

#include "counters.h"
#include "ring.h"

// Results are copied in steps of this size, by way of memory that a fork in the middle of a call
// leaves alone, so a step is either done or not.
#define SUBMIT_COPY_SIZE 4096u

// Published and not yet copied out: the pieces in the n slots from the first of these on.
struct submit_flight {
    uint32_t slots[SHM_SLOTS_REQUEST]; // in a circle
    uint32_t n_bytes[SHM_SLOTS_REQUEST];
    uint32_t first;
    uint32_t n;
    size_t n_ahead;                   // bytes of the job that are in the flight
    uint8_t iv[ALGORITHM_IV_LEN_MAX]; // of the piece after them
};

#define SUBMIT_SLOTS_ALL (RING_SLOT_BIT(SHM_SLOTS_REQUEST) - 1)

static uint32_t submit_count_slots(const struct session *session)
{
    return (uint32_t)__builtin_popcountll(SUBMIT_SLOTS_ALL & ~session->lost);
}

// The slots of the request lane take turns, but for those that are lost. (There is one that is
// not.)
static uint32_t submit_next_slot(struct session *session)
{
    uint32_t slot;

    do
        slot = session->request_slot++ % SHM_SLOTS_REQUEST;
    while (session->lost & RING_SLOT_BIT(slot));
    return slot;
}

static uint32_t *submit_slot(struct submit_flight *flight, uint32_t i)
{
    return &flight->slots[(flight->first + i) % SHM_SLOTS_REQUEST];
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
    uint32_t slot = submit_next_slot(session);
    struct shm_request request = {
        .stream = job->stream,
        .operation = job->encrypt ? SHM_OP_ENCRYPT : SHM_OP_DECRYPT,
        .n_bytes = n_bytes,
        .slot = slot,
    };

    memcpy(request.iv, flight->iv, sizeof request.iv);
    flight->n_bytes[slot] = n_bytes;
    memcpy(shm_data(&session->map, slot), in, n_bytes);
    ring_put(session, &request);
    *submit_slot(flight, flight->n++) = slot;
    flight->n_ahead += n_bytes;
    if (job->mode == ALGORITHM_CTR || !job->encrypt)
        submit_next_iv(job, in, n_bytes, flight->iv);
    return ring_publish(session);
}

// A step of a result, n_bytes of it from data on.
static int submit_copy(const struct session *session, struct submit_job *job, const uint8_t *data,
                       uint32_t n_bytes)
{
    uint8_t copy[SUBMIT_COPY_SIZE];

    memcpy(copy, data, n_bytes);
    if (!session_is_intact(session))
        return -EPIPE;
    submit_next_iv(job, job->encrypt ? copy : job->in, n_bytes, job->iv);
    memcpy(job->out, copy, n_bytes);
    job->out += n_bytes;
    job->in += n_bytes;
    job->n_bytes -= n_bytes;
    return 0;
}

// Waits for the oldest piece and copies it out.
static int submit_collect(struct session *session, struct submit_job *job,
                          struct submit_flight *flight)
{
    uint32_t slot = *submit_slot(flight, 0);
    uint32_t n_bytes = flight->n_bytes[slot], n_step;

    int r = ring_wait(session, slot, session->spins);
    if (r < 0)
        return r;
    r = ring_result(session, slot);
    if (r != 0)
        return r == -EUSERS ? r : -EIO;
    for (uint32_t n_done = 0; n_done < n_bytes; n_done += n_step) {
        n_step = n_bytes - n_done < SUBMIT_COPY_SIZE ? n_bytes - n_done : SUBMIT_COPY_SIZE;
        r = submit_copy(session, job, shm_data(&session->map, slot) + n_done, n_step);
        if (r < 0)
            return r;
    }
    if (job->mode == ALGORITHM_CBC && job->encrypt)
        memcpy(flight->iv, job->iv, sizeof flight->iv);
    flight->first++;
    flight->n--;
    flight->n_ahead -= n_bytes;
    counters_add(&counters_process.request_operations, 1);
    counters_add(&counters_process.request_bytes, n_bytes);
    return 0;
}

// What is left of a flight may still be written by the engine.
static uint64_t submit_slots(struct submit_flight *flight)
{
    uint64_t slots = 0;

    for (uint32_t i = 0; i < flight->n; i++)
        slots |= RING_SLOT_BIT(*submit_slot(flight, i));
    return slots;
}

int submit_run(struct session *session, struct submit_job *job)
{
    bool chained =
        job->mode == ALGORITHM_CBC && job->encrypt; // each IV comes from the result before
    uint32_t n_slots = submit_count_slots(session), window = chained ? 1 : n_slots;
    struct submit_flight flight = {.n = 0};
    int r = 0;

    if (n_slots == 0)
        return -EUSERS;

    memcpy(flight.iv, job->iv, sizeof flight.iv);
    while (r == 0 && job->n_bytes > 0) {
        while (r == 0 && flight.n < window && flight.n_ahead < job->n_bytes)
            r = submit_publish(session, job, &flight);
        if (r == 0)
            r = submit_collect(session, job, &flight);
    }
    return r < 0 ? ring_give_up(session, submit_slots(&flight), r) : 0;
}
