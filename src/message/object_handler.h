// SPDX-License-Identifier: BSD-3-Clause
//
// The worker's handler of objects: a receive from any source that is always posted, behind all others.
#ifndef WHI_MESSAGE_OBJECT_HANDLER_H
#define WHI_MESSAGE_OBJECT_HANDLER_H

#include "message/endpoint.h"

// whi_object_handler_busy says whether the handler is about to be called with an object of this endpoint.
static inline bool whi_object_handler_busy(const wh_endpoint *ep) {
    whi_list *node = whi_list_first(&ep->handled);
    return node && whi_messages_of(ep->worker)->object_fn && !ep->user_gone &&
           whi_container_of(node, wh_request, free_link)->stage == WHI_STAGE_DONE;
}

// whi_object_handler_init sets up what the room asks of it.
void whi_object_handler_init(wh_worker *worker);

// whi_object_handler_look goes on with what memory was wanting for; whi_object_handler_next_look says when.
void whi_object_handler_look(wh_worker *worker);
uint64_t whi_object_handler_next_look(const wh_worker *worker);

// whi_object_handler_end unsets the handler for good: its worker ends.
void whi_object_handler_end(wh_worker *worker);

#endif
