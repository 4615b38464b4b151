// SPDX-License-Identifier: MIT
// cryptoctl: the administrator's command. Options, then one of the subcommands in the table.
#include "cryptoctl.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

struct subcommand {
    const char *name;
    const char *summary;
    int (*run)(const struct cryptoctl_options *options);
};

static const struct subcommand subcommands[] = {
    {"status", "what the daemon offers, who uses it, and what it has done", status_run},
    {"calibrate", "measure each lane anew, and show what was measured and decided", calibrate_run},
};

static void usage(FILE *out)
{
    fputs("Usage: cryptoctl [OPTIONS] COMMAND\n\nCommands:\n", out);
    for (size_t i = 0; i < sizeof subcommands / sizeof subcommands[0]; i++)
        fprintf(out, "  %-10s %s\n", subcommands[i].name, subcommands[i].summary);
    fputs("\nOptions:\n"
          "  --socket PATH  the daemon's socket\n"
          "  --json         for programs\n"
          "  --show         calibrate: show what is in use, without measuring\n"
          "  --version      print the version\n"
          "  --help         print this\n",
          out);
}

int main(int argc, char **argv)
{
    enum { OPTION_SOCKET = 256, OPTION_JSON, OPTION_SHOW, OPTION_VERSION, OPTION_HELP };
    static const struct option long_options[] = {
        {"socket", required_argument, NULL, OPTION_SOCKET},
        {"json", no_argument, NULL, OPTION_JSON},
        {"show", no_argument, NULL, OPTION_SHOW},
        {"version", no_argument, NULL, OPTION_VERSION},
        {"help", no_argument, NULL, OPTION_HELP},
        {NULL, 0, NULL, 0},
    };
    struct cryptoctl_options options = {0};
    int c;
    while ((c = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        switch (c) {
        case OPTION_SOCKET:
            options.socket = optarg;
            break;
        case OPTION_JSON:
            options.json = true;
            break;
        case OPTION_SHOW:
            options.show = true;
            break;
        case OPTION_VERSION:
            puts("cryptoctl " CRYPTOD_VERSION);
            return 0;
        case OPTION_HELP:
            usage(stdout);
            return 0;
        default:
            usage(stderr);
            return CRYPTOCTL_USAGE;
        }
    }
    if (optind + 1 != argc) {
        usage(stderr);
        return CRYPTOCTL_USAGE;
    }
    for (size_t i = 0; i < sizeof subcommands / sizeof subcommands[0]; i++)
        if (strcmp(argv[optind], subcommands[i].name) == 0)
            return subcommands[i].run(&options);
    fprintf(stderr, "cryptoctl: no command '%s'\n", argv[optind]);
    usage(stderr);
    return CRYPTOCTL_USAGE;
}
