// SPDX-License-Identifier: MIT
// What follows when a backend was seen to give wrong results, or to hang. Guarantees: from then on
// nothing of it is offered, what it made ahead is taken back, and the monitor knows it for the next
// engine.
// Must not know how it was found out.
#include "control.h"

#include <string.h>

#include "control_impl.h"
#include "log.h"
#include "packet.h"
#include "quarantine.h"

static void tell_monitor(const struct control *control, const struct offer_row *row)
{
    struct message m = {.type = MESSAGE_QUARANTINE};
    int r;

    m.u.quarantine.algorithm = row->info->id;
    m.u.quarantine.kind =
        verify_hangs(&row->trust) ? MESSAGE_QUARANTINE_HANGS : MESSAGE_QUARANTINE_WRONG;
    quarantine_make_name(row->probe.driver, m.u.quarantine.driver);
    r = packet_send(control->monitor_fd, &m, NULL, 0);
    if (r < 0)
        log_warning("the monitor cannot be told of a quarantine: %s", strerror(-r));
}

void control_report_distrust(struct control *control)
{
    struct offer *offer = control->offer;
    bool any = false;

    for (uint32_t a = 0; a < ALGORITHM_COUNT; a++) {
        for (uint32_t b = 0; b < offer->n_backends; b++) {
            if (!offer_quarantine(&offer->rows[a][b]))
                continue;
            any = true;
            tell_monitor(control, &offer->rows[a][b]);
        }
    }
    if (!any)
        return;
    control_decide(control);
    for (struct control_channel *entry = control->channels; entry; entry = entry->next)
        if (channel_holds_keystream(entry->channel))
            worker_pool_tend(entry->seat);
}
