// SPDX-License-Identifier: MIT
// A stream's key is in the memory of nobody once the stream has ended: not of the program that had
// it, not of the engine; and of front and monitor it never is. The program is a process of its own,
// which is given the key through a pipe, so that no copy of the test's is found.
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <openssl/provider.h>
#include <openssl/rand.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client_flow.h"
#include "cryptod.h"
#include "fixture.h"
#include "provider_pair.h"

#define KEY_LEN   32
#define PIECE_LEN 16 // half a key is bad enough
#define DATA_LEN  32768
#define STEPS_MAX 2000
#define WAIT_MS   10000

static struct fixture f;

static void teardown(void)
{
    fixture_stop(&f);
}

TestSuite(key_memory, .fini = teardown, .timeout = 180);

// ---------------------------------------------------------------- searching

static size_t count_in_block(const uint8_t *block, size_t n, const uint8_t *piece)
{
    const uint8_t *at = block, *end = block + n;
    size_t found = 0;

    while ((at = memmem(at, (size_t)(end - at), piece, PIECE_LEN))) {
        found++;
        at++;
    }
    return found;
}

static size_t count_in_mapping(int memory, uint64_t from, uint64_t to, const uint8_t *key)
{
    static uint8_t block[1 << 20];
    size_t found = 0, kept = 0;

    while (from < to) {
        size_t n = to - from < sizeof(block) - kept ? (size_t)(to - from) : sizeof(block) - kept;
        ssize_t got = pread(memory, block + kept, n, (off_t)from);

        if (got <= 0) { // the kernel's own pages, or one that nobody has touched in a file's hole
            from += 4096;
            kept = 0;
            continue;
        }
        n = kept + (size_t)got;
        for (size_t at = 0; at < KEY_LEN; at += PIECE_LEN)
            found += count_in_block(block, n, key + at);
        from += (uint64_t)got;
        kept = n < PIECE_LEN - 1 ? n : PIECE_LEN - 1; // a piece over the edge
        memmove(block, block + n - kept, kept);
    }
    return found;
}

// How often half of the key lies in any readable mapping of the process.
static size_t count_key(pid_t pid, const uint8_t *key)
{
    char path[64], line[512];
    uint64_t from, to;
    size_t found = 0, n_mappings = 0;

    snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
    int memory = open(path, O_RDONLY | O_CLOEXEC);
    snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
    FILE *maps = fopen(path, "re");
    cr_assert(memory >= 0 && maps, "%s: %s", path, strerror(errno));
    while (fgets(line, sizeof(line), maps)) {
        char right;

        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %c", &from, &to, &right) == 3 && right == 'r' &&
            to - from < (uint64_t)1 << 31) { // not a sanitizer's shadow
            found += count_in_mapping(memory, from, to, key);
            n_mappings++;
        }
    }
    fclose(maps);
    close(memory);
    cr_assert_gt(n_mappings, 10, "the memory of %d could not be read", (int)pid);
    return found;
}

// ---------------------------------------------------------------- the program with the key

struct program {
    pid_t pid;
    int to, from;
};

struct work { // what it does with a key; both functions run in the program
    const char *name;
    bool (*begin)(const struct work *work, const uint8_t *key); // until a lane serves it
    void (*end)(void);
    enum cryptod_algorithm algorithm;
    const char *cipher;
    const char *conf;
};

static uint8_t data[DATA_LEN];
static cryptod_stream *stream;
static EVP_CIPHER_CTX *context;
static EVP_CIPHER *cipher;
static OSSL_PROVIDER *providers[2];

static bool lane_served(void)
{
    struct cryptod_counters c;

    cryptod_counters_get(&c);
    return c.request_bytes + c.keystream_bytes > 0;
}

// As ssh numbers its packets: the keystream lane of ChaCha20 is for those.
static void packet_iv(unsigned packet, uint8_t counter, uint8_t ret[16])
{
    memset(ret, 0, 16);
    ret[0] = counter;
    ret[14] = (uint8_t)(packet >> 8);
    ret[15] = (uint8_t)packet;
}

static int library_step(const struct work *work, unsigned step)
{
    uint8_t iv[16];
    int r = 0;

    if (work->algorithm != CRYPTOD_CHACHA20)
        return cryptod_stream_crypt(stream, data, data, sizeof(data));
    for (uint8_t counter = 0; r == 0 && counter < 2; counter++) {
        packet_iv(step, counter, iv);
        r = cryptod_stream_init(stream, NULL, iv, true);
        if (r == 0)
            r = cryptod_stream_crypt(stream, data, data, counter == 0 ? 32 : sizeof(data));
    }
    return r;
}

static bool library_begin(const struct work *work, const uint8_t *key)
{
    static const uint8_t iv[16] = {1};

    if (cryptod_open(NULL, 5000) < 0 || cryptod_stream_new(work->algorithm, &stream) < 0 ||
        cryptod_stream_init(stream, key, iv, true) < 0)
        return false;
    for (unsigned i = 0; i < STEPS_MAX && !lane_served(); i++) {
        if (library_step(work, i) < 0)
            return false;
        usleep(1000);
    }
    return lane_served();
}

static void library_end(void)
{
    cryptod_stream_free(stream);
}

static uint64_t bytes_served(const struct work *work)
{
    uint64_t operations, bytes;

    pair_served(work->cipher, &operations, &bytes);
    return bytes;
}

static bool provider_step(const struct work *work, unsigned step)
{
    uint8_t iv[16];
    int n;

    if (work->algorithm != CRYPTOD_CHACHA20)
        return EVP_EncryptUpdate(context, data, &n, data, DATA_LEN) == 1;
    packet_iv(step, 0, iv);
    if (EVP_EncryptInit_ex2(context, NULL, NULL, iv, NULL) != 1 ||
        EVP_EncryptUpdate(context, data, &n, data, 32) != 1)
        return false;
    packet_iv(step, 1, iv);
    return EVP_EncryptInit_ex2(context, NULL, NULL, iv, NULL) == 1 &&
           EVP_EncryptUpdate(context, data, &n, data, DATA_LEN) == 1;
}

static bool provider_begin(const struct work *work, const uint8_t *key)
{
    static const uint8_t iv[16] = {1};

    OSSL_PROVIDER_set_default_search_path(NULL, pair_modules_folder());
    providers[0] = OSSL_PROVIDER_load(NULL, "default");
    providers[1] = OSSL_PROVIDER_load(NULL, "cryptod");
    cipher = EVP_CIPHER_fetch(NULL, work->cipher, "provider=cryptod");
    context = EVP_CIPHER_CTX_new();
    if (!providers[0] || !providers[1] || !cipher || !context ||
        EVP_EncryptInit_ex2(context, cipher, key, iv, NULL) != 1)
        return false;
    for (unsigned i = 0; i < STEPS_MAX && bytes_served(work) == 0; i++) {
        if (!provider_step(work, i))
            return false;
        usleep(1000);
    }
    return bytes_served(work) > 0;
}

static void provider_end(void)
{
    EVP_CIPHER_CTX_free(context);
}

__attribute__((noreturn)) static void program_run(const struct work *work, int in, int out)
{
    uint8_t key[KEY_LEN], byte;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (read(in, key, sizeof(key)) != KEY_LEN)
        _exit(2);
    byte = work->begin(work, key) ? 'b' : 'f';
    explicit_bzero(key, sizeof(key));
    if (write(out, &byte, 1) != 1 || read(in, &byte, 1) != 1)
        _exit(3);
    work->end();
    if (write(out, "e", 1) != 1 || read(in, &byte, 1) != 0)
        _exit(4);
    _exit(0);
}

static void program_start(const struct work *work, struct program *ret)
{
    int to[2], from[2];

    cr_assert(pipe2(to, O_CLOEXEC) == 0 && pipe2(from, O_CLOEXEC) == 0);
    fflush(NULL);
    ret->pid = fork();
    cr_assert_geq(ret->pid, 0);
    if (ret->pid == 0) {
        close(to[1]);
        close(from[0]);
        program_run(work, to[0], from[1]);
    }
    close(to[0]);
    close(from[1]);
    ret->to = to[1];
    ret->from = from[0];
}

static void program_expect(const struct program *program, char wanted, const char *what)
{
    char byte = '\0';

    cr_assert_eq(read(program->from, &byte, 1), 1, "%s: the program has ended", what);
    cr_assert_eq(byte, wanted, "%s: no lane has served the stream", what);
}

static void program_stop(struct program *program)
{
    int status = -1;

    close(program->to);
    cr_assert_eq(waitpid(program->pid, &status, 0), program->pid);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%#x", (unsigned)status);
    close(program->from);
}

// ---------------------------------------------------------------- the test

static void expect_nowhere_but(const uint8_t *key, pid_t holder, pid_t engine, const char *what)
{
    static const char *const roles[] = {"monitor", "front", "engine"};

    for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++) {
        pid_t pid = fixture_role_pid(&f, roles[i]);

        if (pid != engine)
            cr_expect_eq(count_key(pid, key), 0, "%s: key in %s", what, roles[i]);
    }
    if (holder != 0)
        cr_expect_eq(count_key(holder, key), 0, "%s: key in the program", what);
}

// The engine hears of the end after the program has gone on.
static void wait_until_forgotten(pid_t engine, const uint8_t *key)
{
    const struct timespec pause = {.tv_nsec = 20000000};

    for (int waited = 0; waited < WAIT_MS && count_key(engine, key) > 0; waited += 20)
        nanosleep(&pause, NULL);
}

static void key_is_forgotten(const struct work *work)
{
    struct program program;
    uint8_t key[KEY_LEN], byte = 'e';

    fixture_start(&f, work->conf);
    pid_t engine = fixture_role_pid(&f, "engine");
    program_start(work, &program);
    cr_assert_eq(RAND_bytes(key, sizeof(key)), 1); // after the fork
    cr_assert_eq(write(program.to, key, sizeof(key)), KEY_LEN);
    program_expect(&program, 'b', work->name);
    // Or the search proves nothing.
    cr_assert_gt(count_key(program.pid, key), 0, "%s: a key in use is not found", work->name);
    cr_assert_gt(count_key(engine, key), 0, "%s: a key in use is not found", work->name);
    expect_nowhere_but(key, 0, engine, work->name);

    cr_assert_eq(write(program.to, &byte, 1), 1);
    program_expect(&program, 'e', work->name);
    wait_until_forgotten(engine, key);
    expect_nowhere_but(key, program.pid, 0, work->name);
    program_stop(&program);
    fixture_stop(&f);
}

#define LIBRARY(name, algorithm, conf)                                                             \
    {                                                                                              \
        (name), library_begin, library_end, (algorithm), NULL, (conf)                              \
    }
#define PROVIDER(algorithm, cipher, conf)                                                          \
    {                                                                                              \
        "provider, " cipher, provider_begin, provider_end, (algorithm), (cipher), (conf)           \
    }

Test(key_memory, of_requests_is_forgotten)
{
    static const struct work works[] = {
        LIBRARY("aes-256-cbc", CRYPTOD_AES_256_CBC, CLIENT_PATIENT),
        LIBRARY("aes-256-ctr", CRYPTOD_AES_256_CTR, CLIENT_PATIENT CLIENT_REQUESTS_ONLY),
        LIBRARY("compared", CRYPTOD_AES_256_CBC, CLIENT_PATIENT "engine.verify=all\n"),
    };

    for (size_t i = 0; i < sizeof(works) / sizeof(works[0]); i++)
        key_is_forgotten(&works[i]);
}

Test(key_memory, of_keystream_is_forgotten)
{
    static const struct work works[] = {
        LIBRARY("aes-256-ctr", CRYPTOD_AES_256_CTR, CLIENT_PATIENT),
        LIBRARY("chacha20", CRYPTOD_CHACHA20, CLIENT_PATIENT),
    };

    for (size_t i = 0; i < sizeof(works) / sizeof(works[0]); i++)
        key_is_forgotten(&works[i]);
}

Test(key_memory, of_the_provider_is_forgotten)
{
    static const struct work works[] = {
        PROVIDER(CRYPTOD_AES_256_CBC, "AES-256-CBC", CLIENT_PATIENT),
        PROVIDER(CRYPTOD_AES_256_CTR, "AES-256-CTR", CLIENT_PATIENT),
        PROVIDER(CRYPTOD_CHACHA20, "ChaCha20", CLIENT_PATIENT),
    };

    for (size_t i = 0; i < sizeof(works) / sizeof(works[0]); i++)
        key_is_forgotten(&works[i]);
}
