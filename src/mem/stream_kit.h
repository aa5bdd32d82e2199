// SPDX-License-Identifier: BSD-3-Clause
//
// For the tests of streams: steps of one byte, with the kind of memory that the test has as `ops`.
#ifndef WHI_MEM_STREAM_KIT_H
#define WHI_MEM_STREAM_KIT_H

#include "base/test.h"
#include "mem/mem.h"

// put and look copy one byte to the device, and from it, at once.
static void put(char *ptr, char value) {
    CHECK_EQ_INT(ops->copy(WHI_MEM_FROM_HOST, ptr, &value, 1), WH_OK);
}

static char look(const char *ptr) {
    char value;
    CHECK_EQ_INT(ops->copy(WHI_MEM_TO_HOST, &value, ptr, 1), WH_OK);
    return value;
}

// record makes an event of all that was submitted to a stream so far; within submits a copy of one byte.
static whi_mem_event record(void *stream) {
    whi_mem_event event;
    CHECK_EQ_INT(ops->record(stream, &event), WH_OK);
    return event;
}

static void within(char *dst, const char *src, void *stream) {
    CHECK_EQ_INT(ops->copy_async(WHI_MEM_WITHIN, dst, src, 1, stream), WH_OK);
}

#endif
