// SPDX-License-Identifier: MIT
// The states that a cipher context can be in when a program copies it or forks.
#ifndef CRYPTOD_TESTS_PROVIDER_STATES_H
#define CRYPTOD_TESTS_PROVIDER_STATES_H

#include "provider_pair.h"

// Brings the pair (opened, not started) into the state of this number, encrypting or not. false: no
// such number.
bool states_enter(struct pair *pair, unsigned state, int encrypt, const uint8_t *data);

// Some operations from which every part of the state can be seen; the same for the same seed.
void states_go_on(struct pair *pair, uint64_t seed, const uint8_t *data);

#endif
