// SPDX-License-Identifier: MIT
// See provider_command.h.
#include "provider_command.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "provider_pair.h"

#define COMMAND_SHIPPED_CONFIG "systemd/openssl-sshd.cnf"
#define COMMAND_WORDS_MAX      40
#define COMMAND_NOT_FOUND      127 // exit status

static void command_path(const struct command_folder *folder, const char *name, char path[PATH_MAX])
{
    if (name == NULL)
        snprintf(path, PATH_MAX, "/dev/null");
    else
        snprintf(path, PATH_MAX, "%s/%s", folder->path, name);
}

void command_folder_make(struct command_folder *folder, const struct fixture *fixture)
{
    FILE *in = fopen(COMMAND_SHIPPED_CONFIG, "re"), *out;
    int c;

    snprintf(folder->path, sizeof(folder->path), "%s/openssl", fixture->folder);
    snprintf(folder->config, sizeof(folder->config), "%s/openssl.cnf", folder->path);
    cr_assert_eq(mkdir(folder->path, 0700), 0);
    out = fopen(folder->config, "we");
    cr_assert_not_null(in, "no %s", COMMAND_SHIPPED_CONFIG);
    cr_assert_not_null(out);
    while ((c = getc(in)) != EOF)
        putc(c, out);
    fprintf(out, "[cryptod_provider_cryptod]\nmodule = %s/cryptod.so\nsocket = %s\n",
            pair_modules_folder(), fixture->socket);
    fclose(in);
    cr_assert_eq(fclose(out), 0);
    if (command_run(folder, false, "version", NULL, NULL) == COMMAND_NOT_FOUND)
        cr_skip_test("no openssl command here");
}

// A library built with a sanitizer needs the sanitizer's own library before it, in whatever program
// loads it.
static int command_preload(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    (void)arg;
    if (strstr(info->dlpi_name, "/libasan.so") == NULL &&
        strstr(info->dlpi_name, "/libtsan.so") == NULL)
        return 0;
    setenv("LD_PRELOAD", info->dlpi_name, 1);
    setenv("ASAN_OPTIONS", "detect_leaks=0", 1); // openssl's own
    return 1;
}

static void command_exec(const struct command_folder *folder, bool ours, const char *arguments,
                         const char *input, const char *output)
{
    char path[PATH_MAX], words[1024], *argv[COMMAND_WORDS_MAX + 1];
    size_t n_argv = 0;

    snprintf(words, sizeof(words), "openssl %s", arguments);
    char *rest = words;
    while (n_argv < COMMAND_WORDS_MAX && (argv[n_argv] = strsep(&rest, " ")) != NULL)
        n_argv++;
    argv[n_argv] = NULL;

    command_path(folder, input, path);
    dup2(open(path, O_RDONLY), STDIN_FILENO);
    command_path(folder, output, path);
    dup2(open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600), STDOUT_FILENO);
    command_path(folder, "log", path);
    dup2(open(path, O_WRONLY | O_CREAT | O_APPEND, 0600), STDERR_FILENO);
    if (chdir(folder->path) != 0)
        _exit(COMMAND_NOT_FOUND);
    unsetenv("CRYPTOD_SOCKET"); // the configuration names the socket
    if (ours)
        setenv("OPENSSL_CONF", folder->config, 1);
    setenv("OPENSSL_ia32cap", "0:0", 1); // keeps libssl from its combined AES-CBC-HMAC code
    dl_iterate_phdr(command_preload, NULL);
    execvp("openssl", argv);
    _exit(COMMAND_NOT_FOUND);
}

pid_t command_start(const struct command_folder *folder, bool ours, const char *arguments,
                    const char *input, const char *output)
{
    pid_t pid = fork();

    cr_assert_geq(pid, 0);
    if (pid == 0)
        command_exec(folder, ours, arguments, input, output);
    return pid;
}

static void command_sleep(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
}

int command_wait(pid_t pid)
{
    int status = -1;

    for (int i = 0; i < 60 * 200; i++) {
        pid_t got = waitpid(pid, &status, WNOHANG);
        if (got == pid)
            return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
        command_sleep();
    }
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    cr_assert_fail("openssl does not end");
    return -1;
}

int command_run(const struct command_folder *folder, bool ours, const char *arguments,
                const char *input, const char *output)
{
    return command_wait(command_start(folder, ours, arguments, input, output));
}

void command_write(const struct command_folder *folder, const char *name, const char *text)
{
    char path[PATH_MAX];

    command_path(folder, name, path);
    FILE *out = fopen(path, "we");
    cr_assert_not_null(out);
    fputs(text, out);
    cr_assert_eq(fclose(out), 0);
}

void command_show_log(const struct command_folder *folder)
{
    char path[PATH_MAX], line[512];

    command_path(folder, "log", path);
    FILE *in = fopen(path, "re");
    while (in != NULL && fgets(line, sizeof(line), in) != NULL)
        cr_log_error("%s", line);
    if (in != NULL)
        fclose(in);
}

void command_write_random(const struct command_folder *folder, const char *name, size_t n)
{
    uint64_t seed = n;
    char path[PATH_MAX];

    command_path(folder, name, path);
    FILE *out = fopen(path, "we");
    cr_assert_not_null(out);
    for (size_t i = 0; i < n; i++)
        putc((int)(pair_random(&seed) & 0xff), out);
    cr_assert_eq(fclose(out), 0);
}

bool command_same(const struct command_folder *folder, const char *name, const char *other)
{
    char path[PATH_MAX];
    int a, b;

    command_path(folder, name, path);
    FILE *in = fopen(path, "re");
    command_path(folder, other, path);
    FILE *in_other = fopen(path, "re");
    cr_assert_not_null(in, "no %s", name);
    cr_assert_not_null(in_other, "no %s", other);
    do {
        a = getc(in);
        b = getc(in_other);
    } while (a == b && a != EOF);
    fclose(in);
    fclose(in_other);
    return a == b;
}

bool command_wait_file(const struct command_folder *folder, const char *name)
{
    char path[PATH_MAX];

    command_path(folder, name, path);
    for (int i = 0; i < 30 * 200; i++) {
        if (access(path, F_OK) == 0)
            return true;
        command_sleep();
    }
    return false;
}
