// SPDX-License-Identifier: BSD-3-Clause
//
// Fuzz target: what the other members of a team send in a collective, of any length and content.
//
// One member of three runs each kind of collective; what it is to receive comes from the input: a byte that says how long the
// message is, or that its sender is lost, and the bytes.  Whatever comes, the operation ends, once; its memory is not left, and
// nothing of it stays.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "rt/coll/team.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(cond) ((cond) ? (void)0 : abort())

enum { MEMBERS = 3, COUNT = 5, ROOM = 4096, LOST = 0xff };

static struct { const uint8_t *next, *end; } input;

static uint8_t take(void) {
    return input.next < input.end ? *input.next++ : LOST;
}

static wh_status send(whi_coll_port *port, uint32_t pe, uint64_t tag, const void *buf, size_t size,
                      const wh_op_opts *opts, wh_request **req) {
    (void)port, (void)tag, (void)buf, (void)size, (void)opts;
    MUST(pe < MEMBERS);
    *req = NULL;
    return WH_OK;
}

static wh_status recv(whi_coll_port *port, uint32_t pe, uint64_t tag, void *buf, size_t size,
                      const wh_op_opts *opts, wh_request **req) {
    (void)port, (void)tag;
    MUST(pe < MEMBERS);
    *req = NULL;
    uint8_t length = take();
    if (length == LOST)
        return WH_EPEER;
    uint8_t message[LOST];
    for (uint8_t i = 0; i < length; i++)
        message[i] = take();
    const wh_type *type = opts->type ? opts->type : wh_type_basic(WH_TYPE_BYTE);
    size_t most = size * (size_t)wh_type_size(type), actual;
    MUST(wh_unpack(message, length < most ? length : most, buf, (int64_t)size, type, 0, 0,
                   &actual) == WH_OK);
    *opts->result = (wh_result){.status = WH_OK, .size = length};
    return length > most ? WH_ETRUNCATED : WH_OK;
}

static wh_status run(uint8_t kind, wh_team *team, wh_type *type, char *from, char *to,
                     wh_team **made, wh_request **req) {
    const wh_reduction *sum = WH_REDUCTION(.op = WH_REDUCE_SUM);
    switch (kind % 12) {
    case 0: return wh_coll_barrier(team, NULL, req);
    case 1: return wh_coll_broadcast(team, to, COUNT, type, 0, NULL, req);
    case 2: return wh_coll_broadcast(team, to, 8, NULL, 0, NULL, req);
    case 3: return wh_coll_reduce(team, from, to, COUNT, type, sum, 1, NULL, req);
    case 4: return wh_coll_allreduce(team, from, to, COUNT, type, sum, NULL, req);
    case 5: return wh_coll_scan(team, from, to, COUNT, type, sum, NULL, req);
    case 6: return wh_coll_exscan(team, from, to, COUNT, type, sum, NULL, req);
    case 7: return wh_coll_reduce_scatter(team, from, to, COUNT, type, sum, NULL, req);
    case 8: return wh_coll_gather(team, from, COUNT, type, to, COUNT, type, 1, NULL, req);
    case 9: return wh_coll_allgather(team, from, COUNT, type, to, COUNT, type, NULL, req);
    case 10: return wh_coll_alltoall(team, from, COUNT, type, to, COUNT, type, NULL, req);
    default: return wh_team_split(team, 1, 0, made, NULL, req);
    }
}

static void try_one(whi_coll_port *port, wh_type *type) {
    static char from[ROOM];
    char *to = calloc(1, ROOM);
    wh_team *team, *made = NULL;
    wh_request *req = NULL;
    uint8_t kind = take();
    port->message_bytes = kind & 0x80 ? 16 : 16384;
    MUST(to && whi_team_new(port, NULL, MEMBERS, 0, &team) == WH_OK);
    wh_status st = run(kind & 0x7f, team, type, from, to, &made, &req);
    MUST(st == WH_OK || (st == WH_PENDING && wh_request_status(req) < 0));
    MUST(port->under_way == 0);
    if (st == WH_PENDING)
        MUST(*wh_request_error(req) && !made);
    wh_request_free(req);
    wh_team_free(made);
    wh_team_free(team);
    free(to);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const whi_coll_port_ops ops = {.send = send, .recv = recv};
    static wh_worker *worker;
    static wh_type *type;
    if (!worker) {
        wh_context *ctx;
        MUST(wh_context_create(NULL, &ctx) == WH_OK);
        MUST(wh_worker_create(ctx, NULL, &worker) == WH_OK);
        MUST(wh_type_create_vector(2, 1, 3, wh_type_basic(WH_TYPE_INT32), &type) == WH_OK);
    }
    whi_coll_port port;
    whi_coll_port_init(&port, &ops, worker, 1, MEMBERS, 1);
    input.next = data;
    input.end = data + size;
    while (input.next < input.end)
        try_one(&port, type);
    return 0;
}
