// SPDX-License-Identifier: MIT
// Guarantees: a part of a name is not the name. Must not know drivers.
#include "deny_list.h"

#include <string.h>

bool deny_list_has(const char *list, const char *name)
{
    const size_t n = strlen(name);

    while (*list != '\0') {
        size_t n_word = strcspn(list, " ");

        if (n > 0 && n_word == n && memcmp(list, name, n) == 0)
            return true;
        list += n_word + strspn(list + n_word, " ");
    }
    return false;
}
