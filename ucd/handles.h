// SPDX-License-Identifier: BSD-3-Clause
//
// Handles: numbers that stand for types and infos, and never an address that the caller could make up.
//
// A handle is a place in a table and the generation of that place, so a number that was never given
// out, or that was freed, is seen to be so.  Whoever uses what a handle stands for pins it meanwhile:
// another thread that frees the handle takes the number away at once, the thing when the last pin
// goes.  All functions may be called from any thread.
#ifndef UCD_HANDLES_H
#define UCD_HANDLES_H

#include <stdbool.h>
#include <stdint.h>

#include <wherry/type.h>

typedef enum whu_kind { WHU_TYPE, WHU_INFO } whu_kind;

// whu_new gives out a handle of `kind`; it takes over the reference to `type` (NULL for an info).
// Returns 0 when memory has run out; then the reference is dropped.  No handle is below 2^32.
uint64_t whu_new(whu_kind kind, wh_type *type);

// whu_pin keeps what `handle` stands for until whu_unpin; false when it is no living handle of `kind`.
bool whu_pin(uint64_t handle, whu_kind kind, const wh_type **type);
void whu_unpin(uint64_t handle);

// whu_set_stream gives an info a stream, whu_get_stream returns it; false: it is no living info, or has none.
bool whu_set_stream(uint64_t handle, void *stream);
bool whu_get_stream(uint64_t handle, void **stream);

// whu_free ends a handle; false when it is no living one of `kind`.
bool whu_free(uint64_t handle, whu_kind kind);

#endif
