// SPDX-License-Identifier: MIT
// The provider's entry point: opens the process's channel and tells OpenSSL which ciphers there
// are.
//
// Guarantees: loading always succeeds and takes at most PROVIDER_OPEN_MS milliseconds for the
// daemon. Without an answer nothing is offered, and the program runs OpenSSL's own code. What is
// offered is decided once, at load; a context works to its end whatever becomes of the daemon.
// Knows nothing of any cipher.
#include <stdlib.h>

#include <openssl/core_dispatch.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/params.h>

#include "cipher.h"

#define PROVIDER_OPEN_MS 100u

struct provider {
    OSSL_ALGORITHM ciphers[CIPHER_TABLE_MAX];
};

__attribute__((visibility("default"))) OSSL_provider_init_fn OSSL_provider_init;

// The `socket` of the provider's section in the OpenSSL configuration, or NULL. It stays the
// core's.
static const char *provider_get_socket(const OSSL_CORE_HANDLE *handle, const OSSL_DISPATCH *core)
{
    char *socket = NULL;
    OSSL_PARAM params[] = {
        OSSL_PARAM_utf8_ptr("socket", &socket, 0),
        OSSL_PARAM_END,
    };

    for (; core->function_id != 0; core++)
        if (core->function_id == OSSL_FUNC_CORE_GET_PARAMS) {
            if (OSSL_FUNC_core_get_params(core)(handle, params) != 1)
                return NULL;
            break;
        }
    return socket != NULL && socket[0] != '\0' ? socket : NULL;
}

static const OSSL_PARAM *provider_gettable_params(void *vprovider)
{
    static const OSSL_PARAM params[] = {
        OSSL_PARAM_utf8_ptr(OSSL_PROV_PARAM_NAME, NULL, 0),
        OSSL_PARAM_utf8_ptr(OSSL_PROV_PARAM_VERSION, NULL, 0),
        OSSL_PARAM_utf8_ptr(OSSL_PROV_PARAM_BUILDINFO, NULL, 0),
        OSSL_PARAM_int(OSSL_PROV_PARAM_STATUS, NULL),
        OSSL_PARAM_END,
    };

    (void)vprovider;
    return params;
}

static int provider_get_params(void *vprovider, OSSL_PARAM params[])
{
    static const struct {
        const char *key, *text;
    } texts[] = {
        {OSSL_PROV_PARAM_NAME, "cryptod Provider"},
        {OSSL_PROV_PARAM_VERSION, CRYPTOD_VERSION},
        {OSSL_PROV_PARAM_BUILDINFO, CRYPTOD_VERSION},
    };
    OSSL_PARAM *p;

    (void)vprovider;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        p = OSSL_PARAM_locate(params, texts[i].key);
        if (p != NULL && !OSSL_PARAM_set_utf8_ptr(p, texts[i].text))
            return cipher_fail(PROV_R_FAILED_TO_SET_PARAMETER);
    }
    p = OSSL_PARAM_locate(params, OSSL_PROV_PARAM_STATUS);
    if (p != NULL && !OSSL_PARAM_set_int(p, 1))
        return cipher_fail(PROV_R_FAILED_TO_SET_PARAMETER);
    return 1;
}

static const OSSL_ALGORITHM *provider_query(void *vprovider, int operation, int *ret_no_cache)
{
    struct provider *provider = vprovider;

    *ret_no_cache = 0;
    return operation == OSSL_OP_CIPHER ? provider->ciphers : NULL;
}

// The channel stays open: it belongs to the process, and other library contexts or the program
// itself may use it. It ends with the process.
static void provider_teardown(void *vprovider)
{
    free(vprovider);
}

int OSSL_provider_init(const OSSL_CORE_HANDLE *handle, const OSSL_DISPATCH *in,
                       const OSSL_DISPATCH **out, void **provctx)
{
    static const OSSL_DISPATCH functions[] = {
        {OSSL_FUNC_PROVIDER_TEARDOWN, (void (*)(void))provider_teardown},
        {OSSL_FUNC_PROVIDER_GETTABLE_PARAMS, (void (*)(void))provider_gettable_params},
        {OSSL_FUNC_PROVIDER_GET_PARAMS, (void (*)(void))provider_get_params},
        {OSSL_FUNC_PROVIDER_QUERY_OPERATION, (void (*)(void))provider_query},
        {0, NULL},
    };
    struct provider *provider = calloc(1, sizeof(*provider));

    if (provider == NULL)
        return cipher_fail(ERR_R_MALLOC_FAILURE);

    // A failure is no news for a program that only wants ciphers: the table is then empty.
    // `cryptoctl status` says why.
    if (cryptod_open(provider_get_socket(handle, in), PROVIDER_OPEN_MS) == 0)
        cipher_table_fill(provider->ciphers);

    *out = functions;
    *provctx = provider;
    return 1;
}
