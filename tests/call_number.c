// SPDX-License-Identifier: MIT
// Knows the calls that socketcall and ipc have too; libseccomp knows all others.
#include "call_number.h"

#include <seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>

#if defined(SYS_socketcall) && defined(SYS_socket)
static const struct {
    const char *name;
    int number;
} direct[] = {
    {"socket", SYS_socket},
    {"socketpair", SYS_socketpair},
    {"bind", SYS_bind},
    {"connect", SYS_connect},
    {"listen", SYS_listen},
    {"accept4", SYS_accept4},
    {"getsockopt", SYS_getsockopt},
    {"setsockopt", SYS_setsockopt},
    {"getsockname", SYS_getsockname},
    {"getpeername", SYS_getpeername},
    {"sendto", SYS_sendto},
    {"sendmsg", SYS_sendmsg},
    {"recvfrom", SYS_recvfrom},
    {"recvmsg", SYS_recvmsg},
    {"shutdown", SYS_shutdown},
#ifdef SYS_shmget
    {"shmget", SYS_shmget},
    {"shmat", SYS_shmat},
    {"shmdt", SYS_shmdt},
#endif
};
#endif

int call_number(const char *name)
{
#if defined(SYS_socketcall) && defined(SYS_socket)
    for (size_t i = 0; i < sizeof(direct) / sizeof(direct[0]); i++)
        if (strcmp(direct[i].name, name) == 0)
            return direct[i].number;
#endif
    return seccomp_syscall_resolve_name(name);
}
