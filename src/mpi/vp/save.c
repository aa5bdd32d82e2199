// SPDX-License-Identifier: BSD-3-Clause
//
// Checkpoints: the ranks of a job in files.
//
// A folder has checkpoints by number, each a folder with a file for each rank, and a file `latest`, which says the number of the last one that is
// whole.  It takes the place of the one before it in one step, so whenever the job ends there is a whole one.  All of them end with a sum: what
// a disk has changed since is refused, before anything of it is used.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mpi/base/hash.h"
#include "mpi/type/type.h"
#include "mpi/vp/movable.h"

typedef struct latest {
    unsigned long long number;
    int ranks;
    uint64_t fingerprint, canary;
} latest;

static void path_of(char *path, const char *folder, unsigned long long number, int world) {
    snprintf(path, PATH_MAX, "%s/%llu/rank-%d", folder, number, world);
}

static bool complain(const char *what, const char *path) {
    fprintf(stderr, "MPIX_Checkpoint: %s %s: %s\n", what, path, strerror(errno));
    return false;
}

// ---- Which is the last one.

enum { LINE_SIZE = 200 };

static int make_line(char line[LINE_SIZE], const latest *l) {
    int size = snprintf(line, LINE_SIZE, "checkpoint %llu ranks %d of %" PRIx64 " %" PRIx64,
                        l->number, l->ranks, l->fingerprint, l->canary);
    return size + snprintf(line + size, LINE_SIZE - (size_t)size, " sum %" PRIx64 "\n",
                           whm_hash_more(WHM_HASH_BEGIN, line, (size_t)size));
}

static bool read_latest(const char *folder, latest *l) {
    char path[PATH_MAX], line[LINE_SIZE] = "", written[LINE_SIZE];
    snprintf(path, sizeof(path), "%s/latest", folder);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? -1 : read(fd, line, sizeof(line) - 1);
    if (fd >= 0)
        close(fd);
    return size > 0 &&
           sscanf(line, "checkpoint %llu ranks %d of %" SCNx64 " %" SCNx64, &l->number, &l->ranks,
                  &l->fingerprint, &l->canary) == 4 &&
           make_line(written, l) == size && strcmp(line, written) == 0;
}

static bool write_latest(const char *folder, const latest *l) {
    char path[PATH_MAX], fresh[PATH_MAX], line[LINE_SIZE];
    snprintf(path, sizeof(path), "%s/latest", folder);
    snprintf(fresh, sizeof(fresh), "%s/latest.new", folder);
    int size = make_line(line, l);
    int fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool good = fd >= 0 && write(fd, line, (size_t)size) == size && fsync(fd) == 0;
    if (fd >= 0)
        close(fd);
    return (good && rename(fresh, path) == 0) || complain("cannot write", path);
}

static void forget(const char *folder, unsigned long long number) {
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%llu", folder, number);
    DIR *all = opendir(path);
    for (struct dirent *e; all && (e = readdir(all));)
        if (!strncmp(e->d_name, "rank-", 5))
            (void)unlinkat(dirfd(all), e->d_name, 0);
    if (all)
        closedir(all);
    (void)rmdir(path);
}

// ---- A rank's file.

static bool write_part(void *arg, void *data, size_t size) {
    int fd = *(int *)arg;
    for (char *at = data; size;) {
        ssize_t n = write(fd, at, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        at += n;
        size -= (size_t)n;
    }
    return true;
}

static bool read_part(void *arg, void *data, size_t size) {
    int fd = *(int *)arg;
    for (char *at = data; size;) {
        ssize_t n = read(fd, at, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += n;
        size -= (size_t)n;
    }
    return true;
}

// sum_of reads the first bytes of a file.  By words, as whm_hash_more's bytes take eight times as long; each step can be undone, so no change of a
// single word is lost.
static bool sum_of(int fd, off_t size, uint64_t *sum) {
    uint64_t words[1024];
    *sum = (uint64_t)size;
    if (lseek(fd, 0, SEEK_SET) != 0)
        return false;
    while (size > 0) {
        size_t part = size < (off_t)sizeof(words) ? (size_t)size : sizeof(words);
        size_t count = (part + 7) / 8;
        words[count - 1] = 0;  // the part may end in it
        if (!read_part(&fd, words, part))
            return false;
        for (size_t i = 0; i < count; i++) {
            *sum = (*sum ^ words[i]) * 0x9e3779b97f4a7c15;
            *sum ^= *sum >> 32;
        }
        size -= (off_t)part;
    }
    return true;
}

static bool end_file(int fd) {
    uint64_t sum;
    return sum_of(fd, lseek(fd, 0, SEEK_CUR), &sum) && write_part(&fd, &sum, sizeof(sum)) &&
           fsync(fd) == 0;
}

static bool is_whole(int fd) {
    struct stat s;
    uint64_t sum, written;
    return fstat(fd, &s) == 0 && s.st_size > (off_t)sizeof(sum) &&
           sum_of(fd, s.st_size - (off_t)sizeof(sum), &sum) &&
           read_part(&fd, &written, sizeof(written)) && sum == written &&
           lseek(fd, 0, SEEK_SET) == 0;
}

static bool save_rank(const char *folder, unsigned long long number, whm_mover *who) {
    char path[PATH_MAX];
    path_of(path, folder, number, who->rank.world);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return complain("cannot create", path);
    who->restarted = true;  // who reads it
    bool good = whm_pack_rank(who, write_part, &fd) && end_file(fd);
    who->restarted = false;
    good = good || complain("cannot write", path);
    close(fd);
    whm_need(whm_types_unflatten(&who->rank) == MPI_SUCCESS ? WH_OK : WH_ENOMEM,
             "the types of a rank that was saved cannot be made again");
    return good;
}

// ---- Saving.

static bool begin_folder(const char *folder, unsigned long long number) {
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%llu", folder, number);
    bool good = (mkdir(folder, 0700) == 0 || errno == EEXIST) &&
                (mkdir(path, 0700) == 0 || errno == EEXIST);
    return good || complain("cannot create", path);
}

bool whm_save(const char *folder) {
    const whm_movable *m = &whm_movable_here;
    latest before = {0}, l = {.ranks = whm_process_here.ranks,
                              .fingerprint = m->fingerprint,
                              .canary = m->canary};
    bool first = wh_rt_rank(whm_process_here.rt) == 0;
    if (first)
        (void)read_latest(folder, &before);
    l.number = (unsigned long long)whm_processes_agree((int64_t)before.number, WH_REDUCE_MAX) + 1;
    // Each host may have a folder of its own.
    bool good = begin_folder(folder, l.number);
    for (int i = 0; i < l.ranks && good; i++)
        if (m->here[i] && !m->here[i]->ended)
            good = save_rank(folder, l.number, m->here[i]);
    good = whm_processes_agree(good, WH_REDUCE_MIN) != 0;
    if (good && first)
        good = write_latest(folder, &l);
    good = whm_processes_agree(good, WH_REDUCE_MIN) != 0;
    if (first)
        forget(folder, good ? before.number : l.number);
    return good;
}

// ---- Restarting.

void whm_restart(const char *folder) {
    whm_movable *m = &whm_movable_here;
    latest l;
    if (!read_latest(folder, &l))
        whm_refuse_run("there is no whole checkpoint in %s", folder);
    if (l.ranks != whm_process_here.ranks)
        whm_refuse_run("the checkpoint in %s is of %d ranks: start it with -vp %d", folder, l.ranks,
                       l.ranks);
    if (l.fingerprint != m->fingerprint)
        whm_refuse_run("the checkpoint in %s was written by another program, or with other "
                       "libraries, or at other addresses, or on a processor of another kind, or "
                       "with stacks of another size",
                       folder);
    m->canary = l.canary;
}

void whm_restore(const char *folder, int first, int count) {
    char path[PATH_MAX];
    latest l;
    if (!read_latest(folder, &l))
        whm_refuse_run("there is no whole checkpoint in %s any more", folder);
    for (int i = first; i < first + count; i++) {
        path_of(path, folder, l.number, i);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            whm_refuse_run("the checkpoint lacks %s: %s", path, strerror(errno));
        if (!is_whole(fd) || !whm_unpack_rank(i, read_part, &fd))
            whm_refuse_run("%s is not whole, or was changed since it was written", path);
        close(fd);
    }
}
