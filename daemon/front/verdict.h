// SPDX-License-Identifier: MIT
// What the handler of a message thinks of the client. Who called the handler closes; the handler
// never does.
#ifndef CRYPTOD_FRONT_VERDICT_H
#define CRYPTOD_FRONT_VERDICT_H

enum verdict {
    VERDICT_KEEP,
    VERDICT_CLOSE,
};

#endif
