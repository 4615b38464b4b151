// SPDX-License-Identifier: MIT
// Guarantees that nothing of the test framework runs in the child, and nothing of OpenSSL in the
// parent before the child has ended.
#include "inmate.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "confined.h"
#include "reference.h"

#define INMATE_UID   61983
#define HANG_GUARD_S 60

static uint8_t key_byte(size_t i)
{
    return (uint8_t)(0x1d * i + 3);
}

static uint8_t iv_byte(size_t i)
{
    return (uint8_t)(0x35 * i + 0xf9);
}

// Of the test's input at this place of a stream.
static uint8_t input_byte(size_t i)
{
    return (uint8_t)(i * 7 + i / 256 * 11 + i / 65536);
}

static void material_make(uint8_t key[ALGORITHM_KEY_MAX], uint8_t iv[ALGORITHM_IV_LEN_MAX])
{
    for (size_t i = 0; i < ALGORITHM_KEY_MAX; i++)
        key[i] = key_byte(i);
    for (size_t i = 0; i < ALGORITHM_IV_LEN_MAX; i++)
        iv[i] = iv_byte(i);
}

// ---------------------------------------------------------------- the child's side

void inmate_signal(struct inmate *inmate)
{
    (void)!write(inmate->its, "s", 1);
}

void inmate_meet(struct inmate *inmate)
{
    char byte;

    inmate_signal(inmate);
    (void)!read(inmate->its, &byte, 1);
}

int inmate_stream_new(enum cryptod_algorithm algorithm, cryptod_stream **ret)
{
    uint8_t key[ALGORITHM_KEY_MAX], iv[ALGORITHM_IV_LEN_MAX];
    cryptod_stream *stream = NULL;

    material_make(key, iv);
    CONFINED_STEP(cryptod_stream_new(algorithm, &stream) == 0);
    CONFINED_STEP(cryptod_stream_init(stream, key, iv, true) == 0);
    *ret = stream;
    return 0;
}

int inmate_push(struct inmate *inmate, enum cryptod_algorithm algorithm, cryptod_stream *stream,
                size_t n_bytes)
{
    static uint8_t input[INMATE_ROOM];
    size_t at = inmate->shared->n_out[algorithm];

    CONFINED_STEP(n_bytes <= INMATE_ROOM - at);
    for (size_t i = 0; i < n_bytes; i++)
        input[i] = input_byte(at + i);
    CONFINED_STEP(
        cryptod_stream_crypt(stream, &inmate->shared->out[algorithm][at], input, n_bytes) == 0);
    inmate->shared->n_out[algorithm] = at + n_bytes;
    return 0;
}

int inmate_push_sizes(struct inmate *inmate, enum cryptod_algorithm algorithm,
                      cryptod_stream *stream)
{
    static const size_t sizes[INMATE_N_SIZES] = {
        16, 48, 4096, 32784, 65520, 65536, 65552, 131072, 262144, 262160, INMATE_SIZES_LAST};

    for (size_t i = 0; i < INMATE_N_SIZES; i++)
        if (inmate_push(inmate, algorithm, stream, sizes[i]) != 0)
            return 1;
    return 0;
}

static uint64_t lane_bytes(void)
{
    struct cryptod_counters now;

    cryptod_counters_get(&now);
    return now.request_bytes + now.keystream_bytes;
}

int inmate_push_until_lane(struct inmate *inmate, enum cryptod_algorithm algorithm,
                           cryptod_stream *stream)
{
    const struct timespec pause = {0, 10000000};
    uint64_t before = lane_bytes();

    for (int i = 0; i < 500; i++) {
        if (inmate_push(inmate, algorithm, stream, 4096) != 0)
            return 1;
        if (lane_bytes() > before)
            return 0;
        nanosleep(&pause, NULL); // the answer to the stream's opening is on its way
    }
    CONFINED_STEP(lane_bytes() > before);
    return 0;
}

static int child_run(struct inmate *inmate, inmate_body body)
{
    int r;

    CONFINED_STEP(cryptod_open(NULL, 5000) == inmate->expected_open);
    CONFINED_STEP(sshd_filter_demote(INMATE_UID, INMATE_UID) == 0);
    CONFINED_STEP(sshd_filter_apply(inmate->version) == 0);
    r = body(inmate);
    cryptod_counters_get(&inmate->shared->counters);
    return r;
}

// ---------------------------------------------------------------- the test's side

void inmate_start(struct inmate *inmate, enum sshd_filter_version version, inmate_body body)
{
    int pair[2], errors[2];

    inmate->version = version;
    inmate->shared = mmap(NULL, sizeof(*inmate->shared), PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cr_assert(inmate->shared != MAP_FAILED);
    cr_assert(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
    cr_assert(pipe2(errors, O_CLOEXEC) == 0);
    inmate->ours = pair[0];
    inmate->its = pair[1];
    inmate->errors = errors[0];
    fflush(NULL);
    inmate->pid = fork();
    cr_assert(inmate->pid >= 0);
    if (inmate->pid == 0) {
        alarm(HANG_GUARD_S);
        dup2(errors[1], STDERR_FILENO); // a file would be death by SIGXFSZ
        close(inmate->ours);
        _exit(child_run(inmate, body));
    }
    close(inmate->its);
    close(errors[1]);
}

// That what the child does from here on it does in the sandbox.
static void filter_check(pid_t pid)
{
    char path[64], text[4096];
    ssize_t n;
    int fd;

    (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = read(fd, text, sizeof(text) - 1);
    close(fd);
    cr_assert(n > 0, "%s: %s", path, strerror(errno));
    text[n] = '\0';
    cr_assert(strstr(text, "\nSeccomp:\t2\n"), "%s", text);
}

void inmate_wait(const struct inmate *inmate)
{
    struct pollfd p = {.fd = inmate->ours, .events = POLLIN};
    char byte;

    cr_assert(poll(&p, 1, HANG_GUARD_S * 1000) == 1 && read(inmate->ours, &byte, 1) == 1,
              "sshd %s: the child is not where it should be", sshd_filter_name(inmate->version));
    filter_check(inmate->pid);
}

void inmate_release(const struct inmate *inmate)
{
    cr_assert(write(inmate->ours, "r", 1) == 1);
}

static void output_check(const struct inmate *inmate, enum cryptod_algorithm algorithm)
{
    size_t n = inmate->shared->n_out[algorithm];
    uint8_t key[ALGORITHM_KEY_MAX], iv[ALGORITHM_IV_LEN_MAX];
    uint8_t *input = malloc(n), *expected = malloc(n);

    cr_assert(input && expected);
    material_make(key, iv);
    for (size_t i = 0; i < n; i++)
        input[i] = input_byte(i);
    reference_crypt((enum algorithm_id)algorithm, key, iv, true, expected, input, n);
    for (size_t i = 0; i < n; i++)
        cr_assert(inmate->shared->out[algorithm][i] == expected[i],
                  "sshd %s, %s: byte %zu of %zu is wrong", sshd_filter_name(inmate->version),
                  cryptod_algorithm_name(algorithm), i, n);
    free(input);
    free(expected);
}

void inmate_end(struct inmate *inmate)
{
    char heard[2048];
    size_t n = 0;
    ssize_t got;
    int status = -1;

    while (n + 1 < sizeof(heard) &&
           (got = read(inmate->errors, heard + n, sizeof(heard) - 1 - n)) > 0)
        n += (size_t)got;
    heard[n] = '\0';
    cr_assert(waitpid(inmate->pid, &status, 0) == inmate->pid);
    cr_assert(WIFEXITED(status), "sshd %s: killed by signal %d %s",
              sshd_filter_name(inmate->version), WTERMSIG(status), heard);
    cr_assert(WEXITSTATUS(status) == 0, "sshd %s: status %d: %s", sshd_filter_name(inmate->version),
              WEXITSTATUS(status), heard);
    cr_assert(n == 0, "sshd %s: a session's standard error is not the library's: %s",
              sshd_filter_name(inmate->version), heard);
    for (int i = 0; i < CRYPTOD_ALGORITHM_COUNT; i++)
        if (inmate->shared->n_out[i] > 0)
            output_check(inmate, (enum cryptod_algorithm)i);
}

void inmate_fini(struct inmate *inmate)
{
    close(inmate->ours);
    close(inmate->errors);
    munmap(inmate->shared, sizeof(*inmate->shared));
}

void inmate_run_versions(int expected_open, inmate_body body, inmate_test meanwhile,
                         void (*check)(const struct cryptod_counters *counters))
{
    for (int version = 0; version < SSHD_FILTER_COUNT; version++) {
        struct inmate inmate = {.expected_open = expected_open};

        inmate_start(&inmate, (enum sshd_filter_version)version, body);
        if (meanwhile)
            meanwhile(&inmate);
        inmate_end(&inmate);
        check(&inmate.shared->counters);
        inmate_fini(&inmate);
    }
}
