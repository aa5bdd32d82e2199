// SPDX-License-Identifier: BSD-3-Clause
//
// Names and reasons for the log: what a program calls its elements, and why a call of chares is refused.
//
// All of it is cold: it is asked when something is wrong.
#ifndef WHI_RT_CHARE_WHY_H
#define WHI_RT_CHARE_WHY_H

#include <wherry/section.h>

#include "rt/chare/chares.h"
#include "rt/chare/partial.h"
#include "rt/pe/refuse.h"

// A piece of a sentence, to be used where it is returned: whi_say_proxy(c, &proxy).text.
typedef struct whi_text {
    char text[320];
} whi_text;

// ---- Names.

// whi_say_proxy: "element (3, 4) of the array of class cell".  What this PE does not know of it is left out.
WHI_COLD whi_text whi_say_proxy(const whi_chares *c, const wh_proxy *proxy);
WHI_COLD whi_text whi_say_key(const whi_chares *c, const whi_place_key *key);
WHI_COLD whi_text whi_say_collection(const whi_chares *c, uint32_t collection);

// whi_say_entry: "entry tell", or "entry 9" where no class is known, or it has none of that number.
WHI_COLD whi_text whi_say_entry(const whi_chares *c, const wh_proxy *proxy, unsigned entry);
WHI_COLD whi_text whi_say_entries(const wh_class *cls);                     // all of them
WHI_COLD whi_text whi_say_names(const whi_chares *c, whi_named_kind kind);  // that are known
WHI_COLD whi_text whi_say_callback(const whi_chares *c, const wh_callback *callback);
WHI_COLD whi_text whi_say_type(wh_type_id type);

// ---- Reasons.  An empty one: the call is not refused because of a mistake, and nothing is to be logged.

WHI_COLD whi_text whi_why_proxy(const wh_pe *pe, const wh_proxy *proxy);
WHI_COLD whi_text whi_why_send(const wh_pe *pe, const wh_proxy *proxy, unsigned entry,
                               const void *args, size_t size, const wh_send_opts *opts,
                               wh_status status);
WHI_COLD whi_text whi_why_callback(const wh_pe *pe, const wh_callback *callback, const void *value,
                                   size_t size, wh_status status);
WHI_COLD whi_text whi_why_array(const wh_array_opts *opts);
WHI_COLD whi_text whi_why_contribution(const whi_chares *c, const wh_contribution *parts,
                                       size_t count, const wh_callback *callback);

// whi_why_differ says in what two contributions to one reduction differ.
WHI_COLD whi_text whi_why_differ(const whi_chares *c, const whi_partial *one,
                                 const whi_partial *other);

// ---- Refusals.  All return the status that they are given, or the only one there is.

WHI_COLD wh_status whi_refuse_unregistered(const wh_pe *pe, const char *call, wh_status status);
// whi_refuse_name: nothing has been registered by that name.
WHI_COLD wh_status whi_refuse_name(const whi_chares *c, const char *call, whi_named_kind kind,
                                   const char *name);
// whi_refuse_proxy and whi_refuse_send log nothing where the status is no mistake of the caller's.
WHI_COLD wh_status whi_refuse_proxy(const wh_pe *pe, const char *call, const wh_proxy *proxy,
                                    wh_status status);
WHI_COLD wh_status whi_refuse_entry(const whi_element *element, const char *call, unsigned entry);
WHI_COLD wh_status whi_refuse_wait(const wh_pe *pe, const char *call);
WHI_COLD wh_status whi_refuse_section(const char *call, const wh_section *section);
WHI_COLD wh_status whi_refuse_reduction(const wh_chare *self, const char *call, wh_status status);

#endif
