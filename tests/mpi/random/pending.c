// SPDX-License-Identifier: BSD-3-Clause
//
// Operations that go on beside others, and their completion in any of the ways that there are.
#include "random.h"

enum { PLACES = 8, WAYS = 6, ROUNDS = 2 };  // rounds: of what is persistent

bool pending_spare;
static pending places[PLACES];

pending *pending_begin(const char *what) {
    pending *p = &places[draw(PLACES)];
    pending_complete(p);
    *p = (pending){.what = what, .step = step, .used = true};
    kit_tell(what);
    return p;
}

MPI_Request *pending_request(pending *p) {
    CHECK(p->count < PENDING_REQUESTS);
    p->requests[p->count] = MPI_REQUEST_NULL;
    return &p->requests[p->count++];
}

void pending_block(pending *p, block b) {
    CHECK(p->n_blocks < PENDING_BLOCKS);
    p->blocks[p->n_blocks++] = b;
}

block pending_make(pending *p, const layout *l, MPI_Count count, unsigned salt) {
    block b = block_make(l, count, salt);
    pending_block(p, b);
    return b;
}

void *pending_memory(pending *p, size_t bytes) {
    CHECK(p->n_memory < PENDING_MEMORY);
    void *memory = p->memory[p->n_memory++] = calloc(1, bytes + 1);
    CHECK(memory);
    return memory;
}

static void wait_for_some(int count, MPI_Request *requests) {
    for (int left = count, done, which[PENDING_REQUESTS]; left > 0; left -= done) {
        OK(MPI_Waitsome(count, requests, &done, which, MPI_STATUSES_IGNORE));
        if (done == MPI_UNDEFINED)
            return;
    }
}

static void wait_in_a_way(int count, MPI_Request *requests, bool persistent) {
    unsigned way = draw(WAYS);
    int done = 0;
    switch (persistent && pending_spare ? 0 : way) {
    case 0: OK(MPI_Waitall(count, requests, MPI_STATUSES_IGNORE)); return;
    case 1:
        while (!done)
            OK(MPI_Testall(count, requests, &done, MPI_STATUSES_IGNORE));
        return;
    case 2:
        for (int i = 0; i < count; i++)
            OK(MPI_Waitany(count, requests, &done, MPI_STATUS_IGNORE));
        return;
    case 3: wait_for_some(count, requests); return;
    case 4:
        for (int i = count - 1; i >= 0; i--)
            OK(MPI_Wait(&requests[i], MPI_STATUS_IGNORE));
        return;
    default:
        for (int i = 0; i < count; i++)
            for (done = 0; !done;)
                OK(MPI_Test(&requests[i], &done, MPI_STATUS_IGNORE));
    }
}

void pending_complete(pending *p) {
    if (!p->used)
        return;
    int now = step;
    step = p->step;  // whose sums these are
    wait_in_a_way(p->count, p->requests, p->persistent);
    for (int round = 1; p->persistent && round < ROUNDS; round++) {
        OK(MPI_Startall(p->count, p->requests));
        wait_in_a_way(p->count, p->requests, p->persistent);
    }
    for (int i = 0; i < p->count; i++)
        if (p->requests[i] != MPI_REQUEST_NULL)
            OK(MPI_Request_free(&p->requests[i]));
    for (int i = 0; i < p->n_blocks; i++)
        block_end(&p->blocks[i], p->what);
    for (int i = 0; i < p->n_memory; i++)
        free(p->memory[i]);
    p->used = false;
    step = now;
}

void pending_some(void) {
    for (int i = 0; i < PLACES; i++)
        if (draw(2))
            pending_complete(&places[i]);
}

void pending_all(void) {
    for (int i = 0; i < PLACES; i++)
        pending_complete(&places[i]);
}
