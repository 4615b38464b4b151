// SPDX-License-Identifier: MIT
// Descriptors that front must not take. Each function makes one, which is the caller's; geometry: 2
// slots.
#ifndef CRYPTOD_TESTS_FRONT_WRONG_H
#define CRYPTOD_TESTS_FRONT_WRONG_H

int wrong_memory_unsealed(void);
int wrong_memory_may_shrink(void);
int wrong_memory_may_grow(void);
int wrong_memory_write_sealed(void);
int wrong_memory_short(void);
int wrong_memory_long(void);
int wrong_memory_sparse(void);
int wrong_memory_half_sparse(void);
int wrong_memory_file(void);
int wrong_memory_read_only(void);

int wrong_bell_stream(void);
int wrong_bell_datagram(void);
int wrong_bell_unconnected(void);
int wrong_bell_listening(void);
int wrong_bell_internet(void);

int wrong_pipe_end(void);
int wrong_folder(void);

#endif
