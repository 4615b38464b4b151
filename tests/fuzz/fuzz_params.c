// SPDX-License-Identifier: MIT
// libFuzzer entry for the provider's functions, called as OpenSSL calls them but with arguments
// that no sane program gives: parameters of any name, type and size, with and without data; keys
// and IVs of any length; chunks, outputs and overlaps of any size; contexts copied and used in any
// state.
//
// Each buffer is exactly as large as the call says, so the sanitizer sees each byte too many.
#include "cipher.h"
#include "fuzz_input.h"

#include <openssl/core_names.h>
#include <openssl/params.h>

#define STEPS_MAX  40
#define PARAMS_MAX 5u
#define BYTES_MAX  300u

struct functions {
    OSSL_FUNC_cipher_newctx_fn *new;
    OSSL_FUNC_cipher_freectx_fn *free;
    OSSL_FUNC_cipher_dupctx_fn *dup;
    OSSL_FUNC_cipher_encrypt_init_fn *encrypt_init;
    OSSL_FUNC_cipher_decrypt_init_fn *decrypt_init;
    OSSL_FUNC_cipher_update_fn *update;
    OSSL_FUNC_cipher_final_fn *final;
    OSSL_FUNC_cipher_cipher_fn *cipher;
    OSSL_FUNC_cipher_get_params_fn *get_params;
    OSSL_FUNC_cipher_get_ctx_params_fn *get_ctx_params;
    OSSL_FUNC_cipher_set_ctx_params_fn *set_ctx_params;
};

static struct functions functions[CIPHER_TABLE_MAX];
static unsigned n_functions;

bool __wrap_cryptod_offers(enum cryptod_algorithm algorithm);

bool __wrap_cryptod_offers(enum cryptod_algorithm algorithm)
{
    (void)algorithm;
    return true;
}

static void find_function(struct functions *f, const OSSL_DISPATCH *d)
{
    switch (d->function_id) {
    case OSSL_FUNC_CIPHER_NEWCTX:
        f->new = OSSL_FUNC_cipher_newctx(d);
        break;
    case OSSL_FUNC_CIPHER_FREECTX:
        f->free = OSSL_FUNC_cipher_freectx(d);
        break;
    case OSSL_FUNC_CIPHER_DUPCTX:
        f->dup = OSSL_FUNC_cipher_dupctx(d);
        break;
    case OSSL_FUNC_CIPHER_ENCRYPT_INIT:
        f->encrypt_init = OSSL_FUNC_cipher_encrypt_init(d);
        break;
    case OSSL_FUNC_CIPHER_DECRYPT_INIT:
        f->decrypt_init = OSSL_FUNC_cipher_decrypt_init(d);
        break;
    case OSSL_FUNC_CIPHER_UPDATE:
        f->update = OSSL_FUNC_cipher_update(d);
        break;
    case OSSL_FUNC_CIPHER_FINAL:
        f->final = OSSL_FUNC_cipher_final(d);
        break;
    case OSSL_FUNC_CIPHER_CIPHER:
        f->cipher = OSSL_FUNC_cipher_cipher(d);
        break;
    case OSSL_FUNC_CIPHER_GET_PARAMS:
        f->get_params = OSSL_FUNC_cipher_get_params(d);
        break;
    case OSSL_FUNC_CIPHER_GET_CTX_PARAMS:
        f->get_ctx_params = OSSL_FUNC_cipher_get_ctx_params(d);
        break;
    case OSSL_FUNC_CIPHER_SET_CTX_PARAMS:
        f->set_ctx_params = OSSL_FUNC_cipher_set_ctx_params(d);
        break;
    default:
        break;
    }
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    OSSL_ALGORITHM table[CIPHER_TABLE_MAX];

    (void)argc;
    (void)argv;
    (void)cryptod_open("/no-such-socket", 0); // loads OpenSSL's own ciphers
    cipher_table_fill(table);
    for (; table[n_functions].algorithm_names != NULL; n_functions++)
        for (const OSSL_DISPATCH *d = table[n_functions].implementation; d->function_id != 0; d++)
            find_function(&functions[n_functions], d);
    fuzz_require(n_functions == CRYPTOD_ALGORITHM_COUNT);
    return 0;
}

// ---------------------------------------------------------------- parameters

static void *make_bytes(struct fuzz_input *in, size_t n)
{
    void *bytes = malloc(n);

    fuzz_require(bytes != NULL || n == 0);
    fuzz_take(in, bytes, n);
    return bytes;
}

// Integers that mean something are more often than chance would have it.
static OSSL_PARAM make_param(struct fuzz_input *in)
{
    static const char *const names[] = {
        OSSL_CIPHER_PARAM_PADDING,      OSSL_CIPHER_PARAM_NUM,
        OSSL_CIPHER_PARAM_TLS_VERSION,  OSSL_CIPHER_PARAM_TLS_MAC_SIZE,
        OSSL_CIPHER_PARAM_TLS_MAC,      OSSL_CIPHER_PARAM_IV,
        OSSL_CIPHER_PARAM_UPDATED_IV,   OSSL_CIPHER_PARAM_KEYLEN,
        OSSL_CIPHER_PARAM_IVLEN,        OSSL_CIPHER_PARAM_RANDOM_KEY,
        OSSL_CIPHER_PARAM_USE_BITS,     OSSL_CIPHER_PARAM_MODE,
        OSSL_CIPHER_PARAM_BLOCK_SIZE,   OSSL_CIPHER_PARAM_CUSTOM_IV,
        OSSL_CIPHER_PARAM_HAS_RAND_KEY, "no-such-parameter",
    };
    uint8_t name = fuzz_byte(in), how = fuzz_byte(in);
    OSSL_PARAM p = {.key = names[name & 15], .data_type = OSSL_PARAM_UNSIGNED_INTEGER};

    if ((name & 0x10) != 0) { // an unsigned int with a number that may mean something
        static const unsigned numbers[] = {0,  1,  2,  8,     15,    16,    20,    24,
                                           32, 64, 65, 0x300, 0x301, 0x302, 0x303, 0xfeff};
        p.data = malloc(sizeof(unsigned));
        fuzz_require(p.data != NULL);
        p.data_size = sizeof(unsigned);
        memcpy(p.data, &numbers[how & 15], sizeof(unsigned));
        return p;
    }
    p.data_type = how & 7; // 1 .. 7 are types
    p.data_size = fuzz_byte(in) & 63;
    if (p.data_type == OSSL_PARAM_UTF8_PTR || p.data_type == OSSL_PARAM_OCTET_PTR)
        p.data = calloc(1, sizeof(void *));
    else if (p.data_size == 0 && (name & 15) == 9) // a random key: enough for any, as EVP has it
        p.data = calloc(1, 64);
    else
        p.data = make_bytes(in, p.data_size);
    if ((how & 0xc0) == 0xc0) {
        free(p.data);
        p.data = NULL;
    }
    return p;
}

// false: none
static bool make_params(struct fuzz_input *in, OSSL_PARAM params[PARAMS_MAX + 1])
{
    unsigned n = fuzz_byte(in) % (PARAMS_MAX + 1);

    for (unsigned i = 0; i < n; i++)
        params[i] = make_param(in);
    params[n] = OSSL_PARAM_construct_end();
    return n > 0;
}

static void free_params(OSSL_PARAM params[])
{
    for (; params->key != NULL; params++)
        free(params->data);
}

// What a pointer leads to must be there; IVs may even be written.
static void use_pointers(OSSL_PARAM params[], uint8_t change)
{
    for (OSSL_PARAM *p = params; p->key != NULL; p++) {
        uint8_t *bytes;
        volatile uint8_t sum = 0;

        if (p->data_type != OSSL_PARAM_OCTET_PTR || p->data == NULL || !OSSL_PARAM_modified(p))
            continue;
        memcpy(&bytes, p->data, sizeof(bytes));
        for (size_t i = 0; bytes != NULL && i < p->return_size; i++)
            sum = (uint8_t)(sum + bytes[i]);
        if (bytes != NULL && change != 0 && strcmp(p->key, OSSL_CIPHER_PARAM_UPDATED_IV) == 0)
            bytes[0] = change;
    }
}

// ---------------------------------------------------------------- steps

static void step_init(struct fuzz_input *in, const struct functions *f, void *ctx, bool encrypt)
{
    static const uint8_t lengths[] = {0, 8, 16, 24, 32, 1, 15, 33};
    OSSL_PARAM params[PARAMS_MAX + 1];
    uint8_t how = fuzz_byte(in), extra = fuzz_byte(in);
    size_t n_key = lengths[how & 7], n_iv = lengths[how >> 3 & 7];
    uint8_t *key = (how & 0x40) != 0 ? make_bytes(in, n_key) : NULL,
            *iv = (how & 0x80) != 0 ? make_bytes(in, n_iv) : NULL;
    bool has = (extra & 1) != 0 && make_params(in, params);

    (void)(encrypt ? f->encrypt_init : f->decrypt_init)(ctx, key, n_key, iv, n_iv,
                                                        has ? params : NULL);
    if (has)
        free_params(params);
    free(key);
    free(iv);
}

// Output and input apart (0), the same (1), or overlapping (2, 3).
static void step_data(struct fuzz_input *in, const struct functions *f, void *ctx, bool whole)
{
    uint8_t how = fuzz_byte(in);
    size_t n_in = fuzz_byte(in), n_out = fuzz_byte(in) + (size_t)(how >> 4), n = BYTES_MAX + 1;
    size_t shift = (how & 3) >= 2 ? how >> 2 & 31u : 0;
    uint8_t *out, *from;

    if ((how & 3) == 0) {
        from = make_bytes(in, n_in);
        out = malloc(n_out);
    } else {
        out = malloc(shift + (n_in > n_out ? n_in : n_out));
        from = out + ((how & 3) == 2 ? shift : 0);
        if (out != NULL)
            fuzz_take(in, from, n_in);
    }
    fuzz_require((out != NULL || n_out == 0) && (from != NULL || n_in == 0));
    uint8_t *to = (how & 3) == 3 ? out + shift : out;
    int ok = (whole ? f->cipher : f->update)(ctx, to, &n, n_out, from, n_in);
    fuzz_require(!ok || n <= n_out);
    free(out);
    if ((how & 3) == 0)
        free(from);
}

static void step_final(struct fuzz_input *in, const struct functions *f, void *ctx)
{
    size_t n_out = fuzz_byte(in) & 31, n = BYTES_MAX + 1;
    uint8_t *out = malloc(n_out);

    fuzz_require(out != NULL || n_out == 0);
    fuzz_require(!f->final(ctx, out, &n, n_out) || n <= n_out);
    free(out);
}

static void step_params(struct fuzz_input *in, const struct functions *f, void *ctx, uint8_t how)
{
    OSSL_PARAM params[PARAMS_MAX + 1];

    (void)make_params(in, params);
    if ((how & 3) == 0)
        (void)f->get_params(params);
    else if ((how & 3) == 1)
        (void)f->set_ctx_params(ctx, params);
    else if (f->get_ctx_params(ctx, params))
        use_pointers(params, how >> 4);
    free_params(params);
}

static void step(struct fuzz_input *in, const struct functions *f, void *ctxs[2])
{
    uint8_t what = fuzz_byte(in);
    void **ctx = &ctxs[what >> 3 & 1];

    if (*ctx == NULL)
        *ctx = f->new (NULL);
    fuzz_require(*ctx != NULL);
    switch (what & 7) {
    case 0:
    case 1:
        step_init(in, f, *ctx, what & 1);
        break;
    case 2:
        step_data(in, f, *ctx, what >> 4 & 1);
        break;
    case 3:
    case 4:
        step_data(in, f, *ctx, false);
        break;
    case 5:
        step_final(in, f, *ctx);
        break;
    case 6:
        step_params(in, f, *ctx, what >> 4);
        break;
    default: {
        void **other = &ctxs[(what >> 3 & 1) ^ 1];
        f->free(*other);
        *other = (what & 0x10) != 0 ? NULL : f->dup(*ctx);
    }
    }
    ERR_clear_error();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct fuzz_input in = {data, data + n};
    const struct functions *f = &functions[fuzz_byte(&in) % n_functions];
    void *ctxs[2] = {NULL, NULL};

    for (int i = 0; i < STEPS_MAX && fuzz_left(&in) > 0; i++)
        step(&in, f, ctxs);
    f->free(ctxs[0]);
    f->free(ctxs[1]);
    return 0;
}
