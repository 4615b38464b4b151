// SPDX-License-Identifier: MIT
// The cheap checks come first, the quota before anything that looks at descriptors. The engine
// checks again.
#include "hello.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "front.h"
#include "log.h"
#include "refusal.h"

static int option_get(int fd, int option, int *ret)
{
    socklen_t n = sizeof(*ret);
    return getsockopt(fd, SOL_SOCKET, option, ret, &n) < 0 ? -errno : 0;
}

int hello_check_bell(int fd, uint32_t uid)
{
    int domain, type, listens;
    int r = option_get(fd, SO_DOMAIN, &domain);
    if (r < 0)
        return r; // -ENOTSOCK
    if (domain != AF_UNIX)
        return -EAFNOSUPPORT;
    r = option_get(fd, SO_TYPE, &type);
    if (r < 0)
        return r;
    if (type != SOCK_SEQPACKET)
        return -ESOCKTNOSUPPORT;
    r = option_get(fd, SO_ACCEPTCONN, &listens);
    if (r < 0)
        return r;
    struct sockaddr_storage address;
    socklen_t n_address = sizeof(address);
    if (listens != 0 || getpeername(fd, (struct sockaddr *)&address, &n_address) < 0)
        return -ENOTCONN;

    // The engine writes to it: a connection to somebody else's service would get those bytes as the
    // engine's.
    struct ucred cred;
    socklen_t n_cred = sizeof(cred);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &n_cred) < 0)
        return -errno;
    return cred.uid == uid ? 0 : -EPERM;
}

static void reply_fill(const struct client *client, struct message *ret)
{
    const struct front *front = client->front;
    *ret = (struct message){.type = MESSAGE_HELLO_REPLY, .serial = client->hello_serial};
    ret->u.hello_reply.reason = MESSAGE_OK;
    ret->u.hello_reply.version = client->version;
    ret->u.hello_reply.channel = client->channel;
    ret->u.hello_reply.deadline_ms = front->config.deadline_ms;
    ret->u.hello_reply.bulk_threshold = front->config.bulk_threshold;
    ret->u.hello_reply.spin_us = front->config.spin_us;
    ret->u.hello_reply.keystream_slots = front->config.keystream_slots;
    memcpy(ret->u.hello_reply.offer, front->offers, sizeof(front->offers));
}

// A refused client is told why and closed; its own mistakes are violations besides.
static enum verdict hello_refuse(struct client *client, uint32_t reason)
{
    bool is_mistake = reason == MESSAGE_REASON_MEMORY || reason == MESSAGE_REASON_BELL ||
                      reason == MESSAGE_REASON_MALFORMED;
    const struct message hello = {.type = MESSAGE_HELLO, .serial = client->hello_serial};

    if (is_mistake) {
        client->front->refused_total++;
        client_violation(client, "HELLO: %s", message_reason_text(reason));
    } else {
        refusal_note(client, reason);
    }
    refusal_send(client, &hello, reason); // it is closed in any case
    return VERDICT_CLOSE;
}

static uint32_t hello_agree_version(const struct message_hello *hello)
{
    if (hello->version_min > hello->version_max || hello->version_min > MESSAGE_VERSION_MAX ||
        hello->version_max < MESSAGE_VERSION_MIN)
        return 0;
    return hello->version_max < MESSAGE_VERSION_MAX ? hello->version_max : MESSAGE_VERSION_MAX;
}

static uint32_t hello_check(struct client *client, const struct message_hello *hello,
                            const int fds[MESSAGE_FDS_MAX])
{
    const struct front *front = client->front;

    client->version = hello_agree_version(hello);
    if (client->version == 0)
        return MESSAGE_REASON_VERSION;
    if (!client->peer.allowed)
        return MESSAGE_REASON_ACCESS;
    if (front->config.mode != MESSAGE_OK || !relay_is_up(&front->relay))
        return MESSAGE_REASON_SOFTWARE;
    if (fds[0] < 0 || fds[1] < 0)
        return MESSAGE_REASON_INTERNAL; // PACKET_FDS_LOST
    if (client_charge(client, ACCOUNT_CHANNELS, 1) < 0)
        return MESSAGE_REASON_LIMIT;
    if (shm_size(hello->n_slots) == 0 || hello->n_streams == 0 ||
        hello->n_streams > SHM_STREAMS_MAX)
        return MESSAGE_REASON_MALFORMED;
    if (hello->n_slots > front_slots_per_channel(front)) {
        client->over_limit = "slots_per_channel";
        return MESSAGE_REASON_SIZE;
    }
    if (client_charge(client, ACCOUNT_SHARED_MEMORY, shm_allocated_size(hello->n_slots)) < 0)
        return MESSAGE_REASON_SIZE;
    if (hello_check_bell(fds[1], client->peer.uid) < 0)
        return MESSAGE_REASON_BELL;
    if (shm_check(fds[0], hello->n_slots, hello->n_streams) < 0)
        return MESSAGE_REASON_MEMORY;
    return MESSAGE_OK;
}

// The next number that no channel has; 2^32 channels later the low ones come again.
static uint32_t hello_pick_channel(struct front *front)
{
    do {
        front->last_channel++;
    } while (front->last_channel == 0 || client_find_channel(front, front->last_channel) != NULL);
    return front->last_channel;
}

enum verdict hello_handle(struct client *client, const struct message *m, int fds[MESSAGE_FDS_MAX])
{
    struct front *front = client->front;
    const struct message_hello *hello = &m->u.hello;

    client->hello_serial = m->serial;
    uint32_t reason = hello_check(client, hello, fds);
    if (reason != MESSAGE_OK)
        return hello_refuse(client, reason);

    struct message_channel_add add = {
        .channel = hello_pick_channel(front),
        .uid = client->peer.uid,
        .pid = client->peer.pid,
        .n_slots = hello->n_slots,
        .n_streams = hello->n_streams,
    };
    if (relay_channel_add(&front->relay, &add, fds, &client->add_serial) < 0)
        return hello_refuse(client, MESSAGE_REASON_INTERNAL);
    client->channel = add.channel;
    client->n_streams = hello->n_streams;
    client->state = CLIENT_ASKED;
    account_charge_sub(&client->charge, ACCOUNT_CONNECTIONS);
    client_be_patient(client);
    return VERDICT_KEEP;
}

void hello_on_reply(struct front *front, const struct message *m)
{
    uint32_t reason = m->u.channel.reason;
    struct message reply;
    struct client *client = client_find_channel(front, m->u.channel.channel);

    if (client == NULL || client->add_serial == 0 || client->add_serial != m->serial) {
        log_debug("engine: answer for channel %u that nobody waits for", m->u.channel.channel);
        return;
    }
    client->add_serial = 0;
    if (client->state == CLIENT_GONE) {
        client_settle(client);
        return;
    }
    if (reason != MESSAGE_OK) {
        client->channel = 0; // the engine does not have it
        hello_refuse(client, reason < MESSAGE_REASON_COUNT ? reason : MESSAGE_REASON_INTERNAL);
        client_close(client);
        return;
    }
    client->state = CLIENT_OPEN;
    front->channels_total++;
    reply_fill(client, &reply);
    log_debug("channel %u: pid %u uid %u", client->channel, client->peer.pid, client->peer.uid);
    if (client_send(client, &reply) < 0)
        client_close(client);
}

void hello_on_fault(struct front *front, const struct message *m)
{
    struct client *client = client_find_channel(front, m->u.channel.channel);
    if (client == NULL || client->state == CLIENT_GONE)
        return; // it left meanwhile
    client_violation(client, "channel %u: %s", client->channel,
                     message_reason_text(m->u.channel.reason));
    client_close(client);
}
