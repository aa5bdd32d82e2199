// SPDX-License-Identifier: BSD-3-Clause
//
// A file that is being sent: opened, measured, and read part by part.
//
// A file's head says its size before its data, and files of the kernel (/proc, /sys) lie about it.
// One that says it is empty is read into memory first, if there is something in it; one that ends
// within its first part is as long as it turned out to be.  One thread uses a source.
#ifndef CLI_SOURCE_H
#define CLI_SOURCE_H

#include "cli/walk.h"

typedef struct source {
    int fd;
    uint64_t size;  // of what will be sent
    uint64_t at;    // how much has been read
} source;

// Functions return NULL, or why not, as text that lives until the next call.  source_open takes
// the size that was found by the walk; source_close ends what could be opened.
const char *source_open(source *self, const walk_at *at, uint64_t size);
void source_close(source *self);

// source_read reads the next part, at most `room` bytes: *got of them, less only at the end.
const char *source_read(source *self, void *to, size_t room, size_t *got);

#endif
