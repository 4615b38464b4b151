// SPDX-License-Identifier: MIT
// A kernel with crypto sockets and a driver that behaves as drivers in the field have, in place of
// libkcapi's calls and of the probing socket() and bind(). Until it is armed everything goes to the
// real ones. Its cipher is AES in ECB and CBC, by OpenSSL.
#ifndef CRYPTOD_TESTS_KCAPI_FAKE_H
#define CRYPTOD_TESTS_KCAPI_FAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kcapi_fake {
    bool armed;
    bool lists_iv;    // for ECB
    bool wants_iv;    // for ECB: EINVAL without one
    bool refuses_iv;  // for ECB: EINVAL with one
    size_t n_refused; // EINVAL for exactly so many bytes; 0: none
    size_t n_short;   // writes no more than so many bytes of a result, and says that it did; 0: all

    uint32_t n_handles;  // open
    uint32_t n_sockets;  // handles made, ever
    uint32_t n_requests; // that reached the driver
    uint32_t n_with_iv;  // of them, with an IV
    size_t n_largest;    // bytes of the largest
};

// Of the test's process, which Criterion makes anew for each test.
extern struct kcapi_fake kcapi_fake;

#endif
