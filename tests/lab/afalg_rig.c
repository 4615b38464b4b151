// SPDX-License-Identifier: MIT
// See afalg_rig.h. Must not know what the tests look for.
#include "afalg_rig.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "reference.h"

struct backend *afalg_rig_backend;

struct backend *afalg_rig_start(const char *deny)
{
    const struct backend_settings settings = {.workers = 4, .deny_drivers = deny};
    struct backend *made = NULL;

    cr_assert_eq(backend_afalg_ops.init(&settings, &made), 0);
    return made;
}

struct backend_probe afalg_rig_probe(struct backend *of, enum algorithm_id algorithm)
{
    struct backend_probe found;

    backend_afalg_ops.probe(of, algorithm, &found);
    return found;
}

void afalg_rig_setup(void)
{
    afalg_rig_backend = afalg_rig_start("");
    struct backend_probe found = afalg_rig_probe(afalg_rig_backend, ALGORITHM_AES_128_CBC);

    if (found.error == -EAFNOSUPPORT || found.error == -EPERM || found.error == -EACCES) {
        backend_afalg_ops.fini(afalg_rig_backend);
        cr_skip_test("%s", found.text);
    }
}

void afalg_rig_teardown(void)
{
    backend_afalg_ops.fini(afalg_rig_backend);
}

void afalg_rig_fill(void *data, size_t n_bytes, uint64_t seed)
{
    struct reference_random random = {.state = seed};

    reference_random_fill(&random, data, n_bytes);
}

struct backend_key *afalg_rig_open(enum algorithm_id algorithm, uint8_t bytes[ALGORITHM_KEY_MAX])
{
    struct backend_key *key = NULL;

    afalg_rig_fill(bytes, ALGORITHM_KEY_MAX, algorithm + 1);
    cr_assert_eq(backend_afalg_ops.open(afalg_rig_backend, algorithm, bytes, &key), 0, "%s",
                 algorithm_get(algorithm)->name);
    return key;
}

bool afalg_rig_serves(enum algorithm_id algorithm)
{
    return algorithm_get(algorithm)->kernel_name != NULL;
}

// The output ends at a page that nobody may touch.
void afalg_rig_compare(struct backend_key *key, enum algorithm_id algorithm, const uint8_t *bytes,
                       bool encrypt, size_t n_bytes, bool in_place)
{
    struct reference_guard out;
    uint8_t *in = malloc(n_bytes), *want = malloc(n_bytes);
    uint8_t iv[ALGORITHM_IV_LEN_MAX];

    cr_assert(in && want);
    reference_guard_new(&out, n_bytes);
    afalg_rig_fill(in, n_bytes, n_bytes);
    afalg_rig_fill(iv, sizeof(iv), n_bytes + encrypt);
    reference_crypt(algorithm, bytes, iv, encrypt, want, in, n_bytes);
    memcpy(out.bytes, in, n_bytes);
    cr_assert_eq(
        backend_afalg_ops.crypt(key, encrypt, iv, out.bytes, in_place ? out.bytes : in, n_bytes),
        0);
    cr_expect_eq(memcmp(out.bytes, want, n_bytes), 0, "%s, %s, %zu bytes",
                 algorithm_get(algorithm)->name, encrypt ? "encrypt" : "decrypt", n_bytes);
    reference_guard_free(&out);
    free(in);
    free(want);
}
