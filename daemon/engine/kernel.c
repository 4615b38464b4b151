// SPDX-License-Identifier: MIT
// Guarantees: a release that cannot be read counts as old. Must not know what the answer is for.
#include "kernel.h"

#include <ctype.h>
#include <stdlib.h>
#include <sys/utsname.h>

bool kernel_release_is_from(const char *release, unsigned major, unsigned minor)
{
    unsigned long have_major, have_minor;
    char *end;

    if (!isdigit((unsigned char)*release))
        return false;
    have_major = strtoul(release, &end, 10);
    if (*end != '.' || !isdigit((unsigned char)end[1]))
        return false;
    have_minor = strtoul(end + 1, NULL, 10);
    return have_major > major || (have_major == major && have_minor >= minor);
}

bool kernel_is_from(unsigned major, unsigned minor)
{
    struct utsname name;

    return uname(&name) == 0 && kernel_release_is_from(name.release, major, minor);
}
