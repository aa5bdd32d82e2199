// SPDX-License-Identifier: BSD-3-Clause
//
// Collectives: operations that all members of a team of processing elements (PEs) take part in.
//
// Every member calls the same operations of a team in the same order, with arguments that agree: the
// same root, reduction and elements, though layouts may differ.  Several may be under way at once.
// Each is an operation like any other (request.h): `opts`, of which `done`, `arg`, `timeout_ms` and
// `result` are obeyed, a request, and one completion; the calls that end in _wait wait.  It is
// complete at a member when that one's part of it is: its buffers are its own again, and what it was to
// receive is there.  Only a barrier says something about the others.
//
// Data is (buf, count, type): `count` elements of a layout (type.h) in host memory, or bytes when `type`
// is NULL.  The type is retained.  result.size is the packed bytes of `from`, or of `buf`.
//
// A member that is lost, or gives up (cancel, timeout, no memory), fails the operation at all members
// that needed something of it, with its status, and the sentence names the PE.  What is in the
// buffers of a failed operation is undefined, and others of the team go on.  Sizes that do not agree
// are WH_EINVAL, elements WH_ETYPE, where they are noticed; members that call different operations
// can wait for each other for ever.
//
// The thread that owns the PE's worker calls all of these.
#ifndef WHERRY_COLL_H
#define WHERRY_COLL_H

#include <stddef.h>
#include <stdint.h>

#include <wherry/pack.h>
#include <wherry/request.h>
#include <wherry/rt.h>
#include <wherry/status.h>
#include <wherry/type.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct wh_team wh_team;  // an ordered list of PEs, as one of them has it

// In the place of `from`: this member's data is in `to`, where its part of the result will be.  In an
// all-to-all all members give it, or none.
#define WH_IN_PLACE ((const void *)(intptr_t)-1)

// How elements are combined.  It is done in the order of ranks, so that the result is that of
// (rank 0) op (rank 1) op ..., with brackets somewhere; the same for all members.
typedef struct wh_reduction {
    size_t size;      // of the caller's struct, so that it can grow
    wh_reduce op;     // must be defined on the elements: WH_ENOTSUP
    wh_reduce_fn fn;  // in the place of op: associative; default: none
    void *arg;        // of fn
} wh_reduction;
#ifndef __cplusplus
#define WH_REDUCTION(...) (&(wh_reduction){.size = sizeof(wh_reduction), __VA_ARGS__})
#endif

// wh_pe_team gives the team of all PEs of the job, whose ranks are their numbers: at each call the same, to
// be ended with wh_team_free once for each.  When the PE has gone its operations are WH_ECLOSED.
WH_API WH_CHECK wh_status wh_pe_team(wh_pe *pe, wh_team **team);

// wh_team_size, wh_team_rank: how many members there are, and which one this is.
WH_API uint32_t wh_team_size(const wh_team *team);
WH_API uint32_t wh_team_rank(const wh_team *team);

// wh_team_pe tells which PE has a rank.
WH_API WH_CHECK wh_status wh_team_pe(const wh_team *team, uint32_t rank, uint32_t *pe);

// wh_team_split makes a team of all members that give the same `color`, in the order of `key`, then of
// rank.
//
// A collective.  *made is written before it completes, and ended with wh_team_free; it is NULL for a member
// that gives a negative color, and gets no team.  WH_ELIMIT: this PE is in 4,096 teams.
WH_API WH_CHECK wh_status wh_team_split(wh_team *team, int32_t color, int32_t key, wh_team **made,
                                        const wh_op_opts *opts, wh_request **req);
WH_API WH_CHECK wh_status wh_team_split_wait(wh_team *team, int32_t color, int32_t key,
                                             wh_team **made, int timeout_ms);

// wh_team_measure makes a team of the same members that chooses its algorithms by what messages between
// them cost now.  A collective, of some dozens of messages; what else is under way disturbs it.  *made as of a split; teams
// that are split from that one choose like it.
WH_API WH_CHECK wh_status wh_team_measure(wh_team *team, wh_team **made, const wh_op_opts *opts,
                                          wh_request **req);
WH_API WH_CHECK wh_status wh_team_measure_wait(wh_team *team, wh_team **made, int timeout_ms);

// wh_team_free gives a team up; not a collective.  Its operations that are under way go on.  NULL is
// allowed.
WH_API void wh_team_free(wh_team *team);

// All operations return WH_EAGAIN when 32,768 of the team are under way at this member; WH_ENOMEM and
// other errors of the call mean that this member has yet to take part.

// wh_coll_barrier completes when all members have called it.
WH_API WH_CHECK wh_status wh_coll_barrier(wh_team *team, const wh_op_opts *opts, wh_request **req);
WH_API WH_CHECK wh_status wh_coll_barrier_wait(wh_team *team, int timeout_ms);

// wh_coll_broadcast copies the root's buffer to all others.
WH_API WH_CHECK wh_status wh_coll_broadcast(wh_team *team, void *buf, int64_t count,
                                            const wh_type *type, uint32_t root,
                                            const wh_op_opts *opts, wh_request **req);
WH_API WH_CHECK wh_status wh_coll_broadcast_wait(wh_team *team, void *buf, int64_t count,
                                                 const wh_type *type, uint32_t root,
                                                 int timeout_ms);

// wh_coll_reduce combines the elements of all members into `to` of the root, which others do not need.
WH_API WH_CHECK wh_status wh_coll_reduce(wh_team *team, const void *from, void *to, int64_t count,
                                         const wh_type *type, const wh_reduction *how,
                                         uint32_t root, const wh_op_opts *opts, wh_request **req);
WH_API WH_CHECK wh_status wh_coll_reduce_wait(wh_team *team, const void *from, void *to,
                                              int64_t count, const wh_type *type,
                                              const wh_reduction *how, uint32_t root,
                                              int timeout_ms);

// wh_coll_allreduce does so into `to` of all members.
WH_API WH_CHECK wh_status wh_coll_allreduce(wh_team *team, const void *from, void *to,
                                            int64_t count, const wh_type *type,
                                            const wh_reduction *how, const wh_op_opts *opts,
                                            wh_request **req);
WH_API WH_CHECK wh_status wh_coll_allreduce_wait(wh_team *team, const void *from, void *to,
                                                 int64_t count, const wh_type *type,
                                                 const wh_reduction *how, int timeout_ms);

// wh_coll_scan combines the elements of the members up to this one; wh_coll_exscan those before it, and
// leaves `to` of rank 0 as it is.
WH_API WH_CHECK wh_status wh_coll_scan(wh_team *team, const void *from, void *to, int64_t count,
                                       const wh_type *type, const wh_reduction *how,
                                       const wh_op_opts *opts, wh_request **req);
WH_API WH_CHECK wh_status wh_coll_scan_wait(wh_team *team, const void *from, void *to,
                                            int64_t count, const wh_type *type,
                                            const wh_reduction *how, int timeout_ms);
WH_API WH_CHECK wh_status wh_coll_exscan(wh_team *team, const void *from, void *to, int64_t count,
                                         const wh_type *type, const wh_reduction *how,
                                         const wh_op_opts *opts, wh_request **req);
WH_API WH_CHECK wh_status wh_coll_exscan_wait(wh_team *team, const void *from, void *to,
                                              int64_t count, const wh_type *type,
                                              const wh_reduction *how, int timeout_ms);

// wh_coll_reduce_scatter combines `from`, a block of `count` elements for each member by rank, and gives
// each its block.  In place, the blocks are in `to`, and the result is at its beginning.
WH_API WH_CHECK wh_status wh_coll_reduce_scatter(wh_team *team, const void *from, void *to,
                                                 int64_t count, const wh_type *type,
                                                 const wh_reduction *how, const wh_op_opts *opts,
                                                 wh_request **req);
WH_API WH_CHECK wh_status wh_coll_reduce_scatter_wait(wh_team *team, const void *from, void *to,
                                                      int64_t count, const wh_type *type,
                                                      const wh_reduction *how, int timeout_ms);

// wh_coll_gather collects `from` of all members in `to` of the root, a block of `to_count` elements for
// each, by rank, one behind the other.  Blocks have the bytes of `from`.  Others need no `to`.
WH_API WH_CHECK wh_status wh_coll_gather(wh_team *team, const void *from, int64_t from_count,
                                         const wh_type *from_type, void *to, int64_t to_count,
                                         const wh_type *to_type, uint32_t root,
                                         const wh_op_opts *opts, wh_request **req);
WH_API WH_CHECK wh_status wh_coll_gather_wait(wh_team *team, const void *from, int64_t from_count,
                                              const wh_type *from_type, void *to, int64_t to_count,
                                              const wh_type *to_type, uint32_t root,
                                              int timeout_ms);

// wh_coll_allgather does so in `to` of all members.
WH_API WH_CHECK wh_status wh_coll_allgather(wh_team *team, const void *from, int64_t from_count,
                                            const wh_type *from_type, void *to, int64_t to_count,
                                            const wh_type *to_type, const wh_op_opts *opts,
                                            wh_request **req);
WH_API WH_CHECK wh_status wh_coll_allgather_wait(wh_team *team, const void *from,
                                                 int64_t from_count, const wh_type *from_type,
                                                 void *to, int64_t to_count, const wh_type *to_type,
                                                 int timeout_ms);

// wh_coll_alltoall sends block i of `from` to member i, where it becomes the block of this one's rank.
WH_API WH_CHECK wh_status wh_coll_alltoall(wh_team *team, const void *from, int64_t from_count,
                                           const wh_type *from_type, void *to, int64_t to_count,
                                           const wh_type *to_type, const wh_op_opts *opts,
                                           wh_request **req);
WH_API WH_CHECK wh_status wh_coll_alltoall_wait(wh_team *team, const void *from, int64_t from_count,
                                                const wh_type *from_type, void *to,
                                                int64_t to_count, const wh_type *to_type,
                                                int timeout_ms);

#ifdef __cplusplus
}
#endif
#endif
