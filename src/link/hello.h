// SPDX-License-Identifier: BSD-3-Clause
//
// Hello: the one fixed-size record of the handshake, its codec and its proof of the secret.
//
// Every step of a handshake is one record of WHI_HELLO_SIZE bytes, so that a side reads exactly that many and
// nothing has to be allocated for a stranger.  The first 16 bytes never change between versions: magic, step,
// size, lowest and highest version.  Pure functions over bytes.
#ifndef WHI_LINK_HELLO_H
#define WHI_LINK_HELLO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <wherry/status.h>

#include "link/mac.h"

enum {
    WHI_HELLO_SIZE = 512,
    WHI_HELLO_MAC_SIZE = WHI_MAC_SIZE,
    WHI_HELLO_TEXT_MAX = 160,
    WHI_LOCAL_NAME_MAX = 48,
};

// The steps, in the order of docs/wire.md.
typedef enum whi_hello_step {
    WHI_STEP_HELLO = 1,     // connector: who I am, what I can
    WHI_STEP_ANSWER = 2,    // acceptor: the same, with its proof and the way to the local socket
    WHI_STEP_CONFIRM = 3,   // connector: its proof; over the socket that the link will use
    WHI_STEP_READY = 4,     // acceptor: the link is there
    WHI_STEP_EXISTING = 5,  // acceptor: we have a link already, use that
    WHI_STEP_REJECT = 6,    // either: no, and why
} whi_hello_step;

enum {
    WHI_FEATURE_BARRIER = 1 << 0,    // the process issues whi_shm_barrier before it sleeps
    WHI_FEATURE_RDMA = 1 << 1,       // the machine has an RDMA device
    WHI_FEATURE_FETCH = 1 << 2,      // payloads may be read out of its memory, and it reads others'
    WHI_FEATURE_AM_MEMORY = 1 << 3,  // it takes active messages that say what memory they are from
    WHI_FEATURE_DATA = 1 << 4,       // OPEN and ACCEPT may carry connect data
    WHI_FEATURE_LONG = 1 << 5,       // takes long messages over the stream lane
    WHI_FEATURE_TYPES = 1 << 6,      // takes messages that say what their elements are
    WHI_FEATURE_DEVICE = 1 << 7,     // offers device memory, and takes what is offered
    WHI_FEATURE_BULK_LANE = 1 << 8,  // large payloads may go by a second lane
    WHI_FEATURE_FOLLOWED = 1 << 9,   // with LONG or LONG_SHM: also payloads of active messages
    WHI_FEATURE_LONG_SHM = 1 << 10,  // takes both over the shm lane
    WHI_FEATURES_OWN = WHI_FEATURE_AM_MEMORY | WHI_FEATURE_DATA | WHI_FEATURE_LONG |
                       WHI_FEATURE_TYPES | WHI_FEATURE_DEVICE | WHI_FEATURE_FOLLOWED |
                       WHI_FEATURE_LONG_SHM,  // what this library can anywhere
};

enum {
    WHI_HELLO_HAS_SECRET = 1 << 0,
    WHI_HELLO_LOCAL = 1 << 1,  // of CONFIRM: over the local socket, with the token
};

typedef struct whi_hello {
    uint8_t step;  // whi_hello_step
    uint16_t version_min, version_max;
    uint32_t flags;
    uint64_t features;
    uint32_t lanes;  // WHI_LANE_*
    int32_t status;  // of REJECT: a wh_status
    uint8_t uuid[16];
    uint8_t boot_id[16];
    uint8_t nonce[32];
    uint8_t token[16];  // ANSWER gives it, CONFIRM over the local socket shows it
    uint32_t pid, uid;
    uint32_t eager_max;    // bytes that the side takes with a header
    uint32_t chunk_max;    // bytes that the side takes in one chunk
    uint32_t ucx_version;  // major << 16 | minor << 8 | patch; 0: none
    uint64_t listener;     // ANSWER: what OPEN has to name
    char local_name
        [WHI_LOCAL_NAME_MAX];  // ANSWER: abstract AF_UNIX name, without its leading zero; "": none
    char host[64];             // the side's host name, for people
    char text[WHI_HELLO_TEXT_MAX];  // REJECT: one sentence
    uint8_t mac[WHI_HELLO_MAC_SIZE];
} whi_hello;

// whi_hello_encode writes the record.  whi_hello_decode reads one: WH_EPROTOCOL when it is not Wherry's, WH_EVERSION when
// no version is common (then versions are filled in), else WH_OK.  Text fields always end in NUL.
void whi_hello_encode(const whi_hello *hello, uint8_t bytes[WHI_HELLO_SIZE]);
WH_CHECK wh_status whi_hello_decode(const uint8_t bytes[WHI_HELLO_SIZE], whi_hello *hello);

// whi_hello_same_host says whether a peer is on the host with that boot id; nobody is on an unknown
// one.
bool whi_hello_same_host(const whi_hello *peer, const uint8_t boot_id[16]);

// whi_hello_prove computes HMAC-SHA-256 (RFC 2104) keyed with the secret over a label for the role and the
// two records that carry the nonces, hello and answer, each with its mac field zeroed.
typedef enum whi_hello_role { WHI_ROLE_CONNECTOR, WHI_ROLE_ACCEPTOR } whi_hello_role;
WH_CHECK wh_status whi_hello_prove(const char *secret, whi_hello_role role,
                                   const uint8_t hello[WHI_HELLO_SIZE],
                                   const uint8_t answer[WHI_HELLO_SIZE],
                                   uint8_t mac[WHI_HELLO_MAC_SIZE]);

#endif
