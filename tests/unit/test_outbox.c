// SPDX-License-Identifier: MIT
// Messages to a front that reads late, or never.
#include "outbox.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <event2/event.h>
#include <sys/socket.h>
#include <unistd.h>

#include "packet.h"

TestSuite(outbox, .timeout = 60);

struct rig {
    struct event_base *base;
    struct outbox outbox;
    int fds[2];
    int error;
};

static void on_error(void *user, int error)
{
    struct rig *rig = user;

    rig->error = error;
}

static void setup(struct rig *rig)
{
    *rig = (struct rig){.base = event_base_new()};
    cr_assert_not_null(rig->base);
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, rig->fds), 0);
    cr_assert_eq(outbox_init(&rig->outbox, rig->base, rig->fds[0], on_error, rig), 0);
}

static void teardown(struct rig *rig)
{
    outbox_fini(&rig->outbox);
    event_base_free(rig->base);
    close(rig->fds[0]);
    close(rig->fds[1]);
}

static void send_numbered(struct rig *rig, uint64_t number)
{
    const struct message m = {.type = MESSAGE_STATUS_END, .serial = number};

    outbox_send(&rig->outbox, &m);
}

static uint64_t receive(struct rig *rig)
{
    int fds[MESSAGE_FDS_MAX];
    struct message m;

    return packet_recv(rig->fds[1], MESSAGE_ENGINE_TO_FRONT, &m, fds) == 0 ? m.serial : UINT64_MAX;
}

Test(outbox, keeps_the_order_for_a_late_reader)
{
    struct rig rig;
    uint64_t next = 0;

    setup(&rig);
    for (uint64_t i = 0; i < 3000; i++)
        send_numbered(&rig, i);
    cr_expect_gt(rig.outbox.n_items, 0, "nothing had to wait: this tests nothing");
    while (next < 3000) {
        uint64_t serial = receive(&rig);

        if (serial == UINT64_MAX) {
            cr_assert_eq(event_base_loop(rig.base, EVLOOP_ONCE), 0);
            continue;
        }
        cr_assert_eq(serial, next);
        next++;
    }
    cr_expect_eq(rig.outbox.n_items, 0);
    cr_expect_eq(rig.error, 0);
    // And with nothing waiting the loop has nothing to do.
    cr_expect_eq(event_base_loop(rig.base, EVLOOP_NONBLOCK), 1);
    teardown(&rig);
}

Test(outbox, gives_up_on_a_reader_that_never_reads)
{
    struct rig rig;

    setup(&rig);
    for (uint64_t i = 0; i < 20000 && rig.error == 0; i++)
        send_numbered(&rig, i);
    cr_expect_eq(rig.error, -ENOBUFS);
    teardown(&rig);
}

Test(outbox, notices_that_nobody_is_there)
{
    struct rig rig;

    setup(&rig);
    close(rig.fds[1]);
    rig.fds[1] = -1;
    send_numbered(&rig, 1);
    cr_expect_eq(rig.error, -EPIPE);
    teardown(&rig);
}
