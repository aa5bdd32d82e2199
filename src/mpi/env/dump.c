// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/env/dump.h"

#include <time.h>

#include "mpi/base/process.h"
#include "mpi/p2p/match.h"

enum { LINES = 8 };  // of one kind, for one rank

static void print_call(const whm_rank *rank, FILE *file) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    int64_t ms =
        rank->waits_since_ms ? now.tv_sec * 1000 + now.tv_nsec / 1000000 - rank->waits_since_ms : 0;
    if (rank->call && rank->waits_since_ms)
        fprintf(file, "  MPI rank %d: waits in %s for %lld.%03lld s\n", rank->world, rank->call,
                (long long)(ms / 1000), (long long)(ms % 1000));
    else
        fprintf(file, "  MPI rank %d: %s%s\n", rank->world, rank->call ? "is in " : "is in no call",
                rank->call ? rank->call : "");
}

static void print_receive(const whm_transfer *t, FILE *file) {
    fprintf(file, "    a receive%s ",
            whm_space_of(t->context) == WHM_COLL ? " of a collective" : "");
    if (t->peer == MPI_ANY_SOURCE)
        fputs("from any rank", file);
    else
        fprintf(file, "from rank %d", whm_comm_known_rank(t->comm, t->peer));
    if (t->wanted == MPI_ANY_TAG)
        fputs(", any tag", file);
    else if (t->wanted < 0)
        fputs(", comparing calls", file);
    else
        fprintf(file, ", tag %d", t->wanted);
    fprintf(file, ", on %s\n", whm_comm_title(t->comm));
}

static void print_queue(const whm_transfer *first, FILE *file, int *lines) {
    for (const whm_transfer *t = first; t; t = t->next)
        if (++*lines <= LINES)
            print_receive(t, file);
}

static void print_rest(FILE *file, int lines, const char *what) {
    if (lines > LINES)
        fprintf(file, "    and %d more %s\n", lines - LINES, what);
}

// print_waits prints what a rank waits for: receives that nothing has matched, and synchronous sends.  Returns how many.
static int print_waits(const whm_match *match, FILE *file) {
    int receives = 0, sends = 0;
    for (int i = 0; i < WHM_BUCKETS; i++)
        print_queue(match->posted[i].first, file, &receives);
    print_queue(match->wild.first, file, &receives);
    print_rest(file, receives, "receives");
    for (const whm_transfer *t = match->sync; t; t = t->next)
        if (++sends <= LINES)
            fprintf(file, "    a synchronous send to rank %d, tag %d, on %s\n", t->peer, t->wanted,
                    whm_comm_title(t->comm));
    print_rest(file, sends, "synchronous sends");
    return receives + sends;
}

static void print_kept(const whm_match *match, FILE *file) {
    int messages = 0;
    for (const whm_arrival *a = match->all.first; a; a = a->all_next)
        if (++messages <= LINES)
            fprintf(file, "    not received: %llu bytes%s from rank %d, tag %d\n",
                    (unsigned long long)a->bytes,
                    whm_space_of(a->env.context) == WHM_COLL ? " of a collective" : "",
                    a->env.source, a->env.tag);
    print_rest(file, messages, "messages that were not received");
}

static wh_dump_found on_dump(const wh_pe *pe, FILE *file, void *arg) {
    (void)pe;
    (void)arg;
    int waits = 0;
    for (int i = 0; i < whm_process_here.local; i++) {
        const whm_rank *rank = whm_process_here.rank[i];
        if (!rank)
            continue;  // it is in another process
        print_call(rank, file);
        for (const whm_awaited *a = rank->awaits; a; a = a->next)
            waits += a->print(a, file);
        if (!rank->match)
            continue;
        waits += print_waits(rank->match, file);
        print_kept(rank->match, file);
    }
    return waits ? WH_DUMP_WAITS : WH_DUMP_GOES_ON;
}

void whm_dump_begin(void) {
    wh_pe_on_dump(whm_process_here.pe, on_dump, NULL, "MPI_Finalize");
}
