// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/coll/peer.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <unistd.h>

static uint64_t word[2];

whm_peer whm_peer_self(void) {
    const char *setting = getenv("WHERRY_SHM_READ");
    bool never = setting && !strcmp(setting, "never"),
         always = setting && !strcmp(setting, "always");
    if (never || (!word[0] && getrandom(word, sizeof(word), 0) != sizeof(word)))
        return (whm_peer){0};
    return (whm_peer){
        .pid = getpid(), .at = (uintptr_t)word, .word = {word[0], word[1]}, .always = always};
}

bool whm_peer_can(const whm_peer *peer) {
    return peer->pid && whm_peer_read(peer, NULL, NULL, 0);
}

bool whm_peer_read(const whm_peer *peer, void *to, const void *from, size_t size) {
    if (peer->pid == getpid() && peer->at == (uintptr_t)word) {
        if (size)
            memcpy(to, from, size);
        return true;
    }
    uint64_t found[2] = {0, 0};
    struct iovec here[] = {{to, size}, {found, sizeof(found)}};
    struct iovec there[] = {{(void *)(uintptr_t)from, size},
                            {(void *)(uintptr_t)peer->at, sizeof(found)}};
    ssize_t all = (ssize_t)(size + sizeof(found));
    return process_vm_readv((pid_t)peer->pid, here, 2, there, 2, 0) == all &&
           !memcmp(found, peer->word, sizeof(found));
}
