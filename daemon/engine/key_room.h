// SPDX-License-Identifier: MIT
// The keys that are set in one driver just now. Some drivers take few (virtio-crypto 128), so they
// are counted, and a stream that needs one while the driver has no room gets that of the stream
// which has been idle for longest. Knows neither backends nor algorithms.
//
// Threads: any; nothing here waits for a driver: that is the keeper's, who sets keys for streams
// that are opened, and closes those of streams that are gone.
#ifndef CRYPTOD_DAEMON_KEY_ROOM_H
#define CRYPTOD_DAEMON_KEY_ROOM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "backend.h"
#include "keeper.h"

#define KEY_ROOM_IDLE_MS 1000u // a key used later than that ago is not taken from its stream

struct key_room;

// Of one (algorithm, backend), for the status. Zeroed at first.
struct key_count {
    _Atomic uint32_t n_set;   // now
    _Atomic uint64_t n_lacks; // how often there was no room, and nobody idle
};

// A stream's place; embedded. Zeroed: no key is set.
struct key_place {
    struct key_place *before; // in the order of the last use
    struct key_place *after;
    struct backend_key *set; // NULL: none, or it was taken
    struct key_count *count;
    uint64_t used_ms;
    uint32_t n_users; // threads that use it just now
};

// 0 or a negative errno.
int key_room_new(struct key_room **ret);

// No job can come any more. Waits for those that are left, up to a second, and leaves a keeper that
// hangs all that it has. NULL is allowed.
void key_room_free(struct key_room *room);

struct keeper *key_room_keeper(struct key_room *room);

// Puts a key that was set into a place without one, as used just now.
void key_room_put(struct key_room *room, struct key_place *place, struct backend_key *set,
                  struct key_count *count);

// The key of the place, which stays set until key_room_leave(); NULL: it has none.
struct backend_key *key_room_enter(struct key_room *room, struct key_place *place);
void key_room_leave(struct key_room *room, struct key_place *place);

// Takes the key away that has been idle for longest, for the caller to close; NULL: none is idle.
struct backend_key *key_room_take_idle(struct key_room *room);

// Leaves the place's own key, and the place, to a driver that hangs, until the process ends.
void key_room_leave_behind(struct key_room *room, struct key_place *place);

// Takes the place's own key, at its end: nobody may use it. NULL: it has none.
struct backend_key *key_room_clear(struct key_room *room, struct key_place *place);

#endif
