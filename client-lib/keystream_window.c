// SPDX-License-Identifier: MIT
// Keystream ahead of need. See keystream_window.h.
#include "keystream_window.h"

#include <errno.h>
#include <string.h>

#include "keystream_xor.h"
#include "ring.h"
#include "session.h"

void keystream_table_reset(struct keystream_table *table, uint32_t n_slots, uint32_t n_most)
{
    memset(table, 0, sizeof *table);
    table->n_slots = n_slots < HANDSHAKE_SLOTS ? n_slots : HANDSHAKE_SLOTS;
    for (uint32_t slot = SHM_SLOTS_REQUEST; slot < table->n_slots; slot++)
        table->free |= RING_SLOT_BIT(slot);
    uint32_t n_free = (uint32_t)__builtin_popcountll(table->free);
    table->n_most = n_most < n_free ? n_most : n_free;
}

static uint32_t window_slot(const struct keystream_window *window, uint32_t number)
{
    return window->slots[(window->first + number) % KEYSTREAM_PIECES_MAX];
}

static struct shm_done *slot_done(const struct session *session, uint32_t slot)
{
    return shm_done(&session->map, slot);
}

// Nobody's from here on: the engine may take the memory back.
static void slot_free(struct session *session, uint32_t slot)
{
    atomic_store_explicit(&slot_done(session, slot)->claim, SHM_CLAIM_NOBODY, memory_order_release);
    session->keystream.free |= RING_SLOT_BIT(slot);
}

// Takes the first piece out of its window.
static void window_pop(struct session *session, struct keystream_window *window)
{
    uint32_t slot = window_slot(window, 0);
    struct keystream_piece *piece = &session->keystream.pieces[slot];

    window->first = (uint8_t)((window->first + 1) % KEYSTREAM_PIECES_MAX);
    window->n--;
    if (!piece->is_claimed) {
        session->keystream.returning |= RING_SLOT_BIT(slot);
        return;
    }
    explicit_bzero(shm_data(&session->map, slot) + piece->n_passed,
                   piece->n_bytes - piece->n_passed);
    piece->is_claimed = false;
    slot_free(session, slot);
}

// A slot that the engine has taken back, or not filled, holds nothing, and may have no memory.
static void window_collect_returning(struct session *session)
{
    struct keystream_table *table = &session->keystream;

    for (uint32_t slot = SHM_SLOTS_REQUEST; table->returning != 0 && slot < table->n_slots;
         slot++) {
        if (!(table->returning & RING_SLOT_BIT(slot)) || !ring_is_done(session, slot))
            continue;
        table->returning &= ~RING_SLOT_BIT(slot);
        if (ring_result(session, slot) == SHM_RESULT_LOST)
            continue; // its driver may still write into it: never free again
        if (ring_result(session, slot) == 0 &&
            shm_claim(slot_done(session, slot), SHM_CLAIM_CLIENT))
            explicit_bzero(shm_data(&session->map, slot), table->pieces[slot].n_bytes);
        slot_free(session, slot);
    }
}

void keystream_table_wipe(struct session *session)
{
    for (uint32_t index = 0; index < SHM_STREAMS_MAX; index++)
        keystream_drop(session, index);
    window_collect_returning(session);
}

static void piece_pass(const struct session *session, uint32_t slot, struct keystream_piece *piece,
                       uint32_t n_bytes)
{
    if (piece->is_claimed)
        explicit_bzero(shm_data(&session->map, slot) + piece->n_passed, n_bytes);
    piece->n_passed += n_bytes;
}

enum keystream_state keystream_seek(struct session *session, uint32_t index,
                                    struct keystream_place place)
{
    struct keystream_window *window = &session->keystream.windows[index];

    for (; window->n > 0; window_pop(session, window)) {
        uint32_t slot = window_slot(window, 0);
        struct keystream_piece *piece = &session->keystream.pieces[slot];
        uint64_t next = piece->start.position + piece->n_passed;
        if (place.tag < piece->start.tag ||
            (place.tag == piece->start.tag && place.position < next))
            return KEYSTREAM_AHEAD;
        if (place.tag > piece->start.tag ||
            place.position - piece->start.position >= piece->n_bytes) {
            if (piece->n_passed == 0) // made in vain
                window->size /= 2;
            continue;
        }
        piece_pass(session, slot, piece, (uint32_t)(place.position - next));
        return KEYSTREAM_HERE;
    }
    return KEYSTREAM_NONE;
}

struct keystream_place keystream_next(const struct session *session, uint32_t index)
{
    const struct keystream_table *table = &session->keystream;
    const struct keystream_piece *piece = &table->pieces[window_slot(&table->windows[index], 0)];

    return (struct keystream_place){.tag = piece->start.tag,
                                    .position = piece->start.position + piece->n_passed};
}

struct keystream_place keystream_end(const struct session *session, uint32_t index)
{
    const struct keystream_table *table = &session->keystream;
    const struct keystream_window *window = &table->windows[index];
    const struct keystream_piece *piece =
        &table->pieces[window_slot(window, (uint32_t)window->n - 1)];

    return (struct keystream_place){.tag = piece->start.tag,
                                    .position = piece->start.position + piece->n_bytes};
}

// A window is refilled by quarters: seldom enough that the engine, if it sleeps, is not woken for
// each piece, and early enough that it need not sleep while it is the slower one.
static uint32_t window_step(const struct keystream_window *window)
{
    return window->size >= 4 ? window->size / 4u : 1;
}

// Waits for the first piece, and if it is not there yet then for some more: so a session that is
// faster than the engine sleeps once for all of them. (No spin: a piece takes longer.)
static int window_wait(struct session *session, uint32_t index)
{
    const struct keystream_window *window = &session->keystream.windows[index];
    uint32_t slot = window_slot(window, 0), n = window_step(window);

    if (ring_is_done(session, slot))
        return 0;
    int r = ring_wait(session, window_slot(window, (n < window->n ? n : window->n) - 1), 0);
    if (r == 0 || (r == -ETIMEDOUT && ring_is_done(session, slot)))
        r = ring_wait(session, slot, 0);
    return r;
}

int keystream_await(struct session *session, uint32_t index)
{
    uint32_t slot = window_slot(&session->keystream.windows[index], 0);
    struct keystream_piece *piece = &session->keystream.pieces[slot];

    if (piece->is_claimed)
        return 0;
    int r = window_wait(session, index);
    if (r < 0)
        return r;
    r = ring_result(session, slot);
    if (r != 0)
        return r == -EUSERS ? r : -EIO;
    if (!shm_claim(slot_done(session, slot), SHM_CLAIM_CLIENT))
        return -ESTALE;
    piece->is_claimed = true;
    explicit_bzero(shm_data(&session->map, slot), piece->n_passed);
    return 0;
}

size_t keystream_use(struct session *session, uint32_t index, uint8_t *out, const uint8_t *in,
                     size_t n_bytes)
{
    struct keystream_table *table = &session->keystream;
    struct keystream_window *window = &table->windows[index];
    uint32_t slot = window_slot(window, 0);
    struct keystream_piece *piece = &table->pieces[slot];
    uint32_t left = piece->n_bytes - piece->n_passed;
    size_t n = n_bytes < left ? n_bytes : left, n_done = 0;

    while (n_done < n) {
        size_t n_chunk = n - n_done < sizeof table->copy ? n - n_done : sizeof table->copy;
        uint8_t *keystream = shm_data(&session->map, slot) + piece->n_passed;
        memcpy(table->copy, keystream, n_chunk);
        if (!session_is_intact(session)) {
            explicit_bzero(table->copy, n_chunk);
            return n_done;
        }
        explicit_bzero(keystream, n_chunk);
        keystream_xor(out + n_done, in + n_done, table->copy, n_chunk);
        piece->n_passed += (uint32_t)n_chunk;
        n_done += n_chunk;
    }
    if (piece->n_passed == piece->n_bytes)
        window_pop(session, window);
    return n_done;
}

static bool window_is_last_in_use(const struct keystream_table *table,
                                  const struct keystream_window *window)
{
    return window->n == 1 && table->pieces[window_slot(window, 0)].is_claimed;
}

uint32_t keystream_room(struct session *session, uint32_t index)
{
    struct keystream_table *table = &session->keystream;
    struct keystream_window *window = &table->windows[index];

    if (window->size > 0 && window->n + window_step(window) > window->size &&
        !window_is_last_in_use(table, window))
        return 0;
    window_collect_returning(session);
    uint32_t size = window->size == 0 ? 1 : 2 * (uint32_t)window->size;
    window->size = (uint8_t)(size < table->n_most ? size : table->n_most);
    uint32_t room = window->size > window->n ? (uint32_t)window->size - window->n : 0;
    uint32_t n_free = (uint32_t)__builtin_popcountll(table->free);
    return room < n_free ? room : n_free;
}

void keystream_put(struct session *session, uint32_t index, struct keystream_place start,
                   uint32_t n_bytes, const uint8_t *iv)
{
    struct keystream_table *table = &session->keystream;
    struct keystream_window *window = &table->windows[index];
    uint32_t slot = (uint32_t)__builtin_ctzll(table->free);
    struct shm_request request = {
        .stream = index, .operation = SHM_OP_KEYSTREAM, .n_bytes = n_bytes, .slot = slot};

    memcpy(request.iv, iv, sizeof request.iv);
    table->free &= ~RING_SLOT_BIT(slot);
    table->pieces[slot] = (struct keystream_piece){.start = start, .n_bytes = n_bytes};
    window->slots[(window->first + window->n) % KEYSTREAM_PIECES_MAX] = (uint8_t)slot;
    window->n++;
    atomic_store_explicit(&slot_done(session, slot)->claim, SHM_CLAIM_NOBODY, memory_order_relaxed);
    ring_put(session, &request);
}

uint64_t keystream_slots(const struct session *session, uint32_t index)
{
    const struct keystream_window *window = &session->keystream.windows[index];
    uint64_t slots = 0;

    for (uint32_t i = 0; i < window->n; i++)
        slots |= RING_SLOT_BIT(window_slot(window, i));
    return slots;
}

void keystream_drop(struct session *session, uint32_t index)
{
    struct keystream_window *window = &session->keystream.windows[index];

    while (window->n > 0)
        window_pop(session, window);
    window->size = 0;
}
