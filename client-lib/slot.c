// SPDX-License-Identifier: MIT
// The channel's stream numbers. See slot.h. Must not know what is encrypted under a key.
#include "slot.h"

#include <errno.h>
#include <string.h>

#include "session.h"
#include "clock.h"
#include "fork.h"
#include "packet.h"

static _Atomic uint32_t slot_last_lease;

static uint32_t slot_next_lease(void)
{
    uint32_t lease;

    do {
        lease = atomic_fetch_add_explicit(&slot_last_lease, 1, memory_order_relaxed) + 1;
    } while (lease == 0);
    return lease;
}

static enum slot_state slot_get(const struct slot *slot)
{
    return (enum slot_state)atomic_load_explicit(&slot->state, memory_order_acquire);
}

static bool slot_is_unsettled(enum slot_state state)
{
    return state == SLOT_ASKED || state == SLOT_ABANDONED || state == SLOT_CLOSING;
}

static void slot_set(struct slot_table *table, struct slot *slot, enum slot_state state)
{
    if (slot_is_unsettled(slot_get(slot)))
        table->n_unsettled--;
    if (slot_is_unsettled(state))
        table->n_unsettled++;
    if (state != SLOT_ASKED && state != SLOT_OPEN && state != SLOT_REFUSED)
        atomic_store_explicit(&slot->lease, 0, memory_order_relaxed);
    atomic_store_explicit(&slot->state, state, memory_order_release);
}

static void slot_wipe_key(const struct session *session, uint32_t index)
{
    explicit_bzero(shm_stream(&session->map, index)->key,
                   sizeof shm_stream(&session->map, index)->key);
}

void slot_table_reset(struct slot_table *table, uint32_t n_slots)
{
    for (uint32_t i = 0; i < SHM_STREAMS_MAX; i++) {
        struct slot *slot = &table->slots[i];
        atomic_store_explicit(&slot->state, SLOT_FREE, memory_order_relaxed);
        atomic_store_explicit(&slot->lease, 0, memory_order_relaxed);
        atomic_store_explicit(&slot->let_go, 0, memory_order_relaxed);
    }
    table->n_slots = n_slots;
    table->n_unsettled = 0;
    atomic_store_explicit(&table->any_let_go, false, memory_order_relaxed);
}

// Tells the daemon that a key is not needed any more, now or at the next sweep.
static void slot_close(struct session *session, uint32_t index)
{
    struct message m = {.type = MESSAGE_STREAM_CLOSE, .u.stream_close = {.stream = index}};
    int r = packet_write(session->control, &m);

    if (r == 0)
        slot_set(&session->slots, &session->slots.slots[index], SLOT_FREE);
    else if (r == -EAGAIN)
        slot_set(&session->slots, &session->slots.slots[index], SLOT_CLOSING);
    else
        session_fail(session, r);
}

static void slot_release_index(struct session *session, uint32_t index)
{
    struct slot *slot = &session->slots.slots[index];

    switch (slot_get(slot)) {
    case SLOT_ASKED:
        slot_wipe_key(session, index);
        slot_set(&session->slots, slot, SLOT_ABANDONED);
        break;
    case SLOT_OPEN:
        keystream_drop(session, index);
        slot_close(session, index);
        break;
    case SLOT_REFUSED:
        slot_set(&session->slots, slot, SLOT_FREE);
        break;
    case SLOT_FREE:
    case SLOT_ABANDONED:
    case SLOT_CLOSING:
        break;
    }
}

static int slot_take_answer(struct session *session, const struct message *m)
{
    struct message_stream_reply reply = m->u.stream_reply;

    if (m->type != MESSAGE_STREAM_REPLY || reply.stream >= session->slots.n_slots)
        return -EBADMSG;
    struct slot *slot = &session->slots.slots[reply.stream];
    enum slot_state state = slot_get(slot);
    if ((state != SLOT_ASKED && state != SLOT_ABANDONED) || m->serial != slot->serial)
        return -EBADMSG;
    slot_wipe_key(session, reply.stream);
    if (state == SLOT_ASKED)
        slot_set(&session->slots, slot, reply.reason == MESSAGE_OK ? SLOT_OPEN : SLOT_REFUSED);
    else if (reply.reason == MESSAGE_OK)
        slot_close(session, reply.stream);
    else
        slot_set(&session->slots, slot, SLOT_FREE);
    return 0;
}

static void slot_read_answers(struct session *session)
{
    while (session->control >= 0) {
        struct message m;
        int r = packet_read(session->control, MESSAGE_FRONT_TO_CLIENT, &m);
        if (r == -EAGAIN)
            return;
        if (r == 0)
            r = slot_take_answer(session, &m);
        if (r < 0)
            session_fail(session, r);
    }
}

void slot_sweep(struct session *session)
{
    struct slot_table *table = &session->slots;
    bool look = atomic_exchange_explicit(&table->any_let_go, false, memory_order_acquire);

    for (uint32_t i = 0; i < table->n_slots && session->control >= 0; i++) {
        struct slot *slot = &table->slots[i];
        uint32_t lease = atomic_load_explicit(&slot->lease, memory_order_relaxed);
        if (look && lease != 0 &&
            atomic_load_explicit(&slot->let_go, memory_order_relaxed) == lease)
            slot_release_index(session, i);
        else if (slot_get(slot) == SLOT_CLOSING)
            slot_close(session, i);
    }
}

static int slot_find_free(const struct slot_table *table, uint32_t *ret)
{
    for (uint32_t i = 0; i < table->n_slots; i++) {
        if (slot_get(&table->slots[i]) == SLOT_FREE) {
            *ret = i;
            return 0;
        }
    }
    return -EUSERS;
}

int slot_ask(struct session *session, enum algorithm_id algorithm, const uint8_t *key,
             struct slot_lease *ret)
{
    struct slot_table *table = &session->slots;
    struct message m = {.type = MESSAGE_STREAM_OPEN, .u.stream_open.algorithm = algorithm};
    uint32_t index;

    if (table->n_unsettled > 0) {
        slot_sweep(session);
        slot_read_answers(session);
    }
    if (session->control < 0)
        return -ENODATA;
    int r = slot_find_free(table, &index);
    if (r < 0)
        return r;
    struct slot *slot = &table->slots[index];
    uint32_t lease = slot_next_lease();
    m.serial = lease;
    m.u.stream_open.stream = index;
    memcpy(shm_stream(&session->map, index)->key, key, algorithm_get(algorithm)->n_key);
    r = packet_write(session->control, &m);
    if (r < 0) {
        slot_wipe_key(session, index);
        if (r != -EAGAIN)
            session_fail(session, r);
        return r;
    }
    slot->serial = m.serial;
    slot->asked_ms = clock_now_ms();
    slot_set(table, slot, SLOT_ASKED);
    atomic_store_explicit(&slot->lease, lease, memory_order_relaxed);
    *ret = (struct slot_lease){.index = index, .lease = lease};
    return 0;
}

enum slot_state slot_peek(const struct slot_table *table, const struct slot_lease *lease)
{
    const struct slot *slot = &table->slots[lease->index];

    if (lease->lease == 0 ||
        atomic_load_explicit(&slot->lease, memory_order_relaxed) != lease->lease)
        return SLOT_FREE;
    return slot_get(slot);
}

enum slot_state slot_look(struct session *session, const struct slot_lease *lease)
{
    enum slot_state state = slot_peek(&session->slots, lease);

    if (state != SLOT_ASKED)
        return state;
    slot_read_answers(session);
    state = slot_peek(&session->slots, lease);
    const struct slot *slot = &session->slots.slots[lease->index];
    if (state == SLOT_ASKED && clock_now_ms() - slot->asked_ms > session->deadline_ms)
        return SLOT_REFUSED;
    return state;
}

void slot_release(struct session *session, struct slot_lease *lease)
{
    if (slot_peek(&session->slots, lease) != SLOT_FREE)
        slot_release_index(session, lease->index);
    lease->lease = 0;
}

void slot_let_go(struct slot_lease *lease)
{
    if (lease->lease == 0)
        return;
    struct session *session = session_acquire();
    if (session) {
        slot_release(session, lease);
        session_release(session);
        return;
    }
    // In use by another thread, or gone; if it is another process's, our copy of its table is of
    // no consequence.
    struct slot_table *table = session_slots();
    struct slot *slot = &table->slots[lease->index];
    if (slot_peek(table, lease) != SLOT_FREE) {
        atomic_store_explicit(&slot->let_go, lease->lease, memory_order_relaxed);
        atomic_store_explicit(&table->any_let_go, true, memory_order_release);
    }
    lease->lease = 0;
}
