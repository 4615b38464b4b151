// SPDX-License-Identifier: MIT
// libFuzzer entry for the library and cryptoctl as they read a daemon's status and calibration: any
// packets, whole ones with numbers and texts of the input, the end at any point. What is taken is
// printed both ways.
#include "fuzz_input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "calibrate_print.h"
#include "cryptod.h"
#include "packet.h"
#include "status.h"
#include "wire.h"

#define PACKETS_MAX 64

static int daemon_end = -1, client_end = -1;

int __wrap_wire_connect(const char *path, int *ret_fd);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

    (void)argc;
    (void)argv;
    fuzz_require(null >= 0 && dup2(null, STDOUT_FILENO) >= 0);
    close(null);
    return 0;
}

// Everything that the daemon will say is in the socket already.
int __wrap_wire_connect(const char *path, int *ret_fd)
{
    (void)path;
    fuzz_require(client_end >= 0);
    *ret_fd = client_end;
    client_end = -1;
    return 0;
}

static void take_text(struct fuzz_input *in, char *to, size_t n_to)
{
    size_t n;
    const uint8_t *bytes = fuzz_bytes(in, fuzz_byte(in) % n_to, &n);

    memcpy(to, bytes, strnlen((const char *)bytes, n));
}

static void take_summary(struct fuzz_input *in, struct message_status_summary *ret)
{
    fuzz_take(in, ret, fuzz_byte(in) % offsetof(struct message_status_summary, text));
    take_text(in, ret->text, sizeof(ret->text));
    take_text(in, ret->release, sizeof(ret->release));
    take_text(in, ret->kernel, sizeof(ret->kernel));
}

static void take_algorithm(struct fuzz_input *in, struct message_status_algorithm *ret)
{
    ret->algorithm = fuzz_byte(in) % (ALGORITHM_COUNT + 1);
    ret->state = fuzz_byte(in) % (MESSAGE_STATE_COUNT + 1);
    ret->lanes = fuzz_byte(in);
    fuzz_take(in, &ret->operations, fuzz_byte(in) % 25);
    take_text(in, ret->backend, sizeof(ret->backend));
    take_text(in, ret->driver, sizeof(ret->driver));
    take_text(in, ret->text, sizeof(ret->text));
    ret->verified = fuzz_byte(in);
}

static void take_calibration(struct fuzz_input *in, struct message_calibration *ret)
{
    fuzz_take(in, ret, fuzz_byte(in) % (offsetof(struct message_calibration, backend) + 1));
    ret->algorithm %= ALGORITHM_COUNT + 1;
    ret->state %= MESSAGE_STATE_COUNT + 1;
    take_text(in, ret->backend, sizeof(ret->backend));
    take_text(in, ret->driver, sizeof(ret->driver));
    take_text(in, ret->text, sizeof(ret->text));
}

// Well-formed, so that a fuzzer gets behind the decoder.
static void say_message(struct fuzz_input *in)
{
    static const enum message_type types[] = {
        MESSAGE_STATUS_SUMMARY,       MESSAGE_STATUS_ALGORITHM, MESSAGE_STATUS_CHANNEL,
        MESSAGE_STATUS_END,           MESSAGE_CALIBRATION,      MESSAGE_CALIBRATION_END,
        MESSAGE_CALIBRATION_PROGRESS, MESSAGE_HELLO_REPLY,
    };
    uint8_t what = fuzz_byte(in);
    struct message m = {.type = types[what & 7], .serial = (what & 0x80) != 0 ? 2 : 1};

    switch (m.type) {
    case MESSAGE_STATUS_SUMMARY:
        take_summary(in, &m.u.status_summary);
        break;
    case MESSAGE_STATUS_ALGORITHM:
        take_algorithm(in, &m.u.status_algorithm);
        break;
    case MESSAGE_CALIBRATION:
        take_calibration(in, &m.u.calibration);
        break;
    case MESSAGE_STATUS_CHANNEL:
        fuzz_take(in, &m.u.status_channel, fuzz_byte(in) % (sizeof(m.u.status_channel) + 1));
        break;
    case MESSAGE_STATUS_END:
    case MESSAGE_CALIBRATION_END:
        m.u.status_end.reason = fuzz_byte(in) % (MESSAGE_REASON_COUNT + 1);
        break;
    case MESSAGE_CALIBRATION_PROGRESS:
        fuzz_take(in, &m.u.calibration_progress, sizeof(m.u.calibration_progress));
        break;
    default:
        break;
    }
    (void)packet_send(daemon_end, &m, NULL, 0); // more than the socket holds is not said
}

static void say_bytes(struct fuzz_input *in)
{
    size_t n;
    const uint8_t *bytes = fuzz_bytes(in, fuzz_byte(in), &n);

    (void)!send(daemon_end, bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void on_progress(void *user, unsigned done, unsigned total)
{
    *(uint64_t *)user += done + total;
}

static void read_status(void)
{
    struct cryptod_status *status = NULL;

    if (cryptod_status_get("/", 0, &status) < 0)
        return;
    fuzz_require(status_print_json(status) == 0 && status_print_tables(status) == 0);
    cryptod_status_free(status);
}

static void read_calibration(bool measure)
{
    struct cryptod_calibration *calibration = NULL;
    uint64_t progress = 0;
    int r = measure ? cryptod_calibrate("/", 0, on_progress, &progress, &calibration)
                    : cryptod_calibration_get("/", 0, &calibration);

    if (r < 0)
        return;
    fuzz_require(calibrate_print_json(calibration) == 0 &&
                 calibrate_print_tables(calibration) == 0);
    cryptod_calibration_free(calibration);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct fuzz_input in = {data, data + n};
    uint8_t what = fuzz_byte(&in);
    int pair[2];

    fuzz_require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
    daemon_end = pair[0];
    client_end = pair[1];
    for (int i = 0; i < PACKETS_MAX && fuzz_left(&in) > 0; i++) {
        if ((fuzz_byte(&in) & 7) == 7)
            say_bytes(&in);
        else
            say_message(&in);
    }
    if ((what & 0x80) != 0)
        (void)shutdown(daemon_end, SHUT_WR);
    if ((what & 3) == 0)
        read_calibration((what & 4) != 0);
    else
        read_status();
    close(daemon_end);
    if (client_end >= 0)
        close(client_end);
    client_end = -1;
    return 0;
}
