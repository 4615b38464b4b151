// SPDX-License-Identifier: MIT
// The front between its two neighbours: the start, orders of the monitor, a busy engine, and both
// their ends.
#include "front_rig.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "packet.h"
#include "role.h"
#include "fixture_proc.h"

static struct front_rig rig;

static void relay_init_rig(uint32_t mode, uint32_t offload)
{
    struct message_role_config config;

    front_rig_config(&config);
    config.mode = mode;
    config.offload = offload;
    config.channels_max = config.channels_per_uid = 100;
    config.streams_per_channel = 32;
    strcpy(config.text, "after 5 failures");
    front_rig_init(&rig, &config, -1);
}

static void expect_monitor(enum message_type type, uint64_t serial)
{
    struct message m;

    cr_assert_eq(packet_read(rig.monitor, MESSAGE_ROLE_TO_MONITOR, &m), 0);
    cr_assert_eq(m.type, type);
    cr_assert_eq(m.serial, serial);
}

Test(front_relay, ready_after_the_first_offer)
{
    relay_init_rig(MESSAGE_OK, CONFIG_OFFLOAD_ALWAYS);
    front_rig_turn(&rig);
    front_rig_expect_nothing(rig.monitor);
    front_rig_offer(&rig);
    expect_monitor(MESSAGE_ROLE_READY, 0);
    front_rig_offer(&rig); // again: no second READY
    front_rig_expect_nothing(rig.monitor);
    front_rig_fini(&rig);
}

Test(front_relay, offload_off_offers_nothing)
{
    struct message add, reply;

    relay_init_rig(MESSAGE_OK, CONFIG_OFFLOAD_OFF);
    front_rig_offer(&rig);
    int client = front_rig_connect(&rig);
    front_rig_hello(&rig, client, 1, NULL);
    front_rig_expect_engine(&rig, MESSAGE_CHANNEL_ADD, &add);
    front_rig_channel_reply(&rig, &add, MESSAGE_OK);
    front_rig_expect_client(client, MESSAGE_HELLO_REPLY, &reply);
    for (unsigned i = 0; i < ALGORITHM_COUNT; i++)
        cr_assert_eq(reply.u.hello_reply.offer[i].lanes, 0);
    close(client);
    front_rig_fini(&rig);
}

Test(front_relay, ping_is_answered)
{
    const struct message ping = {.type = MESSAGE_PING, .serial = 99};

    relay_init_rig(MESSAGE_OK, CONFIG_OFFLOAD_ALWAYS);
    front_rig_send(&rig, rig.monitor, &ping, NULL, 0);
    expect_monitor(MESSAGE_PONG, 99);
    front_rig_fini(&rig);
}

Test(front_relay, new_configuration_replaces_limits)
{
    struct message m = {.type = MESSAGE_ROLE_CONFIG};
    struct message reply;

    relay_init_rig(MESSAGE_OK, CONFIG_OFFLOAD_ALWAYS);
    front_rig_offer(&rig);
    int first = front_rig_open(&rig, NULL), second = front_rig_connect(&rig);
    front_rig_config(&m.u.role_config);
    m.u.role_config.channels_max = 1;
    m.u.role_config.deadline_ms = 123;
    front_rig_send(&rig, rig.monitor, &m, NULL, 0);
    front_rig_hello(&rig, second, 1, NULL);
    front_rig_expect_client(second, MESSAGE_HELLO_REPLY, &reply);
    cr_assert_eq(reply.u.hello_reply.reason, MESSAGE_REASON_LIMIT);
    front_rig_expect_nothing(first); // what was given stays
    close(first);
    front_rig_turn(&rig);
    front_rig_expect_engine(&rig, MESSAGE_CHANNEL_REMOVE, NULL);
    first = front_rig_open(&rig, NULL);
    close(first);
    close(second);
    front_rig_fini(&rig);
}

Test(front_relay, software_only)
{
    struct message m;

    relay_init_rig(MESSAGE_REASON_SOFTWARE, CONFIG_OFFLOAD_ALWAYS);
    int client = front_rig_connect(&rig), asker = front_rig_connect(&rig);
    front_rig_hello(&rig, client, 1, NULL);
    front_rig_expect_client(client, MESSAGE_HELLO_REPLY, &m);
    cr_assert_eq(m.u.hello_reply.reason, MESSAGE_REASON_SOFTWARE);
    front_rig_expect_closed(client);
    front_rig_status(&rig, asker, 2);
    front_rig_expect_client(asker, MESSAGE_STATUS_SUMMARY, &m);
    cr_assert_eq(m.u.status_summary.mode, MESSAGE_REASON_SOFTWARE);
    cr_assert_eq(m.u.status_summary.refused_total, 1);
    cr_assert_str_eq(m.u.status_summary.text, "after 5 failures");
    front_rig_expect_client(asker, MESSAGE_STATUS_USER, &m);
    front_rig_expect_client(asker, MESSAGE_STATUS_END, &m);
    cr_assert_eq(m.u.status_end.reason, MESSAGE_OK);
    close(client);
    close(asker);
    front_rig_fini(&rig);
}

Test(front_relay, end_of_the_monitor_ends_the_front)
{
    relay_init_rig(MESSAGE_OK, CONFIG_OFFLOAD_ALWAYS);
    shutdown(rig.monitor, SHUT_RDWR);
    cr_assert_eq(front_run(&rig.front), 0);
    front_rig_fini(&rig);
}

Test(front_relay, end_of_the_engine_ends_the_front)
{
    relay_init_rig(MESSAGE_OK, CONFIG_OFFLOAD_ALWAYS);
    front_rig_offer(&rig);
    int client = front_rig_open(&rig, NULL);
    shutdown(rig.engine, SHUT_RDWR);
    cr_assert_neq(front_run(&rig.front), 0);
    front_rig_fini(&rig);
    front_rig_expect_closed(client);
    close(client);
}

Test(front_relay, nonsense_of_the_engine_ends_the_front)
{
    relay_init_rig(MESSAGE_OK, CONFIG_OFFLOAD_ALWAYS);
    cr_assert_eq(send(rig.engine, "nonsense", 8, 0), 8);
    cr_assert_neq(front_run(&rig.front), 0);
    front_rig_fini(&rig);
}

Test(front_relay, nonsense_of_the_monitor_ends_the_front)
{
    relay_init_rig(MESSAGE_OK, CONFIG_OFFLOAD_ALWAYS);
    cr_assert_eq(send(rig.monitor, "nonsense", 8, 0), 8);
    cr_assert_neq(front_run(&rig.front), 0);
    front_rig_fini(&rig);
}

// An engine that does not read: what it must hear waits, descriptors included, and arrives in
// order.
Test(front_relay, busy_engine_hears_everything_in_order)
{
    enum { CLIENTS = 40 };
    const int small = 1;
    int clients[CLIENTS], bells[CLIENTS];
    struct message m;
    uint64_t last_serial = 0;

    relay_init_rig(MESSAGE_OK, CONFIG_OFFLOAD_ALWAYS);
    front_rig_offer(&rig);
    cr_assert_eq(setsockopt(rig.front.relay.fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
    size_t n_fds = fixture_proc_count_descriptors(getpid());
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = front_rig_connect(&rig);
        front_rig_hello(&rig, clients[i], 1, &bells[i]);
    }
    cr_assert_gt(rig.front.relay.n_queued, 0);
    for (int i = 0; i < CLIENTS / 2; i++) // half of them do not wait
        close(clients[i]);
    front_rig_turn(&rig);

    for (int i = 0; i < CLIENTS; i++) {
        front_rig_turn(&rig);
        front_rig_expect_engine(&rig, MESSAGE_CHANNEL_ADD, &m);
        cr_assert_gt(m.serial, last_serial);
        last_serial = m.serial;
        front_rig_channel_reply(&rig, &m, MESSAGE_OK);
    }
    for (int i = 0; i < CLIENTS / 2; i++) {
        front_rig_turn(&rig);
        front_rig_expect_engine(&rig, MESSAGE_CHANNEL_REMOVE, &m);
        cr_assert_gt(m.serial, last_serial);
        last_serial = m.serial;
    }
    front_rig_expect_nothing(rig.engine);
    cr_assert_eq(rig.front.relay.n_queued, 0);
    cr_assert_eq(account_count(rig.front.account, ACCOUNT_CHANNELS), CLIENTS / 2);
    for (int i = 0; i < CLIENTS; i++) {
        if (i >= CLIENTS / 2) {
            front_rig_expect_client(clients[i], MESSAGE_HELLO_REPLY, NULL);
            close(clients[i]);
        }
        close(bells[i]);
    }
    front_rig_turn(&rig);
    cr_assert_eq(fixture_proc_count_descriptors(getpid()), n_fds);
    front_rig_fini(&rig);
}

// The queue is given up with the front: no descriptor is left.
Test(front_relay, end_with_a_full_queue)
{
    const int small = 1;
    int clients[20];
    size_t n_fds = fixture_proc_count_descriptors(getpid());

    relay_init_rig(MESSAGE_OK, CONFIG_OFFLOAD_ALWAYS);
    front_rig_offer(&rig);
    cr_assert_eq(setsockopt(rig.front.relay.fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
    for (int i = 0; i < 20; i++) {
        clients[i] = front_rig_connect(&rig);
        front_rig_hello(&rig, clients[i], 1, NULL);
    }
    cr_assert_gt(rig.front.relay.n_queued, 0);
    for (int i = 0; i < 20; i++)
        close(clients[i]);
    front_rig_fini(&rig);
    cr_assert_eq(fixture_proc_count_descriptors(getpid()), n_fds);
}

// However much a client opens and closes, an engine that stands still has a bounded queue.
Test(front_relay, queue_is_bounded_by_the_limits_of_clients)
{
    const int small = 1;

    relay_init_rig(MESSAGE_OK, CONFIG_OFFLOAD_ALWAYS);
    front_rig_offer(&rig);
    int client = front_rig_open(&rig, NULL);
    cr_assert_eq(setsockopt(rig.front.relay.fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
    for (uint64_t i = 0; i < 1000 && rig.front.violations_total == 0; i++) {
        front_rig_stream_open(&rig, client, i, 0, ALGORITHM_AES_128_CBC);
        if (rig.front.violations_total == 0)
            front_rig_stream_close(&rig, client, 0);
    }
    cr_assert_eq(rig.front.violations_total, 1);
    cr_assert_leq(rig.front.relay.n_queued, 100);
    cr_assert_eq(rig.front.exit_status, 0);
    close(client);
    front_rig_fini(&rig);
}

static int listen_abstract(struct sockaddr_un *ret, socklen_t *ret_n)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    struct sockaddr_un any = {.sun_family = AF_UNIX};

    cr_assert_geq(fd, 0);
    cr_assert_eq(bind(fd, (struct sockaddr *)&any, sizeof(any.sun_family)), 0);
    *ret_n = sizeof(*ret);
    cr_assert_eq(getsockname(fd, (struct sockaddr *)ret, ret_n), 0);
    cr_assert_eq(listen(fd, 100), 0);
    return fd;
}

static int connect_to(const struct sockaddr_un *name, socklen_t n)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    cr_assert_geq(fd, 0);
    cr_assert_eq(connect(fd, (const struct sockaddr *)name, n), 0, "%s", strerror(errno));
    return fd;
}

// Out of descriptors: the front rests instead of spinning, and goes on when one becomes free.
Test(front_relay, listener_rests_when_descriptors_run_out)
{
    struct message_role_config config;
    struct sockaddr_un name;
    socklen_t n;
    struct rlimit limit;
    int clients[8];

    front_rig_config(&config);
    front_rig_init(&rig, &config, listen_abstract(&name, &n));
    for (int i = 0; i < 8; i++)
        clients[i] = connect_to(&name, n);
    front_rig_turn(&rig);
    cr_assert(LIST_EMPTY(&rig.front.clients), "nobody is accepted before it is ready");

    // Room for three more descriptors.
    int next = dup(0);
    cr_assert_geq(next, 0);
    close(next);
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = (rlim_t)next + 3;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    front_rig_offer(&rig);
    cr_assert_eq(account_count(rig.front.account, ACCOUNT_CONNECTIONS), 3);
    cr_assert(evtimer_pending(&rig.front.acceptor.resume_timer, NULL));
    cr_assert_not(event_pending(&rig.front.acceptor.event, EV_READ, NULL));

    // Let the first three go: the others come in at once, without waiting for the timer.
    struct client *client, *next_client;
    for (client = LIST_FIRST(&rig.front.clients); client != NULL; client = next_client) {
        next_client = LIST_NEXT(client, link);
        client_close(client);
    }
    cr_assert_not(evtimer_pending(&rig.front.acceptor.resume_timer, NULL));
    front_rig_turn(&rig);
    cr_assert_eq(account_count(rig.front.account, ACCOUNT_CONNECTIONS), 3);

    // And by the timer, when descriptors become free elsewhere.
    cr_assert(evtimer_pending(&rig.front.acceptor.resume_timer, NULL));
    limit.rlim_cur = limit.rlim_max;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    for (int i = 0; i < 500 && account_count(rig.front.account, ACCOUNT_CONNECTIONS) < 5; i++) {
        front_rig_turn(&rig);
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    cr_assert_eq(account_count(rig.front.account, ACCOUNT_CONNECTIONS), 5);
    for (int i = 0; i < 8; i++)
        close(clients[i]);
    front_rig_fini(&rig);
}
