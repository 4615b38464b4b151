// SPDX-License-Identifier: MIT
// Making, checking and mapping a channel's shared memory.
// Guarantees: memory that passed shm_check() cannot shrink (no SIGBUS) and was allocated in full
// when it was checked. Must not know what the memory is used for.
#include "shm.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U // Linux 6.3; required where sysctl vm.memfd_noexec is 2
#endif

#define SEALS_WANTED    (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define SEALS_FORBIDDEN (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)

size_t shm_size(uint32_t n_slots)
{
    if (n_slots == 0 || n_slots > SHM_SLOTS_MAX || (n_slots & (n_slots - 1)) != 0)
        return 0;
    return SHM_OFF_DATA + (size_t)n_slots * SHM_SLOT_SIZE;
}

static bool geometry_is_valid(uint32_t n_slots, uint32_t n_streams)
{
    return shm_size(n_slots) != 0 && n_streams != 0 && n_streams <= SHM_STREAMS_MAX;
}

size_t shm_allocated_size(uint32_t n_slots)
{
    return shm_size(n_slots < SHM_SLOTS_REQUEST ? n_slots : SHM_SLOTS_REQUEST);
}

static int range_allocate(int fd, int mode, size_t offset, size_t size)
{
    while (fallocate(fd, mode, (off_t)offset, (off_t)size) < 0) {
        if (errno != EINTR)
            return -errno;
    }
    return 0;
}

int shm_slot_allocate(int fd, uint32_t slot)
{
    return range_allocate(fd, 0, SHM_OFF_DATA + (size_t)slot * SHM_SLOT_SIZE, SHM_SLOT_SIZE);
}

int shm_slot_free(int fd, uint32_t slot)
{
    return range_allocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                          SHM_OFF_DATA + (size_t)slot * SHM_SLOT_SIZE, SHM_SLOT_SIZE);
}

static int memfd_make(void)
{
    int fd = memfd_create("cryptod", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

    if (fd < 0 && errno == EINVAL) // before Linux 6.3
        fd = memfd_create("cryptod", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return fd < 0 ? -errno : fd;
}

// Gives the memfd its size, its pages and its seals.
static int memfd_settle(int fd, uint32_t n_slots)
{
    const size_t size = shm_size(n_slots);
    struct rlimit limit;
    int r;

    // Growing a memfd past RLIMIT_FSIZE is answered with SIGXFSZ, as for any file: a session must
    // not die of it.
    if (getrlimit(RLIMIT_FSIZE, &limit) < 0)
        return -errno;
    if (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < size)
        return -EFBIG;
    if (ftruncate(fd, (off_t)size) < 0)
        return -errno;
    r = range_allocate(fd, 0, 0, shm_allocated_size(n_slots));
    if (r < 0)
        return r;
    if (fcntl(fd, F_ADD_SEALS, SEALS_WANTED) < 0)
        return -errno;
    return 0;
}

static int map_make(int fd, uint32_t n_slots, uint32_t n_streams, struct shm_map *ret)
{
    size_t size = shm_size(n_slots);
    void *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (base == MAP_FAILED)
        return -errno;
    *ret = (struct shm_map){
        .base = base,
        .size = size,
        .n_slots = n_slots,
        .n_streams = n_streams,
    };
    return 0;
}

static void header_init(const struct shm_map *map)
{
    struct shm_header *header = shm_header(map);

    header->magic = SHM_MAGIC;
    header->version = SHM_VERSION;
    header->size = (uint32_t)map->size;
    header->n_slots = map->n_slots;
    // The engine sleeps until it looks for the first time: whoever submits before that must ring.
    shm_wait_begin(&header->engine_waits);
}

int shm_create(uint32_t n_slots, uint32_t n_streams, struct shm_map *ret_map, int *ret_fd)
{
    struct shm_map map = {.base = NULL};
    int fd, r;

    if (!geometry_is_valid(n_slots, n_streams))
        return -ERANGE;
    fd = memfd_make();
    if (fd < 0)
        return fd;
    r = memfd_settle(fd, n_slots);
    if (r == 0)
        r = map_make(fd, n_slots, n_streams, &map);
    if (r < 0) {
        close(fd);
        return r;
    }
    // Both best effort: kernels without them and small limits must not cost the channel.
    (void)madvise(map.base, map.size, MADV_DONTDUMP);
    (void)mlock2(map.base, map.size, MLOCK_ONFAULT); // keystream slots have no pages yet
    header_init(&map);
    *ret_map = map;
    *ret_fd = fd;
    return 0;
}

int shm_check(int fd, uint32_t n_slots, uint32_t n_streams)
{
    struct stat st;
    struct statfs fs;
    int flags, seals;

    if (!geometry_is_valid(n_slots, n_streams))
        return -ERANGE;
    flags = fcntl(fd, F_GETFL);
    if (flags < 0)
        return -errno;
    if ((flags & O_ACCMODE) != O_RDWR)
        return -EMEDIUMTYPE;
    seals = fcntl(fd, F_GET_SEALS); // EINVAL for what is neither memfd nor tmpfs
    if (seals < 0 || (seals & SEALS_WANTED) != SEALS_WANTED || (seals & SEALS_FORBIDDEN) != 0)
        return -EMEDIUMTYPE;
    if (fstat(fd, &st) < 0 || fstatfs(fd, &fs) < 0)
        return -errno;
    // Huge page memory has seals too; its pages come from a pool that can be empty at the first
    // touch: SIGBUS.
    if (!S_ISREG(st.st_mode) || fs.f_type != TMPFS_MAGIC)
        return -EMEDIUMTYPE;
    if (st.st_size != (off_t)shm_size(n_slots))
        return -ERANGE;
    // The daemon must not be the one who allocates, in its own account, what a client only
    // promised.
    if (st.st_blocks < 0 || (uint64_t)st.st_blocks * 512 < shm_allocated_size(n_slots))
        return -ENOSPC;
    return 0;
}

int shm_attach(int fd, uint32_t n_slots, uint32_t n_streams, struct shm_map *ret_map)
{
    int r = shm_check(fd, n_slots, n_streams);

    return r < 0 ? r : map_make(fd, n_slots, n_streams, ret_map);
}

void shm_unmap(struct shm_map *map)
{
    if (map->base)
        (void)munmap(map->base, map->size);
    *map = (struct shm_map){.base = NULL};
}
