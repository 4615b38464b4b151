// SPDX-License-Identifier: MIT
// The configuration file: every key, every range, and every kind of mistake with its file and line.
#include "config.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config_rig.h"
#include "log.h"

TestSuite(config, .init = config_rig_setup, .fini = config_rig_teardown);

Test(config, defaults)
{
    struct config c;

    config_rig_load(USERS, &c);
    cr_expect_str_eq(c.socket, "/run/cryptod/cryptod.sock");
    cr_expect_str_eq(c.state_directory, "/var/lib/cryptod");
    cr_expect_eq(c.front_user.uid, 61990);
    cr_expect_eq(c.front_user.gid, 61990, "a number is its own group");
    cr_expect_eq(c.engine_user.uid, 61991);
    cr_expect_eq(c.n_uids, 0);
    cr_expect_eq(c.n_gids, 1);
    cr_expect_eq(c.log_level, LOG_LEVEL_NOTICE);
    cr_expect_eq(c.ping_interval_ms, 2000);
    cr_expect_eq(c.ping_limit, 5);
    cr_expect_eq(c.offload, CONFIG_OFFLOAD_AUTO);
    cr_expect_eq(c.bulk_threshold, 131072);
    cr_expect_eq(c.request_min, 0, "as measured");
    cr_expect_eq(c.deadline_ms, 250);
    cr_expect_eq(c.spin_us, 10);
    cr_expect_eq(CONFIG_BACKEND_AT(c.backends, 0), CONFIG_BACKEND_AFALG);
    cr_expect_eq(CONFIG_BACKEND_AT(c.backends, 1), CONFIG_BACKEND_CPU);
    cr_expect_eq(CONFIG_BACKEND_AT(c.backends, 2), 0);
    cr_expect_eq(c.workers, 0);
    cr_expect_str_empty(c.deny_drivers);
    cr_expect_str_empty(c.fault);
    cr_expect_eq(c.verify, 1024);
    cr_expect_eq(c.channels_max, 128);
    cr_expect_eq(c.channels_per_uid, 96);
    cr_expect_eq(c.streams_per_channel, 16);
    cr_expect_eq(c.slots_per_channel, 64);
    cr_expect_eq(c.streams_max, 1024);
    cr_expect_eq(c.streams_per_uid, 768);
    cr_expect_eq(c.shared_memory_max, 40 << 20);
    cr_expect_eq(c.shared_memory_per_uid, 30 << 20);
    cr_expect_eq(c.locked_memory_max, 64 << 20);
    cr_expect_eq(c.locked_memory_per_uid, 48 << 20);
    cr_expect_eq(c.requests_max, 1536);
    cr_expect_eq(c.requests_per_uid, 1152);
    cr_expect_eq(c.connects_max, 400);
    cr_expect_eq(c.connects_per_uid, 200);
    cr_expect_eq(c.keystream_slots, 32);
    cr_expect_eq(c.idle_s, 30);
}

Test(config, every_key)
{
    struct config c;

    config_rig_load(
        "# comment\n; comment\n\n"
        "[daemon]\nsocket = /run/x.sock\nfront_user=1001\nengine_user: 1002\ngroup = 1003\n"
        "allow_users = 0 1004\t1005\nallow_groups = 1006\nlog_level = debug ; comment\n"
        "ping_interval_ms = 100\nping_limit = 3\n"
        "state_directory = /var/x\n"
        "[lanes]\noffload = always\nbulk_threshold = 2M\nrequest_min = 1K\ndeadline_ms = 500\n"
        "spin_us = 0\n"
        "[engine]\nbackends = fault cpu\nworkers = 3\ndeny_drivers = cbc(aes-x)   mv-cbc-aes\n"
        "fault = cbc=hang:5, ctr=wrong\nverify = 1/77\n"
        "[limits]\nchannels_max = 7\nchannels_per_uid = 5\nstreams_per_channel = 3\n"
        "slots_per_channel = 8\nstreams_max = 30\nstreams_per_uid = 20\nshared_memory_max = 3M\n"
        "shared_memory_per_uid = 2048K\nlocked_memory_max = 5M\nlocked_memory_per_uid = 4M\n"
        "requests_max = 90\nrequests_per_uid = 80\nconnects_max = 70\nconnects_per_uid = 60\n",
        &c);
    cr_expect_str_eq(c.socket, "/run/x.sock");
    cr_expect_str_eq(c.state_directory, "/var/x");
    cr_expect_eq(c.front_user.uid, 1001);
    cr_expect_eq(c.engine_user.uid, 1002);
    cr_expect_eq(c.engine_user.gid, 1002);
    cr_assert_eq(c.n_uids, 3);
    cr_expect_eq(c.uids[0], 0);
    cr_expect_eq(c.uids[2], 1005);
    cr_assert_eq(c.n_gids, 2);
    cr_expect_eq(c.gids[0], 1003, "the admin group is the first");
    cr_expect_eq(c.gids[1], 1006);
    cr_expect_eq(c.log_level, LOG_LEVEL_DEBUG);
    cr_expect_eq(c.ping_interval_ms, 100);
    cr_expect_eq(c.ping_limit, 3);
    cr_expect_eq(c.offload, CONFIG_OFFLOAD_ALWAYS);
    cr_expect_eq(c.bulk_threshold, 2 * 1024 * 1024);
    cr_expect_eq(c.request_min, 1024);
    cr_expect_eq(c.deadline_ms, 500);
    cr_expect_eq(c.spin_us, 0);
    cr_expect_eq(c.backends & 0xff, CONFIG_BACKEND_CPU | CONFIG_BACKEND_FAULT);
    cr_expect_eq(CONFIG_BACKEND_AT(c.backends, 0), CONFIG_BACKEND_FAULT);
    cr_expect_eq(CONFIG_BACKEND_AT(c.backends, 1), CONFIG_BACKEND_CPU);
    cr_expect_eq(c.workers, 3);
    cr_expect_str_eq(c.deny_drivers, "cbc(aes-x) mv-cbc-aes");
    cr_expect_str_eq(c.fault, "cbc=hang:5, ctr=wrong");
    cr_expect_eq(c.verify, 77);
    cr_expect_eq(c.channels_max, 7);
    cr_expect_eq(c.channels_per_uid, 5);
    cr_expect_eq(c.streams_per_channel, 3);
    cr_expect_eq(c.slots_per_channel, 8);
    cr_expect_eq(c.streams_max, 30);
    cr_expect_eq(c.streams_per_uid, 20);
    cr_expect_eq(c.shared_memory_max, 3 << 20);
    cr_expect_eq(c.shared_memory_per_uid, 2 << 20);
    cr_expect_eq(c.locked_memory_max, 5 << 20);
    cr_expect_eq(c.locked_memory_per_uid, 4 << 20);
    cr_expect_eq(c.requests_max, 90);
    cr_expect_eq(c.requests_per_uid, 80);
    cr_expect_eq(c.connects_max, 70);
    cr_expect_eq(c.connects_per_uid, 60);
}

Test(config, words)
{
    static const char *const levels[] = {"error", "warning", "notice", "info", "debug"};
    struct config c;
    char text[256];

    for (unsigned i = 0; i < 5; i++) {
        snprintf(text, sizeof(text), USERS "log_level = %s\n", levels[i]);
        config_rig_load(text, &c);
        cr_expect_eq(c.log_level, i + 3, "%s", levels[i]);
    }
    config_rig_load(USERS "[lanes]\noffload = off\n", &c);
    cr_expect_eq(c.offload, CONFIG_OFFLOAD_OFF);
    config_rig_load(USERS "[lanes]\noffload = auto\nrequest_min = auto\n", &c);
    cr_expect_eq(c.request_min, 0);
    cr_expect_eq(c.offload, CONFIG_OFFLOAD_AUTO);
    config_rig_refuse(USERS "log_level = loud\n",
                      ":4: key 'log_level': 'loud' is not one of error warning notice info debug");
    config_rig_refuse(USERS "[lanes]\noffload = on\n",
                      ":5: key 'offload': 'on' is not one of auto always off");
    config_rig_refuse(USERS "[engine]\nbackends = cpu gpu\n",
                      ":5: key 'backends': 'gpu' is not one of afalg cpu fault");
    config_rig_refuse(USERS "[engine]\nbackends = cpu afalg cpu\n",
                      ":5: key 'backends': 'cpu' is named twice");
    config_rig_refuse(USERS "[engine]\nbackends =\n", ":5: key 'backends': names no backend");
}

Test(config, shares)
{
    static const char *const bad[] = {"",          "on",    "1",     "1/",
                                      "1/0",       "1/1",   "1/1k",  "1/ 20",
                                      "1/1000001", "2/100", "1/-20", "1/99999999999999999999"};
    struct config c;
    char text[256];

    config_rig_load(USERS "[engine]\nverify = off\n", &c);
    cr_expect_eq(c.verify, 0);
    config_rig_load(USERS "[engine]\nverify = all\n", &c);
    cr_expect_eq(c.verify, 1);
    config_rig_load(USERS "[engine]\nverify = 1/2\n", &c);
    cr_expect_eq(c.verify, 2);
    config_rig_load(USERS "[engine]\nverify = 1/1000000\n", &c);
    cr_expect_eq(c.verify, 1000000);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char want[256];

        snprintf(text, sizeof(text), USERS "[engine]\nverify = %s\n", bad[i]);
        snprintf(want, sizeof(want),
                 ":5: key 'verify': '%s' is not one of off all 1/N, with N from 2 to 1000000",
                 bad[i]);
        config_rig_refuse(text, want);
    }
}

struct range {
    const char *section, *key;
    size_t offset;
    uint64_t min, max;
    bool size;
};

static const struct range ranges[] = {
    {"daemon", "ping_interval_ms", offsetof(struct config, ping_interval_ms), 10, 60000, false},
    {"daemon", "ping_limit", offsetof(struct config, ping_limit), 2, 100, false},
    {"lanes", "bulk_threshold", offsetof(struct config, bulk_threshold), 0, 1073741824, true},
    {"lanes", "request_min", offsetof(struct config, request_min), 1, 65536, true},
    {"lanes", "deadline_ms", offsetof(struct config, deadline_ms), 1, 60000, false},
    {"lanes", "spin_us", offsetof(struct config, spin_us), 0, 1000, false},
    {"engine", "workers", offsetof(struct config, workers), 0, 64, false},
    {"limits", "channels_max", offsetof(struct config, channels_max), 1, 4096, false},
    {"limits", "channels_per_uid", offsetof(struct config, channels_per_uid), 1, 4096, false},
    {"limits", "streams_max", offsetof(struct config, streams_max), 1, 131072, false},
    {"limits", "streams_per_uid", offsetof(struct config, streams_per_uid), 1, 131072, false},
    {"limits", "shared_memory_max", offsetof(struct config, shared_memory_max), 1048576, 4293918720,
     true},
    {"limits", "shared_memory_per_uid", offsetof(struct config, shared_memory_per_uid), 1048576,
     4293918720, true},
    {"limits", "locked_memory_max", offsetof(struct config, locked_memory_max), 1048576, 4293918720,
     true},
    {"limits", "locked_memory_per_uid", offsetof(struct config, locked_memory_per_uid), 1048576,
     4293918720, true},
    {"limits", "requests_max", offsetof(struct config, requests_max), 1, 262144, false},
    {"limits", "requests_per_uid", offsetof(struct config, requests_per_uid), 1, 262144, false},
    {"limits", "connects_max", offsetof(struct config, connects_max), 1, 100000, false},
    {"limits", "connects_per_uid", offsetof(struct config, connects_per_uid), 1, 100000, false},
    {"limits", "streams_per_channel", offsetof(struct config, streams_per_channel), 1, 32, false},
    {"lanes", "keystream_slots", offsetof(struct config, keystream_slots), 1, 64, false},
    {"lanes", "idle_s", offsetof(struct config, idle_s), 1, 86400, false},
    {"limits", "slots_per_channel", offsetof(struct config, slots_per_channel), 1, 64, false},
};

static void range_accept(const struct range *r, uint64_t n)
{
    struct config c;
    char text[256];

    snprintf(text, sizeof(text), USERS "[%s]\n%s = %llu\n", r->section, r->key,
             (unsigned long long)n);
    config_rig_load(text, &c);
    cr_expect_eq(*(uint32_t *)(void *)((char *)&c + r->offset), n, "%s", text);
}

static void range_refuse(const struct range *r, const char *value)
{
    char text[256], expected[256];

    snprintf(text, sizeof(text), USERS "[%s]\n%s = %s\n", r->section, r->key, value);
    snprintf(expected, sizeof(expected), ":5: key '%s': '%s' is not a %s from %llu to %llu%s",
             r->key, value, r->size ? "size" : "number", (unsigned long long)r->min,
             (unsigned long long)r->max, r->size ? " bytes (suffix K: 1024, M: 1048576)" : "");
    config_rig_refuse(text, expected);
}

Test(config, ranges)
{
    char value[32];

    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
        const struct range *r = &ranges[i];
        static const char *const bad[] = {"",
                                          "x",
                                          "-1",
                                          "+1",
                                          "0x10",
                                          "1.5",
                                          "1 2",
                                          "99999999999999999999",
                                          "10G",
                                          "1k",
                                          "1KK",
                                          "K",
                                          "18014398509481985K"};

        range_accept(r, r->min);
        range_accept(r, r->max);
        snprintf(value, sizeof(value), "%llu", (unsigned long long)r->max + 1);
        range_refuse(r, value);
        if (r->min > 0) {
            snprintf(value, sizeof(value), "%llu", (unsigned long long)r->min - 1);
            range_refuse(r, value);
        }
        for (size_t j = 0; j < sizeof(bad) / sizeof(bad[0]); j++)
            range_refuse(r, bad[j]);
        if (!r->size)
            range_refuse(r, "1K");
    }
    config_rig_refuse(USERS "[limits]\nslots_per_channel = 3\n",
                      ":5: key 'slots_per_channel': 3 is not a power of two");
}

Test(config, unknown_and_repeated_names)
{
    config_rig_refuse(USERS "[deamon]\n", ":4: section [deamon]: unknown");
    config_rig_refuse(USERS "[lanes\n", ":4: neither '[section]' nor 'key = value'");
    config_rig_refuse(USERS "sokcet = /x\n", ":4: key 'sokcet': unknown in section [daemon]");
    config_rig_refuse(USERS "workers = 1\n", ":4: key 'workers': unknown in section [daemon]");
    config_rig_refuse("socket = /x\n" USERS, ":1: key 'socket': stands before the first [section]");
    config_rig_refuse(USERS "\n\nfront_user = 61990\n",
                      ":6: key 'front_user': given before, on line 2");
    config_rig_refuse(USERS "[lanes]\n[daemon]\nfront_user = 61990\n",
                      ":6: key 'front_user': given before, on line 2");
    config_rig_refuse(USERS "allow_users = 1\nallow_users = 2\n",
                      ":5: key 'allow_users': given before, on line 4");
    config_rig_refuse(USERS "nonsense\n", ":4: neither '[section]' nor 'key = value'");
    config_rig_refuse("nonsense\n[foo]\n", ":1: neither '[section]' nor 'key = value'");
    config_rig_refuse("[foo]\nnonsense\n", ":1: section [foo]: unknown");
}

Test(config, state_directory)
{
    static const char *const bad[] = {"", "var/x", "/", "/var/x/"};
    char text[256], expected[256];

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        snprintf(text, sizeof(text), USERS "state_directory = %s\n", bad[i]);
        snprintf(expected, sizeof(expected),
                 ":4: key 'state_directory': '%s' is not an absolute path of a directory, of at "
                 "most 107 bytes",
                 bad[i]);
        config_rig_refuse(text, expected);
    }
}

Test(config, socket_path)
{
    char text[512], name[200];
    struct config c;

    config_rig_refuse(
        USERS "socket =\n",
        ":4: key 'socket': '' is not an absolute path of a file, of at most 107 bytes");
    config_rig_refuse(
        USERS "socket = run/x\n",
        ":4: key 'socket': 'run/x' is not an absolute path of a file, of at most 107 bytes");
    config_rig_refuse(
        USERS "socket = /run/\n",
        ":4: key 'socket': '/run/' is not an absolute path of a file, of at most 107 bytes");
    memset(name, 'x', sizeof(name));
    name[0] = '/';
    name[107] = '\0';
    snprintf(text, sizeof(text), USERS "socket = %s\n", name);
    config_rig_load(text, &c);
    cr_expect_str_eq(c.socket, name);
    name[107] = 'x';
    name[108] = '\0';
    snprintf(text, sizeof(text), USERS "socket = %s\n", name);
    char expected[512];
    snprintf(expected, sizeof(expected),
             ":4: key 'socket': '%s' is not an absolute path of a file, of at most 107 bytes",
             name);
    config_rig_refuse(text, expected);
}

Test(config, unreadable_text)
{
    char text[512];

    config_rig_refuse_bytes(USERS "[la\0nes]\n", sizeof(USERS "[la\0nes]\n") - 1,
                            ":4: contains a NUL byte");
    memset(text, 'x', sizeof(text));
    memcpy(text, "#\n#", 3);
    config_rig_refuse_bytes(text, sizeof(text), ":2: longer than 198 bytes");
    memcpy(text, "[lanes]\n", 8);
    memcpy(text + 8, "[lanes]\n", 8);
    config_rig_refuse_bytes(text, sizeof(text), ":3: longer than 198 bytes");
}

Test(config, files)
{
    char error[CONFIG_ERROR_MAX];
    struct config c;
    bool absent = true;

    unlink(config_rig_path());
    cr_expect_eq(config_load(config_rig_path(), &c, NULL, error, sizeof(error)), -ENOENT);
    cr_expect_not_null(strstr(error, ": No such file or directory"));
    cr_expect_eq(config_load("/", &c, NULL, error, sizeof(error)), -EIO);
    cr_expect_str_eq(error, "/: cannot be read");
    config_rig_write(USERS, strlen(USERS));
    cr_assert_eq(config_load(config_rig_path(), &c, &absent, error, sizeof(error)), 0, "%s", error);
    cr_expect_eq(absent, false);
    // No line break at the end, and line ends of another system.
    config_rig_load("[daemon]\r\nfront_user = 61990\r\nengine_user = 61991", &c);
    cr_expect_eq(c.engine_user.uid, 61991);
}

Test(config, absent_default_file_means_defaults)
{
    char error[CONFIG_ERROR_MAX] = "";
    struct config c;
    bool absent = false;

    if (access(CONFIG_DEFAULT_PATH, F_OK) == 0)
        cr_skip_test("this machine has a " CONFIG_DEFAULT_PATH);
    int r = config_load(NULL, &c, &absent, error, sizeof(error));
    if (getpwnam("cryptod-front") != NULL && getpwnam("cryptod-engine") != NULL) {
        cr_assert_eq(r, 0, "%s", error);
        cr_expect_eq(absent, true);
        cr_expect_eq(c.channels_max, 128);
        return;
    }
    cr_expect_eq(r, -ENOENT);
    cr_expect_not_null(strstr(error, "no user 'cryptod-"), "%s", error);
    cr_expect_not_null(strstr(error, "sysusers.d/cryptod.conf"), "%s", error);
}
