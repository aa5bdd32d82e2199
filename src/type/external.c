// SPDX-License-Identifier: BSD-3-Clause
//
// external32: the portable representation of the MPI standard.
//
// Integers are big-endian two's complement of fixed widths (a long has 4 bytes; types that the
// standard does not know keep their width), floats are big-endian IEEE; a long double is binary128.
// Converting a value that does not fit the narrower form keeps its low bytes.
#include <float.h>
#include <inttypes.h>
#include <string.h>

#include "type/on_device.h"
#include "type/pack.h"
#include "type/walk.h"

typedef struct converter {
    whi_visitor visitor;
    char *next;  // in the external bytes, which suffice
    bool unpack;
} converter;

// Copies a number of `width` bytes to one of `wide` big-endian bytes.
static void put_number(char *to, int wide, const char *from, int width, bool is_signed) {
    const unsigned char *bytes = (const unsigned char *)from;
    bool little = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
    unsigned char top = bytes[little ? width - 1 : 0];
    char fill = is_signed && top & 0x80 ? (char)0xff : 0;
    for (int i = 0; i < wide; i++)
        to[wide - 1 - i] = i < width ? (char)bytes[little ? i : width - 1 - i] : fill;
}

static void get_number(char *to, int width, const char *from, int wide, bool is_signed) {
    bool little = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
    char fill = is_signed && from[0] & 0x80 ? (char)0xff : 0;
    for (int i = 0; i < width; i++)
        to[little ? i : width - 1 - i] = i < wide ? from[wide - 1 - i] : fill;
}

#if LDBL_MANT_DIG == 64
// x87: sign and 15 bits of exponent as in binary128, then 64 bits of which the first is the one that
// binary128 leaves out.
static void put_long_double(char *to, const char *from) {
    uint64_t mantissa;
    uint16_t head;
    memcpy(&mantissa, from, sizeof(mantissa));
    memcpy(&head, from + sizeof(mantissa), sizeof(head));
    uint64_t fraction = mantissa << 1;
    memset(to, 0, 16);
    put_number(to, 2, (const char *)&head, 2, false);
    put_number(to + 2, 8, (const char *)&fraction, 8, false);
}

static void get_long_double(char *to, const char *from) {
    uint64_t fraction;
    uint16_t head;
    get_number((char *)&head, 2, from, 2, false);
    get_number((char *)&fraction, 8, from + 2, 8, false);
    uint64_t mantissa = fraction >> 1 | (uint64_t)((head & 0x7fff) != 0) << 63;
    memset(to, 0, sizeof(long double));
    memcpy(to, &mantissa, sizeof(mantissa));
    memcpy(to + sizeof(mantissa), &head, sizeof(head));
}
#else
static void put_long_double(char *to, const char *from) {
    put_number(to, 16, from, sizeof(long double), false);
}

static void get_long_double(char *to, const char *from) {
    get_number(to, sizeof(long double), from, 16, false);
}
#endif

// One number: `width` bytes here, `wide` bytes there.
static void convert(char *there, int wide, char *here, int width, unsigned type_class,
                    bool unpack) {
    bool is_signed = type_class == WHI_TYPE_CLASS_INT;
    if (type_class == WHI_TYPE_CLASS_FLOAT && width == sizeof(long double))
        (unpack ? get_long_double(here, there) : put_long_double(there, here));
    else if (unpack)
        get_number(here, width, there, wide, is_signed);
    else
        put_number(there, wide, here, width, is_signed);
}

static void convert_element(char *there, char *here, const whi_basic *basic, bool unpack) {
    int wide = basic->ext32, width = basic->size;
    if (basic->type_class == WHI_TYPE_CLASS_COMPLEX) {
        convert(there, wide / 2, here, width / 2, WHI_TYPE_CLASS_FLOAT, unpack);
        convert(there + wide / 2, wide / 2, here + width / 2, width / 2, WHI_TYPE_CLASS_FLOAT,
                unpack);
    } else if (basic->type_class == WHI_TYPE_CLASS_PAIR) {
        convert(there, wide - 4, here, basic->value, basic->value_class, unpack);
        convert(there + wide - 4, 4, here + basic->index_at, sizeof(int), WHI_TYPE_CLASS_INT,
                unpack);
    } else {
        convert(there, wide, here, width, basic->type_class, unpack);
    }
}

static bool convert_bytes(whi_visitor *visitor, uintptr_t at, int64_t size, uint8_t tag) {
    converter *self = (converter *)visitor;
    const whi_basic *basic = &whi_basics[tag];
    int64_t n = size / basic->size, wide = basic->ext32;
    for (int64_t i = 0; i < n; i++, at += basic->size, self->next += wide)
        convert_element(self->next, (char *)at, basic, self->unpack);
    return true;
}

static int64_t extent_of(const wh_type *type) {
    return type->at.ub - type->at.lb;
}

int64_t wh_external_size(int64_t count, const wh_type *type) {
    int64_t total = 0, size;
    if (whi_packed_check("wh_external_size", "", count, type, &total) != WH_OK)
        return -1;
    if (__builtin_mul_overflow(type->at.external, count, &size)) {
        (void)whi_type_fail(WH_EINVAL, "wh_external_size: count is %" PRId64 ", too large", count);
        return -1;
    }
    return size;
}

static wh_status run(const char *name, void *buf, int64_t count, const wh_type *type, char *packed,
                     size_t max, bool unpack, size_t *actual) {
    int64_t total = 0;
    const whi_plan *plan;
    wh_status status = whi_packed_check(name, buf, count, type, &total);
    if (status != WH_OK)
        return status;
    if (!actual || (!packed && total && max))
        return whi_type_fail(WH_EINVAL, "%s: %s is NULL", name, actual ? "packed" : "actual");
    int64_t need = wh_external_size(count, type);
    if (need < 0)
        return WH_EINVAL;
    if (whi_device_has((uintptr_t)buf, count, type, packed))
        return whi_type_fail(WH_ENOTSUP,
                             "%s: conversion is the host's, and a side is memory of a device: copy "
                             "it to the host (wh_mem_copy)",
                             name);
    if ((uint64_t)need > max)
        return whi_type_fail(WH_ETRUNCATED,
                             "%s: %s is %zu, but the elements take %" PRId64 " bytes", name,
                             unpack ? "size" : "max", max, need);
    status = whi_plan_get(type, WHI_TYPED, &plan);
    if (status != WH_OK)
        return status;
    converter self = {{whi_walk_grid, convert_bytes}, packed, unpack};
    (void)whi_walk(&self.visitor, &plan->normal, count, extent_of(type), (uintptr_t)buf, 0, total);
    *actual = (size_t)need;
    return WH_OK;
}

wh_status wh_external_pack(const void *buf, int64_t count, const wh_type *type, void *packed,
                           size_t max, size_t *actual) {
    return run("wh_external_pack", (void *)(uintptr_t)buf, count, type, packed, max, false, actual);
}

wh_status wh_external_unpack(const void *packed, size_t size, void *buf, int64_t count,
                             const wh_type *type, size_t *actual) {
    return run("wh_external_unpack", buf, count, type, (char *)(uintptr_t)packed, size, true,
               actual);
}
