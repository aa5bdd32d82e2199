// SPDX-License-Identifier: BSD-3-Clause
//
// The chares of a PE: made with the first thing that is registered, ended with the PE.
#include "rt/chare/checkpoint.h"

#include "base/alloc.h"

enum { ROUTES_MAX = 1 << 16, TOLD_MAX = 16 };

// ---- Messages that are no calls.

static void take_checkpoint(whi_chares *c, const whi_head *head, wh_pe_msg *msg) {
    wh_status st = WH_EPROTOCOL;
    switch ((whi_checkpoint_what)head->checkpoint.what) {
    case WHI_CHECKPOINT_ASK:
    case WHI_CHECKPOINT_WRITE:
    case WHI_CHECKPOINT_WROTE:
    case WHI_CHECKPOINT_DONE: st = whi_checkpoint_write_take(c, head, msg); break;
    case WHI_CHECKPOINT_READ:
    case WHI_CHECKPOINT_ELEMENT:
    case WHI_CHECKPOINT_FAILED: st = whi_checkpoint_read_take(c, head, msg); break;
    case WHI_CHECKPOINT_WHATS: break;
    }
    if (st != WH_OK)
        whi_pe_fail(c->pe, "a message about a checkpoint that PE %d has sent cannot be taken: %s",
                    msg->source, wh_status_text(st));
}

static void take(wh_pe *pe, wh_pe_msg *msg, void *arg) {
    whi_chares *c = arg;
    whi_head head;
    if (whi_head_decode(msg->head, msg->head_size, (uint32_t)msg->source, (uint32_t)pe->pes,
                        &head) != WH_OK ||
        head.kind <= WHI_HEADS_IN_ORDER) {
        whi_pe_fail(
            pe,
            "PE %d has sent a message for chares that is none: all processes must run the same program",
            msg->source);
        return;
    }
    switch ((whi_head_kind)head.kind) {
    case WHI_HEAD_CREATE: whi_collection_create(c, &head, msg); break;
    case WHI_HEAD_ELEMENT: whi_collection_element(c, &head, msg); break;
    case WHI_HEAD_BROADCAST: whi_broadcast_take(c, &head, msg); break;
    case WHI_HEAD_FUTURE: whi_future_take(c, &head, msg); break;
    case WHI_HEAD_FUNCTION: whi_function_take(c, &head, msg); break;
    case WHI_HEAD_READONLY: whi_readonly_take(c, &head, msg); break;
    case WHI_HEAD_ARRIVED: whi_follow_arrived(c, &head); break;
    case WHI_HEAD_SECTION: whi_section_take(c, &head, msg); break;
    case WHI_HEAD_REDUCE: whi_reduce_take(c, &head, msg); break;
    case WHI_HEAD_BALANCE: whi_balance_take(c, &head, msg); break;
    case WHI_HEAD_CHECKPOINT: take_checkpoint(c, &head, msg); break;
    case WHI_HEAD_CALL:
    case WHI_HEAD_CONTROL:
    case WHI_HEAD_STATE: break;
    }
}

// ---- Errors.

wh_status wh_chare_on_error(wh_pe *pe, wh_chare_error_fn fn, void *arg) {
    whi_chares *c = whi_chares_of(pe);
    if (!c)
        return WH_ENOMEM;
    c->error = fn;
    c->error_arg = arg;
    return WH_OK;
}

// ---- Life.

static void drop(void *state, whi_msg *msg) {
    whi_chares *c = state;
    whi_pool_put(&c->calls, msg->above);
    msg->above = NULL;
}

// Of what runs nothing is left: its threads have been ended.
static void destroy(void *state) {
    whi_chares *c = state;
    c->closing = true;
    whi_element_free_all(c);
    if (c->places)
        whi_places_destroy(c->places);
    whi_section_free_all(c);
    whi_collection_free_all(c);
    whi_call_free_gates(c);
    whi_gates_free(&c->states, NULL, NULL);
    whi_named_free_all(c);
    whi_future_free_all(c);
    whi_readonly_free_all(c);
    whi_hash_fini(&c->singles);
    whi_pool_fini(&c->calls);
    whi_free(c->serials);
    whi_checkpoint_free(c);
    c->pe->floors[WHI_FLOOR_CHARE].state = NULL;
    whi_free(c);
}

static void ends(void *state, bool failed) {
    whi_checkpoint_end(state, !failed);
}

static wh_status init(whi_chares *c, wh_pe *pe) {
    c->pe = pe;
    c->next_collection = WHI_COLLECTIONS_FIRST / (unsigned)pe->pes;
    whi_hash_init(&c->named);
    whi_hash_init(&c->collections);
    whi_hash_init(&c->gates);
    whi_hash_init(&c->states);
    whi_hash_init(&c->singles);
    whi_pool_init(&c->calls, sizeof(whi_call), 0, "calls of chares");
    whi_idmap_init(&c->futures);
    whi_queue_init(&c->readonly);
    whi_list_init(&c->dying);
    whi_list_init(&c->asked);
    whi_list_init(&c->reductions);
    whi_hash_init(&c->sections);
    whi_destroyed_init(&c->destroyed);
    whi_reduce_init(c);
    c->reduce.fire = whi_callback_fire;
    whi_balance_init(c);
    pe->floors[WHI_FLOOR_CHARE] = (whi_floor){.state = c,
                                              .drop = drop,
                                              .destroy = destroy,
                                              .ends = ends,
                                              .dump = whi_chares_dump,
                                              .awaited = whi_chares_awaited,
                                              .name = whi_chares_name};
    c->serials = whi_calloc((size_t)pe->pes, sizeof(*c->serials));
    whi_places_opts opts = {.self = (uint32_t)pe->number,
                            .pes = (uint32_t)pe->pes,
                            .routes_max = ROUTES_MAX,
                            .told_max = TOLD_MAX};
    wh_status st =
        c->serials ? whi_places_create(&opts, &whi_call_place_ops, c, &c->places) : WH_ENOMEM;
    if (st == WH_OK)
        st = whi_pe_handler_set(pe, WHI_PE_CHARES, take, c);
    if (st == WH_OK)
        st = whi_pe_handler_set(pe, WHI_PE_HEADS, whi_call_run, c);
    if (st == WH_OK && !whi_collection_find(c, WHI_SINGLES_ID))
        st = WH_ENOMEM;
    return st;
}

whi_chares *whi_chares_of(wh_pe *pe) {
    if (pe->floors[WHI_FLOOR_CHARE].state)
        return pe->floors[WHI_FLOOR_CHARE].state;
    whi_chares *c = whi_calloc(1, sizeof(*c));
    if (!c)
        return NULL;
    if (init(c, pe) != WH_OK) {
        destroy(c);
        return NULL;
    }
    whi_pe_set_control(pe, WHI_CONTROL_PLACES, whi_call_control, c);
    pe->heads = (whi_pe_heads){whi_call_arrive, whi_call_arrived, c};
    return c;
}
