// SPDX-License-Identifier: BSD-3-Clause
//
// For the tests of attacks by a peer that has got through the handshake: records that no honest library sends.
//
// The attacker is a bare socket (hostile_peer.h) with a link to the victim and an endpoint on it.  Whatever it writes may cost it
// that link and nothing else: the honest client's messages go on, and what the victim had posted for any source
// is still there for it.
#ifndef WHI_COMM_HOSTILE_KIT_H
#define WHI_COMM_HOSTILE_KIT_H

#include "engine/hostile_peer.h"

enum { CREDIT = 64 << 10, ANNOUNCE_MAX = 100, EAGER = 8192 };

static const char *const options[] = {"credit=64K", "announce_max=100", "grace=1s", NULL};

static duo victim;
static uint16_t port;
static raw hostile;
static uint32_t seq;         // of the hostile peer's endpoint
static wh_endpoint *target;  // the victim's end of it
static uint8_t bytes[1 << 20];

__attribute__((unused)) static void begin(void) {
    whi_rng_init(&raw_rng, 3);
    duo_begin(&victim, options, options);
    duo_connect(&victim);
    port = wh_listener_port(victim.listener);
}

// attack links the hostile peer, and opens an endpoint.
__attribute__((unused)) static void attack(void) {
    raw_link(&victim, &hostile, port);
    target = raw_open(&victim, &hostile);
    seq = 0;
}

__attribute__((unused)) static void hang_up(void) {
    close(hostile.fd);
    while (victim.accepted_count > 1)  // the first one is the honest client's
        wh_endpoint_abort(victim.accepted[--victim.accepted_count]);
    target = NULL;
}

// refused waits until the victim has ended the link, and checks why.
__attribute__((unused)) static void refused(const char *word) {
    PUMP_UNTIL(&victim, raw_hung_up(hostile.fd));
    PUMP_UNTIL(&victim, wh_endpoint_status(target) != WH_OK);
    CHECK_EQ_INT(wh_endpoint_status(target), WH_EPROTOCOL);
    if (!logged(word))
        whi_test_end(WHI_TEST_FAILED, __FILE__, __LINE__, "no \"%s\" in: %s", word, kit_log.text);
    hang_up();
}

__attribute__((unused)) static void end(void) {
    honest(&victim);
    CHECK_EQ_INT(wh_endpoint_status(victim.to), WH_OK);
    CHECK_EQ_INT(whi_hash_count(&whi_links_of(victim.server)->links), 1);
    duo_end(&victim);
}

// say sends a record of the hostile peer's endpoint with the next number.
__attribute__((unused)) static bool say(whi_hdr hdr, const void *payload) {
    if (!hdr.ep)
        hdr.ep = 1;
    if (hdr.cls >= WHI_CLASS_TAG && hdr.cls < WHI_CLASS_UNORDERED)
        hdr.seq = seq++;
    return raw_send(&victim, &hostile, &hdr, payload);
}

__attribute__((unused)) static bool announce(uint8_t cls, uint32_t send_id, uint64_t tag,
                                             uint64_t length) {
    whi_announce announcement = {.send_id = send_id};
    return say((whi_hdr){.cls = cls,
                         .flags = WHI_FLAG_ANNOUNCED,
                         .size = sizeof(announcement),
                         .tag = tag,
                         .arg = length},
               &announcement);
}

// hear reads records of the victim until one of class `cls` has come.
__attribute__((unused)) static whi_hdr hear(uint8_t cls) {
    return raw_hear(&victim, &hostile, cls, bytes, sizeof(bytes));
}

// granted reads the victim's grant and returns its name.
__attribute__((unused)) static uint32_t granted(uint64_t *accept) {
    whi_hdr grant = hear(WHI_CLASS_GRANT);
    *accept = grant.arg;
    return (uint32_t)(grant.tag >> 32);
}

#endif
