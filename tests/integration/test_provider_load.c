// SPDX-License-Identifier: MIT
// Loading the provider on good and bad days: it always succeeds, never hangs, and offers ciphers
// only if a daemon answered. And what becomes of ciphers that are in use when the daemon goes away.
#include <criterion/criterion.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "fixture.h"
#include "provider_pair.h"
#include "provider_states.h"

#define LOAD_GUARD_S 5.0 // seconds; the provider waits 0.1 s for the daemon

TestSuite(provider_load, .timeout = 300);

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void count(EVP_CIPHER *cipher, void *arg)
{
    (void)cipher;
    (*(size_t *)arg)++;
}

// Loads the provider in a new library context; returns how many ciphers it offers.
static size_t load(void)
{
    OSSL_LIB_CTX *library = OSSL_LIB_CTX_new();
    double start = now();
    size_t n = 0;

    cr_assert_eq(OSSL_PROVIDER_set_default_search_path(library, pair_modules_folder()), 1);
    ERR_clear_error();
    OSSL_PROVIDER *provider = OSSL_PROVIDER_load(library, "cryptod");
    cr_assert_not_null(provider, "%s", ERR_error_string(ERR_peek_last_error(), NULL));
    cr_assert_lt(now() - start, LOAD_GUARD_S, "loading hangs");
    cr_assert_eq(ERR_peek_error(), 0, "loading leaves an error: %s",
                 ERR_error_string(ERR_peek_error(), NULL));
    cr_assert_eq(OSSL_PROVIDER_self_test(provider), 1);
    EVP_CIPHER_do_all_provided(library, count, &n);
    cr_assert_eq(OSSL_PROVIDER_unload(provider), 1);
    OSSL_LIB_CTX_free(library);
    return n;
}

static void nothing_is_offered(const char *socket)
{
    setenv("CRYPTOD_SOCKET", socket, 1);
    cr_assert_eq(load(), 0, "%s", socket);
}

struct folder {
    char path[64], socket[80];
};

static void folder_make(struct folder *folder)
{
    snprintf(folder->path, sizeof(folder->path), P_tmpdir "/cryptod-load.XXXXXX");
    cr_assert_not_null(mkdtemp(folder->path));
    snprintf(folder->socket, sizeof(folder->socket), "%s/socket", folder->path);
}

static void folder_remove(struct folder *folder)
{
    unlink(folder->socket);
    cr_assert_eq(rmdir(folder->path), 0);
}

static int listen_at(const char *path, int type)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    cr_assert_geq(fd, 0);
    cr_assert_eq(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    cr_assert_eq(listen(fd, 1), 0);
    return fd;
}

Test(provider_load, without_a_daemon_nothing_is_offered)
{
    struct folder folder;

    folder_make(&folder);
    nothing_is_offered(folder.socket); // no such file
    nothing_is_offered("/nonexistent/folder/socket");
    nothing_is_offered("/dev/null");
    nothing_is_offered("");
    char longest[400];
    memset(longest, 'x', sizeof(longest) - 1);
    longest[0] = '/';
    longest[sizeof(longest) - 1] = '\0';
    nothing_is_offered(longest);
    close(listen_at(folder.socket, SOCK_SEQPACKET)); // nobody listens any more
    nothing_is_offered(folder.socket);
    unlink(folder.socket);
    int fd = listen_at(folder.socket, SOCK_STREAM); // somebody else's socket
    nothing_is_offered(folder.socket);
    close(fd);
    folder_remove(&folder);
}

Test(provider_load, a_daemon_that_never_accepts_is_not_waited_for)
{
    struct folder folder;

    folder_make(&folder);
    int fd = listen_at(folder.socket, SOCK_SEQPACKET);
    for (int i = 0; i < 4; i++) // the backlog is full at the end
        nothing_is_offered(folder.socket);
    close(fd);
    folder_remove(&folder);
}

static void *answer_nonsense(void *arg)
{
    static const char nonsense[100] = "HTTP/1.1 400 Bad Request";
    char buffer[4096];

    for (size_t n = 0;; n = (n + 7) % sizeof(nonsense)) {
        int fd = accept(*(int *)arg, NULL, NULL);
        if (fd < 0)
            return NULL;
        if (read(fd, buffer, sizeof(buffer)) > 0 && n > 0)
            (void)!write(fd, nonsense, n);
        close(fd);
    }
}

Test(provider_load, a_daemon_that_answers_nonsense_offers_nothing)
{
    struct folder folder;
    pthread_t thread;

    folder_make(&folder);
    int fd = listen_at(folder.socket, SOCK_SEQPACKET);
    cr_assert_eq(pthread_create(&thread, NULL, answer_nonsense, &fd), 0);
    for (int i = 0; i < 20; i++)
        nothing_is_offered(folder.socket);
    shutdown(fd, SHUT_RDWR);
    pthread_join(thread, NULL);
    close(fd);
    folder_remove(&folder);
}

Test(provider_load, a_stopped_daemon_is_not_waited_for)
{
    struct fixture fixture;

    fixture_start(&fixture, NULL);
    pid_t front = fixture_role_pid(&fixture, "front"),
          engine = fixture_role_pid(&fixture, "engine");
    kill(engine, SIGSTOP);
    cr_assert_eq(load(), 0);
    kill(front, SIGSTOP);
    cr_assert_eq(load(), 0);
    kill(engine, SIGCONT);
    kill(front, SIGCONT);
    fixture_wait_serving(&fixture, false);
    cr_assert_eq(load(), pair_n_names);
    fixture_stop(&fixture);
}

Test(provider_load, a_daemon_that_offers_nothing_leaves_openssl_alone)
{
    struct fixture fixture;

    fixture_start(&fixture, "lanes.offload=off");
    cr_assert_eq(load(), 0);
    fixture_stop(&fixture);
}

Test(provider_load, the_configuration_names_the_socket)
{
    struct fixture fixture;
    char path[128];
    size_t n = 0;

    fixture_start(&fixture, NULL);
    snprintf(path, sizeof(path), "%s/openssl.cnf", fixture.folder);
    FILE *out = fopen(path, "we");
    cr_assert_not_null(out);
    fprintf(out,
            "openssl_conf = start\n[start]\nproviders = list\n[list]\ncryptod = ours\n"
            "[ours]\nactivate = 1\nmodule = %s/cryptod.so\nsocket = %s\n",
            pair_modules_folder(), fixture.socket);
    fclose(out);
    setenv("CRYPTOD_SOCKET", "/nonexistent/socket", 1);
    OSSL_LIB_CTX *library = OSSL_LIB_CTX_new();
    cr_assert_eq(OSSL_LIB_CTX_load_config(library, path), 1);
    EVP_CIPHER_do_all_provided(library, count, &n);
    cr_assert_eq(n, pair_n_names);
    OSSL_LIB_CTX_free(library);
    setenv("CRYPTOD_SOCKET", fixture.socket, 1);
    fixture_stop(&fixture);
}

// The channel is the process's: unloading the provider in one library context takes nothing from
// another.
Test(provider_load, unloading_leaves_other_contexts_alone)
{
    struct pair_world first, second;
    struct fixture fixture;
    static uint8_t data[PAIR_SIZE_MAX];
    uint64_t operations, before, after;
    struct pair pair, outliving;

    fixture_start(&fixture, NULL);
    pair_world_open(&first);
    pair_world_open(&second);
    pair_open(&pair, &second, "AES-256-CBC");
    pair_open(&outliving, &first, "AES-256-CBC");
    states_enter(&pair, 7, 1, data);
    states_enter(&outliving, 7, 1, data);
    pair_world_close(&first);
    pair_served("AES-256-CBC", &operations, &before);
    after = before;
    for (unsigned i = 0; i < PAIR_REPEAT && after == before; i++) {
        states_go_on(&pair, i, data);
        pair_served("AES-256-CBC", &operations, &after);
    }
    cr_assert_gt(after, before);
    pair_close(&outliving); // its cipher kept the module
    pair_close(&pair);
    pair_world_close(&second);
    cr_assert_eq(load(), pair_n_names);
    fixture_stop(&fixture);
}

// ---------------------------------------------------------------- the daemon goes away

static void use_all(struct pair *pairs, const uint8_t *data, size_t n)
{
    for (size_t k = 0; k < pair_n_names; k++)
        pair_update(&pairs[k], data + k, n, PAIR_APART, k);
}

static void daemon_goes_away(int signal, int repeat)
{
    static uint8_t data[PAIR_SIZE_MAX];
    static struct pair pairs[16];
    struct pair_world world;
    struct fixture fixture;

    fixture_start(&fixture, "lanes.deadline_ms=50");
    pair_world_open(&world);
    for (size_t k = 0; k < pair_n_names; k++) {
        pair_open(&pairs[k], &world, pair_names[k]);
        states_enter(&pairs[k], 6, (int)(k & 1), data);
    }
    for (int i = 0; i < repeat; i++) {
        pid_t engine = fixture_wait_role(&fixture, "engine", 0);
        use_all(pairs, data, 70000);
        cr_assert_eq(kill(engine, signal), 0);
        use_all(pairs, data, 70000);
        use_all(pairs, data, 90001);
        if (signal == SIGSTOP)
            kill(engine, SIGCONT);
        else
            fixture_wait_role(&fixture, "engine", engine);
        use_all(pairs, data, 70000);
    }
    for (size_t k = 0; k < pair_n_names; k++) {
        states_go_on(&pairs[k], k, data);
        pair_close(&pairs[k]);
    }
    pair_world_close(&world);
    fixture_stop(&fixture);
}

Test(provider_load, streams_go_on_when_the_engine_is_killed)
{
    daemon_goes_away(SIGKILL, 2);
}

Test(provider_load, streams_go_on_when_the_engine_stands_still)
{
    daemon_goes_away(SIGSTOP, 3);
}
