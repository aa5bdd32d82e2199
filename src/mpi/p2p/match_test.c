// SPDX-License-Identifier: BSD-3-Clause
//
// Matching beside the rule of the standard, which two plain lists follow: a receive gets the first message that it accepts, and a message the
// oldest receive that accepts it.
#include "mpi/p2p/match.h"

#include "base/test.h"

enum { STEPS = 4000, MOST = STEPS };

static uint64_t state;

static unsigned draw(unsigned below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33) % below;
}

// The lists: NULL once an entry is taken.
static whm_transfer *receives[MOST];
static whm_arrival *messages[MOST];
static int posted, arrived;

static bool accepts(const whm_transfer *r, const whm_envelope *env) {
    return r->context == env->context && (r->peer == MPI_ANY_SOURCE || r->peer == env->source) &&
           (r->wanted == MPI_ANY_TAG || r->wanted == env->tag);
}

static whm_transfer *oldest(const whm_envelope *env) {
    for (int i = 0; i < posted; i++)
        if (receives[i] && accepts(receives[i], env)) {
            whm_transfer *found = receives[i];
            receives[i] = NULL;
            return found;
        }
    return NULL;
}

static whm_arrival *earliest(const whm_transfer *r) {
    for (int i = 0; i < arrived; i++)
        if (messages[i] && accepts(r, &messages[i]->env)) {
            whm_arrival *found = messages[i];
            messages[i] = NULL;
            return found;
        }
    return NULL;
}

static void one_message(whm_match *match) {
    whm_envelope env = {.context = draw(2), .source = (int)draw(4), .tag = (int)draw(5)};
    whm_transfer *want = oldest(&env);
    CHECK(whm_match_posted(match, &env) == want);
    if (!want) {
        whm_arrival *kept = whm_match_keep(match, &env, 1);
        CHECK(kept);
        messages[arrived++] = kept;
    }
    free(want);
}

static void one_receive(whm_match *match) {
    whm_transfer *r = calloc(1, sizeof(*r));
    CHECK(r);
    r->context = draw(2);
    r->peer = draw(4) ? (int)draw(4) : MPI_ANY_SOURCE;
    r->wanted = draw(4) ? (int)draw(5) : MPI_ANY_TAG;
    whm_arrival *want = earliest(r);
    whm_arrival *got = whm_match_find(match, r->context, r->peer, r->wanted);
    CHECK(got == want);
    if (!got) {
        whm_match_post(match, r);
        receives[posted++] = r;
        return;
    }
    whm_match_remove(match, got);
    whm_match_forget(match, got);
    free(r);
}

static void take_back(whm_match *match) {
    int i = posted ? (int)draw((unsigned)posted) : 0;
    if (!posted || !receives[i])
        return;
    whm_match_unpost(match, receives[i]);
    free(receives[i]);
    receives[i] = NULL;
}

static void walk(uint64_t seed) {
    state = seed;
    posted = arrived = 0;
    CHECK_EQ_INT(whm_match_begin(whm_self), MPI_SUCCESS);
    for (int i = 0; i < STEPS; i++) {
        unsigned what = draw(20);
        if (what == 0)
            take_back(whm_self->match);
        else if (what <= 9 + (unsigned)(i / 500) % 2)  // now more receives wait, now more messages
            one_receive(whm_self->match);
        else
            one_message(whm_self->match);
    }
    size_t left = 0;
    for (int i = 0; i < arrived; i++)
        left += messages[i] != NULL;
    CHECK_EQ_INT(whm_self->match->kept, left);
    for (int i = 0; i < posted; i++)
        free(receives[i]);
    whm_match_end(whm_self);
}

TEST(any_walk_matches_as_the_standard_says) {
    for (uint64_t seed = 1; seed <= 30; seed++)
        walk(seed);
}

TEST(a_message_that_two_receives_accept_goes_to_the_older_one) {
    CHECK_EQ_INT(whm_match_begin(whm_self), MPI_SUCCESS);
    whm_transfer exact = {.peer = 1, .wanted = 2}, wild = {.peer = MPI_ANY_SOURCE, .wanted = 2};
    whm_envelope env = {.source = 1, .tag = 2};
    whm_match_post(whm_self->match, &wild);
    whm_match_post(whm_self->match, &exact);
    CHECK(whm_match_posted(whm_self->match, &env) == &wild);
    whm_match_post(whm_self->match, &wild);
    CHECK(whm_match_posted(whm_self->match, &env) == &exact);
    CHECK(whm_match_posted(whm_self->match, &env) == &wild);
    CHECK(!whm_match_posted(whm_self->match, &env));
    whm_match_end(whm_self);
}

TEST_MAIN()
