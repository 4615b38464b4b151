// SPDX-License-Identifier: MIT
// The client's side of the ring. See ring.h. Everything in the shared memory is the engine's to
// change at any time: each word is read once.
#include "ring.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "clock.h"
#include "counters.h"
#include "relax.h"

// An engine that misses this many deadlines is given up.
#define RING_DEADLINES_MAX 3u

bool ring_is_done(const struct session *session, uint32_t slot)
{
    return atomic_load_explicit(&shm_done(&session->map, slot)->sequence, memory_order_acquire) ==
           session->asked[slot] + 1;
}

int32_t ring_result(const struct session *session, uint32_t slot)
{
    return atomic_load_explicit(&shm_done(&session->map, slot)->result, memory_order_relaxed);
}

bool ring_is_ready(struct session *session)
{
    for (uint32_t slot = 0; session->late != 0 && slot < session->map.n_slots; slot++)
        if ((session->late & RING_SLOT_BIT(slot)) && ring_is_done(session, slot)) {
            session->late &= ~RING_SLOT_BIT(slot);
            if (ring_result(session, slot) == SHM_RESULT_LOST)
                session->lost |= RING_SLOT_BIT(slot);
        }
    return session->late == 0;
}

void ring_put(struct session *session, struct shm_request *request)
{
    request->sequence = session->sequence++;
    session->asked[request->slot] = request->sequence;
    *shm_request(&session->map, request->sequence) = *request;
}

int ring_publish(struct session *session)
{
    static const uint8_t byte = 1;
    struct shm_header *header = shm_header(&session->map);

    if (!session_is_intact(session))
        return -EPIPE;
    atomic_store_explicit(&header->submitted, session->sequence, memory_order_release);
    if (!shm_must_ring(&header->engine_waits))
        return 0;
    while (write(session->bell, &byte, 1) < 0) {
        if (errno == EAGAIN)
            return 0; // full of rings that are not heard yet
        if (errno != EINTR)
            return -errno;
    }
    return 0;
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

// 0, -EAGAIN after the deadline, or what a lost channel says.
static int ring_sleep(const struct session *session, uint32_t slot)
{
    struct shm_header *header = shm_header(&session->map);
    uint64_t until_ms = 0;

    for (;;) {
        shm_wait_begin_slot(&header->client_waits, slot);
        if (ring_is_done(session, slot)) {
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
        if (ring_is_done(session, slot))
            return 0;
        if (r < 0)
            return r;
        // Woken for an older request or by a signal: from here on the clock counts.
        if (until_ms == 0)
            until_ms = clock_now_ms() + session->deadline_ms;
    }
}

int ring_wait(const struct session *session, uint32_t slot, uint32_t n_spins)
{
    for (uint32_t i = 0; !ring_is_done(session, slot); i++) {
        if (i >= n_spins) {
            int r = ring_sleep(session, slot);
            return r == -EAGAIN ? -ETIMEDOUT : r;
        }
        relax();
    }
    return 0;
}

int ring_give_up(struct session *session, uint64_t slots, int error)
{
    session->late |= slots;
    if (error == -EUSERS)
        return error;
    counters_add(&counters_process.fallbacks, 1);
    if (error == -EIO)
        return error;
    if (error != -ETIMEDOUT) {
        session_fail(session, error);
        return -EPIPE;
    }
    counters_add(&counters_process.timeouts, 1);
    if (++session->deadlines >= RING_DEADLINES_MAX)
        session_fail(session, error);
    return error;
}
