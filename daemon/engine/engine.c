// SPDX-License-Identifier: MIT
// The engine: the only process that has crypto sockets and the keys of sessions. Here is how it
// starts, in the order in which each step needs the powers that a later one gives up; control.c is
// what it does then. Guarantees: no client's memory is mapped before the sandbox is on. Must not
// read anything from a client itself.
//
// System calls in steady state (sandbox/policy_engine.c allows no others):
//
//   worker, per request   epoll_wait, recvfrom and sendto (bell, no address, MSG_DONTWAIT); futex
//                         when workers meet
//     afalg               sendmsg, read
//     fault               clock_nanosleep
//   worker, between       sched_yield; write and read of its eventfd; clock_gettime without a vdso,
//   to spin thread start and end  clone, set_robust_list, rseq, mmap, mprotect, prctl(PR_SET_NAME),
//                         rt_sigprocmask, rt_sigaction (the C library's, at the first thread),
//                         sched_getaffinity, madvise, munmap, futex, exit
//   calibration           as a worker; read and write (its own bell), setpriority, clock_gettime
//                         (thread's CPU time)
//   main loop             epoll_wait, epoll_ctl, recvmsg, sendmsg, read, write (log, eventfd),
//                         close, brk, futex
//   a channel             getsockopt (bell), fcntl(F_GETFL, F_GET_SEALS), fstat, fstatfs,
//                         mmap(MAP_SHARED), madvise, epoll_ctl, munmap, close
//   a key of afalg        socket(AF_ALG), bind, setsockopt(SOL_ALG), accept, close; by libkcapi:
//                         uname; socket(AF_NETLINK, NETLINK_CRYPTO), bind, getsockname, sendmsg,
//                         recvmsg; time without a vdso; pipe, fcntl(F_SETPIPE_SZ, F_GETPIPE_SZ)
//   the end               clock_gettime, futex, exit_group
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "calibration_key.h"
#include "control.h"
#include "kernel.h"
#include "log.h"
#include "offer.h"
#include "quarantine.h"
#include "role.h"
#include "sandbox.h"

struct engine {
    struct message_role_config config;
    struct message_calibration_key key;
    struct offer offer;
    struct control *control;
    bool locked; // its memory
    char note[192];
};

// The monitor ends the engine, and not the terminal that the monitor runs in.
static void ignore_signals(void)
{
    signal(SIGINT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    signal(SIGQUIT, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
}

// ONFAULT: only what is used is locked, not each thread's whole stack. Without a limit only (the
// monitor raises it): CAP_IPC_LOCK goes, and then a mapping over the limit would fail.
static bool lock_memory(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_MEMLOCK, &limit) < 0 || limit.rlim_cur != RLIM_INFINITY)
        log_notice("memory is not locked: keys could reach swap space (limit memlock)");
    else if (mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) < 0)
        log_notice("memory is not locked: keys could reach swap space: %s", strerror(errno));
    else
        return true;
    return false;
}

static uint32_t choose_workers(uint32_t wanted)
{
    long n_cpus = sysconf(_SC_NPROCESSORS_ONLN);

    if (wanted > 0)
        return wanted < WORKER_COUNT_MAX ? wanted : WORKER_COUNT_MAX;
    if (n_cpus < 2) // an engine works while the other worker prepares its next request
        return 2;
    return n_cpus < 16 ? (uint32_t)n_cpus : 16;
}

// What the monitor has kept of an earlier engine. Whatever is not of this machine, or does not
// come, is measured again.
static void take_kept_calibration(struct engine *engine)
{
    bool holds = false;
    uint32_t n_taken = 0;
    struct message m;

    for (uint32_t i = 0; i < engine->config.calibrations; i++) {
        int r = role_receive_message(&m);

        if (r < 0) {
            log_notice("kept calibration: %s", strerror(-r));
            break;
        }
        if (m.type == MESSAGE_CALIBRATION_KEY)
            holds = calibration_key_is_same(&m.u.calibration_key, &engine->key);
        else if (m.type == MESSAGE_CALIBRATION && holds)
            n_taken += offer_take_kept(&engine->offer, &m.u.calibration);
    }
    if (engine->config.calibrations > 0)
        log_info("kept calibration: %s, %u rows taken",
                 holds ? "of this machine" : "of another kernel, CPU or OpenSSL", n_taken);
}

static void tell_trial(enum algorithm_id algorithm, const char *driver, uint32_t kind)
{
    struct message m = {.type = MESSAGE_QUARANTINE,
                        .u.quarantine = {.algorithm = algorithm, .kind = kind}};

    quarantine_make_name(driver, m.u.quarantine.driver);
    (void)role_send(&m); // a monitor that is gone is noticed soon enough
}

static void on_trial_begin(void *user, enum algorithm_id algorithm, const char *driver)
{
    (void)user;
    tell_trial(algorithm, driver, MESSAGE_QUARANTINE_TRIAL);
}

static void on_trial_end(void *user, enum algorithm_id algorithm, const char *driver)
{
    (void)user;
    tell_trial(algorithm, driver, MESSAGE_QUARANTINE_TRIAL_END);
}

static const struct offer_trials trials = {.begin = on_trial_begin, .end = on_trial_end};

static int start(struct engine *engine)
{
    struct message_role_config *config = &engine->config;
    const uint32_t n_workers = choose_workers(config->workers);
    int r;

    ignore_signals();
    engine->locked = lock_memory();
    r = offer_init(&engine->offer, config, n_workers, &trials);
    if (r < 0) {
        log_error("OpenSSL cannot be used: %s", strerror(-r));
        return r;
    }
    calibration_key_get(&engine->key);
    take_kept_calibration(engine);
    const struct control_settings settings = {
        .config = config,
        .offer = &engine->offer,
        .key = &engine->key,
        .n_workers = n_workers,
        .front_fd = ROLE_FD_PEER,
        .monitor_fd = ROLE_FD_MONITOR,
    };
    r = control_new(&settings, &engine->control);
    if (r < 0)
        log_error("cannot prepare to serve: %s", strerror(-r));
    return r;
}

// From 7.3 on the kernel lets only CAP_NET_ADMIN bind to most algorithms (crypto.af_alg_restrict).
static int go_into_sandbox(struct engine *engine)
{
    const struct message_role_config *config = &engine->config;
    char limit[96];
    int r = sandbox_drop_privileges(SANDBOX_ROOT_NOWHERE, config->uid, config->gid,
                                    kernel_is_from(7, 3));

    if (r < 0) {
        log_error("cannot give up privileges: %s", strerror(-r));
        return r;
    }
    sandbox_describe_limit(sandbox_limit_files(NULL, 0), limit, sizeof(limit));
    snprintf(engine->note, sizeof(engine->note), "seccomp, empty root, %s, %s, memory %slocked",
             limit, sandbox_describe_capabilities(), engine->locked ? "" : "not ");
    log_info("sandbox: %s", engine->note);
    r = sandbox_load(config->fault[0] != '\0' ? SANDBOX_FAULTY_ENGINE : SANDBOX_ENGINE,
                     sandbox_action_get());
    if (r < 0)
        log_error("cannot load the sandbox: %s", strerror(-r));
    return r;
}

static int serve(struct engine *engine)
{
    int r;

    offer_check_again(&engine->offer, &trials);
    offer_decide(&engine->offer, engine->config.offload, engine->config.request_min);
    r = control_start(engine->control);
    if (r == 0)
        r = role_send_ready();
    if (r < 0) {
        log_error("cannot start to serve: %s", strerror(-r));
        return 1;
    }
    control_send_note(engine->control, "engine", engine->note);
    log_info("serving; AF_ALG: %s", engine->offer.afalg_text);
    return control_run(engine->control);
}

int engine_main(void)
{
    static struct engine engine;
    int r = sandbox_harden_process();
    int status = 1;

    if (r < 0) {
        log_error("cannot harden the process: %s", strerror(-r));
        return 1;
    }
    r = role_receive_config(ROLE_FD_PEER + 1, &engine.config);
    if (r < 0) {
        log_error("no configuration from the monitor: %s", strerror(-r));
        return 1;
    }
    log_init("engine", engine.config.log_level);
    if (start(&engine) == 0 && go_into_sandbox(&engine) == 0) {
        status = serve(&engine);
        // A worker that hangs holds keys and memory: the kernel takes them back, not we.
        if (!control_stop(engine.control))
            _exit(status);
    }
    control_free(engine.control);
    offer_fini(&engine.offer);
    explicit_bzero(&engine.config, sizeof(engine.config));
    return status;
}
