// SPDX-License-Identifier: MIT
// A session that has opened its channel and does nothing. Prints a line when it has it, and ends
// when its standard input does.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"

int main(void)
{
    char byte;
    int r = cryptod_open(NULL, 2000);
    if (r < 0)
        harness_die("no channel: %s", strerror(-r));
    puts("open");
    fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
    cryptod_close();
    return 0;
}
