// SPDX-License-Identifier: BSD-3-Clause
//
// The directory that received files go to.
//
// Names come from strangers.  A name is checked, then walked component by component without
// following links, so that no link, sent or planted, leads out of the directory.  A file is
// written under a temporary name next to its final one and renamed when it is whole, so that nobody
// ever sees half of it.  Whoever writes a file holds its lock: that, and not the process number in
// its name, tells what was left by a receiver that is gone, because the next one in a container
// may have the same number.  Functions return NULL when it worked, else why not, as text that
// lives until the next call.  One thread uses a store and its files.
#ifndef CLI_STORE_H
#define CLI_STORE_H

#include "cli/trail.h"
#include "cli/transfer.h"

typedef struct store {
    int root;         // the directory
    unsigned serial;  // of temporary names
} store;

// Where one sender is in the directory: names that follow one another mostly share their way.
typedef struct store_place {
    store *store;
    trail trail;
    char way[TRANSFER_NAME_MAX + 1];  // of the trail's current directory; "" at the top
} store_place;

typedef struct store_file {
    int fd;      // -1: none is open
    int parent;  // the directory that it is in
    char leaf[256], temporary[64];
} store_file;

// store_open opens the directory and makes it if need be; store_close is its end.
const char *store_open(store *self, const char *path);
void store_close(store *self);

// store_place_init makes a place, which costs nothing until it is used; store_place_fini closes it.
void store_place_init(store_place *self, store *to);
void store_place_fini(store_place *self);

const char *store_dir(store_place *at,
                      const transfer_entry *entry);  // makes it, if it is not there
const char *store_leave(store_place *at, const transfer_entry *entry);  // sets its mode and time
const char *store_link(store_place *at, const transfer_entry *entry);

// store_sweep removes what receivers that were killed have left in the directory and below: regular
// files with the name of a temporary one, which belong to this user and whose lock nobody holds.
// Returns how many.
unsigned store_sweep(const store *self);

// store_begin starts a file; store_write appends; then either store_finish gives it its name, mode
// and time, or store_drop removes what there is.  store_finish drops the file when it fails.
const char *store_begin(store_place *at, const transfer_entry *entry, store_file *file);
const char *store_write(store_file *file, const void *bytes, size_t size);
const char *store_finish(store_file *file, const transfer_entry *entry);
void store_drop(store_file *file);

#endif
