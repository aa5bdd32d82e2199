// SPDX-License-Identifier: BSD-3-Clause
//
// What collectives have in common: their form, their root, counts of several peers.
#include "random.h"

// In an intercommunicator one of the groups has the root, and its others stand by.
static void draw_root(call *c) {
    unsigned number = draw(1000), of = draw(2);
    int mine = size_of(c->comm);
    if (!c->inter) {
        c->root = (int)number % mine;
        c->is_root = c->root == c->rank;
    } else if ((int)of == c->group) {
        c->is_root = (int)number % mine == c->rank;
        c->root = c->is_root ? MPI_ROOT : MPI_PROC_NULL;
    } else {
        c->root = (int)number % c->peers;
    }
}

call call_draw(const char *what, MPI_Comm comm) {
    int inter;
    OK(MPI_Comm_test_inter(comm, &inter));
    call c = {.comm = comm,
              .inter = inter,
              .rank = rank_in(comm),
              .peers = size_of(comm),
              .form = (int)draw(FORMS),
              .large = draw(3) == 0,
              .in_place = draw(3) == 0 && !inter,
              .salt = (int)draw(1000),
              .p = pending_begin(what)};
    if (inter) {
        OK(MPI_Comm_remote_size(comm, &c.peers));
        c.group = me % 2;
    }
    draw_root(&c);
    if (c.form != BLOCKING)
        c.request = pending_request(c.p);
    c.p->persistent = c.form == PERSISTENT;
    return c;
}

void call_end(call *c) {
    if (c->form == PERSISTENT)
        OK(MPI_Start(c->request));
    if (c->form == BLOCKING)
        pending_complete(c->p);
}

parts parts_make(pending *p, int length) {
    size_t n = (size_t)length;
    return (parts){.counts = pending_memory(p, n * sizeof(int)),
                   .displs = pending_memory(p, n * sizeof(int)),
                   .length = length,
                   .large_counts = pending_memory(p, n * sizeof(MPI_Count)),
                   .large_displs = pending_memory(p, n * sizeof(MPI_Aint))};
}

void parts_place(parts *all, int bytes, unsigned salt) {
    bool backwards = hashed(2, salt, 0, 2);
    int at = 0;
    for (int k = 0; k < all->length; k++) {
        int i = backwards ? all->length - 1 - k : k;
        at += (int)hashed(3, salt, (unsigned)i, 3);
        all->displs[i] = at * bytes;
        at += all->counts[i];
        all->large_counts[i] = all->counts[i];
        all->large_displs[i] = all->displs[i];
    }
    all->total = at;
}
