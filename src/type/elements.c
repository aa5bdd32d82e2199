// SPDX-License-Identifier: BSD-3-Clause
//
// Where elements begin in packed bytes.
//
// All copies in a node but a struct are copies of one child, so a position is found by one division
// per level, and one pass over the members of a struct: the cost is that of the description, however
// many elements it stands for.
#include <inttypes.h>

#include "type/type.h"

// A position in the packed bytes: elements before it, and how far it reaches into the one that it cuts.
typedef struct position {
    int64_t basics;
    int64_t within;
    const whi_basic *cut;  // when `within` is not 0
} position;

// The member of a struct that holds byte *rest, which counts from that member on afterwards.
static const wh_type *find_member(const wh_type *type, int64_t *rest, int64_t *basics) {
    size_t i = 0;
    for (;; i++) {
        int64_t whole =
            type->children[i]->at.size ? type->args[1 + i] * type->children[i]->at.size : 0;
        if (*rest < whole)
            return type->children[i];
        *rest -= whole;
        *basics += whole ? type->args[1 + i] * type->children[i]->at.basics : 0;
    }
}

// `rest` is less than the size of the type.
static position find(const wh_type *type, int64_t rest) {
    position at = {0};
    while (rest && type->kind != WH_KIND_BASIC) {
        type =
            type->kind == WH_KIND_STRUCT ? find_member(type, &rest, &at.basics) : type->children[0];
        at.basics += rest / type->at.size * type->at.basics;
        rest %= type->at.size;
    }
    at.within = rest;
    at.cut = rest ? &whi_basics[type->id] : NULL;
    return at;
}

static wh_status prepare(const char *function, const wh_type *type, int64_t size, position *at) {
    wh_status status = whi_type_check(type, function, "type");
    if (status != WH_OK)
        return status;
    if (size < 0)
        return whi_type_fail(WH_EINVAL, "%s: size is %" PRId64 ", it must not be negative",
                             function, size);
    if (size > 0 && type->at.size == 0)
        return whi_type_fail(WH_EINVAL, "%s: size is %" PRId64 ", but the type holds no data",
                             function, size);
    *at = (position){0};
    if (size > 0) {
        *at = find(type, size % type->at.size);
        at->basics += size / type->at.size * type->at.basics;
    }
    return WH_OK;
}

wh_status wh_type_get_elements(const wh_type *type, int64_t size, int64_t *basics) {
    position at = {0};
    wh_status status = prepare("wh_type_get_elements", type, size, &at);
    if (status != WH_OK)
        return status;
    if (!basics)
        return whi_type_fail(WH_EINVAL, "wh_type_get_elements: basics is NULL");
    // Behind the value of a pair its index begins, an element of its own.
    bool between =
        at.cut && at.cut->type_class == WHI_TYPE_CLASS_PAIR && at.within == at.cut->value;
    if (at.cut && !between)
        return whi_type_fail(
            WH_EINVAL, "wh_type_get_elements: size is %" PRId64 ", which cuts an element", size);
    *basics = at.basics + between;
    return WH_OK;
}

wh_status wh_type_get_border(const wh_type *type, int64_t size, int64_t *border, int64_t *basics) {
    position at = {0};
    wh_status status = prepare("wh_type_get_border", type, size, &at);
    if (status != WH_OK)
        return status;
    if (!border)
        return whi_type_fail(WH_EINVAL, "wh_type_get_border: border is NULL");
    *border = size - at.within;
    if (basics)
        *basics = at.basics;
    return WH_OK;
}
