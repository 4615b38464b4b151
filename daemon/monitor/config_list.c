// SPDX-License-Identifier: MIT
// Users, groups and lists. Guarantees that a name is stored only if it exists now, and that a list
// never outgrows the message that takes it to a role. Must not know files or line numbers.
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>

#include "config_value.h"

#define LIST_WORD_MAX 64 // bytes of a name
#define LIST_BLANK    " \t"

// A user or group number; the two highest mean "none" to the kernel and to others.
static bool list_read_id(const char *text, uint32_t *ret)
{
    const char *rest;
    uint64_t n;

    if (!config_read_digits(text, &n, &rest) || *rest != '\0' || n > UINT32_MAX - 2)
        return false;
    *ret = (uint32_t)n;
    return true;
}

static int list_find_uid(const char *name, struct config_user *ret, char *ret_why)
{
    struct passwd *pw;
    uint32_t id;

    if (list_read_id(name, &id)) {
        *ret = (struct config_user){.uid = id, .gid = id};
        return 0;
    }
    errno = 0;
    pw = getpwnam(name);
    if (pw == NULL) {
        snprintf(ret_why, CONFIG_WHY_MAX, "no user '%.40s'%s%s", name, errno != 0 ? ": " : "",
                 errno != 0 ? strerror(errno) : "");
        return -EINVAL;
    }
    *ret = (struct config_user){.uid = pw->pw_uid, .gid = pw->pw_gid};
    return 0;
}

int config_user_find(const char *name, struct config_user *ret, char *ret_why)
{
    struct config_user user;
    int r = list_find_uid(name, &user, ret_why);

    if (r < 0)
        return r;
    if (user.uid == 0 || user.gid == 0) {
        snprintf(ret_why, CONFIG_WHY_MAX, "'%.40s' is root or in root's group", name);
        return -EINVAL;
    }
    *ret = user;
    return 0;
}

int config_group_find(const char *name, uint32_t *ret, char *ret_why)
{
    struct group *gr;

    if (list_read_id(name, ret))
        return 0;
    errno = 0;
    gr = getgrnam(name);
    if (gr == NULL) {
        snprintf(ret_why, CONFIG_WHY_MAX, "no group '%.40s'%s%s", name, errno != 0 ? ": " : "",
                 errno != 0 ? strerror(errno) : "");
        return -EINVAL;
    }
    *ret = gr->gr_gid;
    return 0;
}

int config_parse_user(const struct config_key *key, const char *value, struct config *config,
                      char *ret_why)
{
    return config_user_find(value, config_field(key, config), ret_why);
}

int config_parse_group(const struct config_key *key, const char *value, struct config *config,
                       char *ret_why)
{
    return config_group_find(value, (uint32_t *)config_field(key, config), ret_why);
}

// Copies the next word of *text and moves *text behind it. 1; 0 at the end; -EINVAL: too long.
static int list_next_word(const char **text, char ret[LIST_WORD_MAX], char *ret_why)
{
    const char *start = *text + strspn(*text, LIST_BLANK);
    size_t n = strcspn(start, LIST_BLANK);

    if (n >= LIST_WORD_MAX) {
        snprintf(ret_why, CONFIG_WHY_MAX, "'%.40s...' is longer than %d bytes", start,
                 LIST_WORD_MAX - 1);
        return -EINVAL;
    }
    memcpy(ret, start, n);
    ret[n] = '\0';
    *text = start + n;
    return n > 0;
}

static int list_add_id(uint32_t *ids, uint32_t first, uint32_t *n, uint32_t id, char *ret_why)
{
    if (*n == MESSAGE_IDS_MAX) {
        snprintf(ret_why, CONFIG_WHY_MAX, "more than %u names", MESSAGE_IDS_MAX - first);
        return -EINVAL;
    }
    ids[(*n)++] = id;
    return 0;
}

int config_parse_users(const struct config_key *key, const char *value, struct config *config,
                       char *ret_why)
{
    char word[LIST_WORD_MAX];
    struct config_user user;
    int r;

    (void)key;
    while ((r = list_next_word(&value, word, ret_why)) > 0) {
        r = list_find_uid(word, &user, ret_why);
        if (r == 0)
            r = list_add_id(config->uids, 0, &config->n_uids, user.uid, ret_why);
        if (r < 0)
            break;
    }
    return r;
}

int config_parse_groups(const struct config_key *key, const char *value, struct config *config,
                        char *ret_why)
{
    char word[LIST_WORD_MAX];
    uint32_t gid;
    int r;

    (void)key;
    while ((r = list_next_word(&value, word, ret_why)) > 0) {
        r = config_group_find(word, &gid, ret_why);
        if (r == 0)
            r = list_add_id(config->gids, 1, &config->n_gids, gid, ret_why);
        if (r < 0)
            break;
    }
    return r;
}

int config_parse_backends(const struct config_key *key, const char *value, struct config *config,
                          char *ret_why)
{
    static const struct config_word words[] = {
        {"afalg", CONFIG_BACKEND_AFALG},
        {"cpu", CONFIG_BACKEND_CPU},
        {"fault", CONFIG_BACKEND_FAULT},
        {NULL, 0},
    };
    uint32_t *backends = config_field(key, config), bit, i = 0;
    char word[LIST_WORD_MAX];
    int r;

    while ((r = list_next_word(&value, word, ret_why)) > 0) {
        r = config_find_word(words, word, &bit, ret_why);
        if (r < 0)
            return r;
        if ((*backends & bit) != 0) {
            snprintf(ret_why, CONFIG_WHY_MAX, "'%s' is named twice", word);
            return -EINVAL;
        }
        while (CONFIG_BACKEND_AT(*backends, i) != 0)
            i++;
        *backends |= bit | bit << (8u + 4u * i);
    }
    if (r == 0 && *backends == 0) {
        snprintf(ret_why, CONFIG_WHY_MAX, "names no backend");
        r = -EINVAL;
    }
    return r;
}

int config_parse_drivers(const struct config_key *key, const char *value, struct config *config,
                         char *ret_why)
{
    char word[LIST_WORD_MAX], *list = config_field(key, config);
    int r;

    while ((r = list_next_word(&value, word, ret_why)) > 0) {
        size_t n = strlen(list), n_word = strlen(word);
        if (strpbrk(word, "=;#\"'") != NULL) {
            snprintf(ret_why, CONFIG_WHY_MAX, "'%s' is not the name of a driver", word);
            return -EINVAL;
        }
        if (n_word + 2 > key->max - n) {
            snprintf(ret_why, CONFIG_WHY_MAX, "longer than %zu bytes in all", (size_t)key->max - 1);
            return -EINVAL;
        }
        if (n > 0)
            list[n++] = ' ';
        memcpy(list + n, word, n_word + 1);
    }
    return r;
}
