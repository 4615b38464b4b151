// SPDX-License-Identifier: MIT
// Notes of status through a front over socketpairs: who sees them, and what becomes of many.
#include "front_rig.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct front_rig rig;

static void notes_setup(void)
{
    struct message_role_config config;

    front_rig_config(&config);
    front_rig_init(&rig, &config, -1);
    front_rig_offer(&rig);
}

static void notes_teardown(void)
{
    front_rig_fini(&rig);
}

TestSuite(front_notes, .init = notes_setup, .fini = notes_teardown);

static void say(int from, const char *topic, const char *text)
{
    struct message m = {.type = MESSAGE_STATUS_NOTE};

    snprintf(m.u.status_note.topic, sizeof(m.u.status_note.topic), "%s", topic);
    snprintf(m.u.status_note.text, sizeof(m.u.status_note.text), "%s", text);
    front_rig_send(&rig, from, &m, NULL, 0);
}

static int ask(bool admin)
{
    struct message question;
    int client = front_rig_connect(&rig);

    front_rig_last_client(&rig)->peer.admin = admin;
    front_rig_status(&rig, client, 5);
    front_rig_expect_engine(&rig, MESSAGE_ENGINE_STATUS, &question);
    front_rig_status_reply(&rig, &question, 0);
    front_rig_expect_client(client, MESSAGE_STATUS_SUMMARY, NULL);
    return client;
}

static void expect_note(int client, const char *topic, const char *text)
{
    struct message m;

    front_rig_expect_client(client, MESSAGE_STATUS_NOTE, &m);
    cr_expect_eq(m.serial, 5);
    cr_expect_str_eq(m.u.status_note.topic, topic);
    cr_expect_str_eq(m.u.status_note.text, text);
}

Test(front_notes, of_all_processes_are_for_admins)
{
    report_set_note(&rig.front.report, "front", "own");
    say(rig.engine, "engine", "first");
    say(rig.monitor, "monitor", "old");
    say(rig.monitor, "monitor", "new");
    int client = ask(true);
    expect_note(client, "front", "own");
    expect_note(client, "engine", "first");
    expect_note(client, "monitor", "new");
    front_rig_expect_client(client, MESSAGE_STATUS_USER, NULL);
    front_rig_expect_client(client, MESSAGE_STATUS_END, NULL);
    close(client);
    client = ask(false);
    front_rig_expect_client(client, MESSAGE_STATUS_END, NULL);
    close(client);
}

Test(front_notes, beyond_the_room_are_dropped)
{
    char topic[16];

    for (unsigned i = 0; i < 3 * REPORT_NOTES_MAX; i++) {
        snprintf(topic, sizeof(topic), "topic %u", i);
        say(rig.engine, topic, "text");
    }
    say(rig.engine, "topic 3", "changed");
    int client = ask(true);
    for (unsigned i = 0; i < REPORT_NOTES_MAX; i++) {
        snprintf(topic, sizeof(topic), "topic %u", i);
        expect_note(client, topic, i == 3 ? "changed" : "text");
    }
    front_rig_expect_client(client, MESSAGE_STATUS_USER, NULL);
    front_rig_expect_client(client, MESSAGE_STATUS_END, NULL);
    close(client);
}

Test(front_notes, of_a_client_end_it)
{
    int client = front_rig_connect(&rig);

    say(client, "front", "nothing to fear");
    front_rig_expect_closed(client);
}
