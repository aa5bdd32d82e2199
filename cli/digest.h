// SPDX-License-Identifier: BSD-3-Clause
//
// SHA-256 of a file that comes in parts.  One thread uses a digest.
#ifndef CLI_DIGEST_H
#define CLI_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct digest digest;  // may be used for one file after the other

// digest_create returns NULL without memory, or when libcrypto has no SHA-256.
digest *digest_create(void);
void digest_destroy(digest *self);  // NULL is allowed

bool digest_begin(digest *self);
bool digest_add(digest *self, const void *bytes, size_t size);
bool digest_end(digest *self, uint8_t sum[32]);

#endif
