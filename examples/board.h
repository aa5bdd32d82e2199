// SPDX-License-Identifier: BSD-3-Clause
//
// What lies in the memory that board_server shares and board_client writes.
#ifndef EXAMPLES_BOARD_H
#define EXAMPLES_BOARD_H

#include <stdint.h>

enum { KEY = 1, BOARD_LINES = 1000, BOARD_WIDTH = 56 };

typedef struct board {
    uint64_t lines;  // taken so far
    struct {
        uint64_t finished;  // 1 once the text is whole
        char text[BOARD_WIDTH];
    } line[BOARD_LINES];
} board;

#endif
