// SPDX-License-Identifier: BSD-3-Clause
//
// A folder of code that was compiled before, by this or another process of the user.
//
// What is in it will run, so nothing counts that somebody else could have written; and nothing counts that is not whole:
// a file says what it is the code of, and has a hash.  Whoever cannot use it goes on without.  Any thread, any process.
#ifndef WHI_MEM_CODE_CACHE_H
#define WHI_MEM_CODE_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <wherry/status.h>

typedef struct whi_code_cache {
    const char *folder;  // NULL: there is none
    uint64_t most;       // bytes of all files; the oldest go
} whi_code_cache;

// whi_code_cache_folder writes where the folder is: `wanted`, or for "" the user's own; false: there is none, as for "off".
bool whi_code_cache_folder(const char *wanted, char *folder, size_t size);

// whi_code_cache_get returns the code of `key`, any text, in memory that the caller frees with whi_free; false: it has none.
bool whi_code_cache_get(const whi_code_cache *cache, const char *key, void **code, size_t *size);

// whi_code_cache_put keeps code for others.
void whi_code_cache_put(const whi_code_cache *cache, const char *key, const void *code,
                        size_t size);

#endif
