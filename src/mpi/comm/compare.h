// SPDX-License-Identifier: BSD-3-Clause
//
// Comparison: with WHERRY_MPI_CHECK=1 the ranks of a communicator tell each other what each collective call is, before it does anything.
//
// One rank, rank 0, hears from all, compares, and tells all the same, so each rank gets the error, and nobody is left waiting in a call
// that others are not in.  Calls are counted for each communicator: a rank's third call is compared with the others' third.  The call that waits
// for others in MPI waits for the comparison; a nonblocking one goes on when that has ended, behind the program's back.
#ifndef WHM_COMM_COMPARE_H
#define WHM_COMM_COMPARE_H

#include "mpi/comm/comm.h"

// Whether calls are compared: of the process, set before any is made.
extern bool whm_compares;
void whm_compare_read_setting(void);

// What all ranks of a call give alike, beside its name.
typedef enum whm_said { WHM_UNSAID, WHM_NAME_FIRST, WHM_VALUE_FIRST } whm_said;
typedef struct whm_fact {
    const char *name;  // "root"; of one whose value says nothing to people, "another operation"
    whm_said said;     // how name and value stand in the sentence
    int error;         // the class of the error where it differs
    int64_t value;
} whm_fact;
enum { WHM_FACTS = 4 };

// whm_compare compares the call under way with those of the other ranks: MPI_SUCCESS, or the error that all of them get.  It waits for them.
// `facts` ends with one without a name; NULL: there are none.
int whm_compare(whm_comm *comm, const whm_fact *facts);

// whm_compare_call does so where calls are compared at all, whm_compare_facts with facts, one by one.
static inline bool whm_compare_is_due(const whm_comm *comm) {
    return __builtin_expect(whm_compares, 0) && (comm->size > 1 || comm->remote);
}
static inline int whm_compare_call(whm_comm *comm) {
    return whm_compare_is_due(comm) ? whm_compare(comm, NULL) : MPI_SUCCESS;
}
#define whm_compare_facts(comm, ...)                                                               \
    (whm_compare_is_due(comm) ? whm_compare(comm, (const whm_fact[]){__VA_ARGS__, {.name = NULL}}) \
                              : MPI_SUCCESS)

// whm_compare_apart is for calls on what ranks of a communicator have in common and know by a number, as windows: they are in no order with those
// on the communicator.
int whm_compare_apart(whm_comm *comm, uint32_t number);

// whm_compare_behind is for a call that waits for nobody: the others hear of it if theirs is another one.
void whm_compare_behind(whm_comm *comm);

// whm_hash makes a value of an array.
int64_t whm_hash(const void *data, size_t size);

// Without waiting.  whm_compare_new notes the call under way; NULL: no memory.  whm_compare_start begins; done(arg) is called when it has ended, in
// this call or in progress.  Then whm_compare_error says how, whm_compare_fail too, in a sentence, and whm_compare_free frees it.
typedef struct whm_comparison whm_comparison;
whm_comparison *whm_compare_new(whm_comm *comm, const whm_fact *facts);
void whm_compare_start(whm_comparison *comparison, void (*done)(void *arg), void *arg);
int whm_compare_error(const whm_comparison *comparison);
int whm_compare_fail(const whm_comparison *comparison);
void whm_compare_free(whm_comparison *comparison);

#endif
