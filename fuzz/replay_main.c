// SPDX-License-Identifier: BSD-3-Clause
//
// The main of a fuzz target that is not built with libFuzzer: it replays saved inputs.
//
// Each argument is a file, or a folder whose files are all taken (in name order, so that a failure
// repeats).  Each input is copied into an allocation of exactly its size, so that the address
// sanitizer sees a read past its end.  A run without any input fails: a lost corpus must not pass.
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned replayed;

static void fail(const char *path) {
    fprintf(stderr, "%s: %s\n", path, strerror(errno));
    exit(1);
}

static void replay_file(const char *path, size_t size) {
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(size);
    if (!file || (!data && size > 0))
        fail(path);
    if (fread(data, 1, size, file) != size)
        fail(path);
    fclose(file);

    // Said before the call: after a crash the last line names the input.
    fprintf(stderr, "%s (%zu bytes)\n", path, size);
    LLVMFuzzerTestOneInput(data, size);
    free(data);
    replayed++;
}

static int not_hidden(const struct dirent *entry) {
    return entry->d_name[0] != '.';
}

static void replay(const char *path) {
    struct stat info;
    if (stat(path, &info) != 0)
        fail(path);
    if (!S_ISDIR(info.st_mode)) {
        replay_file(path, (size_t)info.st_size);
        return;
    }

    struct dirent **entries;
    int count = scandir(path, &entries, not_hidden, alphasort);
    if (count < 0)
        fail(path);
    for (int i = 0; i < count; i++) {
        char *child;
        if (asprintf(&child, "%s/%s", path, entries[i]->d_name) < 0)
            fail(path);
        replay(child);
        free(child);
        free(entries[i]);
    }
    free(entries);
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        replay(argv[i]);
    printf("%u inputs replayed\n", replayed);
    return replayed > 0 ? 0 : 1;
}
