// SPDX-License-Identifier: BSD-3-Clause
//
// What the peer of a link has shown of itself, and so which listeners it may open endpoints at.
//
// One link carries the endpoints of all listeners of a worker, but each listener may ask for a secret of its own and
// may let in other users or not.  So what the handshake has found out stays with the link, and is asked again for each
// endpoint.  Of a secret only a digest is kept; the last few are enough, since a forgotten one is proven again.
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "link/link.h"
#include "link/mac.h"

static bool digest(const char *secret, uint8_t id[WHI_HELLO_MAC_SIZE]) {
    static const uint8_t label[] = "wherry-1 secret of a link";
    return whi_mac(secret, label, sizeof(label), id) == WH_OK;
}

bool whi_link_knows(const whi_link *link, const char *secret) {
    uint8_t id[WHI_HELLO_MAC_SIZE];
    if (!secret[0])
        return true;
    if (!digest(secret, id))
        return false;
    for (unsigned i = 0; i < WHI_LINK_SECRETS && i < link->secret_count; i++)
        if (whi_mac_equal(link->secrets[i], id))
            return true;
    return false;
}

void whi_link_learn(whi_link *link, const char *secret) {
    uint8_t id[WHI_HELLO_MAC_SIZE];
    if (whi_link_knows(link, secret) || !digest(secret, id))
        return;
    memcpy(link->secrets[link->secret_count++ % WHI_LINK_SECRETS], id, sizeof(id));
}

bool whi_link_other_user(const whi_link *link) {
    return link->uid != geteuid();
}
