// SPDX-License-Identifier: BSD-3-Clause
//
// See mac.h.  libcrypto would free its tables in exit(3) without waiting for other threads that read them, such as a job's
// other PEs, so it is set up not to: the process's end frees them too.  Who sets it up first decides; a program that has
// used libcrypto before its first endpoint must end its threads before it calls exit(3).
#include "link/mac.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <pthread.h>
#include <string.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void set_up(void) {
    (void)OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);  // if it fails, so does HMAC
}

wh_status whi_mac(const char *secret, const void *text, size_t size, uint8_t mac[WHI_MAC_SIZE]) {
    unsigned made = WHI_MAC_SIZE;
    pthread_once(&once, set_up);
    return HMAC(EVP_sha256(), secret, (int)strlen(secret), text, size, mac, &made) ? WH_OK
                                                                                   : WH_ESYSTEM;
}

bool whi_mac_equal(const uint8_t a[WHI_MAC_SIZE], const uint8_t b[WHI_MAC_SIZE]) {
    return CRYPTO_memcmp(a, b, WHI_MAC_SIZE) == 0;
}
