// SPDX-License-Identifier: BSD-3-Clause
//
// The functions of groups: questions, set operations, choices by rank.  All are local.
#include <stdlib.h>

#include "mpi/base/memory.h"
#include "mpi/base/process.h"
#include "mpi/bodies.h"
#include "mpi/comm/group.h"

int mpi_group_size(whm_group *group, int *size) {
    *size = group->size;
    return MPI_SUCCESS;
}

int mpi_group_rank(whm_group *group, int *rank) {
    *rank = group->rank;
    return MPI_SUCCESS;
}

int mpi_group_compare(whm_group *group1, whm_group *group2, int *result) {
    return whm_group_compared(group1, group2, result);
}

int mpi_group_free(whm_group *group) {
    whm_group_release(group);
    return MPI_SUCCESS;
}

static int check_rank(const whm_group *group, int rank) {
    return rank >= 0 && rank < group->size
               ? MPI_SUCCESS
               : whm_fail(MPI_ERR_RANK, "there is no rank %d in a group of %d", rank, group->size);
}

int mpi_group_translate_ranks(whm_group *group1, int n, const int *ranks1, whm_group *group2,
                              int *ranks2) {
    for (int i = 0; i < n; i++) {
        int rc = ranks1[i] == MPI_PROC_NULL ? MPI_SUCCESS : check_rank(group1, ranks1[i]);
        if (rc != MPI_SUCCESS)
            return rc;
    }
    int *found = whm_malloc((size_t)group1->size * sizeof(*found) + 1);
    if (!found)
        return whm_no_memory();
    int rc = whm_group_ranks(group1, group2, found);
    for (int i = 0; rc == MPI_SUCCESS && i < n; i++)
        ranks2[i] = ranks1[i] == MPI_PROC_NULL ? MPI_PROC_NULL : found[ranks1[i]];
    free(found);
    return rc;
}

// chosen makes a group of those members of `a` that keep[i] is true for, and then, if b is given, of all members of b that keep_b[i] is true for.
static int chosen(const whm_group *a, const bool *keep, const whm_group *b, const bool *keep_b,
                  whm_group **made) {
    int size = 0;
    for (int i = 0; i < a->size; i++)
        size += keep[i];
    for (int i = 0; b && i < b->size; i++)
        size += keep_b[i];
    whm_group *group = whm_group_new(size);
    if (!group)
        return whm_no_memory();
    if (size) {
        int n = 0;
        for (int i = 0; i < a->size; i++) {
            if (keep[i])
                group->world[n++] = whm_group_world(a, i);
        }
        for (int i = 0; b && i < b->size; i++) {
            if (keep_b[i])
                group->world[n++] = whm_group_world(b, i);
        }
        whm_group_made(whm_group_from(group, a));
    }
    *made = group;
    return MPI_SUCCESS;
}

// marks writes which members of `from` are in `to`, as an array that the caller frees.
static int marks(const whm_group *from, const whm_group *to, bool in, bool **marked) {
    int *ranks = whm_malloc((size_t)from->size * sizeof(*ranks) + 1);
    bool *mark = whm_malloc((size_t)from->size + 1);
    int rc = ranks && mark ? whm_group_ranks(from, to, ranks) : whm_no_memory();
    for (int i = 0; rc == MPI_SUCCESS && i < from->size; i++)
        mark[i] = (ranks[i] != MPI_UNDEFINED) == in;
    free(ranks);
    if (rc == MPI_SUCCESS)
        *marked = mark;
    else
        free(mark);
    return rc;
}

// subset makes the group of those members of `a` that are in b (in), or that are not.
static int subset(const whm_group *a, const whm_group *b, bool in, whm_group **made) {
    bool *keep;
    int rc = marks(a, b, in, &keep);
    if (rc != MPI_SUCCESS)
        return rc;
    rc = chosen(a, keep, NULL, NULL, made);
    free(keep);
    return rc;
}

int mpi_group_intersection(whm_group *group1, whm_group *group2, whm_group **newgroup) {
    return subset(group1, group2, true, newgroup);
}

int mpi_group_difference(whm_group *group1, whm_group *group2, whm_group **newgroup) {
    return subset(group1, group2, false, newgroup);
}

int mpi_group_union(whm_group *group1, whm_group *group2, whm_group **newgroup) {
    bool *first = whm_malloc((size_t)group1->size + 1), *rest = NULL;
    int rc = first ? marks(group2, group1, false, &rest) : whm_no_memory();
    for (int i = 0; rc == MPI_SUCCESS && i < group1->size; i++)
        first[i] = true;
    if (rc == MPI_SUCCESS)
        rc = chosen(group1, first, group2, rest, newgroup);
    free(first);
    free(rest);
    return rc;
}

// listed makes the group of the members of `group` with these ranks, in this order.
static int listed(const whm_group *group, int n, const int *ranks, whm_group **made) {
    whm_group *g = whm_group_new(n);
    if (!g)
        return whm_no_memory();
    if (n) {
        for (int i = 0; i < n; i++)
            g->world[i] = whm_group_world(group, ranks[i]);
        whm_group_made(whm_group_from(g, group));
    }
    *made = g;
    return MPI_SUCCESS;
}

// picked checks a list of ranks, and writes which members it names, as an array that the caller frees.
static int picked(const whm_group *group, int n, const int *ranks, bool **marked) {
    bool *mark = whm_calloc((size_t)group->size + 1, 1);
    if (!mark)
        return whm_no_memory();
    for (int i = 0; i < n; i++) {
        int rc = check_rank(group, ranks[i]);
        if (rc == MPI_SUCCESS && mark[ranks[i]])
            rc = whm_fail(MPI_ERR_RANK, "rank %d is named twice", ranks[i]);
        if (rc != MPI_SUCCESS) {
            free(mark);
            return rc;
        }
        mark[ranks[i]] = true;
    }
    *marked = mark;
    return MPI_SUCCESS;
}

int mpi_group_incl(whm_group *group, int n, const int *ranks, whm_group **newgroup) {
    bool *mark;
    int rc = picked(group, n, ranks, &mark);
    if (rc != MPI_SUCCESS)
        return rc;
    free(mark);
    return listed(group, n, ranks, newgroup);
}

int mpi_group_excl(whm_group *group, int n, const int *ranks, whm_group **newgroup) {
    bool *mark;
    int rc = picked(group, n, ranks, &mark);
    if (rc != MPI_SUCCESS)
        return rc;
    for (int i = 0; i < group->size; i++)
        mark[i] = !mark[i];
    rc = chosen(group, mark, NULL, NULL, newgroup);
    free(mark);
    return rc;
}

// spread writes the ranks that ranges (first, last, stride) name, as an array that the caller frees.
//
// No rank may be named twice, so there are at most as many as the group has, and the first one beyond that ends it.
static int spread(const whm_group *group, int n, int (*ranges)[3], int *count, int **ranks) {
    int *list = whm_malloc((size_t)group->size * sizeof(*list) + 1);
    int found = 0;
    if (!list)
        return whm_no_memory();
    for (int i = 0; i < n; i++) {
        long first = ranges[i][0], last = ranges[i][1], stride = ranges[i][2];
        int rc = stride ? check_rank(group, ranges[i][0])
                        : whm_fail(MPI_ERR_ARG, "the stride of range %d is 0", i);
        if (rc == MPI_SUCCESS && (last - first) / (stride ? stride : 1) < 0)
            rc = whm_fail(MPI_ERR_ARG, "range %d goes from %ld to %ld by %ld: away from its end", i,
                          first, last, stride);
        for (long r = first; rc == MPI_SUCCESS && (stride > 0 ? r <= last : r >= last);
             r += stride) {
            rc = check_rank(group, (int)r);
            if (rc == MPI_SUCCESS && found == group->size)
                rc = whm_fail(MPI_ERR_RANK, "rank %ld is named twice", r);
            if (rc == MPI_SUCCESS)
                list[found++] = (int)r;
        }
        if (rc != MPI_SUCCESS) {
            free(list);
            return rc;
        }
    }
    *count = found;
    *ranks = list;
    return MPI_SUCCESS;
}

int mpi_group_range_incl(whm_group *group, int n, int (*ranges)[3], whm_group **newgroup) {
    int count, *ranks;
    int rc = spread(group, n, ranges, &count, &ranks);
    if (rc != MPI_SUCCESS)
        return rc;
    rc = mpi_group_incl(group, count, ranks, newgroup);
    free(ranks);
    return rc;
}

int mpi_group_range_excl(whm_group *group, int n, int (*ranges)[3], whm_group **newgroup) {
    int count, *ranks;
    int rc = spread(group, n, ranges, &count, &ranks);
    if (rc != MPI_SUCCESS)
        return rc;
    rc = mpi_group_excl(group, count, ranks, newgroup);
    free(ranks);
    return rc;
}
