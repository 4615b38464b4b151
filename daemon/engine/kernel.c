// SPDX-License-Identifier: MIT
// Guarantees: a release that cannot be read counts as old. Must not know what the answer is for.
#include "kernel.h"

#include <stdio.h>
#include <sys/utsname.h>

bool kernel_release_is_from(const char *release, unsigned major, unsigned minor)
{
    unsigned have_major, have_minor;

    if (sscanf(release, "%3u.%3u", &have_major, &have_minor) != 2)
        return false;
    return have_major > major || (have_major == major && have_minor >= minor);
}

bool kernel_is_from(unsigned major, unsigned minor)
{
    struct utsname name;

    return uname(&name) == 0 && kernel_release_is_from(name.release, major, minor);
}
