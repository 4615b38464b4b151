// SPDX-License-Identifier: MIT
// A daemon on a thread of the test. See fake_daemon.h.
#include "fake_daemon.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "packet.h"
#include "reference.h"

#define FAKE_STEP_MS 1
#define FAKE_WAIT_MS 10000

void fake_daemon_init(struct fake_daemon *fake, uint32_t deadline_ms)
{
    memset(fake, 0, sizeof *fake);
    fake->hello = (struct message_hello_reply){
        .version = MESSAGE_VERSION_MAX,
        .channel = 1,
        .deadline_ms = deadline_ms,
        .spin_us = 10,
    };
    for (uint32_t id = 0; id < ALGORITHM_COUNT; id++)
        fake->hello.offer[id] = (struct message_offer){
            .lanes = id == ALGORITHM_CHACHA20 ? MESSAGE_LANE_SOFTWARE : MESSAGE_LANE_REQUEST,
            .request_min = 1};
    fake->listener = -1;
    for (uint32_t i = 0; i < FAKE_CLIENTS; i++)
        fake->clients[i].control = fake->clients[i].bell = -1;
}

static void fake_sleep_step(void)
{
    nanosleep(&(struct timespec){.tv_nsec = FAKE_STEP_MS * 1000000L}, NULL);
}

void fake_daemon_wait(_Atomic uint32_t *counter, uint32_t n)
{
    for (int waited = 0; atomic_load(counter) < n; waited += FAKE_STEP_MS) {
        cr_assert_lt(waited, FAKE_WAIT_MS, "nothing more came; %u of %u", atomic_load(counter), n);
        fake_sleep_step();
    }
}

void fake_daemon_settle(struct fake_daemon *fake)
{
    // The turn that runs may be past the bell, so two more: a bell is counted after its work.
    fake_daemon_wait(&fake->turns, atomic_load(&fake->turns) + 3);
}

struct shm_map fake_daemon_map(struct fake_daemon *fake)
{
    cr_assert_geq(fake->clients[0].control, 0);
    const struct shm_map map = fake->clients[0].map;
    atomic_fetch_add(&fake->looks, 1);
    return map;
}

static void fake_drop(struct fake_daemon *fake, struct fake_client *client)
{
    (void)atomic_load(&fake->looks); // whoever looked has done so before the client left
    close(client->control);
    if (client->bell >= 0)
        close(client->bell);
    shm_unmap(&client->map);
    memset(client, 0, sizeof *client);
    client->control = client->bell = -1;
    atomic_fetch_add(&fake->lost, 1);
}

static void fake_answer_hello(struct fake_daemon *fake, struct fake_client *client,
                              const struct message *m, const int fds[2])
{
    struct message answer = {
        .type = MESSAGE_HELLO_REPLY, .serial = m->serial, .u.hello_reply = fake->hello};
    int order = atomic_load(&fake->on_hello);

    cr_assert_eq(shm_attach(fds[0], m->u.hello.n_slots, m->u.hello.n_streams, &client->map), 0);
    close(fds[0]);
    client->bell = fds[1];
    atomic_fetch_add(&fake->hellos, 1);
    if (fake->hello_garbage)
        fake->hello_garbage(&answer);
    if (order == FAKE_HANG_UP)
        fake_drop(fake, client);
    else if (order != FAKE_SILENT)
        (void)packet_write(client->control, &answer);
}

static void fake_answer_open(struct fake_daemon *fake, struct fake_client *client,
                             const struct message *m)
{
    uint32_t stream = m->u.stream_open.stream;
    int order = atomic_load(&fake->on_open);
    struct message answer = {
        .type = MESSAGE_STREAM_REPLY,
        .serial = m->serial,
        .u.stream_reply = {.stream = stream,
                           .reason = order == FAKE_REFUSE ? MESSAGE_REASON_ALGORITHM : MESSAGE_OK},
    };

    if (order == FAKE_GARBAGE)
        answer.serial += 1000;
    if (order == FAKE_HANG_UP) {
        fake_drop(fake, client);
        return;
    }
    client->algorithm[stream] = m->u.stream_open.algorithm;
    memcpy(client->key[stream], shm_stream(&client->map, stream)->key, ALGORITHM_KEY_MAX);
    (void)packet_write(client->control, &answer);
    atomic_fetch_add(&fake->answers, 1);
}

static void fake_take_message(struct fake_daemon *fake, struct fake_client *client)
{
    struct message m;
    int fds[MESSAGE_FDS_MAX];
    int r = packet_recv(client->control, MESSAGE_CLIENT_TO_FRONT, &m, fds);

    if (r == -EAGAIN)
        return;
    if (r == -ENODATA || r == -ECONNRESET) {
        fake_drop(fake, client);
        return;
    }
    cr_assert_eq(r, 0, "the library sent something that is no message: %d", r);
    switch (m.type) {
    case MESSAGE_HELLO:
        fake_answer_hello(fake, client, &m, fds);
        break;
    case MESSAGE_STREAM_OPEN:
        cr_assert_lt(client->n_waiting, SHM_STREAMS_MAX);
        client->waiting[client->n_waiting++] = m;
        atomic_fetch_add(&fake->opens, 1);
        break;
    case MESSAGE_STATUS:
        fake->on_status(client->control, m.serial);
        break;
    case MESSAGE_CALIBRATE:
        fake->on_calibrate(client->control, m.serial, m.u.calibrate.measure != 0);
        break;
    case MESSAGE_STREAM_CLOSE:
        atomic_fetch_add(&fake->closes, 1);
        break;
    default:
        cr_assert_fail("unexpected message %d", m.type);
    }
}

// Keystream comes from zeroes; the other lane's data lies in the slot.
static void fake_do_request(struct fake_daemon *fake, struct fake_client *client,
                            const struct shm_request *request, uint8_t *data)
{
    const struct algorithm_info *info = algorithm_get(client->algorithm[request->stream]);
    bool keystream = request->operation == SHM_OP_KEYSTREAM;

    cr_assert_lt(request->slot, client->map.n_slots);
    cr_assert_eq(keystream, request->slot >= SHM_SLOTS_REQUEST);
    cr_assert_leq(request->n_bytes, SHM_SLOT_SIZE);
    cr_assert_gt(request->n_bytes, 0);
    cr_assert_eq(request->n_bytes % (keystream ? info->n_cipher_block : info->n_block), 0);
    if (keystream) {
        cr_assert_eq(atomic_load(&shm_done(&client->map, request->slot)->claim), SHM_CLAIM_NOBODY);
        client->filled |= UINT64_C(1) << request->slot;
        atomic_fetch_add(&fake->keystreams, 1);
        memset(data, 0, request->n_bytes);
    }
    reference_crypt(info->id, client->key[request->stream], request->iv,
                    request->operation != SHM_OP_DECRYPT, data, data, request->n_bytes);
}

static void fake_complete(struct fake_daemon *fake, struct fake_client *client, uint32_t sequence,
                          int order)
{
    struct shm_request request = *shm_request(&client->map, sequence);
    uint8_t *data = shm_data(&client->map, request.slot);
    struct shm_done *done = shm_done(&client->map, request.slot);

    cr_assert_eq(request.sequence, sequence);
    fake_do_request(fake, client, &request, data);
    if (order != FAKE_ACCEPT)
        memset(data, 0x5a, request.n_bytes); // after an error the output is undefined
    if (atomic_load(&fake->false_rings) > 0) {
        atomic_fetch_sub(&fake->false_rings, 1);
        (void)!write(client->bell, "", 1);
        fake_sleep_step(); // the client wakes for nothing
    }
    done->result = order == FAKE_REFUSE ? -EIO : 0;
    atomic_store(&done->sequence, order == FAKE_GARBAGE ? sequence : sequence + 1);
    if (shm_must_ring_slot(&shm_header(&client->map)->client_waits, request.slot))
        (void)!write(client->bell, "", 1);
}

static void fake_serve_ring(struct fake_daemon *fake, struct fake_client *client)
{
    uint32_t submitted = atomic_load(&shm_header(&client->map)->submitted);

    while (client->collected != submitted) {
        uint32_t number = atomic_load(&fake->requests);
        int order = number < atomic_load(&fake->request_from) ? FAKE_ACCEPT
                                                              : atomic_load(&fake->on_request);
        if (order == FAKE_SILENT)
            return;
        atomic_fetch_add(&fake->requests, 1);
        if (order == FAKE_HANG_UP) {
            fake_drop(fake, client);
            return;
        }
        fake_complete(fake, client, client->collected++, order);
    }
}

// What the engine does to a channel that has been idle for long.
static void fake_revoke(struct fake_daemon *fake, struct fake_client *client)
{
    for (uint32_t slot = SHM_SLOTS_REQUEST; slot < client->map.n_slots; slot++) {
        if (!(client->filled & (UINT64_C(1) << slot)) ||
            !shm_claim(shm_done(&client->map, slot), SHM_CLAIM_ENGINE))
            continue;
        memset(shm_data(&client->map, slot), 0, SHM_SLOT_SIZE);
        client->filled &= ~(UINT64_C(1) << slot);
        atomic_fetch_add(&fake->revoked, 1);
    }
}

static void fake_serve(struct fake_daemon *fake, struct fake_client *client)
{
    char byte;

    fake_take_message(fake, client);
    if (client->control < 0 || client->bell < 0)
        return;
    while (client->n_waiting > 0 && atomic_load(&fake->on_open) != FAKE_SILENT) {
        struct message m = client->waiting[0];
        client->n_waiting--;
        memmove(client->waiting, client->waiting + 1, client->n_waiting * sizeof m);
        fake_answer_open(fake, client, &m);
        if (client->control < 0)
            return;
    }
    while (recv(client->bell, &byte, 1, MSG_DONTWAIT) == 1)
        atomic_fetch_add(&fake->bells, 1);
    (void)shm_wait_begin(&shm_header(&client->map)->engine_waits);
    fake_serve_ring(fake, client);
    if (client->control >= 0 && atomic_load(&fake->revoke)) {
        fake_revoke(fake, client);
        atomic_store(&fake->revoke, false);
    }
}

static void fake_accept(struct fake_daemon *fake)
{
    int fd = accept4(fake->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd < 0)
        return;
    for (uint32_t i = 0; i < FAKE_CLIENTS; i++) {
        if (fake->clients[i].control < 0) {
            fake->clients[i].control = fd;
            return;
        }
    }
    cr_assert_fail("too many clients");
}

static void *fake_run(void *argument)
{
    struct fake_daemon *fake = argument;

    while (!atomic_load(&fake->stop)) {
        struct pollfd items[1 + 2 * FAKE_CLIENTS] = {{.fd = fake->listener, .events = POLLIN}};
        for (uint32_t i = 0; i < FAKE_CLIENTS; i++) {
            items[1 + 2 * i] = (struct pollfd){.fd = fake->clients[i].control, .events = POLLIN};
            items[2 + 2 * i] = (struct pollfd){.fd = fake->clients[i].bell, .events = POLLIN};
        }
        (void)poll(items, 1 + 2 * FAKE_CLIENTS, FAKE_STEP_MS);
        fake_accept(fake);
        for (uint32_t i = 0; i < FAKE_CLIENTS; i++)
            if (fake->clients[i].control >= 0)
                fake_serve(fake, &fake->clients[i]);
        atomic_fetch_add(&fake->turns, 1);
    }
    return NULL;
}

void fake_daemon_start(struct fake_daemon *fake)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    snprintf(fake->folder, sizeof fake->folder, "%s", P_tmpdir "/cryptod-fake.XXXXXX");
    cr_assert_not_null(mkdtemp(fake->folder));
    snprintf(fake->socket, sizeof fake->socket, "%s/s", fake->folder);
    memcpy(address.sun_path, fake->socket, sizeof fake->socket);
    fake->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    cr_assert_geq(fake->listener, 0);
    cr_assert_eq(bind(fake->listener, (struct sockaddr *)&address, sizeof address), 0);
    cr_assert_eq(listen(fake->listener, 16), 0);
    setenv("CRYPTOD_SOCKET", fake->socket, 1);
    cr_assert_eq(pthread_create(&fake->thread, NULL, fake_run, fake), 0);
}

void fake_daemon_stop(struct fake_daemon *fake)
{
    atomic_store(&fake->stop, true);
    cr_assert_eq(pthread_join(fake->thread, NULL), 0);
    for (uint32_t i = 0; i < FAKE_CLIENTS; i++)
        if (fake->clients[i].control >= 0)
            fake_drop(fake, &fake->clients[i]);
    close(fake->listener);
    unlink(fake->socket);
    rmdir(fake->folder);
    unsetenv("CRYPTOD_SOCKET");
}
