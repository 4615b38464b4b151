// SPDX-License-Identifier: MIT
// Guarantees: figures of any kind, damaged ones too, lead to a choice and to nothing worse. Must
// not know where they are from.
#include "choice.h"

#include "message.h"

#define BULK      6u                      // index of 64 KiB
#define TIME_MAX  UINT64_C(1000000000000) // ns: longer is no operation, and products stay in 64 bits
#define MIN_ALIGN 16u                     // bytes: every block

_Static_assert(MESSAGE_SIZE_AT(BULK) == 65536u, "the largest request");

static bool is_known(const struct message_costs *costs, uint32_t i)
{
    return costs->ns[i] <= TIME_MAX && costs->cpu_ns[i] <= TIME_MAX;
}

// ---------------------------------------------------------------- requests

static bool is_comparable(const struct measure_table *table, uint32_t i)
{
    return is_known(&table->costs[MESSAGE_COST_SOFTWARE], i) &&
           is_known(&table->costs[MESSAGE_COST_REQUEST], i);
}

// What a request may take at most.
static uint64_t request_limit(const struct measure_table *table, uint32_t i)
{
    const struct message_costs *software = &table->costs[MESSAGE_COST_SOFTWARE];
    const struct message_costs *request = &table->costs[MESSAGE_COST_REQUEST];
    const bool saves_cpu = request->cpu_ns[i] * 10 <= software->cpu_ns[i] * 9;

    return saves_cpu ? software->ns[i] : software->ns[i] * 100 / 105;
}

static bool request_wins(const struct measure_table *table, uint32_t i)
{
    return is_comparable(table, i) &&
           table->costs[MESSAGE_COST_REQUEST].ns[i] <= request_limit(table, i);
}

// Where between two sizes the request lane begins to win; it loses at the first, and wins at the
// next.
static uint32_t request_crossover(const struct measure_table *table, uint32_t i)
{
    const uint64_t lacks = table->costs[MESSAGE_COST_REQUEST].ns[i] - request_limit(table, i);
    const uint64_t spares =
        request_limit(table, i + 1) - table->costs[MESSAGE_COST_REQUEST].ns[i + 1];
    const uint64_t distance = MESSAGE_SIZE_AT(i + 1) - MESSAGE_SIZE_AT(i);
    const uint64_t at = MESSAGE_SIZE_AT(i) + distance * lacks / (lacks + spares);

    return (uint32_t)((at + MIN_ALIGN - 1) / MIN_ALIGN * MIN_ALIGN);
}

// 0: never.
static uint32_t request_from(const struct measure_table *table)
{
    uint32_t i = MESSAGE_SIZES;

    if (!is_comparable(table, BULK))
        return 0;
    // From above: larger than a request, and not measured in time, says nothing.
    while (i > 0 && (request_wins(table, i - 1) || (i - 1 > BULK && !is_comparable(table, i - 1))))
        i--;
    if (i > BULK)
        return 0;
    if (i > 0 && is_comparable(table, i - 1))
        return request_crossover(table, i - 1);
    return MESSAGE_SIZE_AT(i);
}

// ---------------------------------------------------------------- keystream

static bool keystream_keeps_up(uint64_t keystream, uint64_t software,
                               const struct choice_machine *machine)
{
    if (machine->hardware)
        return keystream < software * 2;
    return machine->n_cpus < 2 || keystream * 10 <= software * 11;
}

// MESSAGE_LANE_KEYSTREAM, with MESSAGE_OFFER_KEYSTREAM_DEAR if it is; 0: no gain.
static uint32_t keystream_lanes(const struct measure_table *table,
                                const struct choice_machine *machine)
{
    const struct message_costs *software = &table->costs[MESSAGE_COST_SOFTWARE];
    const struct message_costs *keystream = &table->costs[MESSAGE_COST_KEYSTREAM];
    const struct message_costs *take = &table->costs[MESSAGE_COST_TAKE];
    uint64_t making_cpu, session;

    if (!is_known(software, BULK) || !is_known(keystream, BULK) || !is_known(take, BULK) ||
        table->wake_cpu_ns > TIME_MAX)
        return 0;
    if (!keystream_keeps_up(keystream->ns[BULK], software->ns[BULK], machine))
        return 0;
    making_cpu = keystream->cpu_ns[BULK] + table->wake_cpu_ns;
    session = take->ns[BULK] + (machine->n_cpus > 1 ? table->wake_cpu_ns / 2 : making_cpu);
    if (take->cpu_ns[BULK] + making_cpu < software->cpu_ns[BULK])
        return session * 105 <= software->ns[BULK] * 100 ? MESSAGE_LANE_KEYSTREAM : 0;
    return machine->n_cpus > 1 && session * 2 <= software->ns[BULK]
               ? MESSAGE_LANE_KEYSTREAM | MESSAGE_OFFER_KEYSTREAM_DEAR
               : 0;
}

struct choice choice_make(const struct measure_table *table, const struct choice_machine *machine)
{
    struct choice choice = {0};
    uint32_t from = machine->no_requests ? 0 : request_from(table);

    if (from > 0) {
        if (from < CHOICE_REQUEST_MIN)
            from = CHOICE_REQUEST_MIN;
        choice.lanes = MESSAGE_LANE_REQUEST;
        choice.request_min = from > machine->request_min ? from : machine->request_min;
    }
    choice.lanes |= keystream_lanes(table, machine);
    return choice;
}
