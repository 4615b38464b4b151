// SPDX-License-Identifier: MIT
// Guarantees that a step that cannot work fails the test with its reason.
#include "monitor_rig.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "packet.h"
#include "shm.h"

void rig_sleep_ms(int ms)
{
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = (ms % 1000) * 1000000L};

    while (nanosleep(&left, &left) < 0 && errno == EINTR)
        ;
}

static void set_address(struct sockaddr_un *addr, const char *path)
{
    *addr = (struct sockaddr_un){.sun_family = AF_UNIX};
    cr_assert_lt(strlen(path), sizeof(addr->sun_path));
    strcpy(addr->sun_path, path);
}

int rig_connect(const char *path)
{
    struct timeval limit = {.tv_sec = 5};
    struct sockaddr_un addr;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    cr_assert_geq(fd, 0, "%s", strerror(errno));
    set_address(&addr, path);
    cr_assert_eq(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
    cr_assert_eq(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0, "%s: %s", path,
                 strerror(errno));
    return fd;
}

int rig_listen(const char *path, int type)
{
    struct sockaddr_un addr;
    int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

    cr_assert_geq(fd, 0, "%s", strerror(errno));
    set_address(&addr, path);
    cr_assert_eq(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0, "%s: %s", path,
                 strerror(errno));
    cr_assert(type == SOCK_DGRAM || listen(fd, 16) == 0, "%s", strerror(errno));
    return fd;
}

uint32_t rig_hello(const char *path, struct message_hello_reply *ret)
{
    struct message m = {.type = MESSAGE_HELLO,
                        .serial = 7,
                        .u.hello = {.version_min = MESSAGE_VERSION_MIN,
                                    .version_max = MESSAGE_VERSION_MAX,
                                    .n_slots = 1,
                                    .n_streams = 1}};
    int bell[2], memory, control = rig_connect(path), fds[MESSAGE_FDS_MAX];
    struct shm_map map;

    cr_assert_eq(shm_create(1, 1, &map, &memory), 0);
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, bell), 0);
    cr_assert_eq(packet_send(control, &m, (int[]){memory, bell[1]}, 2), 0);
    int r = packet_recv(control, MESSAGE_FRONT_TO_CLIENT, &m, fds);
    cr_assert_eq(r, 0, "no answer to HELLO: %s", strerror(-r));
    cr_assert_eq(m.type, MESSAGE_HELLO_REPLY);
    cr_assert_eq(m.serial, 7);
    shm_unmap(&map);
    close(memory);
    close(bell[0]);
    close(bell[1]);
    close(control);
    if (ret != NULL)
        *ret = m.u.hello_reply;
    return m.u.hello_reply.reason;
}

char *rig_read_proc(pid_t pid, const char *name)
{
    char path[64], *text = calloc(1, 65536);

    cr_assert_not_null(text);
    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    FILE *in = fopen(path, "re");
    cr_assert_not_null(in, "%s: %s", path, strerror(errno));
    size_t n = fread(text, 1, 65535, in);
    fclose(in);
    for (size_t i = 0; i < n; i++)
        if (text[i] == '\0')
            text[i] = '\n';
    return text;
}

long rig_proc_status_number(pid_t pid, const char *key)
{
    char *text = rig_read_proc(pid, "status"), *line = strstr(text, key);

    cr_assert_not_null(line, "%s", key);
    long n = strtol(line + strlen(key), NULL, strncmp(key, "Cap", 3) == 0 ? 16 : 10);
    free(text);
    return n;
}
