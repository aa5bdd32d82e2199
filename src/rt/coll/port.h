// SPDX-License-Identifier: BSD-3-Clause
//
// Port: what collectives need of a processing element (PE), as a table that the PE fills in.
//
// A port is part of its PE, and belongs to the thread that owns the worker.  It lives as long as its teams, and refuses all when
// the PE has gone.
#ifndef WHI_RT_COLL_PORT_H
#define WHI_RT_COLL_PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <wherry/request.h>
#include <wherry/worker.h>

typedef struct whi_coll_port whi_coll_port;

typedef struct whi_coll_port_ops {
    // send is wh_tag_send on the data endpoint towards `pe`, which is opened if it is not there yet; recv is wh_tag_recv, of
    // this tag alone, on the endpoint that `pe` has opened towards us, or will open: it fails when that PE is lost, also before
    // it has ever sent anything.  Both take `opts` and `req` as those do: `size` counts elements of opts->type, or bytes.
    // Messages of equal tags from one PE to another match in the order of their sends.  `pe` is never the own one.
    wh_status (*send)(whi_coll_port *port, uint32_t pe, uint64_t tag, const void *buf, size_t size,
                      const wh_op_opts *opts, wh_request **req);
    wh_status (*recv)(whi_coll_port *port, uint32_t pe, uint64_t tag, void *buf, size_t size,
                      const wh_op_opts *opts, wh_request **req);
    // gone frees a port whose PE has gone and whose last team is freed.  Optional.
    void (*gone)(whi_coll_port *port);
} whi_coll_port_ops;

enum {
    WHI_COLL_TEAM_BITS = 12,
    WHI_COLL_NUMBER_BITS = 16,
    WHI_COLL_TEAMS = 1 << WHI_COLL_TEAM_BITS,  // of one PE at a time
    // Operations of one team that may be under way at a PE at a time: half of the numbers there are.
    WHI_COLL_UNDER_WAY = 1 << (WHI_COLL_NUMBER_BITS - 1),
};

struct whi_coll_port {
    const whi_coll_port_ops *ops;
    wh_worker *worker;     // NULL: the PE has gone
    uint32_t self, count;  // PEs
    uint64_t tag_type;     // the upper 4 bits of the tags
    // Of the teams that are made (team.h); the same at all PEs.
    uint64_t message_bytes;
    uint64_t team_ids[WHI_COLL_TEAMS / 64];  // in use: bits
    size_t teams;
    size_t under_way;  // operations, those that end without their user too
};

// What message_bytes is before anybody has measured it: docs/design/coll.md.
#define WHI_COLL_MESSAGE_BYTES 16384

// whi_coll_port_init makes the port of PE `self` of `count`; `tag_type` is at most 15.
void whi_coll_port_init(whi_coll_port *port, const whi_coll_port_ops *ops, wh_worker *worker,
                        uint32_t self, uint32_t count, unsigned tag_type);

// whi_coll_port_close is called once, when the PE's worker has been destroyed.
void whi_coll_port_close(whi_coll_port *port);

// whi_coll_tag is the tag of all messages of one operation from one PE to another: its type, who sends, what number the
// receiver has for the team, and the operation's number in the team.
//
// Numbers come again after 2^16 operations.  One that is under way at a PE keeps a later one of the same number from
// starting there, and each operation receives as many messages from each PE as that one sends in it, failed or not (op.h);
// so on the way from one PE to another all messages, and all receives, of the former come first, and match.  For the same
// reason a PE may give the number of a team that has ended there to another one.
static inline uint64_t whi_coll_tag(const whi_coll_port *port, uint32_t source, uint32_t team,
                                    uint32_t number) {
    return port->tag_type << 60 | (uint64_t)source << 28 | (uint64_t)team << WHI_COLL_NUMBER_BITS |
           (number & ((1u << WHI_COLL_NUMBER_BITS) - 1));
}

#endif
