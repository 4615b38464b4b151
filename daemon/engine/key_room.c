// SPDX-License-Identifier: MIT
// Guarantees: a key is handed to one closer only, and never while somebody uses it. Must not know
// how keys are set and closed.
#include "key_room.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#define KEEPER_WAIT_MS 1000u

struct key_room {
    struct keeper *keeper;
    pthread_mutex_t mutex;
    struct key_place *oldest; // of the places with a key
    struct key_place *newest;
    struct key_place *left_behind;
};

// Coarse: a tick (4 ms or so) is enough, and it costs no system call where there is a vdso.
static uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

int key_room_new(struct key_room **ret)
{
    struct key_room *room = calloc(1, sizeof(*room));
    int r;

    if (!room)
        return -ENOMEM;
    r = keeper_new(&room->keeper);
    if (r == 0)
        r = -pthread_mutex_init(&room->mutex, NULL);
    if (r < 0) {
        (void)keeper_free(room->keeper, 0);
        free(room);
        return r;
    }
    *ret = room;
    return 0;
}

void key_room_free(struct key_room *room)
{
    if (!room || !keeper_free(room->keeper, KEEPER_WAIT_MS))
        return;
    assert(!room->oldest);
    pthread_mutex_destroy(&room->mutex);
    free(room);
}

struct keeper *key_room_keeper(struct key_room *room)
{
    return room->keeper;
}

static void append(struct key_room *room, struct key_place *place)
{
    place->after = NULL;
    place->before = room->newest;
    if (room->newest)
        room->newest->after = place;
    else
        room->oldest = place;
    room->newest = place;
}

static void take_out(struct key_room *room, struct key_place *place)
{
    if (place->before)
        place->before->after = place->after;
    else
        room->oldest = place->after;
    if (place->after)
        place->after->before = place->before;
    else
        room->newest = place->before;
    place->before = place->after = NULL;
}

static void touch(struct key_room *room, struct key_place *place)
{
    place->used_ms = now_ms();
    if (room->newest == place)
        return;
    take_out(room, place);
    append(room, place);
}

void key_room_put(struct key_room *room, struct key_place *place, struct backend_key *set,
                  struct key_count *count)
{
    pthread_mutex_lock(&room->mutex);
    place->set = set;
    place->count = count;
    place->used_ms = now_ms();
    append(room, place);
    atomic_fetch_add_explicit(&count->n_set, 1, memory_order_relaxed);
    pthread_mutex_unlock(&room->mutex);
}

struct backend_key *key_room_enter(struct key_room *room, struct key_place *place)
{
    struct backend_key *set;

    pthread_mutex_lock(&room->mutex);
    set = place->set;
    if (set) {
        place->n_users++;
        touch(room, place);
    }
    pthread_mutex_unlock(&room->mutex);
    return set;
}

void key_room_leave(struct key_room *room, struct key_place *place)
{
    pthread_mutex_lock(&room->mutex);
    place->n_users--;
    touch(room, place);
    pthread_mutex_unlock(&room->mutex);
}

static struct backend_key *empty(struct key_room *room, struct key_place *place)
{
    struct backend_key *set = place->set;

    take_out(room, place);
    place->set = NULL;
    atomic_fetch_sub_explicit(&place->count->n_set, 1, memory_order_relaxed);
    return set;
}

// The first that nobody uses is the oldest of those; what is younger than it is no older.
struct backend_key *key_room_take_idle(struct key_room *room)
{
    struct backend_key *set = NULL;
    struct key_place *place;

    pthread_mutex_lock(&room->mutex);
    place = room->oldest;
    while (place && place->n_users > 0)
        place = place->after;
    if (place && now_ms() - place->used_ms >= KEY_ROOM_IDLE_MS)
        set = empty(room, place);
    pthread_mutex_unlock(&room->mutex);
    return set;
}

void key_room_leave_behind(struct key_room *room, struct key_place *place)
{
    pthread_mutex_lock(&room->mutex);
    if (place->set) {
        take_out(room, place);
        atomic_fetch_sub_explicit(&place->count->n_set, 1, memory_order_relaxed);
    }
    place->after = room->left_behind;
    room->left_behind = place;
    pthread_mutex_unlock(&room->mutex);
}

struct backend_key *key_room_clear(struct key_room *room, struct key_place *place)
{
    struct backend_key *set = NULL;

    pthread_mutex_lock(&room->mutex);
    if (place->set)
        set = empty(room, place);
    pthread_mutex_unlock(&room->mutex);
    return set;
}
