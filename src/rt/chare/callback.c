// SPDX-License-Identifier: BSD-3-Clause
//
// Callbacks, and the functions that they can name.
#include "rt/chare/why.h"

wh_status whi_callback_fire(wh_pe *pe, const wh_callback *callback, const void *value,
                            size_t size) {
    whi_chares *c = whi_chares_of(pe);
    if (!c)
        return WH_ENOMEM;
    if (size && !value)
        return WH_EINVAL;
    whi_head head = {.kind = WHI_HEAD_FUNCTION,
                     .value = {.id = callback->function, .ref = callback->ref}};
    int32_t status = 0;
    switch (callback->kind) {
    case WH_CALLBACK_NONE: return WH_OK;
    case WH_CALLBACK_SEND:
        return whi_chare_send(pe, &callback->proxy, callback->entry, value, size,
                              WH_SEND_OPTS(.ref = callback->ref));
    case WH_CALLBACK_FUNCTION: return whi_chares_tell(c, callback->pe, &head, value, size);
    case WH_CALLBACK_FUTURE: return whi_future_set(c, &callback->future, value, size);
    case WH_CALLBACK_EXIT:
        if (size == sizeof(status))
            memcpy(&status, value, size);
        wh_pe_exit(pe, status);
        return WH_OK;
    }
    return WH_EINVAL;
}

WHI_COLD static wh_status refuse(const wh_pe *pe, const wh_callback *callback, const void *value,
                                 size_t size, wh_status st) {
    whi_text why = whi_why_callback(pe, callback, value, size, st);
    return *why.text ? whi_refuse(st, "E-CHARE-08", "wh_callback_fire: %s", why.text) : st;
}

wh_status wh_callback_fire(wh_pe *pe, const wh_callback *callback, const void *value, size_t size) {
    wh_status st = whi_callback_fire(pe, callback, value, size);
    return __builtin_expect(st == WH_OK, 1) ? st : refuse(pe, callback, value, size, st);
}

void whi_function_take(whi_chares *c, const whi_head *head, wh_pe_msg *msg) {
    const whi_named *named = whi_named_find(c, head->value.id, WHI_NAMED_FUNCTION);
    if (!named) {
        whi_chares_error(
            c, NULL,
            "PE %d has a callback to a function that is not registered here: register functions "
            "on all PEs, first of all in the main function; there are: %s",
            msg->source, whi_say_names(c, WHI_NAMED_FUNCTION).text);
        return;
    }
    wh_call call = {.struct_size = sizeof(call),
                    .args = msg->data,
                    .size = msg->size,
                    .ref = head->value.ref,
                    .source = msg->source};
    named->function(c->pe, &call, named->arg);
}
