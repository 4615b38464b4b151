// SPDX-License-Identifier: MIT
// What sandbox_limit_files() takes away, and what it leaves. Needs a kernel with Landlock; the
// words for one without are tested anywhere.
#include <criterion/criterion.h>
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "confined.h"

TestSuite(landlock, .timeout = 120);

// The kernel's ABI; skips the test if it has none.
static int abi_get(void)
{
    long abi =
        syscall(444, NULL, 0, 1u); // landlock_create_ruleset(.., LANDLOCK_CREATE_RULESET_VERSION)

    if (abi < 0)
        cr_skip_test("this kernel has no Landlock: %s", strerror(errno));
    return (int)abi;
}

static int opens(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC, 0600);

    if (fd < 0)
        return -errno;
    close(fd);
    return 0;
}

// ---------------------------------------------------------------- nothing at all

struct nothing {
    int abi;
    int file; // open before
};

static int nothing_run(const void *argument)
{
    const struct nothing *nothing = argument;
    char byte;

    CONFINED_STEP(sandbox_limit_files(NULL, 0) == nothing->abi);
    CONFINED_STEP(opens("/etc/passwd", O_RDONLY) == -EACCES);
    CONFINED_STEP(opens("/", O_RDONLY | O_DIRECTORY) == -EACCES);
    CONFINED_STEP(opens("/dev/null", O_RDWR) == -EACCES);
    CONFINED_STEP(opens("/proc/self/status", O_RDONLY) == -EACCES);
    CONFINED_STEP(opens("/tmp/cryptod-landlock-test", O_WRONLY | O_CREAT) == -EACCES);
    CONFINED_STEP(mkdir("/tmp/cryptod-landlock-test", 0700) < 0 && errno == EACCES);
    CONFINED_STEP(execl("/bin/true", "true", (char *)NULL) < 0 && errno == EACCES);
    // What is open, and memory that has no name, stay.
    CONFINED_STEP(read(nothing->file, &byte, 1) == 1);
    int memory = memfd_create("test", MFD_CLOEXEC);
    CONFINED_STEP(memory >= 0 && ftruncate(memory, 4096) == 0);
    CONFINED_STEP(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0) != MAP_FAILED);
    return 0;
}

Test(landlock, a_role_reaches_no_file)
{
    struct nothing nothing = {abi_get(), open("/etc/passwd", O_RDONLY | O_CLOEXEC)};

    cr_assert_geq(nothing.file, 0);
    confined_assert_exit(confined_run(nothing_run, &nothing), 0, "no file");
}

static int tcp_run(const void *argument)
{
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)argument;
    CONFINED_STEP(fd >= 0);
    CONFINED_STEP(sandbox_limit_files(NULL, 0) >= 4);
    CONFINED_STEP(bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0);
    CONFINED_STEP(errno == EACCES);
    CONFINED_STEP(connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0);
    CONFINED_STEP(errno == EACCES);
    return 0;
}

Test(landlock, a_role_reaches_no_port)
{
    if (abi_get() < 4)
        cr_skip_test("this kernel's Landlock does not know ports");
    confined_assert_exit(confined_run(tcp_run, NULL), 0, "no port");
}

static int signal_run(const void *argument)
{
    (void)argument;
    CONFINED_STEP(sandbox_limit_files(NULL, 0) >= 6);
    CONFINED_STEP(kill(getppid(), 0) < 0 && errno == EPERM);
    return 0;
}

Test(landlock, a_role_reaches_no_process)
{
    if (abi_get() < 6)
        cr_skip_test("this kernel's Landlock does not know signals");
    confined_assert_exit(confined_run(signal_run, NULL), 0, "no process");
}

// ---------------------------------------------------------------- places

struct folders {
    char top[64];
    char kept[96], read[96], other[96], file[128];
    char clear[96], cleared[128], full[128];
};

static struct folders folders;

static void folders_make(void)
{
    snprintf(folders.top, sizeof(folders.top), "/tmp/cryptod-landlock.XXXXXX");
    cr_assert_not_null(mkdtemp(folders.top));
    snprintf(folders.kept, sizeof(folders.kept), "%s/kept", folders.top);
    snprintf(folders.read, sizeof(folders.read), "%s/read", folders.top);
    snprintf(folders.other, sizeof(folders.other), "%s/other", folders.top);
    snprintf(folders.file, sizeof(folders.file), "%s/file", folders.read);
    snprintf(folders.clear, sizeof(folders.clear), "%s/clear", folders.top);
    snprintf(folders.cleared, sizeof(folders.cleared), "%s/empty", folders.clear);
    snprintf(folders.full, sizeof(folders.full), "%s/file", folders.clear);
    cr_assert(mkdir(folders.kept, 0700) == 0 && mkdir(folders.read, 0700) == 0 &&
              mkdir(folders.other, 0700) == 0 && mkdir(folders.clear, 0700) == 0 &&
              mkdir(folders.cleared, 0700) == 0);
    cr_assert_eq(opens(folders.file, O_WRONLY | O_CREAT), 0);
    cr_assert_eq(opens(folders.full, O_WRONLY | O_CREAT), 0);
}

static void folders_remove(void)
{
    if (folders.top[0] == '\0')
        return;
    unlink(folders.file);
    unlink(folders.full);
    rmdir(folders.cleared);
    rmdir(folders.clear);
    rmdir(folders.kept);
    rmdir(folders.read);
    rmdir(folders.other);
    rmdir(folders.top);
}

static int kept_use(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char old[128], new[128];
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    snprintf(old, sizeof(old), "%s/old", folders.kept);
    snprintf(new, sizeof(new), "%s/new", folders.kept);
    CONFINED_STEP(opens(old, O_WRONLY | O_CREAT | O_TRUNC) == 0);
    CONFINED_STEP(rename(old, new) == 0 && opens(new, O_RDONLY) == 0 && unlink(new) == 0);
    CONFINED_STEP(mkdir(new, 0700) == 0 && opens(new, O_RDONLY | O_DIRECTORY) == 0);
    CONFINED_STEP(rmdir(new) == 0);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s/socket", folders.kept);
    CONFINED_STEP(bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
    CONFINED_STEP(unlink(address.sun_path) == 0);
    return 0;
}

static int places_run(const void *argument)
{
    const struct sandbox_place places[] = {
        {folders.kept, SANDBOX_USE_KEEP},     {folders.read, SANDBOX_USE_READ},
        {"/dev/null", SANDBOX_USE_WRITE},     {"/no/such/place", SANDBOX_USE_KEEP},
        {"/etc/passwd/no", SANDBOX_USE_READ}, {"/etc/passwd", SANDBOX_USE_KEEP},
        {folders.clear, SANDBOX_USE_CLEAR},
    };
    char path[128];

    (void)argument;
    CONFINED_STEP(sandbox_limit_files(places, sizeof(places) / sizeof(places[0])) > 0);
    CONFINED_STEP(opens(folders.file, O_RDONLY) == 0);
    CONFINED_STEP(opens(folders.file, O_WRONLY) == -EACCES);
    CONFINED_STEP(unlink(folders.file) < 0 && errno == EACCES);
    CONFINED_STEP(opens(folders.other, O_RDONLY | O_DIRECTORY) == -EACCES);
    CONFINED_STEP(opens("/dev/null", O_RDWR) == 0);
    CONFINED_STEP(opens("/dev/zero", O_RDONLY) == -EACCES);
    CONFINED_STEP(opens("/etc/passwd", O_RDWR) == 0 && opens("/etc/group", O_RDONLY) == -EACCES);
    snprintf(path, sizeof(path), "%s/new", folders.read);
    CONFINED_STEP(opens(path, O_WRONLY | O_CREAT) == -EACCES);
    CONFINED_STEP(execl("/bin/true", "true", (char *)NULL) < 0 && errno == EACCES);
    CONFINED_STEP(rmdir(folders.cleared) == 0);
    CONFINED_STEP(mkdir(folders.cleared, 0700) < 0 && errno == EACCES);
    CONFINED_STEP(unlink(folders.full) < 0 && errno == EACCES);
    CONFINED_STEP(opens(folders.full, O_RDONLY) == -EACCES);
    CONFINED_STEP(opens(folders.clear, O_RDONLY | O_DIRECTORY) == -EACCES);
    return kept_use();
}

TestSuite(landlock_places, .timeout = 120, .fini = folders_remove);

Test(landlock_places, are_used_as_they_may_be)
{
    (void)abi_get();
    folders_make();
    confined_assert_exit(confined_run(places_run, NULL), 0, "places");
}

// Executes a program, which is kept in as well: it opens a file and says by its exit status whether
// it could.
static int exec_run(const void *argument)
{
    const struct sandbox_place places[] = {{"/usr", SANDBOX_USE_RUN}, {"/etc", SANDBOX_USE_READ}};

    (void)!freopen("/dev/null", "w", stderr);
    CONFINED_STEP(sandbox_limit_files(places, 2) > 0);
    execl("/usr/bin/head", "head", "-c", "0", (const char *)argument, (char *)NULL);
    return 9;
}

Test(landlock_places, programs_run_where_they_may_and_stay_there)
{
    (void)abi_get();
    confined_assert_exit(confined_run(exec_run, "/etc/passwd"), 0, "a file that may be read");
    confined_assert_exit(confined_run(exec_run, "/proc/self/status"), 1, "one that may not");
}

// ---------------------------------------------------------------- words

Test(landlock, is_described_in_words)
{
    char text[96];

    sandbox_describe_limit(3, text, sizeof(text));
    cr_expect_str_eq(text, "Landlock (ABI 3)");
    sandbox_describe_limit(-ENOSYS, text, sizeof(text));
    cr_expect_str_eq(text, "no Landlock (this kernel has none)");
    sandbox_describe_limit(-EOPNOTSUPP, text, sizeof(text));
    cr_expect_str_eq(text, "no Landlock (off since this kernel's start)");
    sandbox_describe_limit(-E2BIG, text, sizeof(text));
    cr_expect_str_eq(text, "no Landlock (Argument list too long)");
}
