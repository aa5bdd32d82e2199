// SPDX-License-Identifier: BSD-3-Clause
//
// See frame.h.
#include "cli/run/frame.h"

#include <string.h>

enum { NUMBER_SIZE = 4 };

static const struct {
    uint32_t least, most;
} sizes[FRAME_TYPES] = {
    [FRAME_HELLO] = {sizeof FRAME_GREETING - 1, sizeof FRAME_GREETING - 1},
    [FRAME_JOB] = {1, FRAME_JOB_MAX},
    [FRAME_STARTED] = {NUMBER_SIZE, NUMBER_SIZE},
    [FRAME_REFUSED] = {NUMBER_SIZE, NUMBER_SIZE},
    [FRAME_PMI] = {0, FRAME_LINE_MAX},
    [FRAME_IN] = {0, FRAME_DATA_MAX},
    [FRAME_OUT] = {0, FRAME_DATA_MAX},
    [FRAME_ERR] = {0, FRAME_DATA_MAX},
    [FRAME_CREDIT] = {NUMBER_SIZE, NUMBER_SIZE},
    [FRAME_SIGNAL] = {NUMBER_SIZE, NUMBER_SIZE},
    [FRAME_END] = {NUMBER_SIZE, NUMBER_SIZE},
    [FRAME_EXITED] = {NUMBER_SIZE, NUMBER_SIZE},
    [FRAME_STOPPED] = {NUMBER_SIZE, NUMBER_SIZE},
    [FRAME_GONE] = {0, 0},
    [FRAME_TRACE] = {0, FRAME_DATA_MAX},
};

static void put32(uint8_t *to, uint32_t number) {
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(number >> 8 * i);
}

static uint32_t get32(const uint8_t *from) {
    return from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
}

int frame_read(const uint8_t *bytes, size_t size, frame *read) {
    // Of a head that has not all come, what is there must be right: a greeting may be shorter than one.
    if ((size > 0 && bytes[0] != 'w') || (size > 1 && bytes[1] != 'r') ||
        (size > 2 && bytes[2] >= FRAME_TYPES) || (size > 3 && bytes[3] != 0))
        return -1;
    if (size < FRAME_HEAD_SIZE)
        return 0;
    frame_type type = (frame_type)bytes[2];
    uint32_t length = get32(bytes + 8);
    if (length < sizes[type].least || length > sizes[type].most)
        return -1;
    if (size - FRAME_HEAD_SIZE < length)
        return 0;
    if (type == FRAME_HELLO && memcmp(bytes + FRAME_HEAD_SIZE, FRAME_GREETING, length) != 0)
        return -1;
    *read = (frame){type, get32(bytes + 4), length, bytes + FRAME_HEAD_SIZE};
    return FRAME_HEAD_SIZE + (int)length;
}

void frame_write(buffer *to, frame_type type, uint32_t rank, const void *bytes, size_t size) {
    uint8_t head[FRAME_HEAD_SIZE] = {'w', 'r', (uint8_t)type};
    put32(head + 4, rank);
    put32(head + 8, (uint32_t)size);
    buffer_add(to, head, sizeof head);
    buffer_add(to, bytes, size);
}

void frame_write_number(buffer *to, frame_type type, uint32_t rank, uint32_t number) {
    uint8_t bytes[NUMBER_SIZE];
    put32(bytes, number);
    frame_write(to, type, rank, bytes, sizeof bytes);
}

uint32_t frame_number(const frame *read) {
    return get32(read->bytes);
}
