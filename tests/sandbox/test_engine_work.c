// SPDX-License-Identifier: MIT
// What the engine's workers do all day works under its policy: threads, OpenSSL, clients' memory,
// and where the kernel has AF_ALG a real request to it.
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_alg.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "confined.h"

#define MEMORY_SIZE 65536

TestSuite(engine_work, .timeout = 300);

static int encrypt_run(void)
{
    static const unsigned char key[16], iv[16], text[4096];
    unsigned char out[4096];
    EVP_CIPHER *cipher = EVP_CIPHER_fetch(NULL, "AES-128-CBC", NULL);
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    int n = 0;

    CONFINED_STEP(cipher && context);
    CONFINED_STEP(EVP_EncryptInit_ex2(context, cipher, key, iv, NULL) == 1);
    CONFINED_STEP(EVP_EncryptUpdate(context, out, &n, text, sizeof(text)) == 1 && n > 0);
    EVP_CIPHER_CTX_free(context);
    EVP_CIPHER_free(cipher);
    return 0;
}

static void *worker_run(void *argument)
{
    void *memory = malloc(1 << 20);
    int *ret = argument;

    *ret = memory ? encrypt_run() : 1;
    // As the thread that measures does; and it alone gets slower.
    if (setpriority(PRIO_PROCESS, 0, 19) != 0)
        *ret = 1;
    free(memory);
    return NULL;
}

static int worker_try(void)
{
    pthread_t worker;
    int r = 2;

    CONFINED_STEP(pthread_create(&worker, NULL, worker_run, &r) == 0);
    CONFINED_STEP(pthread_setname_np(pthread_self(), "engine") == 0);
    CONFINED_STEP(pthread_join(worker, NULL) == 0);
    return r;
}

// More threads at once than the C library makes heaps for without a look at the number of CPUs.
#define N_CROWD 24

static void *crowd_run(void *argument)
{
    void *pieces[64];

    for (size_t i = 0; i < 64; i++)
        pieces[i] = malloc(1 << 14);
    (void)pthread_barrier_wait(argument); // so each has a heap of its own
    for (size_t i = 64; i > 0; i--)       // and gives memory back
        free(pieces[i - 1]);
    return NULL;
}

static int crowd_try(void)
{
    pthread_t workers[N_CROWD];
    pthread_barrier_t all;

    CONFINED_STEP(pthread_barrier_init(&all, NULL, N_CROWD) == 0);
    for (size_t i = 0; i < N_CROWD; i++)
        CONFINED_STEP(pthread_create(&workers[i], NULL, crowd_run, &all) == 0);
    for (size_t i = 0; i < N_CROWD; i++)
        CONFINED_STEP(pthread_join(workers[i], NULL) == 0);
    pthread_barrier_destroy(&all);
    return 0;
}

struct day { // made before the sandbox
    int memory;
    int bell[2];
};

static int bell_try(const struct day *day)
{
    char byte = 'b';

    CONFINED_STEP(send(day->bell[0], &byte, 1, MSG_DONTWAIT) == 1);
    CONFINED_STEP(recv(day->bell[1], &byte, 1, MSG_DONTWAIT) == 1);
    CONFINED_STEP(recv(day->bell[1], &byte, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN);
    return 0;
}

static int day_run(const void *argument)
{
    const struct day *day = argument;
    unsigned char random[16];
    void *memory;
    int r;

    CONFINED_STEP(sandbox_harden_process() == 0);
    CONFINED_STEP(RAND_bytes(random, sizeof(random)) == 1);
    confined_load(SANDBOX_ENGINE, SANDBOX_KILL);
    memory = mmap(NULL, MEMORY_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, day->memory, 0);
    CONFINED_STEP(memory != MAP_FAILED);
    CONFINED_STEP(madvise(memory, MEMORY_SIZE, MADV_DONTDUMP) == 0);
    CONFINED_STEP(RAND_poll() == 1 && RAND_bytes(random, sizeof(random)) == 1);
    r = bell_try(day);
    if (r == 0)
        r = crowd_try();
    if (r == 0)
        r = worker_try();
    CONFINED_STEP(munmap(memory, MEMORY_SIZE) == 0);
    return r == 0 ? worker_try() : r;
}

Test(engine_work, a_day_of_the_engine_survives)
{
    struct day day = {.memory = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING)};

    cr_assert(day.memory >= 0 && ftruncate(day.memory, MEMORY_SIZE) == 0);
    cr_assert(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, day.bell) == 0);
    confined_assert_exit(confined_run(day_run, &day), 0, "a day of the engine");
}

// A delay that a stop interrupts is continued by another call.
Test(engine_work, a_delay_survives_a_stop)
{
    int status = -1;
    pid_t pid = fork();

    cr_assert(pid >= 0);
    if (pid == 0) {
        const struct timespec delay = {1, 0};

        alarm(60);
        confined_load(SANDBOX_FAULTY_ENGINE, SANDBOX_KILL);
        _exit(nanosleep(&delay, NULL) == 0 ? 0 : 1);
    }
    confined_wait_state(pid, 'S');
    cr_assert(kill(pid, SIGSTOP) == 0);
    confined_wait_state(pid, 'T');
    cr_assert(kill(pid, SIGCONT) == 0);
    cr_assert(waitpid(pid, &status, 0) == pid);
    confined_assert_exit(status, 0, "a delay, stopped and continued");
}

// No file is there, and asking for one is not death: the C library asks, when it counts CPUs for
// instance.
static int files_run(const void *argument)
{
    (void)argument;
    confined_load(SANDBOX_ENGINE, SANDBOX_KILL);
    CONFINED_STEP(open("/dev/null", O_RDONLY | O_CLOEXEC) == -1 && errno == EACCES);
    CONFINED_STEP(get_nprocs() > 0);
    return 0;
}

Test(engine_work, files_are_not_there)
{
    confined_assert_exit(confined_run(files_run, NULL), 0, "asking for files");
}

// clone3 hides its flags in memory, so it must look as if the kernel did not have it.
static int clone3_run(const void *argument)
{
    char arguments[88] = {0};

    (void)argument;
    confined_load(SANDBOX_ENGINE, SANDBOX_KILL);
    CONFINED_STEP(syscall(SYS_clone3, arguments, sizeof(arguments)) == -1 && errno == ENOSYS);
    return 0;
}

Test(engine_work, clone3_does_not_exist)
{
    confined_assert_exit(confined_run(clone3_run, NULL), 0, "clone3");
}

static void *break_rules(void *argument)
{
    (void)socket(AF_INET, SOCK_STREAM, 0);
    return argument;
}

static int thread_attack_run(const void *argument)
{
    pthread_t worker;

    (void)argument;
    confined_load(SANDBOX_ENGINE, SANDBOX_KILL);
    CONFINED_STEP(pthread_create(&worker, NULL, break_rules, NULL) == 0);
    (void)pthread_join(worker, NULL);
    return 0;
}

Test(engine_work, a_worker_s_crime_ends_the_process)
{
    confined_assert_killed(confined_run(thread_attack_run, NULL), "socket() in a worker");
}

// ---------------------------------------------------------------- a real key and request

struct alg_sockets {
    int tfm, operation;
};

static int alg_open(struct alg_sockets *ret)
{
    struct sockaddr_alg address = {
        .salg_family = AF_ALG, .salg_type = "skcipher", .salg_name = "cbc(aes)"};
    static const unsigned char key[16];

    ret->tfm = socket(AF_ALG, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    CONFINED_STEP(ret->tfm >= 0);
    CONFINED_STEP(bind(ret->tfm, (struct sockaddr *)&address, sizeof(address)) == 0);
    CONFINED_STEP(setsockopt(ret->tfm, SOL_ALG, ALG_SET_KEY, key, sizeof(key)) == 0);
    ret->operation = accept(ret->tfm, NULL, NULL); // as libkcapi does
    CONFINED_STEP(ret->operation >= 0);
    return 0;
}

// One block of zeros under a key and an IV of zeros (FIPS 197; libcrypto agrees).
static int alg_encrypt(int operation)
{
    static const unsigned char expected[16] = {0x66, 0xe9, 0x4b, 0xd4, 0xef, 0x8a, 0x2c, 0x3b,
                                               0x88, 0x4c, 0xfa, 0x59, 0xca, 0x34, 0x2b, 0x2e};
    unsigned char block[16] = {0};
    union {
        char bytes[CMSG_SPACE(sizeof(uint32_t)) + CMSG_SPACE(sizeof(uint32_t) + 16)];
        struct cmsghdr align;
    } control = {0};
    struct iovec iov = {.iov_base = block, .iov_len = sizeof(block)};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof(control.bytes)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
    const uint32_t operation_code = ALG_OP_ENCRYPT, n_iv = 16;

    c->cmsg_level = SOL_ALG;
    c->cmsg_type = ALG_SET_OP;
    c->cmsg_len = CMSG_LEN(sizeof(uint32_t));
    memcpy(CMSG_DATA(c), &operation_code, sizeof(operation_code));
    c = CMSG_NXTHDR(&msg, c);
    c->cmsg_level = SOL_ALG;
    c->cmsg_type = ALG_SET_IV;
    c->cmsg_len = CMSG_LEN(sizeof(uint32_t) + 16);
    memcpy(CMSG_DATA(c), &n_iv, sizeof(n_iv));
    CONFINED_STEP(sendmsg(operation, &msg, 0) == 16);
    CONFINED_STEP(read(operation, block, sizeof(block)) == 16);
    CONFINED_STEP(memcmp(block, expected, sizeof(block)) == 0);
    return 0;
}

static int alg_run(const void *argument)
{
    struct alg_sockets sockets = {-1, -1};
    int r;

    (void)argument;
    if (sandbox_harden_process() != 0 ||
        sandbox_drop_privileges(SANDBOX_ROOT_NOWHERE, 61980, 61980, false) != 0)
        return 121;
    confined_load(SANDBOX_ENGINE, SANDBOX_KILL);
    r = alg_open(&sockets);
    if (r == 0)
        r = alg_encrypt(sockets.operation);
    return r;
}

Test(engine_work, the_kernel_encrypts_in_the_sandbox)
{
    int fd = socket(AF_ALG, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    if (fd < 0)
        cr_skip_test("this kernel has no AF_ALG: %s", strerror(errno));
    close(fd);
    if (geteuid() != 0)
        cr_skip_test("needs root, to drop privileges");
    confined_assert_exit(confined_run(alg_run, NULL), 0, "a request to the kernel");
}
