// SPDX-License-Identifier: MIT
// Layout of a channel's shared memory, version 1, and the only code that touches its index words.
//
// The client makes it (memfd, sealed with F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), both sides
// map it. Everything in it is hostile to the engine: each field is read once into a local copy,
// then checked, then used.
//
//      offset  size
//           0  4096  struct shm_header      index words and sleep flags, one cache line each
//        4096  4096  struct shm_request     [SHM_SLOTS_MAX], written by the client
//        8192  4096  struct shm_done        [SHM_SLOTS_MAX], written by the engine
//       12288  4096  struct shm_stream      [SHM_STREAMS_MAX], the client puts keys here, the
//       engine wipes them 16384  n_slots * 65536              data slots, page aligned
//
// A request names its data slot by number, and has it to itself until it is done. A request of the
// request lane (encrypt, decrypt) finds its input in the slot and leaves its output there. A
// keystream request has no input: the engine fills the slot. The slots from SHM_SLOTS_REQUEST on
// are for keystream alone and have no memory at first: the engine allocates a slot's pages when it
// fills it for the first time, and takes them back from a channel that is idle.
//
// Who has a filled keystream slot: `claim` in its shm_done. The client sets it to SHM_CLAIM_NOBODY
// before it submits. Before the client uses the keystream it must exchange NOBODY for CLIENT,
// before the engine takes the pages back it must exchange NOBODY for ENGINE. So a client never
// takes the zeroes of a slot without pages for keystream.
//
// Who sleeps: each side sets its own `waits` word to 1 before it goes to sleep and then looks once
// more for work; the other side, after it has published work, exchanges that word with 0 and rings
// the bell (one byte) if it was 1. Both touch the word with read-modify-write operations alone:
// these have one order, so either the publisher sees the 1, or the sleeper, coming later, sees the
// work. A busy pair makes no system call. A client says which slot it sleeps for, so that what is
// done before that does not wake it. (No futex: a private futex on shared memory loses
// wake-ups, and sshd's filter has opinions.)
#ifndef CRYPTOD_PROTOCOL_SHM_H
#define CRYPTOD_PROTOCOL_SHM_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHM_MAGIC       0x44505943u // "CYPD"
#define SHM_VERSION     1u
#define SHM_SLOTS_MAX   64u
#define SHM_STREAMS_MAX 32u
#define SHM_SLOT_SIZE   65536u // bytes; also the largest request
#define SHM_OFF_REQUEST 4096u
#define SHM_OFF_DONE    8192u
#define SHM_OFF_STREAM  12288u
#define SHM_OFF_DATA    16384u

#define SHM_OP_ENCRYPT   1u
#define SHM_OP_DECRYPT   2u
#define SHM_OP_KEYSTREAM 3u

#define SHM_SLOTS_REQUEST 4u // slots of the request lane, allocated by the client

#define SHM_WAITS_ANY        1u
#define SHM_WAITS_SLOT(slot) ((slot) + 2u)

#define SHM_CLAIM_NOBODY 0u
#define SHM_CLAIM_CLIENT 1u
#define SHM_CLAIM_ENGINE 2u

struct shm_header {
    uint32_t magic; // informational: the geometry that counts travels in HELLO
    uint32_t version;
    uint32_t size;
    uint32_t n_slots;
    uint8_t pad0[48];
    _Atomic uint32_t submitted; // client: count of requests published, modulo 2^32
    uint8_t pad1[60];
    _Atomic uint32_t engine_waits; // engine: 1 = ring the bell after submitting
    uint8_t pad2[60];
    _Atomic uint32_t client_waits; // client: 1 = ring the bell after completing anything, 2 and
                                   // more: after completing slot client_waits - 2
    uint8_t pad3[60];
    _Atomic uint64_t software_bytes; // client: for the statistics only
    _Atomic uint64_t fallbacks;      // client: times it left a lane because of trouble
    _Atomic uint64_t lane_changes;   // client: times it left a lane because it lost
    uint8_t pad4[40];
};

struct shm_request {    // 64 bytes
    uint32_t sequence;  // value of `submitted` before this request was published; its place is
                        // sequence % n_slots
    uint32_t stream;    // index below n_streams
    uint32_t operation; // SHM_OP_*
    uint32_t n_bytes;   // 1 .. SHM_SLOT_SIZE, multiple of the algorithm's n_block; keystream: of
                        // n_cipher_block
    uint8_t iv[16]; // first n_iv bytes count; CTR, ChaCha20: the counter block of the first byte
    uint32_t slot;  // below n_slots
    uint8_t reserved[28]; // zero
};

// The request hangs in a driver that may still write into the slot, or never come back.
#define SHM_RESULT_LOST (-EOWNERDEAD)

struct shm_done {              // 64 bytes
    _Atomic uint32_t sequence; // engine: the request's sequence + 1, stored last (release)
    _Atomic int32_t result;    // 0, or a negative errno: the client does that piece itself
                               // SHM_RESULT_LOST: and never uses the slot again
    _Atomic uint32_t claim;    // SHM_CLAIM_*, of a filled keystream slot
    uint8_t reserved[52];
};

struct shm_stream {  // 128 bytes
    uint8_t key[64]; // client writes before STREAM_OPEN; the engine copies, then wipes
    uint8_t reserved[64];
};

_Static_assert(sizeof(struct shm_header) == 320, "layout");
_Static_assert(offsetof(struct shm_header, submitted) == 64, "layout");
_Static_assert(offsetof(struct shm_header, engine_waits) == 128, "layout");
_Static_assert(offsetof(struct shm_header, client_waits) == 192, "layout");
_Static_assert(offsetof(struct shm_header, software_bytes) == 256, "layout");
_Static_assert(sizeof(struct shm_request) == 64, "layout");
_Static_assert(sizeof(struct shm_done) == 64, "layout");
_Static_assert(sizeof(struct shm_stream) == 128, "layout");
_Static_assert(SHM_SLOTS_MAX * sizeof(struct shm_request) <= 4096, "layout");
_Static_assert(SHM_STREAMS_MAX * sizeof(struct shm_stream) <= 4096, "layout");

// A mapping with its checked geometry. Plain data; whoever embeds it owns the mapping.
struct shm_map {
    uint8_t *base;
    size_t size;      // bytes mapped
    uint32_t n_slots; // 1 .. SHM_SLOTS_MAX, a power of two
    uint32_t n_streams;
};

// Bytes that a channel with n_slots takes, or 0 if n_slots is not a power of two up to
// SHM_SLOTS_MAX. (With any other number two requests in a row would meet in one slot where the
// sequence passes 2^32.)
size_t shm_size(uint32_t n_slots);

// How many of them the client allocates itself: all but the keystream slots.
size_t shm_allocated_size(uint32_t n_slots);

// Client: makes the memfd (CLOEXEC, sealed; all but the keystream slots allocated with fallocate),
// maps it (MAP_SHARED, DONTDUMP, locked page by page as it is touched if the limit allows), fills
// in the header with engine_waits = 1: the engine sleeps until it has looked for the first time.
// *ret_fd is the caller's to close. 0 or a negative errno (-EFBIG: over RLIMIT_FSIZE, which would
// mean SIGXFSZ).
int shm_create(uint32_t n_slots, uint32_t n_streams, struct shm_map *ret_map, int *ret_fd);

// Daemon: 0 if fd is a memfd with exactly the three seals' effect (no shrink, no grow, no more
// seals; no write seal), not huge-page, exactly shm_size(n_slots) bytes, all but the keystream
// slots allocated; else a negative errno
// (-EMEDIUMTYPE: not a memfd, not open for reading and writing, or wrong seals; -ERANGE: geometry;
// -ENOSPC: sparse). System calls: fcntl(F_GETFL), fcntl(F_GET_SEALS), fstat (glibc 2.33 to 2.38:
// newfstatat(fd, "", AT_EMPTY_PATH); 32-bit: fcntl64, fstat64 or statx), fstatfs (32-bit:
// fstatfs64). No other.
int shm_check(int fd, uint32_t n_slots, uint32_t n_streams);

// Engine: checks again as shm_check does, then maps. 0 or a negative errno.
// System calls: those of shm_check, and mmap(PROT_READ|PROT_WRITE, MAP_SHARED) (32-bit: mmap2);
// shm_unmap: munmap.
int shm_attach(int fd, uint32_t n_slots, uint32_t n_streams, struct shm_map *ret_map);

// Engine: gives a keystream slot its pages, so that touching them cannot fail; takes them back (it
// reads as zeroes then). 0 or a negative errno (-ENOSPC, -ENOMEM). System call: fallocate. fd is
// the memfd.
int shm_slot_allocate(int fd, uint32_t slot);
int shm_slot_free(int fd, uint32_t slot);

// Unmaps; leaves *map empty. Safe on an empty map, in a sandbox (munmap) and in a forked child.
void shm_unmap(struct shm_map *map);

static inline struct shm_header *shm_header(const struct shm_map *map)
{
    return (struct shm_header *)(void *)map->base;
}

static inline struct shm_request *shm_request(const struct shm_map *map, uint32_t sequence)
{
    struct shm_request *table = (struct shm_request *)(void *)(map->base + SHM_OFF_REQUEST);
    return &table[sequence % map->n_slots];
}

static inline struct shm_done *shm_done(const struct shm_map *map, uint32_t slot)
{
    struct shm_done *table = (struct shm_done *)(void *)(map->base + SHM_OFF_DONE);
    return &table[slot % map->n_slots];
}

static inline struct shm_stream *shm_stream(const struct shm_map *map, uint32_t stream)
{
    struct shm_stream *table = (struct shm_stream *)(void *)(map->base + SHM_OFF_STREAM);
    return &table[stream % SHM_STREAMS_MAX];
}

static inline uint8_t *shm_data(const struct shm_map *map, uint32_t slot)
{
    return map->base + SHM_OFF_DATA + (size_t)(slot % map->n_slots) * SHM_SLOT_SIZE;
}

// Either side: takes a filled keystream slot (claim: SHM_CLAIM_CLIENT or SHM_CLAIM_ENGINE). false:
// the other side has it.
static inline bool shm_claim(struct shm_done *done, uint32_t claim)
{
    uint32_t nobody = SHM_CLAIM_NOBODY;
    return atomic_compare_exchange_strong_explicit(&done->claim, &nobody, claim,
                                                   memory_order_acq_rel, memory_order_relaxed);
}

// Either side, before it sleeps: announces it. Look for work again after this, then sleep.
static inline void shm_wait_begin(_Atomic uint32_t *waits)
{
    (void)atomic_exchange_explicit(waits, SHM_WAITS_ANY, memory_order_acq_rel);
}

// The client, the same, if it is to be woken for one slot alone.
static inline void shm_wait_begin_slot(_Atomic uint32_t *waits, uint32_t slot)
{
    (void)atomic_exchange_explicit(waits, SHM_WAITS_SLOT(slot), memory_order_acq_rel);
}

// Either side, when it found work before it slept, or woke for another reason. Not a plain store:
// that would hide from the next shm_wait_begin() what the other side published before it last
// exchanged the word.
static inline void shm_wait_end(_Atomic uint32_t *waits)
{
    (void)atomic_exchange_explicit(waits, 0, memory_order_acq_rel);
}

// Either side, after it published work: true if the bell must be rung (and the word is cleared).
static inline bool shm_must_ring(_Atomic uint32_t *waits)
{
    return atomic_exchange_explicit(waits, 0, memory_order_acq_rel) != 0;
}

// The engine, after it completed a slot: the same.
static inline bool shm_must_ring_slot(_Atomic uint32_t *waits, uint32_t slot)
{
    uint32_t value = atomic_fetch_or_explicit(waits, 0, memory_order_acq_rel); // see above

    return (value == SHM_WAITS_ANY || value == SHM_WAITS_SLOT(slot)) && shm_must_ring(waits);
}

#endif
