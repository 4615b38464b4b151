// SPDX-License-Identifier: MIT
// Guarantees that a daemon that does not answer fails the test instead of hanging it.
#include "front_raw.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cryptod.h"
#include "packet.h"
#include "fixture_proc.h"

#define LIMIT_S    30 // for one answer; a daemon under a sanitizer on a busy machine is slow
#define STEP_MS    10
#define STEPS      3000
#define N_WITNESS  4096
#define HELLO_SLOT 2

static void sleep_step(void)
{
    nanosleep(&(struct timespec){.tv_nsec = STEP_MS * 1000000L}, NULL);
}

int raw_connect(const struct fixture *f)
{
    const struct timeval limit = {.tv_sec = LIMIT_S};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    cr_assert_geq(fd, 0);
    cr_assert_lt(strlen(f->socket), sizeof(address.sun_path));
    strcpy(address.sun_path, f->socket);
    cr_assert_eq(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
    cr_assert_eq(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)), 0);
    cr_assert_eq(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0, "%s: %s", f->socket,
                 strerror(errno));
    return fd;
}

bool raw_send(int client, const void *bytes, size_t n_bytes, const int *fds, size_t n_fds)
{
    union {
        char bytes[CMSG_SPACE(RAW_FDS_MAX * sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct iovec iov = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = n_bytes};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

    cr_assert_leq(n_fds, RAW_FDS_MAX);
    if (n_fds > 0) {
        msg.msg_control = control.bytes;
        msg.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
        memcpy(CMSG_DATA(c), fds, n_fds * sizeof(int));
    }
    ssize_t n = sendmsg(client, &msg, MSG_NOSIGNAL);
    if (n < 0 && (errno == EPIPE || errno == ECONNRESET))
        return false;
    cr_assert_eq(n, (ssize_t)n_bytes, "sendmsg: %s", strerror(errno));
    return true;
}

bool raw_send_message(int client, const struct message *m, const int *fds, size_t n_fds)
{
    uint8_t buf[MESSAGE_LEN_MAX];
    size_t n;

    cr_assert_eq(message_encode(m, buf, sizeof(buf), &n), 0);
    return raw_send(client, buf, n, fds, n_fds);
}

void raw_channel_make(struct raw_channel *ret)
{
    cr_assert_eq(shm_create(HELLO_SLOT, 4, &ret->map, &ret->memory), 0);
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ret->bell), 0);
}

void raw_channel_free(struct raw_channel *channel)
{
    close(channel->memory);
    close(channel->bell[0]);
    close(channel->bell[1]);
    shm_unmap(&channel->map);
}

void raw_hello_fill(struct message *ret)
{
    *ret = (struct message){
        .type = MESSAGE_HELLO,
        .serial = 1,
        .u.hello = {MESSAGE_VERSION_MIN, MESSAGE_VERSION_MAX, HELLO_SLOT, 4},
    };
}

int raw_open(const struct fixture *f, struct raw_channel *channel)
{
    struct message m;
    int client = raw_connect(f);

    raw_channel_make(channel);
    raw_hello_fill(&m);
    cr_assert(raw_send_message(client, &m, (const int[]){channel->memory, channel->bell[1]}, 2));
    raw_expect(client, MESSAGE_HELLO_REPLY, &m);
    cr_assert_eq(m.u.hello_reply.reason, MESSAGE_OK, "%s",
                 message_reason_text(m.u.hello_reply.reason));
    return client;
}

void raw_expect(int client, enum message_type type, struct message *ret)
{
    int r = packet_read(client, MESSAGE_FRONT_TO_CLIENT, ret);

    while (r == 0 && ret->type == MESSAGE_STATUS_NOTE && type != MESSAGE_STATUS_NOTE)
        r = packet_read(client, MESSAGE_FRONT_TO_CLIENT, ret);
    cr_assert_eq(r, 0, "no %s: %s", message_info(type)->name, strerror(-r));
    cr_assert_eq(ret->type, type, "%s, not %s", message_info(ret->type)->name,
                 message_info(type)->name);
}

void raw_expect_closed(int client)
{
    char buf[MESSAGE_LEN_MAX];
    ssize_t n;

    do {
        n = recv(client, buf, sizeof(buf), 0);
    } while (n > 0);
    cr_assert(n == 0 || errno == ECONNRESET, "not closed: %s", strerror(errno));
}

static bool line_contains(const char *line, size_t n, const char *text)
{
    return memmem(line, n, text, strlen(text)) != NULL;
}

unsigned raw_log_count(const struct fixture *f, const char *a, const char *b)
{
    char *log = fixture_log(f);
    unsigned n_lines = 0;

    for (const char *line = log; *line != '\0';) {
        size_t n = strcspn(line, "\n");
        if (line_contains(line, n, a) && (b == NULL || line_contains(line, n, b)))
            n_lines++;
        line += n;
        line += *line == '\n';
    }
    free(log);
    return n_lines;
}

void raw_wait_log_count(const struct fixture *f, const char *a, const char *b, unsigned n)
{
    for (int i = 0; i < STEPS; i++) {
        if (raw_log_count(f, a, b) >= n)
            return;
        sleep_step();
    }
    char *log = fixture_log(f);
    cr_log_error("%u lines with \"%s\" and \"%s\" expected in:\n%s", n, a, b != NULL ? b : "", log);
    free(log);
    cr_assert_fail("a line is missing in the log");
}

void raw_wait_fds(pid_t pid, unsigned n)
{
    unsigned n_now = 0;

    for (int i = 0; i < STEPS; i++) {
        n_now = fixture_proc_count_descriptors(pid);
        if (n_now == n)
            return;
        sleep_step();
    }
    cr_assert_eq(n_now, n, "descriptors");
}

void raw_status(const struct fixture *f, struct message_status_summary *ret)
{
    struct message m = {.type = MESSAGE_STATUS};
    int client = raw_connect(f);

    cr_assert(raw_send_message(client, &m, NULL, 0));
    raw_expect(client, MESSAGE_STATUS_SUMMARY, &m);
    *ret = m.u.status_summary;
    close(client);
}

void raw_wait_channels(const struct fixture *f, uint32_t n)
{
    struct message_status_summary summary = {0};

    for (int i = 0; i < STEPS; i++) {
        raw_status(f, &summary);
        if (summary.channels == n)
            return;
        sleep_step();
    }
    cr_assert_eq(summary.channels, n, "channels");
}

void raw_run_as(const struct fixture *f, uid_t uid, const gid_t *groups, size_t n_groups,
                int (*test)(const struct fixture *f))
{
    pid_t child = fork();

    cr_assert_geq(child, 0);
    if (child == 0) {
        if (setgroups(n_groups, groups) < 0 || setresgid(uid, uid, uid) < 0 ||
            setresuid(uid, uid, uid) < 0)
            _exit(100);
        _exit(test(f));
    }
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status), "status %#x", (unsigned)status);
    cr_assert_eq(WEXITSTATUS(status), 0, "step %d failed as uid %d", WEXITSTATUS(status), (int)uid);
}

static cryptod_stream *witness;

void raw_witness_start(const struct fixture *f)
{
    static const uint8_t key[16] = {1}, iv[16] = {2};

    int r = cryptod_open(f->socket, LIMIT_S * 1000);
    cr_assert_eq(r, 0, "%s; the daemon says: %s", strerror(-r), fixture_log(f));
    cr_assert_eq(cryptod_stream_new(CRYPTOD_AES_128_CTR, &witness), 0);
    cr_assert_eq(cryptod_stream_init(witness, key, iv, true), 0);
    raw_witness_check();
}

// Twice the keystream is the plain text again, and the engine must have made the one half of it.
void raw_witness_check(void)
{
    static const uint8_t zero[N_WITNESS];
    uint8_t data[N_WITNESS];
    struct cryptod_counters before, after;
    cryptod_stream *copy;

    cryptod_counters_get(&before);
    for (int i = 0;; i++) {
        cr_assert_lt(i, STEPS, "the witness does not come into a lane of the engine");
        cr_assert_eq(cryptod_stream_dup(witness, &copy), 0);
        cr_assert_eq(cryptod_stream_crypt(witness, data, zero, N_WITNESS), 0);
        cr_assert_eq(cryptod_stream_crypt(copy, data, data, N_WITNESS),
                     0); // a copy starts in software
        cryptod_stream_free(copy);
        cr_assert_arr_eq(data, zero, N_WITNESS);
        cryptod_counters_get(&after);
        if (after.keystream_bytes > before.keystream_bytes)
            break;
        sleep_step();
    }
    cr_assert_eq(after.fallbacks, before.fallbacks);
}

void raw_witness_stop(void)
{
    cryptod_stream_free(witness);
    witness = NULL;
    cryptod_close();
}
