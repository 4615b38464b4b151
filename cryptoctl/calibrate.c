// SPDX-License-Identifier: MIT
// `cryptoctl calibrate`: has the daemon measure, with progress on standard error, so that standard
// output is the result alone.
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "calibrate_print.h"

#define SILENCE_MS 15000 // another measurement may have to end first
#define BAR_LEN    40u

struct progress {
    bool terminal;
    unsigned n_tenths; // told, without a terminal
};

static void draw_bar(unsigned done, unsigned total)
{
    char bar[BAR_LEN + 1];
    const unsigned n = done * BAR_LEN / total;

    memset(bar, '.', BAR_LEN);
    memset(bar, '#', n);
    bar[BAR_LEN] = '\0';
    fprintf(stderr, "\rmeasuring [%s] %3u %%", bar, done * 100 / total);
}

static void on_progress(void *user, unsigned done, unsigned total)
{
    struct progress *progress = user;

    if (total == 0 || total > 1000000 || done > total)
        return;
    if (progress->terminal) {
        draw_bar(done, total);
    } else if (done * 10 / total > progress->n_tenths) {
        progress->n_tenths = done * 10 / total;
        fprintf(stderr, "measuring: %u %%\n", progress->n_tenths * 10);
    }
    fflush(stderr);
}

static int ask(const struct cryptoctl_options *options, struct cryptod_calibration **ret)
{
    struct progress progress = {.terminal = isatty(STDERR_FILENO)};
    int r;

    if (options->show)
        return cryptod_calibration_get(options->socket, CRYPTOCTL_TIMEOUT_MS, ret);
    r = cryptod_calibrate(options->socket, SILENCE_MS, on_progress, &progress, ret);
    if (progress.terminal)
        fputs("\r\033[K", stderr); // the bar goes
    return r;
}

static int report(const struct cryptoctl_options *options, int error)
{
    switch (error) {
    case -EACCES:
        fputs("Only root and the daemon's admin group may do this.\n", stderr);
        return CRYPTOCTL_FAILED;
    case -EBUSY:
        fputs("Somebody else's calibration is running. Wait some seconds, or see its result with "
              "--show.\n",
              stderr);
        return CRYPTOCTL_FAILED;
    case -EOPNOTSUPP:
        fputs("There is nothing to measure: the daemon has no engine, or a driver does not "
              "answer; `cryptoctl status` says more.\n",
              stderr);
        return CRYPTOCTL_FAILED;
    case -ECONNRESET:
        fputs("The daemon went away meanwhile.\n", stderr);
        return CRYPTOCTL_FAILED;
    default:
        return report_unreachable(options, error);
    }
}

int calibrate_run(const struct cryptoctl_options *options)
{
    struct cryptod_calibration *calibration = NULL;
    int r = ask(options, &calibration);

    if (r < 0)
        return report(options, r);
    r = options->json ? calibrate_print_json(calibration) : calibrate_print_tables(calibration);
    cryptod_calibration_free(calibration);
    if (r < 0) {
        fputs("cryptoctl: cannot print\n", stderr);
        return CRYPTOCTL_FAILED;
    }
    return 0;
}
