// SPDX-License-Identifier: BSD-3-Clause
//
// The files of the cache, see code_cache.h.
//
// A file is a header, the key and the code; its name is the hash of the key.  It is written under another name and renamed,
// so that who reads sees a whole one, and of two who write the same the later one stays.  All is done relative to a
// descriptor of the folder, whose owner and rights were looked at.
#include "mem/code_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/log.h"

enum { NAME_SIZE = 64, CODE_MAX = 16 << 20, KEY_MAX = 1 << 20 };
#define SUFFIX ".cubin"

typedef struct header {
    char magic[8];
    uint64_t key_size, code_size;
    uint64_t hash;  // of key and code
} header;

static const char magic[8] = "wherryC1";

// Says once why there is no cache.
static void refuse(const char *folder, const char *why) {
    static _Atomic bool said;
    if (!atomic_exchange(&said, true))
        whi_log(WHI_WARN, "W-CUDA-01",
                "compiled kernels are not kept in %s: %s; WHERRY_KERNEL_CACHE names another "
                "folder, or off",
                folder, why);
}

bool whi_code_cache_folder(const char *wanted, char *folder, size_t size) {
    // Not for a program that runs with the rights of another user: the variables are the caller's.
    const char *base = secure_getenv("XDG_CACHE_HOME"), *home = secure_getenv("HOME");
    if (!strcmp(wanted, "off"))
        return false;
    if (wanted[0] && wanted[0] != '/') {
        refuse(wanted, "its path must begin with /");
        return false;
    }
    int length = -1;
    if (wanted[0])
        length = snprintf(folder, size, "%s", wanted);
    else if (base && base[0] == '/')
        length = snprintf(folder, size, "%s/wherry", base);
    else if (home && home[0] == '/')
        length = snprintf(folder, size, "%s/.cache/wherry", home);
    return length > 0 && (size_t)length < size;
}

// Makes the folder and the one above it, as XDG demands.
static void make_folder(const char *folder) {
    char above[4096];
    const char *slash = strrchr(folder, '/');
    if (mkdir(folder, 0700) == 0 || errno != ENOENT || !slash || slash == folder ||
        (size_t)(slash - folder) >= sizeof(above))
        return;
    memcpy(above, folder, (size_t)(slash - folder));
    above[slash - folder] = 0;
    (void)!mkdir(above, 0700);
    (void)!mkdir(folder, 0700);
}

static int open_folder(const char *folder) {
    struct stat st;
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        make_folder(folder);
        fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    }
    const char *why = fd < 0 || fstat(fd, &st) != 0 ? strerror(errno)
                      : st.st_uid != geteuid()      ? "it belongs to another user"
                      : st.st_mode & 022            ? "others may write to it (chmod 700)"
                                                    : NULL;
    if (!why)
        return fd;
    refuse(folder, why);
    if (fd >= 0)
        close(fd);
    return -1;
}

static void name_of(const char *key, char *name) {
    snprintf(name, NAME_SIZE, "%016" PRIx64 SUFFIX, whi_hash_bytes(key, strlen(key)));
}

// ---- Reading.

static bool is_ours(int fd) {
    struct stat st;
    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
           !(st.st_mode & 022);
}

// Key and code, in one piece; the sizes are bounded before memory is taken for them.
static char *read_rest(int fd, const char *key, const header *h) {
    size_t key_size = strlen(key);
    struct stat st;
    if (memcmp(h->magic, magic, sizeof(magic)) != 0 || h->key_size != key_size || !h->code_size ||
        h->code_size > CODE_MAX || fstat(fd, &st) != 0 ||
        (uint64_t)st.st_size != sizeof(*h) + key_size + h->code_size)
        return NULL;
    char *rest = whi_malloc(key_size + h->code_size);
    if (!rest || !whi_read_all(fd, rest, key_size + h->code_size) ||
        memcmp(rest, key, key_size) != 0 ||
        whi_hash_bytes(rest, key_size + h->code_size) != h->hash) {
        whi_free(rest);
        return NULL;
    }
    return rest;
}

bool whi_code_cache_get(const whi_code_cache *cache, const char *key, void **code, size_t *size) {
    char name[NAME_SIZE];
    header h;
    int folder = cache->folder ? open_folder(cache->folder) : -1;
    if (folder < 0)
        return false;
    name_of(key, name);
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    char *rest =
        fd >= 0 && is_ours(fd) && whi_read_all(fd, &h, sizeof(h)) ? read_rest(fd, key, &h) : NULL;
    if (rest) {
        (void)!utimensat(folder, name, NULL, 0);  // what is used stays longest
        memmove(rest, rest + h.key_size, h.code_size);
        *code = rest;
        *size = h.code_size;
    }
    if (fd >= 0)
        close(fd);
    close(folder);
    return rest;
}

// ---- Writing.

// Whether a name is one that is made here: a folder of the user's may have other files.
static bool is_of_cache(const char *name) {
    static const char digits[] = "0123456789abcdef";
    size_t length = strspn(name, digits);
    if (length == 16 && !strcmp(name + length, SUFFIX))
        return true;
    const char *turn = name + length + 1;
    return length && name[length] == '-' && !strcmp(turn + strspn(turn, digits), SUFFIX ".draft");
}

// Removes the oldest file when all together are too many bytes; false: they are not, or it cannot.
static bool remove_oldest(int folder, uint64_t most) {
    int again = dup(folder);
    DIR *dir = again >= 0 ? fdopendir(again) : NULL;
    char oldest[NAME_SIZE] = "";
    struct timespec when = {0};
    uint64_t sum = 0;
    if (!dir) {
        if (again >= 0)
            close(again);
        return false;
    }
    rewinddir(dir);  // the position is shared with `folder`
    for (struct dirent *entry; (entry = readdir(dir));) {
        struct stat st;
        if (!is_of_cache(entry->d_name) || strlen(entry->d_name) >= NAME_SIZE ||
            fstatat(folder, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        bool older = st.st_mtim.tv_sec < when.tv_sec ||
                     (st.st_mtim.tv_sec == when.tv_sec && st.st_mtim.tv_nsec < when.tv_nsec);
        sum += (uint64_t)st.st_size;
        if (!oldest[0] || older) {
            strcpy(oldest, entry->d_name);
            when = st.st_mtim;
        }
    }
    closedir(dir);
    return sum > most && unlinkat(folder, oldest, 0) == 0;
}

static bool write_file(int fd, const char *key, const void *code, size_t size) {
    size_t key_size = strlen(key);
    header h = {.key_size = key_size, .code_size = size};
    char *both = whi_malloc(key_size + size);
    if (!both)
        return false;
    memcpy(h.magic, magic, sizeof(magic));
    memcpy(both, key, key_size);
    memcpy(both + key_size, code, size);
    h.hash = whi_hash_bytes(both, key_size + size);
    bool written = whi_write_all(fd, &h, sizeof(h)) && whi_write_all(fd, both, key_size + size);
    whi_free(both);
    return written;
}

void whi_code_cache_put(const whi_code_cache *cache, const char *key, const void *code,
                        size_t size) {
    static _Atomic unsigned turn;
    char name[NAME_SIZE], draft[NAME_SIZE];
    int folder = cache->folder && size && size <= CODE_MAX && strlen(key) <= KEY_MAX &&
                         sizeof(header) + strlen(key) + size <= cache->most
                     ? open_folder(cache->folder)
                     : -1;
    if (folder < 0)
        return;
    name_of(key, name);
    snprintf(draft, sizeof(draft), "%d-%u" SUFFIX ".draft", getpid(), atomic_fetch_add(&turn, 1));
    int fd = openat(folder, draft, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    bool written = fd >= 0 && write_file(fd, key, code, size);
    if (fd >= 0 && (close(fd) != 0 || !written || renameat(folder, draft, folder, name) != 0))
        (void)!unlinkat(folder, draft, 0);
    while (remove_oldest(folder, cache->most)) {
    }
    close(folder);
}
