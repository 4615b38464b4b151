// SPDX-License-Identifier: MIT
// libFuzzer entry for what is kept of a calibration, on its whole way: the file (first byte even),
// or messages of an engine to the monitor (odd); and then what the next engine makes of the rows.
#include "fuzz_input.h"

#include "calibration_file.h"
#include "calibration_store.h"
#include "log.h"
#include "offer.h"
#include "role.h"

static struct offer offer;
static char text[CALIBRATION_TEXT_MAX], again[CALIBRATION_TEXT_MAX];

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    const struct message_role_config config = {.backends = CONFIG_BACKEND_CPU, .verify = 1024};

    (void)argc;
    (void)argv;
    log_init("monitor", 0);
    fuzz_require(offer_init(&offer, &config, 1, NULL) == 0);
    return 0;
}

static void use_row(const struct message_calibration *row)
{
    struct message m = {.type = MESSAGE_CALIBRATION}, decoded;
    uint8_t bytes[MESSAGE_LEN_MAX];
    size_t n;

    if (!offer_take_kept(&offer, row))
        return;
    offer_decide(&offer, CONFIG_OFFLOAD_AUTO, 0);
    for (uint32_t i = 0; i < ALGORITHM_COUNT; i++) {
        offer_get_calibration(&offer.rows[i][0], &m.u.calibration);
        fuzz_require(message_encode(&m, bytes, sizeof(bytes), &n) == 0);
        fuzz_require(message_decode(bytes, n, MESSAGE_ENGINE_TO_FRONT, &decoded) == 0);
    }
}

// What is read prints as a text that reads as the same.
static void read_file(struct fuzz_input *in)
{
    static struct calibration_table table, second;
    size_t n = fuzz_left(in) < sizeof(text) - 1 ? fuzz_left(in) : sizeof(text) - 1, n_again;

    memcpy(text, in->at, n);
    text[n] = '\0';
    table = (struct calibration_table){.n_rows = 0};
    if (calibration_file_parse(text, n, &table) != 0)
        return;
    fuzz_require(table.n_rows <= CALIBRATION_ROWS_MAX);
    fuzz_require(calibration_file_print(&table, again, &n_again) == 0 && n_again < sizeof(again));
    second = (struct calibration_table){.n_rows = 0};
    fuzz_require(calibration_file_parse(again, n_again, &second) == 0);
    fuzz_require(memcmp(&table, &second, sizeof(table)) == 0);
    for (uint32_t i = 0; i < table.n_rows; i++)
        use_row(&table.rows[i]);
}

// Text of the input, with zeroes after it.
static void take_text(struct fuzz_input *in, char *to, size_t n_to)
{
    size_t n;
    const uint8_t *bytes = fuzz_bytes(in, fuzz_byte(in) % n_to, &n);

    memset(to, 0, n_to);
    memcpy(to, bytes, strnlen((const char *)bytes, n));
}

static void take_row(struct fuzz_input *in, struct message_calibration *ret)
{
    const struct offer_row *row;

    *ret = (struct message_calibration){.algorithm = fuzz_byte(in) % (ALGORITHM_COUNT + 1)};
    fuzz_take(in, ret->costs, fuzz_byte(in) % (sizeof(ret->costs) + 1));
    ret->wake_ns = fuzz_u32(in);
    if ((fuzz_byte(in) & 1) != 0 || ret->algorithm >= ALGORITHM_COUNT) {
        take_text(in, ret->backend, sizeof(ret->backend));
        take_text(in, ret->driver, sizeof(ret->driver));
        take_text(in, ret->text, sizeof(ret->text));
        return;
    }
    row = &offer.rows[ret->algorithm][0];
    strcpy(ret->backend, "cpu");
    memcpy(ret->driver, row->probe.driver, sizeof(ret->driver));
}

// Text is limited here: a name that is all of its array cannot come over the wire.
static void take_message(struct fuzz_input *in, struct message *ret)
{
    *ret = (struct message){.type = MESSAGE_CALIBRATION_END};
    switch (fuzz_byte(in) & 3) {
    case 0:
        ret->type = MESSAGE_CALIBRATION_KEY;
        ret->u.calibration_key.cpus = fuzz_byte(in);
        take_text(in, ret->u.calibration_key.kernel, sizeof(ret->u.calibration_key.kernel));
        take_text(in, ret->u.calibration_key.cpu, sizeof(ret->u.calibration_key.cpu));
        break;
    case 1:
    case 2:
        ret->type = MESSAGE_CALIBRATION;
        take_row(in, &ret->u.calibration);
        break;
    default:
        ret->u.calibration_end.reason = fuzz_byte(in) & 1;
    }
}

static void read_messages(struct fuzz_input *in)
{
    struct calibration_store *store;
    struct message m;

    fuzz_require(calibration_store_new("/proc/no-such-folder", &store) == 0);
    while (fuzz_left(in) > 0) {
        take_message(in, &m);
        (void)calibration_store_take(store, &m);
    }
    for (uint32_t i = 0; i < calibration_store_count_messages(store); i++) {
        calibration_store_get_message(store, i, &m);
        if (m.type == MESSAGE_CALIBRATION)
            use_row(&m.u.calibration);
    }
    calibration_store_free(store);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct fuzz_input in = {data, data + n};

    if ((fuzz_byte(&in) & 1) == 0)
        read_file(&in);
    else
        read_messages(&in);
    return 0;
}
