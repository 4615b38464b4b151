// SPDX-License-Identifier: MIT
// Guarantees: a text that was cut off or changed anywhere is refused as a whole: its last line is a
// checksum of all before. Must not know what the figures are good for.
//
//      [key]                       [aes-256-ctr afalg]             [end]
//      kernel = ...                driver = ...                    checksum = 89abcdef
//      cpu = ...                   wake = 13000 9000
//      cpus = 2                    software = 512 600 ... -        nanoseconds, one each size
//      openssl = ...               software_cpu = ...              "-": not measured
//      capabilities = ...          request = ...
#include "calibration_file.h"

#include <errno.h>
#include <ini.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_MAX_BYTES 190u // libinih reads 198
#define TIME_MAX       UINT64_C(1000000000000000)
#define END            "[end]\nchecksum = "
#define CRC_POLYNOMIAL UINT32_C(0xedb88320)

static const char *const cost_names[MESSAGE_COST_COUNT] = {"software", "request", "keystream",
                                                           "take"};

// CRC-32 (IEEE 802.3): sees each change of up to 32 bits in a row.
static uint32_t checksum(const char *text, size_t n)
{
    uint32_t crc = UINT32_MAX;

    for (size_t i = 0; i < n; i++) {
        crc ^= (unsigned char)text[i];
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ ((crc & 1) != 0 ? CRC_POLYNOMIAL : 0);
    }
    return ~crc;
}

// ---------------------------------------------------------------- what can be kept

static bool takes_text(const char *text, size_t n_max)
{
    const size_t n = strlen(text);

    if (n > n_max || (n > 0 && (text[0] == ' ' || text[n - 1] == ' ')))
        return false;
    for (size_t i = 0; i < n; i++)
        if (text[i] < ' ' || text[i] > '~' || text[i] == ';')
            return false;
    return true;
}

bool calibration_file_takes_key(const struct message_calibration_key *key)
{
    return takes_text(key->kernel, 160) && takes_text(key->cpu, 160) &&
           takes_text(key->openssl, 160) && takes_text(key->capabilities, 160);
}

bool calibration_file_takes_row(const struct message_calibration *row)
{
    return algorithm_get(row->algorithm) != NULL && row->backend[0] != '\0' &&
           takes_text(row->backend, sizeof(row->backend)) && !strpbrk(row->backend, "[] ") &&
           takes_text(row->driver, sizeof(row->driver));
}

// ---------------------------------------------------------------- printing

static void print_times(FILE *out, const char *name, const char *suffix, const uint64_t *times)
{
    fprintf(out, "%s%s =", name, suffix);
    for (uint32_t i = 0; i < MESSAGE_SIZES; i++)
        if (times[i] <= TIME_MAX)
            fprintf(out, " %" PRIu64, times[i]);
        else
            fputs(" -", out);
    fputc('\n', out);
}

static void print_key(FILE *out, const struct message_calibration_key *key)
{
    fprintf(out,
            "# Written by cryptod; measured anew by `cryptoctl calibrate`.\n"
            "[key]\nkernel = %s\ncpu = %s\ncpus = %" PRIu32 "\nopenssl = %s\ncapabilities = %s\n",
            key->kernel, key->cpu, key->cpus, key->openssl, key->capabilities);
}

static void print_row(FILE *out, const struct message_calibration *row)
{
    fprintf(out, "[%s %s]\ndriver = %s\nwake = %" PRIu64 " %" PRIu64 "\n",
            algorithm_get(row->algorithm)->name, row->backend, row->driver, row->wake_ns,
            row->wake_cpu_ns);
    for (uint32_t cost = 0; cost < MESSAGE_COST_COUNT; cost++) {
        print_times(out, cost_names[cost], "", row->costs[cost].ns);
        print_times(out, cost_names[cost], "_cpu", row->costs[cost].cpu_ns);
    }
}

static bool is_sound(const struct calibration_table *table)
{
    if (!calibration_file_takes_key(&table->key) || table->n_rows > CALIBRATION_ROWS_MAX)
        return false;
    for (uint32_t i = 0; i < table->n_rows; i++)
        if (!calibration_file_takes_row(&table->rows[i]) || table->rows[i].wake_ns > TIME_MAX ||
            table->rows[i].wake_cpu_ns > TIME_MAX)
            return false;
    return true;
}

int calibration_file_print(const struct calibration_table *table, char *ret_text, size_t *ret_n)
{
    FILE *out;
    size_t n;

    if (!is_sound(table))
        return -EINVAL;
    out = fmemopen(ret_text, CALIBRATION_TEXT_MAX, "w");
    if (!out)
        return -ENOMEM;
    print_key(out, &table->key);
    for (uint32_t i = 0; i < table->n_rows; i++)
        print_row(out, &table->rows[i]);
    if (fflush(out) != 0) {
        fclose(out);
        return -ENOMEM;
    }
    n = (size_t)ftell(out);
    fprintf(out, END "%08" PRIx32 "\n", checksum(ret_text, n));
    n = (size_t)ftell(out);
    if (fclose(out) != 0)
        return -ENOMEM;
    *ret_n = n;
    return 0;
}

// ---------------------------------------------------------------- parsing

struct parser {
    struct calibration_table table;
    bool in_row;
    char section[64]; // of the row that is read last
};

static bool parse_number(const char *text, uint64_t max, const char **ret_rest, uint64_t *ret)
{
    char *rest;

    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    *ret = strtoull(text, &rest, 10);
    *ret_rest = rest;
    return errno == 0 && *ret <= max;
}

// n numbers with one blank between them; "-": MESSAGE_NOT_MEASURED.
static bool parse_numbers(const char *text, uint64_t *ret, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && *text++ != ' ')
            return false;
        if (*text == '-') {
            ret[i] = MESSAGE_NOT_MEASURED;
            text++;
        } else if (!parse_number(text, TIME_MAX, &text, &ret[i])) {
            return false;
        }
    }
    return *text == '\0';
}

static bool parse_text(const char *value, char *ret, size_t n_ret)
{
    const size_t n = strlen(value);

    if (n >= n_ret)
        return false;
    memcpy(ret, value, n + 1);
    return true;
}

static bool parse_key(struct message_calibration_key *key, const char *name, const char *value)
{
    uint64_t n;

    if (strcmp(name, "kernel") == 0)
        return parse_text(value, key->kernel, sizeof(key->kernel));
    if (strcmp(name, "cpu") == 0)
        return parse_text(value, key->cpu, sizeof(key->cpu));
    if (strcmp(name, "openssl") == 0)
        return parse_text(value, key->openssl, sizeof(key->openssl));
    if (strcmp(name, "capabilities") == 0)
        return parse_text(value, key->capabilities, sizeof(key->capabilities));
    if (strcmp(name, "cpus") != 0 || !parse_number(value, UINT32_MAX, &value, &n) || *value != '\0')
        return false;
    key->cpus = (uint32_t)n;
    return true;
}

// "[aes-256-ctr afalg]" begins a row. NULL: it is no row's name, or there are too many.
static struct message_calibration *begin_row(struct parser *parser, const char *section)
{
    const char *blank = strchr(section, ' ');
    struct message_calibration *row = &parser->table.rows[parser->table.n_rows];
    const struct algorithm_info *info;
    char algorithm[32];

    if (!blank || (size_t)(blank - section) >= sizeof(algorithm) ||
        parser->table.n_rows == CALIBRATION_ROWS_MAX ||
        !parse_text(section, parser->section, sizeof(parser->section)))
        return NULL;
    memcpy(algorithm, section, (size_t)(blank - section));
    algorithm[blank - section] = '\0';
    info = algorithm_find(algorithm);
    *row = (struct message_calibration){0};
    if (!info || !parse_text(blank + 1, row->backend, sizeof(row->backend)))
        return NULL;
    row->algorithm = info->id;
    memset(row->costs, 0xff, sizeof(row->costs)); // MESSAGE_NOT_MEASURED
    parser->in_row = true;
    parser->table.n_rows++;
    return row;
}

static bool parse_row(struct message_calibration *row, const char *name, const char *value)
{
    uint64_t wake[2];

    if (strcmp(name, "driver") == 0)
        return parse_text(value, row->driver, sizeof(row->driver));
    if (strcmp(name, "wake") == 0) {
        if (!parse_numbers(value, wake, 2) || wake[0] > TIME_MAX || wake[1] > TIME_MAX)
            return false;
        row->wake_ns = wake[0];
        row->wake_cpu_ns = wake[1];
        return true;
    }
    for (uint32_t cost = 0; cost < MESSAGE_COST_COUNT; cost++) {
        const size_t n = strlen(cost_names[cost]);

        if (strncmp(name, cost_names[cost], n) != 0)
            continue;
        if (name[n] == '\0')
            return parse_numbers(value, row->costs[cost].ns, MESSAGE_SIZES);
        if (strcmp(name + n, "_cpu") == 0)
            return parse_numbers(value, row->costs[cost].cpu_ns, MESSAGE_SIZES);
    }
    return false;
}

// ini_handler: 1 if the value was taken.
static int handle(void *user, const char *section, const char *name, const char *value)
{
    struct parser *parser = user;
    struct message_calibration *row = NULL;

    if (strcmp(section, "key") == 0)
        return parse_key(&parser->table.key, name, value);
    if (parser->in_row && strcmp(section, parser->section) == 0)
        row = &parser->table.rows[parser->table.n_rows - 1];
    else
        row = begin_row(parser, section);
    return row && parse_row(row, name, value);
}

// Where the end begins, if the text ends as it must and is what was written.
static const char *find_end(const char *text, size_t n)
{
    const size_t n_end = strlen(END) + 8 + 1;
    const char *end = text + n - n_end;
    char wanted[32];

    if (n < n_end || n > CALIBRATION_TEXT_MAX || strlen(text) != n)
        return NULL;
    (void)snprintf(wanted, sizeof(wanted), END "%08" PRIx32 "\n", checksum(text, n - n_end));
    return strcmp(end, wanted) == 0 ? end : NULL;
}

int calibration_file_parse(const char *text, size_t n, struct calibration_table *ret)
{
    const char *end = find_end(text, n);
    struct parser *parser;
    char *body;
    int r = -EBADMSG;

    if (!end)
        return r;
    parser = calloc(1, sizeof(*parser));
    body = strndup(text, (size_t)(end - text));
    if (!parser || !body)
        r = -ENOMEM;
    else if (ini_parse_string(body, handle, parser) == 0 && is_sound(&parser->table))
        r = 0;
    if (r == 0)
        *ret = parser->table;
    free(body);
    free(parser);
    return r;
}
