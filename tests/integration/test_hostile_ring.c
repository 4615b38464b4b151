// SPDX-License-Identifier: MIT
// Clients of a real daemon that write what they like into their ring: each loses its channel or
// hurts itself, and the transfer beside them does not notice.
#include "hostile_rig.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "packet.h"

static struct hostile_rig rig;

static void setup(void)
{
    hostile_setup(&rig, NULL);
}

static void teardown(void)
{
    hostile_teardown(&rig);
}

TestSuite(hostile_ring, .init = setup, .fini = teardown, .timeout = 500);

static void open_two(struct hostile_client *client)
{
    hostile_client_open(client, &rig);
    hostile_client_open_stream(client, 0, ALGORITHM_AES_128_CBC);
    hostile_client_open_stream(client, 1, ALGORITHM_AES_128_CTR);
}

// ---------------------------------------------------------------- one wrong word

#define WORD(field) offsetof(struct shm_request, field)

static const struct {
    const char *fault; // as the engine's log has it
    bool keystream;    // what it would be without the wrong word
    size_t at;
    uint32_t value;
} wrongs[] = {
    {"out of sequence", false, WORD(sequence), 7},
    {"out of sequence", true, WORD(sequence), UINT32_MAX},
    {"stream out of range", false, WORD(stream), HOSTILE_STREAMS},
    {"stream out of range", true, WORD(stream), HOSTILE_STREAMS},
    {"stream out of range", false, WORD(stream), UINT32_MAX},
    {"stream that was never opened", false, WORD(stream), 2},
    {"stream that was never opened", true, WORD(stream), 3},
    {"unknown operation", false, WORD(operation), 0},
    {"unknown operation", false, WORD(operation), 4},
    {"unknown operation", false, WORD(operation), 0x80000001},
    {"wrong length", false, WORD(n_bytes), 0},
    {"wrong length", false, WORD(n_bytes), SHM_SLOT_SIZE + 16},
    {"wrong length", true, WORD(n_bytes), SHM_SLOT_SIZE + 16},
    {"wrong length", false, WORD(n_bytes), UINT32_MAX - 15},
    {"multiple of the block", false, WORD(n_bytes), 65535},
    {"multiple of the block", true, WORD(n_bytes), 65535},
    {"slot out of range", false, WORD(slot), HOSTILE_SLOTS},
    {"slot out of range", true, WORD(slot), HOSTILE_SLOTS},
    {"slot out of range", false, WORD(slot), 0x80000000},
    {"slot of the other lane", false, WORD(slot), SHM_SLOTS_REQUEST},
    {"slot of the other lane", true, WORD(slot), SHM_SLOTS_REQUEST - 1},
    {"reserved bytes", false, WORD(reserved), 1},
    {"reserved bytes", true, WORD(reserved) + 24, 0x80000000},
};

Test(hostile_ring, each_wrong_word_of_a_request)
{
    for (size_t i = 0; i < sizeof(wrongs) / sizeof(wrongs[0]); i++) {
        struct hostile_client client;

        open_two(&client);
        struct shm_request request = hostile_client_make_request(&client, wrongs[i].keystream);
        hostile_client_submit(&client, &request); // as it should be
        hostile_client_wait(&client);
        request = hostile_client_make_request(&client, wrongs[i].keystream);
        memcpy((uint8_t *)&request + wrongs[i].at, &wrongs[i].value, sizeof(uint32_t));
        const unsigned n_lines = raw_log_count(&rig.fixture, wrongs[i].fault, ": dropped");
        *shm_request(&client.map, client.sequence) = request;
        hostile_client_publish(&client, client.sequence + 1);
        raw_expect_closed(client.control);
        raw_wait_log_count(&rig.fixture, wrongs[i].fault, ": dropped", n_lines + 1);
        hostile_client_close(&client);
        hostile_check_all(&rig);
    }
}

Test(hostile_ring, each_wrong_index)
{
    static const uint32_t ahead[] = {HOSTILE_SLOTS + 1, 2 * HOSTILE_SLOTS, 0x7fffffff,
                                     0x80000000,        UINT32_MAX,        UINT32_MAX - 1};

    for (size_t i = 0; i < sizeof(ahead) / sizeof(ahead[0]); i++)
        for (int used = 0; used < 2; used++) {
            struct hostile_client client;

            open_two(&client);
            if (used) {
                const struct shm_request request = hostile_client_make_request(&client, true);
                hostile_client_submit(&client, &request);
                hostile_client_wait(&client);
            }
            hostile_client_publish(&client, client.sequence + ahead[i]);
            raw_expect_closed(client.control);
            hostile_client_close(&client);
        }
    hostile_check_all(&rig);
}

Test(hostile_ring, a_slot_that_is_in_use)
{
    for (int keystream = 0; keystream < 2; keystream++)
        for (int round = 0; round < 20; round++) {
            struct hostile_client client;

            open_two(&client);
            // All in one slot; the engine may have done with one before it looks at the next.
            for (uint32_t i = 0; i < HOSTILE_SLOTS; i++) {
                struct shm_request request = hostile_client_make_request(&client, keystream);
                request.slot = keystream ? SHM_SLOTS_REQUEST : 0;
                request.sequence = i;
                *shm_request(&client.map, i) = request;
            }
            client.sequence = HOSTILE_SLOTS;
            hostile_client_publish(&client, HOSTILE_SLOTS);
            hostile_check(&rig);
            hostile_client_close(&client);
        }
    hostile_check_all(&rig);
}

// ---------------------------------------------------------------- of others

// The transfer has streams under these numbers, and so has another client; a number means the
// channel's own stream and nothing else.
Test(hostile_ring, every_other_clients_stream_numbers)
{
    struct hostile_client other, client;

    hostile_client_open(&other, &rig);
    for (uint32_t i = 0; i < HOSTILE_STREAMS; i++)
        hostile_client_open_stream(&other, i, ALGORITHM_AES_128_CTR);
    for (uint32_t i = 0; i < SHM_STREAMS_MAX; i++) {
        hostile_client_open(&client, &rig);
        struct shm_request request = hostile_client_make_request(&client, true);
        request.stream = i;
        hostile_client_submit(&client, &request);
        raw_expect_closed(client.control);
        hostile_client_close(&client);
    }
    for (uint32_t i = 0; i < SHM_STREAMS_MAX; i++) {
        const struct message m = {.type = MESSAGE_STREAM_CLOSE, .u.stream_close = {i}};

        hostile_client_open(&client, &rig);
        (void)raw_send_message(client.control, &m, NULL, 0);
        raw_expect_closed(client.control);
        hostile_client_close(&client);
    }
    const struct shm_request request = hostile_client_make_request(&other, true);
    hostile_client_submit(&other, &request);
    hostile_client_wait(&other);
    hostile_client_close(&other);
    hostile_check_all(&rig);
}

// The same memory and bell under two channels: the two wear each other out, and nobody else.
Test(hostile_ring, one_memory_and_one_bell_for_two_channels)
{
    for (int round = 0; round < 20; round++) {
        struct hostile_client first, second = {.bell = -1, .memory = -1};
        struct message m;
        int bell;

        hostile_client_make(&first, &bell);
        raw_hello_fill(&m);
        m.u.hello.n_slots = HOSTILE_SLOTS;
        m.u.hello.n_streams = HOSTILE_STREAMS;
        struct hostile_client *both[] = {&first, &second};
        for (int i = 0; i < 2; i++) {
            struct message reply;
            both[i]->control = raw_connect(&rig.fixture);
            raw_send_message(both[i]->control, &m, (const int[]){first.memory, bell}, 2);
            raw_expect(both[i]->control, MESSAGE_HELLO_REPLY, &reply);
            cr_assert_eq(reply.u.hello_reply.reason, MESSAGE_OK);
            hostile_client_open_stream(both[i], 0, ALGORITHM_AES_128_CBC);
        }
        for (int i = 0; i < 100; i++) {
            const struct shm_request request = hostile_client_make_request(&first, false);
            hostile_client_submit(&first, &request);
            if (i % 4 == 3 && !hostile_client_wait_or_end(&first))
                break;
        }
        close(bell);
        hostile_check(&rig);
        hostile_client_close(&first);
        hostile_client_close(&second);
    }
    hostile_check_all(&rig);
}

// ---------------------------------------------------------------- words that change

struct flipper {
    const struct hostile_client *client;
    unsigned how;
    _Atomic bool stop;
};

// Right and wrong by turns, as fast as can be: whoever reads a word twice sees both.
static void *flip(void *arg)
{
    static const uint32_t wrong[] = {UINT32_MAX, 0, 0x7fffffff, SHM_SLOT_SIZE + 1, 9};
    struct flipper *flipper = arg;
    const struct shm_map *map = &flipper->client->map;

    for (uint32_t turn = 0; !atomic_load(&flipper->stop); turn++) {
        volatile uint32_t *request =
            (volatile uint32_t *)(void *)shm_request(map, turn % HOSTILE_SLOTS);
        const unsigned word = flipper->how % 9; // sequence, stream, operation, length, iv, slot
        const uint32_t right = request[word];

        request[word] = wrong[turn % 5];
        request[word] = right;
        if (flipper->how % 3 == 0) {
            atomic_store(&shm_done(map, turn)->claim, turn & 3);
            atomic_store(&shm_header(map)->engine_waits, turn & 1);
            atomic_store(&shm_header(map)->client_waits, turn & 15);
        }
        if (flipper->how % 4 == 1)
            memset(shm_data(map, turn), (int)turn, 64);
    }
    return NULL;
}

static bool is_closed(int fd)
{
    struct pollfd item = {.fd = fd, .events = POLLIN};

    return poll(&item, 1, 0) > 0 && (item.revents & POLLHUP) != 0;
}

Test(hostile_ring, words_that_change_while_they_are_read)
{
    enum { ROUNDS = 36, REQUESTS = 200 };

    for (unsigned round = 0; round < ROUNDS; round++) {
        struct hostile_client client;
        pthread_t thread;

        open_two(&client);
        struct flipper flipper = {.client = &client, .how = round};
        cr_assert_eq(pthread_create(&thread, NULL, flip, &flipper), 0);
        for (int i = 0; i < REQUESTS && !is_closed(client.control); i++) {
            const struct shm_request request = hostile_client_make_request(&client, i & 1);
            hostile_client_submit(&client, &request);
            if (i % 8 == 7 && !hostile_client_wait_or_end(&client))
                break;
        }
        hostile_check(&rig);
        atomic_store(&flipper.stop, true);
        pthread_join(thread, NULL);
        hostile_client_close(&client);
    }
    hostile_check_all(&rig);
}

// An index that runs back and forth.
Test(hostile_ring, an_index_that_changes_while_it_is_read)
{
    for (int round = 0; round < 100; round++) {
        struct hostile_client client;

        open_two(&client);
        for (uint32_t i = 0; i < 200 && !is_closed(client.control); i++) {
            atomic_store(&shm_header(&client.map)->submitted, i * 0x9e3779b9u);
            atomic_store(&shm_header(&client.map)->submitted, 0);
            (void)!send(client.bell, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        }
        hostile_client_close(&client);
    }
    hostile_check_all(&rig);
}

// ---------------------------------------------------------------- memory that goes away

// Seals do not keep a client from taking the pages away again: they come back as zeroes for whoever
// touches them.
Test(hostile_ring, memory_that_loses_its_pages)
{
    for (int round = 0; round < 30; round++) {
        struct hostile_client client;

        open_two(&client);
        for (int i = 0; i < 50; i++) {
            const struct shm_request request = hostile_client_make_request(&client, i & 1);
            hostile_client_submit(&client, &request);
            cr_assert_eq(fallocate(client.memory, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                   i % 5 == 4 ? 0 : SHM_OFF_DATA,
                                   (off_t)(client.map.size - (i % 5 == 4 ? 0 : SHM_OFF_DATA))),
                         0);
            if (i % 8 == 7 && !hostile_client_wait_or_end(&client))
                break;
        }
        hostile_check(&rig);
        hostile_client_close(&client);
    }
    hostile_check_all(&rig);
}
