// SPDX-License-Identifier: MIT
// Clients that end at each step of their way, with a transfer beside them that must not notice.
#include "hostile_rig.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static struct hostile_rig rig;

static void setup(void)
{
    hostile_setup(&rig, NULL);
}

static void teardown(void)
{
    hostile_teardown(&rig);
}

TestSuite(hostile_ends, .init = setup, .fini = teardown, .timeout = 500);

// One step further each time, then the end: by closing the connection, the bell, or both, or by
// SIGKILL, with requests of both lanes on their way.
static void go_and_end(int step, int end)
{
    struct hostile_client client = {.control = raw_connect(&rig.fixture), .bell = -1, .memory = -1};

    if (step >= 1) {
        close(client.control);
        hostile_client_open(&client, &rig);
    }
    for (uint32_t i = 0; i < 2 && step >= 2; i++) {
        const struct message m = {
            .type = MESSAGE_STREAM_OPEN,
            .u.stream_open = {i, i == 0 ? ALGORITHM_AES_128_CBC : ALGORITHM_AES_128_CTR}};
        if (step >= 3)
            hostile_client_open_stream(&client, i, m.u.stream_open.algorithm);
        else
            cr_assert(raw_send_message(client.control, &m, NULL, 0)); // its answer never read
    }
    for (int i = 0; step >= 4 && i < 2 * (int)SHM_SLOTS_REQUEST; i++) {
        const struct shm_request request = hostile_client_make_request(&client, i & 1);
        hostile_client_submit(&client, &request);
    }
    if (step >= 5)
        hostile_client_wait(&client);
    if (end == 0) {
        close(client.control);
        client.control = -1;
    } else if (end == 1 && client.bell >= 0) {
        close(client.bell);
        client.bell = -1;
        hostile_check(&rig);
    }
    if (end == 3)
        kill(getpid(), SIGKILL);
    hostile_client_close(&client);
}

Test(hostile_ends, ends_at_each_step)
{
    enum { STEPS = 6, TIMES = 5 };

    for (int i = 0; i < STEPS * TIMES; i++)
        for (int end = 0; end < 3; end++)
            go_and_end(i % STEPS, end);
    raw_wait_channels(&rig.fixture, 1);
    hostile_check_all(&rig);
}

Test(hostile_ends, killed_at_each_step)
{
    enum { STEPS = 6, TIMES = 3 };

    for (int i = 0; i < STEPS * TIMES; i++) {
        int status;
        pid_t child = fork();

        cr_assert_geq(child, 0);
        if (child == 0)
            go_and_end(i % STEPS, 3);
        cr_assert_eq(waitpid(child, &status, 0), child);
        cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    }
    raw_wait_channels(&rig.fixture, 1);
    hostile_check_all(&rig);
}
