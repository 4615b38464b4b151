// SPDX-License-Identifier: MIT
// libFuzzer entry for the configuration file: any bytes are a configuration or a named mistake, and
// what is taken is whole, in range, and fit to be told to the roles.
#include "config.h"
#include "fuzz_input.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fault_spec.h"
#include "log.h"

static int file = -1;
static char path[32];

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    log_init("monitor", 0);
    file = memfd_create("config", MFD_CLOEXEC);
    fuzz_require(file >= 0);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
    return 0;
}

static void check_role(const struct config *config, enum config_role role)
{
    struct message m = {.type = MESSAGE_ROLE_CONFIG}, again;
    uint8_t bytes[MESSAGE_LEN_MAX];
    size_t n;

    config_fill_role(config, role, &m.u.role_config);
    fuzz_require(message_encode(&m, bytes, sizeof(bytes), &n) == 0);
    fuzz_require(message_decode(bytes, n, MESSAGE_MONITOR_TO_ROLE, &again) == 0);
}

static void check_config(const struct config *config)
{
    struct fault_spec spec;

    fuzz_require(config->socket[0] == '/' && config->state_directory[0] == '/');
    fuzz_require(config->front_user.uid != 0 && config->engine_user.uid != 0);
    fuzz_require(config->front_user.uid != config->engine_user.uid);
    fuzz_require(config->n_uids <= MESSAGE_IDS_MAX && config->n_gids <= MESSAGE_IDS_MAX);
    fuzz_require(config->n_gids > 0 && config->deadline_ms > 0);
    (void)fault_spec_parse(config->fault, &spec); // the engine's to judge
    check_role(config, CONFIG_ROLE_FRONT);
    check_role(config, CONFIG_ROLE_ENGINE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct config config;
    char error[CONFIG_ERROR_MAX] = "";

    fuzz_require(ftruncate(file, 0) == 0);
    fuzz_require(pwrite(file, data, n, 0) == (ssize_t)n);
    if (config_load(path, &config, NULL, error, sizeof(error)) == 0)
        check_config(&config);
    else
        fuzz_require(error[0] != '\0');
    return 0;
}
