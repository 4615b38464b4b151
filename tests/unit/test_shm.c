// SPDX-License-Identifier: MIT
// Making and checking shared memory: what shm_create() makes is accepted, and anything that could
// hurt the one who maps it is refused.
#include "shm.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define N_SLOTS   4u
#define N_STREAMS 16u
#define SEALS     (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static off_t right_size(void)
{
    return (off_t)shm_size(N_SLOTS);
}

static int make_memfd(unsigned flags, off_t size, bool allocate, int seals)
{
    int fd = memfd_create("test", MFD_CLOEXEC | flags);

    cr_assert(fd >= 0, "%s", strerror(errno));
    cr_assert_eq(ftruncate(fd, size), 0);
    if (allocate)
        cr_assert_eq(fallocate(fd, 0, 0, size), 0);
    if (seals != 0)
        cr_assert_eq(fcntl(fd, F_ADD_SEALS, seals), 0, "%s", strerror(errno));
    return fd;
}

// Check and attach must both refuse, and attach must leave its output alone.
static void expect_check(int fd, int want, const char *what)
{
    struct shm_map map = {.base = (uint8_t *)&map}, before = map;
    int r = shm_check(fd, N_SLOTS, N_STREAMS);

    cr_expect_eq(r, want, "%s: %s", what, strerror(-r));
    if (want < 0) {
        cr_expect_eq(shm_attach(fd, N_SLOTS, N_STREAMS, &map), want, "%s: attach", what);
        cr_expect_eq(memcmp(&map, &before, sizeof map), 0, "%s: touched on failure", what);
    }
    if (fd >= 0)
        close(fd);
}

static int lowest_free_fd(void)
{
    int fd = fcntl(0, F_DUPFD_CLOEXEC, 0);

    close(fd);
    return fd;
}

Test(shm, size_of_each_geometry)
{
    for (uint32_t n = 0; n <= SHM_SLOTS_MAX + 1; n++) {
        bool power = n == 1 || n == 2 || n == 4 || n == 8 || n == 16 || n == 32 || n == 64;
        cr_expect_eq(shm_size(n), power ? 16384 + n * 65536 : 0, "%u slots", n);
    }
    cr_expect_eq(shm_size(128), 0);
    cr_expect_eq(shm_size(0x80000000), 0);
    cr_expect_eq(shm_size(UINT32_MAX), 0);
}

Test(shm, created_memory_is_accepted_in_each_geometry)
{
    for (uint32_t n = 1; n <= SHM_SLOTS_MAX; n *= 2) {
        struct shm_map client = {0}, engine = {0};
        int fd = -1;
        cr_assert_eq(shm_create(n, SHM_STREAMS_MAX, &client, &fd), 0);
        cr_expect_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
        cr_expect_eq(client.size, shm_size(n));
        cr_expect_eq(client.n_slots, n);
        cr_expect_eq(client.n_streams, SHM_STREAMS_MAX);
        cr_assert_eq(shm_check(fd, n, SHM_STREAMS_MAX), 0);
        cr_assert_eq(shm_attach(fd, n, SHM_STREAMS_MAX, &engine), 0);
        close(fd);
        cr_expect_neq(client.base, engine.base);
        client.base[client.size - 1] = 0x5a; // the last byte, seen by the other side
        cr_expect_eq(engine.base[engine.size - 1], 0x5a);
        shm_unmap(&client);
        cr_expect_eq(engine.base[engine.size - 1], 0x5a, "mappings are independent");
        shm_unmap(&engine);
        cr_expect_eq(engine.base, NULL);
        cr_expect_eq(engine.size, 0);
        shm_unmap(&engine); // safe on an empty map
    }
}

Test(shm, created_memory_cannot_be_resized_or_unsealed)
{
    struct shm_map map;
    int fd;

    cr_assert_eq(shm_create(N_SLOTS, N_STREAMS, &map, &fd), 0);
    cr_expect(ftruncate(fd, 0) < 0 && errno == EPERM);
    cr_expect(ftruncate(fd, right_size() + 1) < 0 && errno == EPERM);
    cr_expect(fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) < 0 && errno == EPERM);
    shm_unmap(&map);
    close(fd);
}

Test(shm, header_of_created_memory)
{
    struct shm_map map;
    int fd;

    cr_assert_eq(shm_create(N_SLOTS, N_STREAMS, &map, &fd), 0);
    struct shm_header *header = shm_header(&map);
    cr_expect_eq(memcmp(map.base, "CYPD", 4), 0);
    cr_expect_eq(header->version, SHM_VERSION);
    cr_expect_eq(header->size, (uint32_t)right_size());
    cr_expect_eq(header->n_slots, N_SLOTS);
    cr_expect_eq(header->submitted, 0);
    cr_expect_eq(header->engine_waits, 1, "whoever submits first must ring");
    cr_expect_eq(header->client_waits, 0);
    for (size_t i = sizeof *header; i < map.size; i++)
        cr_assert_eq(map.base[i], 0);
    shm_unmap(&map);
    close(fd);
}

// Keys lie in it: a core file must not have them. "dd" in the flags of smaps is MADV_DONTDUMP.
Test(shm, created_memory_is_not_dumped)
{
    struct shm_map map;
    int fd;
    char line[256], start[32];
    bool in_it = false, not_dumped = false;

    cr_assert_eq(shm_create(N_SLOTS, N_STREAMS, &map, &fd), 0);
    snprintf(start, sizeof start, "%lx-", (unsigned long)map.base);
    FILE *file = fopen("/proc/self/smaps", "re");
    if (!file)
        cr_skip_test("no /proc/self/smaps");
    while (fgets(line, sizeof line, file)) {
        if (strncmp(line, start, strlen(start)) == 0)
            in_it = true;
        if (in_it && strncmp(line, "VmFlags:", 8) == 0) {
            not_dumped = strstr(line, " dd") != NULL;
            break;
        }
    }
    fclose(file);
    cr_expect(in_it);
    cr_expect(not_dumped, "%s", line);
    shm_unmap(&map);
    close(fd);
}

Test(shm, other_geometries_are_refused)
{
    static const uint32_t pairs[][2] = {
        {0, 1},
        {3, 1},
        {65, 1},
        {128, 1},
        {UINT32_MAX, 1},
        {N_SLOTS, 0},
        {N_SLOTS, SHM_STREAMS_MAX + 1},
        {N_SLOTS, UINT32_MAX},
    };
    struct shm_map map = {.base = NULL};
    int fd = -7, good = make_memfd(MFD_ALLOW_SEALING, right_size(), true, SEALS);

    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        cr_expect_eq(shm_create(pairs[i][0], pairs[i][1], &map, &fd), -ERANGE);
        cr_expect_eq(shm_check(good, pairs[i][0], pairs[i][1]), -ERANGE);
        cr_expect_eq(shm_attach(good, pairs[i][0], pairs[i][1], &map), -ERANGE);
    }
    cr_expect(map.base == NULL && fd == -7, "touched on failure");
    expect_check(good, 0, "the descriptor itself");
}

// All 32 sets of five seals: the three must be there, the two others must not.
Test(shm, each_set_of_seals)
{
    static const int seal[] = {F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_SEAL, F_SEAL_WRITE,
                               F_SEAL_FUTURE_WRITE};

    for (unsigned set = 0; set < 32; set++) {
        int seals = 0;
        char what[32];
        for (unsigned i = 0; i < 5; i++)
            seals |= set & 1u << i ? seal[i] : 0;
        snprintf(what, sizeof what, "seals %#x", (unsigned)seals);
        expect_check(make_memfd(MFD_ALLOW_SEALING, right_size(), true, seals),
                     set == 7 ? 0 : -EMEDIUMTYPE, what);
    }
    // Made without MFD_ALLOW_SEALING it has F_SEAL_SEAL alone.
    expect_check(make_memfd(0, right_size(), true, 0), -EMEDIUMTYPE, "not sealable");
}

Test(shm, wrong_sizes)
{
    static const off_t off_by[] = {1, -1, 512, -512, 4096, -4096, 65536, -65536};

    expect_check(make_memfd(MFD_ALLOW_SEALING, 0, false, SEALS), -ERANGE, "empty");
    for (size_t i = 0; i < sizeof off_by / sizeof off_by[0]; i++)
        expect_check(make_memfd(MFD_ALLOW_SEALING, right_size() + off_by[i], true, SEALS), -ERANGE,
                     "wrong size");
    expect_check(make_memfd(MFD_ALLOW_SEALING, (off_t)1 << 40, false, SEALS), -ERANGE, "huge");
}

Test(shm, memory_that_is_only_promised)
{
    long page = sysconf(_SC_PAGESIZE);
    int fd = make_memfd(MFD_ALLOW_SEALING, right_size(), false, SEALS);

    cr_assert_eq(pwrite(fd, "x", 1, right_size() - 1), 1); // one page of it
    expect_check(fd, -ENOSPC, "sparse");
    fd = make_memfd(MFD_ALLOW_SEALING, right_size(), true, SEALS);
    cr_assert_eq(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, page, page), 0);
    expect_check(fd, -ENOSPC, "a hole of one page");
}

static int reopen(int fd, int flags)
{
    char path[64];
    int again;

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    again = open(path, flags | O_CLOEXEC);
    cr_assert(again >= 0, "%s", strerror(errno));
    close(fd);
    return again;
}

Test(shm, descriptor_opened_otherwise)
{
    expect_check(reopen(make_memfd(MFD_ALLOW_SEALING, right_size(), true, SEALS), O_RDWR), 0,
                 "again");
    expect_check(reopen(make_memfd(MFD_ALLOW_SEALING, right_size(), true, SEALS), O_RDONLY),
                 -EMEDIUMTYPE, "read-only");
    expect_check(reopen(make_memfd(MFD_ALLOW_SEALING, right_size(), true, SEALS), O_WRONLY),
                 -EMEDIUMTYPE, "write-only");
    expect_check(reopen(make_memfd(MFD_ALLOW_SEALING, right_size(), true, SEALS), O_PATH),
                 -EMEDIUMTYPE, "path only");
}

static int make_file(const char *pattern)
{
    char path[64];

    strcpy(path, pattern);
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0)
        return fd;
    unlink(path);
    if (ftruncate(fd, right_size()) < 0 || posix_fallocate(fd, 0, right_size()) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

Test(shm, files_of_a_file_system)
{
    int fd = make_file("/tmp/test-shm-XXXXXX");

    cr_assert(fd >= 0);
    expect_check(fd, -EMEDIUMTYPE, "file");
    fd = make_file("/dev/shm/test-shm-XXXXXX"); // tmpfs as a memfd is, but it can be truncated
    if (fd < 0)
        cr_skip_test("/dev/shm cannot be written");
    expect_check(fd, -EMEDIUMTYPE, "tmpfs file");
}

Test(shm, what_is_no_file)
{
    int s[2], p[2];

    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s), 0);
    cr_assert_eq(pipe2(p, O_CLOEXEC), 0);
    expect_check(s[0], -EMEDIUMTYPE, "socket");
    expect_check(p[0], -EMEDIUMTYPE, "pipe");
    expect_check(open("/dev/null", O_RDWR | O_CLOEXEC), -EMEDIUMTYPE, "device");
    expect_check(open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC), -EMEDIUMTYPE, "folder");
    expect_check(-1, -EBADF, "none");
}

// Needs no page of the pool: it is refused before anything is allocated.
Test(shm, huge_pages)
{
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);

    if (fd < 0)
        cr_skip_test("this kernel makes no memfd of huge pages");
    cr_assert_eq(fcntl(fd, F_ADD_SEALS, SEALS), 0);
    expect_check(fd, -EMEDIUMTYPE, "huge pages");
}

// Without a look at the limit the kernel would send SIGXFSZ, which ends a process.
Test(shm, file_size_limit_is_an_error_and_no_signal)
{
    struct rlimit limit;
    struct shm_map map = {.base = NULL};
    int fd = -7, next = lowest_free_fd();

    cr_assert_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = (rlim_t)right_size() - 1;
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    cr_expect_eq(shm_create(N_SLOTS, N_STREAMS, &map, &fd), -EFBIG);
    cr_expect(map.base == NULL && fd == -7, "touched on failure");
    cr_expect_eq(lowest_free_fd(), next, "a descriptor was left open");
    limit.rlim_cur++;
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    cr_expect_eq(shm_create(N_SLOTS, N_STREAMS, &map, &fd), 0, "exactly enough");
}

Test(shm, descriptor_limit_is_an_error)
{
    struct rlimit limit = {0};
    struct shm_map map = {.base = NULL};
    int fd = -7;

    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = (rlim_t)lowest_free_fd();
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    cr_expect_eq(shm_create(N_SLOTS, N_STREAMS, &map, &fd), -EMFILE);
    cr_expect(map.base == NULL && fd == -7, "touched on failure");
}

Test(shm, address_space_limit_is_an_error)
{
    struct rlimit limit, small;
    struct shm_map map = {.base = NULL};
    int fd = -7, next = lowest_free_fd();

    cr_assert_eq(getrlimit(RLIMIT_AS, &limit), 0);
    small = limit;
    small.rlim_cur = 1;
    cr_assert_eq(setrlimit(RLIMIT_AS, &small), 0);
    int r = shm_create(N_SLOTS, N_STREAMS, &map, &fd);
    cr_assert_eq(setrlimit(RLIMIT_AS, &limit), 0);
    cr_expect_eq(r, -ENOMEM);
    cr_expect(map.base == NULL && fd == -7, "touched on failure");
    cr_expect_eq(lowest_free_fd(), next, "a descriptor was left open");
}

Test(shm, memory_that_cannot_be_locked_will_do)
{
    struct rlimit limit = {0};
    struct shm_map map;
    int fd;
    char page[1];

    cr_assert_eq(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
    if (geteuid() == 0)
        cr_assert_eq(seteuid(65534), 0); // root may lock without a limit
    // Not mlock(): a sanitizer makes that a call without effect.
    cr_assert(syscall(SYS_mlock, page, sizeof page) < 0, "this would test nothing");
    cr_assert_eq(shm_create(N_SLOTS, N_STREAMS, &map, &fd), 0);
    cr_expect_eq(shm_check(fd, N_SLOTS, N_STREAMS), 0);
    if (getuid() == 0)
        cr_assert_eq(seteuid(0), 0);
    prctl(PR_SET_DUMPABLE, 1); // lost with the uid; the leak check at exit needs it
}
