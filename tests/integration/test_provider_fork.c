// SPDX-License-Identifier: MIT
// Forks in the middle of streams. A child goes on at the exact byte, as does its parent, and
// neither disturbs the other. The child leaves what it made in shared memory; the parent compares.
#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"
#include "provider_pair.h"
#include "provider_states.h"

#define CHILD_PIECES 12
#define CHILD_PIECE  50021u // bytes, no multiple of anything
#define CHILD_OUTPUT (CHILD_PIECES * CHILD_PIECE + 64)

static struct fixture fixture;
static struct pair_world world;
static uint8_t data[PAIR_SIZE_MAX];

static void provider_fork_setup(void)
{
    uint64_t seed = 4;

    fixture_start(&fixture, NULL);
    pair_world_open(&world);
    pair_random_bytes(&seed, data, sizeof(data));
}

static void provider_fork_teardown(void)
{
    pair_world_close(&world);
    fixture_stop(&fixture);
}

TestSuite(provider_fork, .init = provider_fork_setup, .fini = provider_fork_teardown,
          .timeout = 300);

struct shared {
    volatile int go;
    int ret;
    size_t n;
    uint8_t output[CHILD_OUTPUT];
};

static struct shared *shared_make(void)
{
    struct shared *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    cr_assert_neq((void *)shared, MAP_FAILED);
    return shared;
}

// What the child does with its context, and the parent with the reference for comparison.
static void child_work(EVP_CIPHER_CTX *ctx, struct shared *shared)
{
    int n;

    shared->ret = 1;
    shared->n = 0;
    for (size_t i = 0; i < CHILD_PIECES && shared->ret == 1; i++) {
        shared->ret = EVP_CipherUpdate(ctx, shared->output + shared->n, &n, data + i, CHILD_PIECE);
        shared->n += shared->ret == 1 ? (size_t)n : 0;
    }
}

static pid_t child_start(EVP_CIPHER_CTX *ctx, struct shared *shared)
{
    pid_t pid = fork();

    cr_assert_geq(pid, 0);
    if (pid == 0) {
        alarm(120);
        child_work(ctx, shared);
        EVP_CIPHER_CTX_free(ctx);
        _exit(0);
    }
    return pid;
}

static void child_check(pid_t pid, const struct shared *shared, const struct shared *expected,
                        const char *name)
{
    int status;

    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert_eq(status, 0, "%s: the child ended with %x", name, status);
    cr_assert_eq(shared->ret, expected->ret, "%s", name);
    cr_assert_eq(shared->n, expected->n);
    cr_assert_eq(memcmp(shared->output, expected->output, expected->n), 0,
                 "%s: the child went on with other bytes", name);
}

// The reference of what child_work() makes of a pair's present state.
static void child_expect(const struct pair *pair, struct shared *expected)
{
    EVP_CIPHER_CTX *copy = EVP_CIPHER_CTX_new();

    cr_assert_eq(EVP_CIPHER_CTX_copy(copy, pair->reference), 1);
    child_work(copy, expected);
    EVP_CIPHER_CTX_free(copy);
}

Test(provider_fork, in_every_state_both_go_on)
{
    struct shared *shared = shared_make(), *expected = malloc(sizeof(*expected));

    for (size_t i = 0; i < pair_n_names; i++)
        for (unsigned round = 0;; round++) {
            struct pair pair;
            pair_open(&pair, &world, pair_names[i]);
            bool known = states_enter(&pair, round / 2, round % 2, data);
            if (known) {
                child_expect(&pair, expected);
                pid_t pid = child_start(pair.ours, shared);
                states_go_on(&pair, round, data); // at the same time
                child_check(pid, shared, expected, pair.name);
                states_go_on(&pair, round + 1, data);
            }
            pair_close(&pair);
            if (!known)
                break;
        }
    munmap(shared, sizeof(*shared));
    free(expected);
}

// sshd's do_child(): the child that becomes the shell only frees.
Test(provider_fork, a_child_that_frees_does_not_end_the_stream)
{
    for (size_t i = 0; i < pair_n_names; i++) {
        struct pair pair;
        pair_open(&pair, &world, pair_names[i]);
        states_enter(&pair, 7, 1, data);
        for (int k = 0; k < 4; k++) {
            pid_t pid = fork();
            int status;
            if (pid == 0) {
                EVP_CIPHER_CTX_free(pair.ours);
                _exit(0);
            }
            pair_update(&pair, data, 70000, PAIR_APART, 0);
            cr_assert_eq(waitpid(pid, &status, 0), pid);
            cr_assert_eq(status, 0);
            pair_update(&pair, data, 70000, PAIR_APART, 0);
        }
        pair_close(&pair);
    }
}

Test(provider_fork, grandchildren)
{
    struct shared *shared = shared_make(), *expected = malloc(sizeof(*expected));
    struct pair pair;

    pair_open(&pair, &world, "AES-256-CTR");
    states_enter(&pair, 6, 1, data);
    child_expect(&pair, expected);
    pid_t pid = fork();
    if (pid == 0) {
        int status = 1;
        pid_t grandchild = fork();
        if (grandchild == 0) {
            child_work(pair.ours, shared);
            _exit(0);
        }
        waitpid(grandchild, &status, 0);
        _exit(status == 0 ? 0 : 1);
    }
    states_go_on(&pair, 1, data);
    child_check(pid, shared, expected, pair.name);
    pair_close(&pair);
    munmap(shared, sizeof(*shared));
    free(expected);
}

// A child has the daemon's help too, on a channel of its own.
Test(provider_fork, a_child_is_served_by_the_daemon)
{
    struct shared *shared = shared_make();
    uint64_t operations, before, after;
    struct pair pair;
    int status;

    pair_open(&pair, &world, "AES-128-CBC");
    states_enter(&pair, 3, 1, data);
    pair_served("AES-128-CBC", &operations, &before);
    after = before;
    for (int i = 0; i < PAIR_REPEAT && after == before; i++) {
        pid_t pid = child_start(pair.ours, shared);
        cr_assert_eq(waitpid(pid, &status, 0), pid);
        cr_assert_eq(status, 0);
        pair_served("AES-128-CBC", &operations, &after);
    }
    cr_assert_gt(after, before);
    pair_close(&pair);
    munmap(shared, sizeof(*shared));
}

// The engine stands still, so that the child gets no channel in time: software, and nothing hangs.
Test(provider_fork, while_the_daemon_stands_still)
{
    struct shared *shared = shared_make(), *expected = malloc(sizeof(*expected));
    pid_t front = fixture_role_pid(&fixture, "front"),
          engine = fixture_role_pid(&fixture, "engine");

    cr_assert(front > 0 && engine > 0);
    for (size_t i = 0; i < pair_n_names; i++) {
        struct pair pair;
        pair_open(&pair, &world, pair_names[i]);
        states_enter(&pair, 6, 1, data);
        kill(front, SIGSTOP);
        kill(engine, SIGSTOP);
        child_expect(&pair, expected);
        pid_t pid = child_start(pair.ours, shared);
        pair_update(&pair, data, 70000, PAIR_APART, 0);
        child_check(pid, shared, expected, pair.name);
        kill(engine, SIGCONT);
        kill(front, SIGCONT);
        pair_close(&pair);
    }
    munmap(shared, sizeof(*shared));
    free(expected);
}
