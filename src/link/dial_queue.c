// SPDX-License-Identifier: BSD-3-Clause
//
// Dials of one worker with the same target, of which one at a time is under way, see dialing.h.
//
// The first one leads: it resolves the name and shakes hands.  The others wait in its list, without a socket, and open
// their endpoints on the link that it finds or makes; what it has proven and learned holds for them, since they name
// the same address, or address blob, and the same secret.  When it ends without a link, the first that waits leads.
// What differs in either is another target: a handshake proves one secret to one listener.
#include <string.h>

#include "link/dialing.h"

static bool same_target(const whi_dial *a, const whi_dial *b) {
    return a->port == b->port && strcmp(a->host, b->host) == 0 &&
           strcmp(a->secret, b->secret) == 0 && strcmp(a->local_name, b->local_name) == 0 &&
           memcmp(a->blob_uuid, b->blob_uuid, 16) == 0 && a->blob_listener == b->blob_listener &&
           (a->host[0] || (a->count == b->count &&
                           memcmp(a->addrs, b->addrs, a->count * sizeof(a->addrs[0])) == 0));
}

static uint64_t key_of(const whi_dial *dial) {
    uint64_t key = whi_hash_bytes(dial->host, strlen(dial->host)) ^ dial->port;
    key = whi_hash_mix(key) ^ whi_hash_bytes(dial->secret, strlen(dial->secret));
    return whi_hash_mix(key) ^ whi_hash_bytes(dial->blob_uuid, 16) ^ dial->blob_listener;
}

bool whi_dial_waits(whi_dial *dial) {
    if (dial->leads)
        return false;
    whi_hash *leaders = &whi_links_of(dial->worker)->dial_leaders;
    uint64_t key = key_of(dial);
    whi_dial *leader = whi_hash_get(leaders, key);
    if (!leader) {
        dial->leads = whi_hash_put(leaders, key, dial) == WH_OK;
        return false;
    }
    if (!same_target(leader, dial))
        return false;  // nothing but the key is the same: it goes by itself
    whi_list_push_back(&leader->waiters, &dial->wait_node);
    whi_list_append(&leader->waiters, &dial->waiters);
    return true;
}

// resign makes a dial that leads an ordinary one; those that waited for it are the caller's.
static void resign(whi_dial *dial, whi_list *waiters) {
    whi_list_append(waiters, &dial->waiters);
    if (dial->leads)
        (void)whi_hash_remove(&whi_links_of(dial->worker)->dial_leaders, key_of(dial));
    dial->leads = false;
}

// appoint lets the first of them lead and the others wait for it.
static void appoint(whi_list *waiters) {
    whi_list *node = whi_list_pop_front(waiters);
    if (!node)
        return;
    whi_dial *next = whi_container_of(node, whi_dial, wait_node);
    whi_list_append(&next->waiters, waiters);
    next->leads =
        whi_hash_put(&whi_links_of(next->worker)->dial_leaders, key_of(next), next) == WH_OK;
    whi_dial_begin_soon(next);
}

void whi_dial_leave_queue(whi_dial *dial) {
    whi_list waiters;
    whi_list_init(&waiters);
    whi_list_remove(&dial->wait_node);
    resign(dial, &waiters);
    appoint(&waiters);
}

void whi_dial_found(whi_dial *dial, whi_link *link) {
    whi_list waiters;
    whi_list_init(&waiters);
    resign(dial, &waiters);
    uint64_t listener = dial->listener;
    uint8_t uuid[16];
    memcpy(uuid, dial->peer.uuid, 16);
    whi_dial_found_one(dial, link);  // the dial has ended after it if the link has no number for it
    whi_list *node;
    while (!link->dead && !link->doomed && (node = whi_list_pop_front(&waiters))) {
        whi_dial *next = whi_container_of(node, whi_dial, wait_node);
        memcpy(next->peer.uuid, uuid, 16);
        next->listener = listener;
        whi_dial_found_one(next, link);
    }
    appoint(&waiters);
}
