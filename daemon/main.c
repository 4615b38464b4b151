// SPDX-License-Identifier: MIT
// The command line of cryptod. Decides which of the three processes this one is; must not know what
// they do.
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "log.h"
#include "message.h"
#include "monitor/config.h"
#include "monitor/monitor.h"
#include "role.h"
#include "sandbox.h"

enum main_option {
    OPTION_CONFIG = 'c',
    OPTION_HELP = 'h',
    OPTION_VERSION = 'V',
    OPTION_CHECK_CONFIG = 256,
    OPTION_PRINT_SANDBOX,
    OPTION_ROLE,
};

static const struct option main_options[] = {
    {"config", required_argument, NULL, OPTION_CONFIG},
    {"check-config", no_argument, NULL, OPTION_CHECK_CONFIG},
    {"print-sandbox", required_argument, NULL, OPTION_PRINT_SANDBOX},
    {"version", no_argument, NULL, OPTION_VERSION},
    {"help", no_argument, NULL, OPTION_HELP},
    {"role", required_argument, NULL, OPTION_ROLE}, // the monitor's own use
    {0},
};

static void main_print_usage(FILE *out)
{
    fputs("Usage: cryptod [--config FILE] [--check-config]\n"
          "       cryptod --print-sandbox front|engine\n"
          "\n"
          "Gives sandboxed programs bulk encryption through the kernel's crypto engines.\n"
          "Stays in the foreground; reload with SIGHUP, stop with SIGTERM.\n"
          "\n"
          "  -c, --config FILE     read FILE instead of " CONFIG_DEFAULT_PATH "\n"
          "      --check-config    read the configuration, say what is wrong with it, and exit\n"
          "      --print-sandbox R print the system calls that role R may use, and why\n"
          "  -V, --version         print the version\n"
          "  -h, --help            print this\n",
          out);
}

// The first write to a descriptor that a careless parent left closed must not end in one of our
// sockets.
static int main_open_standard_fds(void)
{
    int fd;

    do {
        fd = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (fd < 0)
            return -errno;
        if (fd <= STDERR_FILENO && fcntl(fd, F_SETFD, 0) < 0)
            return -errno;
    } while (fd <= STDERR_FILENO);
    close(fd);
    return 0;
}

static int main_run_role(const char *name)
{
    // The kernel names a process that was executed through a descriptor after the descriptor.
    if (strcmp(name, "front") == 0) {
        prctl(PR_SET_NAME, "cryptod-front");
        log_init("front", LOG_LEVEL_NOTICE);
        return front_main();
    }
    if (strcmp(name, "engine") == 0) {
        prctl(PR_SET_NAME, "cryptod-engine");
        log_init("engine", LOG_LEVEL_NOTICE);
        return engine_main();
    }
    fprintf(stderr, "cryptod: no role '%s'\n", name);
    return 2;
}

static int main_print_sandbox(const char *name)
{
    enum sandbox_role role;

    if (strcmp(name, "front") == 0) {
        role = SANDBOX_FRONT;
    } else if (strcmp(name, "engine") == 0) {
        role = SANDBOX_ENGINE;
    } else {
        fprintf(stderr, "cryptod: --print-sandbox takes 'front' or 'engine', not '%s'\n", name);
        return 2;
    }
    int r = sandbox_print(role, stdout);
    if (r == 0 && fflush(stdout) != 0)
        r = -errno;
    if (r < 0)
        fprintf(stderr, "cryptod: cannot print the sandbox: %s\n", strerror(-r));
    return r < 0;
}

static int main_check_config(const char *path)
{
    char error[CONFIG_ERROR_MAX];
    struct config config;
    bool absent;

    if (config_load(path, &config, &absent, error, sizeof(error)) < 0) {
        fprintf(stderr, "%s\n", error);
        return 1;
    }
    printf("%s: ok%s\n", path != NULL ? path : CONFIG_DEFAULT_PATH,
           absent ? " (no such file: defaults)" : "");
    return 0;
}

int main(int argc, char **argv)
{
    const char *config_path = NULL, *role = NULL, *sandbox = NULL;
    bool check_config = false;
    int option;

    if (main_open_standard_fds() < 0)
        return 1;
    while ((option = getopt_long(argc, argv, "c:hV", main_options, NULL)) >= 0) {
        switch (option) {
        case OPTION_CONFIG:
            config_path = optarg;
            break;
        case OPTION_CHECK_CONFIG:
            check_config = true;
            break;
        case OPTION_PRINT_SANDBOX:
            sandbox = optarg;
            break;
        case OPTION_ROLE:
            role = optarg;
            break;
        case OPTION_VERSION:
            puts("cryptod " CRYPTOD_VERSION);
            return 0;
        case OPTION_HELP:
            main_print_usage(stdout);
            return 0;
        default:
            main_print_usage(stderr);
            return 2;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "cryptod: unexpected argument '%s'\n", argv[optind]);
        return 2;
    }
    if (message_table_check() < 0) {
        fputs("cryptod: the message table contradicts itself: broken build\n", stderr);
        return 1;
    }
    if (role != NULL)
        return main_run_role(role);
    if (sandbox != NULL)
        return main_print_sandbox(sandbox);
    return check_config ? main_check_config(config_path) : monitor_main(config_path);
}
