// SPDX-License-Identifier: MIT
// Configuration files for tests, from lines "section.key=value".
#ifndef CRYPTOD_TESTS_FIXTURE_CONF_H
#define CRYPTOD_TESTS_FIXTURE_CONF_H

// Writes both texts (extra may be NULL) as one file at path. A key that is given again replaces the
// earlier one, an empty value removes it. 0 or a negative errno; -EINVAL: a line without '.' or
// '='.
int fixture_conf_write(const char *path, const char *defaults, const char *extra);

#endif
