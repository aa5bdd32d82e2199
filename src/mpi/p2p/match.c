// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/p2p/match.h"

#include <stdlib.h>

#include "mpi/base/memory.h"

static unsigned bucket_of(uint32_t context, int source, int tag) {
    uint32_t h =
        context * 0x9E3779B1u ^ (uint32_t)source * 0x85EBCA6Bu ^ (uint32_t)tag * 0xC2B2AE35u;
    return (h ^ h >> 15) * 0x27D4EB2Fu >> 24;
}

static bool is_wild(const whm_transfer *recv) {
    return recv->peer == MPI_ANY_SOURCE || recv->wanted == MPI_ANY_TAG;
}

static bool accepts(uint32_t context, int source, int tag, const whm_envelope *env) {
    return env->context == context && (source == env->source || source == MPI_ANY_SOURCE) &&
           (tag == env->tag || tag == MPI_ANY_TAG);
}

int whm_match_begin(whm_rank *rank) {
    rank->match = whm_calloc(1, sizeof(*rank->match));
    if (!rank->match)
        return whm_no_memory();
    rank->match->rank = rank;
    return MPI_SUCCESS;
}

// ---- Receives.

static whm_queue *queue_of(whm_match *match, const whm_transfer *recv) {
    return is_wild(recv) ? &match->wild
                         : &match->posted[bucket_of(recv->context, recv->peer, recv->wanted)];
}

void whm_match_post(whm_match *match, whm_transfer *recv) {
    whm_queue *queue = queue_of(match, recv);
    recv->age = ++match->age;
    recv->next = NULL;
    recv->prev = queue->last;
    if (queue->last)
        queue->last->next = recv;
    else
        queue->first = recv;
    queue->last = recv;
}

static void take(whm_queue *queue, whm_transfer *recv) {
    if (recv->prev)
        recv->prev->next = recv->next;
    else
        queue->first = recv->next;
    if (recv->next)
        recv->next->prev = recv->prev;
    else
        queue->last = recv->prev;
}

void whm_match_unpost(whm_match *match, whm_transfer *recv) {
    take(queue_of(match, recv), recv);
}

whm_transfer *whm_match_posted(whm_match *match, const whm_envelope *env) {
    whm_queue *queue = &match->posted[bucket_of(env->context, env->source, env->tag)];
    whm_transfer *exact = queue->first, *wild = match->wild.first;
    while (exact && !accepts(exact->context, exact->peer, exact->wanted, env))
        exact = exact->next;
    while (wild && !accepts(wild->context, wild->peer, wild->wanted, env))
        wild = wild->next;
    if (wild && (!exact || wild->age < exact->age)) {
        queue = &match->wild;
        exact = wild;
    }
    if (exact)
        take(queue, exact);
    return exact;
}

// ---- Messages.

whm_arrival *whm_match_keep(whm_match *match, const whm_envelope *env, uint64_t bytes) {
    whm_arrival *arrival = match->spare;
    if (arrival)
        match->spare = arrival->next;
    else if (!(arrival = whm_malloc_for(match->rank, sizeof(*arrival))))
        return NULL;
    whm_arrivals *bucket = &match->bucket[bucket_of(env->context, env->source, env->tag)];
    *arrival = (whm_arrival){
        .prev = bucket->last, .all_prev = match->all.last, .env = *env, .bytes = bytes};
    if (bucket->last)
        bucket->last->next = arrival;
    else
        bucket->first = arrival;
    bucket->last = arrival;
    if (match->all.last)
        match->all.last->all_next = arrival;
    else
        match->all.first = arrival;
    match->all.last = arrival;
    match->kept++;
    return arrival;
}

whm_arrival *whm_match_kept(whm_match *match, uint32_t context, int source, int tag) {
    whm_arrival *a;
    if (source == MPI_ANY_SOURCE || tag == MPI_ANY_TAG) {
        for (a = match->all.first; a && !accepts(context, source, tag, &a->env); a = a->all_next)
            ;
        return a;
    }
    a = match->bucket[bucket_of(context, source, tag)].first;
    while (a && !accepts(context, source, tag, &a->env))
        a = a->next;
    return a;
}

void whm_match_remove(whm_match *match, whm_arrival *arrival) {
    const whm_envelope *env = &arrival->env;
    whm_arrivals *bucket = &match->bucket[bucket_of(env->context, env->source, env->tag)];
    if (arrival->prev)
        arrival->prev->next = arrival->next;
    else
        bucket->first = arrival->next;
    if (arrival->next)
        arrival->next->prev = arrival->prev;
    else
        bucket->last = arrival->prev;
    if (arrival->all_prev)
        arrival->all_prev->all_next = arrival->all_next;
    else
        match->all.first = arrival->all_next;
    if (arrival->all_next)
        arrival->all_next->all_prev = arrival->all_prev;
    else
        match->all.last = arrival->all_prev;
    match->kept--;
    match->copied -= arrival->room;
}

void whm_match_forget(whm_match *match, whm_arrival *arrival) {
    arrival->next = match->spare;
    match->spare = arrival;
}

void whm_match_end(whm_rank *rank) {
    whm_match *match = rank->match;
    if (!match)
        return;
    whm_arrival *a;
    while ((a = match->all.first)) {
        whm_match_remove(match, a);
        if (a->am)
            wh_am_drop(a->am);
        free(a->packed);
        free(a);
    }
    while ((a = match->spare)) {
        match->spare = a->next;
        free(a);
    }
    free(match);
    rank->match = NULL;
}
