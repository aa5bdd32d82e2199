// SPDX-License-Identifier: BSD-3-Clause
//
// Sessions, and communicators that are made without another one.
//
// A session joins the job, if MPI_Init or another one has not.  Since a process can join its job only once, it stays in it when the last
// session ends, until the program does: another session may come.
#include "mpi/comm/session.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "mpi/base/lock.h"
#include "mpi/base/process.h"
#include "mpi/base/raise.h"
#include "mpi/bodies.h"
#include "mpi/comm/claim.h"
#include "mpi/comm/context.h"
#include "mpi/comm/group.h"
#include "mpi/comm/hints.h"
#include "mpi/comm/inter.h"
#include "mpi/env/begin.h"
#include "mpi/env/errhandler.h"
#include "mpi/env/kinds.h"

enum { FROM_GROUP = 3 * WHM_TAG_CREATE };  // tags of creation without a communicator
_Static_assert((unsigned)FROM_GROUP + WHM_TAG_CREATE - 1 <= INT32_MAX, "they are tags");

static const struct {
    const char *name;
    int level;
} levels[] = {{"MPI_THREAD_SINGLE", MPI_THREAD_SINGLE},
              {"MPI_THREAD_FUNNELED", MPI_THREAD_FUNNELED},
              {"MPI_THREAD_SERIALIZED", MPI_THREAD_SERIALIZED},
              {"MPI_THREAD_MULTIPLE", MPI_THREAD_MULTIPLE}};
enum { LEVELS = sizeof(levels) / sizeof(*levels) };

// level_of reads the level that a session asks for.  One that asks for none gets what there is, or all.
static int level_of(const whm_info *info, int *level) {
    const char *asked = whm_info_value(info, "thread_level");
    *level = whm_self->phase == WHM_RUNNING ? whm_process_here.level : MPI_THREAD_MULTIPLE;
    for (int i = 0; asked && i < LEVELS; i++) {
        if (strcmp(asked, levels[i].name) == 0) {
            *level = levels[i].level;
            return MPI_SUCCESS;
        }
    }
    return asked ? whm_fail(MPI_ERR_INFO_VALUE, "thread_level is \"%s\", which is none", asked)
                 : MPI_SUCCESS;
}

int mpi_session_init(whm_info *info, whm_errhandler *errhandler, whm_session **session) {
    int level, rc = level_of(info, &level);
    if (rc != MPI_SUCCESS)
        return rc;
    if (errhandler->reaction == WHM_CALLS && errhandler->kind != WHM_SESSION)
        return whm_fail(MPI_ERR_ERRHANDLER, "the error handler is not one for sessions");
    whm_session *made = whm_object_new(WHM_SESSION, sizeof(*made));
    if (!made)
        return whm_no_memory();
    rc = whm_job_begin(level);
    if (rc != MPI_SUCCESS) {
        whm_object_free(made, sizeof(*made));
        return rc;
    }
    made->errhandler = whm_errhandler_hold(errhandler);
    made->level = level;
    whm_alloc_kinds_ask(whm_info_value(info, "mpi_memory_alloc_kinds"));
    *session = made;
    return MPI_SUCCESS;
}

static void leave_at_exit(void) {
    whm_enter();
    if (whm_self->kept) {
        whm_self->kept = false;
        (void)whm_job_end();  // there is nobody left to be told
    }
    whm_leave();
}

int mpi_session_finalize(whm_session *session) {
    static bool registered;
    whm_session_release(session);
    if (whm_self->holds > 1 || whm_process_here.virtual)
        return whm_job_end();
    whm_self->kept = true;
    if (!registered && atexit(leave_at_exit))
        return whm_no_memory();
    registered = true;
    return MPI_SUCCESS;
}

int mpi_session_get_info(whm_session *session, whm_info **info_used) {
    whm_info *info = NULL;
    int rc = whm_hints_used(NULL, &info);
    for (int i = 0; rc == MPI_SUCCESS && i < LEVELS; i++) {
        if (levels[i].level == session->level)
            rc = whm_info_put(info, "thread_level", levels[i].name);
    }
    if (rc == MPI_SUCCESS)
        *info_used = info;
    else
        whm_info_release(info);
    return rc;
}

// ---- Process sets.

static const char *const sets[] = {"mpi://WORLD", "mpi://SELF"};
enum { SETS = sizeof(sets) / sizeof(*sets) };

// set_of returns the communicator of the processes of a set; NULL: there is none of that name.  Names are URIs, whose scheme and
// host are the same in any case (RFC 3986); MPI says no more of it.
static const whm_comm *set_of(const char *name) {
    if (strcasecmp(name, sets[0]) == 0)
        return whm_self->comm_world;
    if (strcasecmp(name, sets[1]) == 0)
        return whm_self->comm_self;
    (void)whm_fail(MPI_ERR_ARG, "there is no process set \"%s\"", name);
    return NULL;
}

int mpi_session_get_num_psets(whm_session *session, whm_info *info, int *npset_names) {
    (void)session;
    (void)info;
    *npset_names = SETS;
    return MPI_SUCCESS;
}

// *pset_len is the size of the buffer, terminating zero included, and becomes that which the name needs; 0: only that is asked.
int mpi_session_get_nth_pset(whm_session *session, whm_info *info, int n, int *pset_len,
                             char *pset_name) {
    (void)session;
    (void)info;
    if (n >= SETS)
        return whm_fail(MPI_ERR_ARG, "there is no process set %d of %d", n, SETS);
    if (*pset_len > 0 && !pset_name)
        return whm_fail(MPI_ERR_ARG, "pset_name is NULL, and pset_len %d", *pset_len);
    if (*pset_len > 0)
        snprintf(pset_name, (size_t)*pset_len, "%s", sets[n]);
    *pset_len = (int)strlen(sets[n]) + 1;
    return MPI_SUCCESS;
}

int mpi_session_get_pset_info(whm_session *session, const char *pset_name, whm_info **info) {
    (void)session;
    char size[16];
    const whm_comm *set = set_of(pset_name);
    if (!set)
        return MPI_ERR_ARG;
    snprintf(size, sizeof(size), "%d", set->size);
    whm_info *made = whm_info_new();
    int rc = made ? whm_info_put(made, "mpi_size", size) : whm_no_memory();
    if (rc == MPI_SUCCESS)
        *info = made;
    else
        whm_info_release(made);
    return rc;
}

int mpi_group_from_session_pset(whm_session *session, const char *pset_name, whm_group **newgroup) {
    const whm_comm *set = set_of(pset_name);
    if (!set)
        return MPI_ERR_ARG;
    whm_group *group = whm_group_new(set->size);
    if (!group)
        return whm_no_memory();
    for (int i = 0; i < set->size; i++)
        group->world[i] = whm_group_world(set->group, i);
    group->session = whm_retain(session);
    *newgroup = whm_group_made(group);
    return MPI_SUCCESS;
}

// ---- Communicators of groups.

// tag_of makes a tag of a string that the members have in common (FNV-1a, 32 bits).
static int tag_of(const char *string) {
    uint32_t h = 2166136261u;
    for (; *string; string++)
        h = (h ^ (unsigned char)*string) * 16777619u;
    return FROM_GROUP + (int)(h % WHM_TAG_CREATE);
}

// join has the members of a group agree on a context for their communicator.
static int join(whm_comm *comm, const whm_group *group, const char *stringtag, int failed) {
    if (group->rank == MPI_UNDEFINED)
        return whm_fail(MPI_ERR_GROUP, "this process is not in the group");
    whm_claim claim = {
        .agree = {.comm = whm_self->comm_world,
                  .members = group->world,
                  .size = group->size,
                  .me = group->rank,
                  .tag = tag_of(stringtag)},
        .failed = failed,
    };
    int rc = whm_claim_wait(&claim);
    assert(comm || rc != MPI_SUCCESS);
    if (rc == MPI_SUCCESS)
        comm->context = claim.context;
    return rc;
}

// make makes a communicator of a group that this rank is in.  The error handler that it gets hears of what fails, too.
static int make(whm_group *group, const char *stringtag, const whm_info *info,
                whm_errhandler *errhandler, whm_comm **newcomm) {
    whm_comm *comm = whm_comm_new(whm_retain(group), NULL, (uint32_t)WHM_CONTEXT_NONE, NULL);
    int rc = comm ? whm_errhandler_set(&comm->errhandler, errhandler, WHM_COMM) : whm_no_memory();
    bool heard = rc == MPI_SUCCESS;
    if (heard)
        rc = whm_comm_hints(comm, info);
    rc = join(comm, group, stringtag, rc);
    if (rc == MPI_SUCCESS) {
        *newcomm = comm;
        return MPI_SUCCESS;
    }
    if (heard)
        whm_blame(comm, rc);
    whm_comm_release(comm);
    return rc;
}

int mpi_comm_create_from_group(whm_group *group, const char *stringtag, whm_info *info,
                               whm_errhandler *errhandler, whm_comm **newcomm) {
    *newcomm = NULL;
    return group->size ? make(group, stringtag, info, errhandler, newcomm) : MPI_SUCCESS;
}

int mpi_intercomm_create_from_groups(whm_group *local_group, int local_leader,
                                     whm_group *remote_group, int remote_leader,
                                     const char *stringtag, whm_info *info,
                                     whm_errhandler *errhandler, whm_comm **newintercomm) {
    *newintercomm = NULL;
    if (!local_group->size)
        return MPI_SUCCESS;
    whm_comm *local = NULL;
    int rc = make(local_group, stringtag, info, errhandler, &local);
    if (rc != MPI_SUCCESS)
        return rc;
    whm_meeting with = {whm_self->comm_world, 0, tag_of(stringtag), MPI_SUCCESS};
    if (remote_leader >= 0 && remote_leader < remote_group->size)
        with.peer = whm_group_world(remote_group, remote_leader);
    else
        with.error = whm_fail(MPI_ERR_RANK, "there is no rank %d in the remote group of %d",
                              remote_leader, remote_group->size);
    if (local_leader >= 0 && local_leader < local_group->size)
        rc = whm_intercomm(local, local_leader, &with, newintercomm);
    else
        rc = whm_fail(MPI_ERR_RANK, "there is no rank %d in the local group of %d", local_leader,
                      local_group->size);
    if (rc != MPI_SUCCESS)
        whm_blame(local, rc);
    whm_comm_release(local);
    return rc;
}
