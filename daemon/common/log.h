// SPDX-License-Identifier: MIT
// Log lines to standard error, with the <n> prefix of sd-daemon(3) when the journal reads them.
// Never pass keys, IVs, plaintext or keystream. Client-made text is passed with %s only and is
// escaped here.
#ifndef CRYPTOD_DAEMON_LOG_H
#define CRYPTOD_DAEMON_LOG_H

#include <stdint.h>

enum log_level {
    LOG_LEVEL_ERROR = 3, // numbers of syslog(3)
    LOG_LEVEL_WARNING = 4,
    LOG_LEVEL_NOTICE = 5,
    LOG_LEVEL_INFO = 6,
    LOG_LEVEL_DEBUG = 7,
};

// name: "monitor", "front", "engine"; stays the caller's. Levels above max_level are dropped.
void log_init(const char *name, uint32_t max_level);

// One line, at most 512 bytes, written with one write(2); no allocation; thread-safe.
void log_write(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...)   log_write(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_write(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_notice(...)  log_write(LOG_LEVEL_NOTICE, __VA_ARGS__)
#define log_info(...)    log_write(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...)   log_write(LOG_LEVEL_DEBUG, __VA_ARGS__)

#endif
