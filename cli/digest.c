// SPDX-License-Identifier: BSD-3-Clause
//
// See digest.h: libcrypto's EVP behind a name, with its 1 for "good" turned into true.
#include "cli/digest.h"

#include <openssl/evp.h>
#include <stdlib.h>

struct digest {
    EVP_MD_CTX *ctx;
    EVP_MD *sha256;  // fetched once: a fetch per small file would cost more than its hash
};

digest *digest_create(void) {
    digest *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    made->ctx = EVP_MD_CTX_new();
    made->sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
    if (made->ctx && made->sha256)
        return made;
    digest_destroy(made);
    return NULL;
}

void digest_destroy(digest *self) {
    if (!self)
        return;
    EVP_MD_free(self->sha256);
    EVP_MD_CTX_free(self->ctx);
    free(self);
}

bool digest_begin(digest *self) {
    return EVP_DigestInit_ex2(self->ctx, self->sha256, NULL) == 1;
}

bool digest_add(digest *self, const void *bytes, size_t size) {
    return EVP_DigestUpdate(self->ctx, bytes, size) == 1;
}

bool digest_end(digest *self, uint8_t sum[32]) {
    unsigned size = 32;
    return EVP_DigestFinal_ex(self->ctx, sum, &size) == 1 && size == 32;
}
