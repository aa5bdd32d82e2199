// SPDX-License-Identifier: BSD-3-Clause
//
// PMI-1, the wire protocol of `wherry run`, hydra and Slurm: lines of key=value over a descriptor that PMI_FD names.
//
// Each request has one line for an answer.  A launcher that has gone is an end of file, so no answer is waited for in vain;
// how long an exchange takes is the other processes' affair.  No request is longer than the 1024 bytes of which MPICH's
// clients have always made theirs: Slurm reads no more at once, and hangs, though it offers values of that length.
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "rt/boot/ops.h"

enum {
    NAME_LEAST = 32,
    NAME_MOST = 64,
    TEXT_LEAST = 64,
    KVS_MAX = 256,
    REQUEST_MAX = 1023,
    PUT_WORDS = sizeof("cmd=put kvsname= key= value=\n") - 1,
    ANSWER_MAX = 4096,
};

typedef struct pmi1 {
    int fd;
    char kvs[KVS_MAX + 1];  // the name of the job's store
    char line[ANSWER_MAX];  // the last one that came, from its first byte on
    size_t used, taken;     // bytes that were read, and of those the last line's
} pmi1;

static wh_status gone(void) {
    whi_log(WHI_ERROR, "E-BOOT-02", "the connection to the launcher (PMI_FD) is closed");
    return WH_EPEER;
}

static wh_status strange(const char *what, const char *line) {
    whi_log(WHI_ERROR, "E-BOOT-03", "the launcher answered '%.100s' where %s was expected (PMI-1)",
            line, what);
    return WH_EPROTOCOL;
}

static wh_status say(pmi1 *p, const char *text, size_t size) {
    while (size) {
        // A launcher that has gone is an error, and no signal; some launchers give a pipe.
        ssize_t n = send(p->fd, text, size, MSG_NOSIGNAL);
        if (n < 0 && errno == ENOTSOCK)
            n = write(p->fd, text, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return gone();
        text += n;
        size -= (size_t)n;
    }
    return WH_OK;
}

// hear reads one line into p->line, without its end.
static wh_status hear(pmi1 *p) {
    memmove(p->line, p->line + p->taken, p->used - p->taken);
    p->used -= p->taken;
    p->taken = 0;
    for (;;) {
        char *end = memchr(p->line, '\n', p->used);
        if (end) {
            *end = '\0';
            p->taken = (size_t)(end - p->line) + 1;
            return strlen(p->line) == p->taken - 1 ? WH_OK : strange("a text", p->line);
        }
        if (p->used == sizeof(p->line))
            return strange("a line", "(a line without an end)");
        ssize_t n = read(p->fd, p->line + p->used, sizeof(p->line) - p->used);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return gone();
        p->used += (size_t)n;
    }
}

// value_of finds key=value among the words of the last line; the value is ended there.
static char *value_of(const pmi1 *p, const char *key, char *into, size_t max) {
    size_t length = strlen(key);
    for (const char *word = p->line; word; word = strchr(word, ' ')) {
        word += strspn(word, " ");
        if (strncmp(word, key, length) == 0 && word[length] == '=') {
            size_t size = strcspn(word + length + 1, " ");
            if (size > max)
                return NULL;
            memcpy(into, word + length + 1, size);
            into[size] = '\0';
            return into;
        }
        if (!*word)
            break;
    }
    return NULL;
}

// ask says a line and hears the answer, which has to be of the command `answer`.
static wh_status ask(pmi1 *p, const char *line, size_t size, const char *answer) {
    char cmd[64];
    wh_status st = say(p, line, size);
    if (st == WH_OK)
        st = hear(p);
    if (st != WH_OK)
        return st;
    const char *got = value_of(p, "cmd", cmd, sizeof(cmd) - 1);
    return got && strcmp(got, answer) == 0 ? WH_OK : strange(answer, p->line);
}
#define ASK(p, line, answer) ask((p), line "\n", sizeof(line "\n") - 1, (answer))

// parse reads a number between limits; NULL is none.  The caller's errno stays: no call of a library sets it to 0.
static bool parse(const char *text, long least, long most, long *number) {
    char *end;
    if (!text || !*text)
        return false;
    int before = errno;
    errno = 0;
    *number = strtol(text, &end, 10);
    bool fits = !errno;
    errno = before;
    return fits && !*end && *number >= least && *number <= most;
}

// number_of reads a number of the last line.
static bool number_of(const pmi1 *p, const char *key, long least, long most, long *number) {
    char text[24];
    return parse(value_of(p, key, text, sizeof(text) - 1), least, most, number);
}

static bool went_well(const pmi1 *p) {
    long rc;
    return number_of(p, "rc", 0, 0, &rc);
}

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

static wh_status begin(whi_boot_job *job, pmi1 *p) {
    long name_max, text_max, kvs_max;
    wh_status st = ASK(p, "cmd=init pmi_version=1 pmi_subversion=1", "response_to_init");
    if (st == WH_OK && !went_well(p))
        st = strange("rc=0", p->line);
    if (st == WH_OK)
        st = ASK(p, "cmd=get_maxes", "maxes");
    if (st != WH_OK)
        return st;
    if (!number_of(p, "keylen_max", NAME_LEAST, 1 << 20, &name_max) ||
        !number_of(p, "vallen_max", TEXT_LEAST, 1 << 30, &text_max) ||
        !number_of(p, "kvsname_max", 1, 1 << 20, &kvs_max))
        return strange("keylen_max, vallen_max and kvsname_max", p->line);
    st = ASK(p, "cmd=get_my_kvsname", "my_kvsname");
    if (st == WH_OK && !value_of(p, "kvsname", p->kvs, KVS_MAX))
        st = strange("kvsname", p->line);
    if (st != WH_OK)
        return st;
    // Both lengths count the end of a string.
    job->name_max = least((size_t)name_max - 1, NAME_MOST);
    job->text_max =
        least((size_t)text_max - 1, REQUEST_MAX - PUT_WORDS - strlen(p->kvs) - job->name_max);
    return WH_OK;
}

// is_inherited tells a launcher's connection from a number in an environment that has come through another launcher, which
// closes descriptors and leaves variables.
static bool is_inherited(int fd) {
    struct stat about;
    if (fstat(fd, &about) != 0 || !(S_ISSOCK(about.st_mode) || S_ISFIFO(about.st_mode)))
        return false;
    if (!getenv("PMIX_NAMESPACE") || S_ISFIFO(about.st_mode))
        return true;
    // The descriptor may since be one of this process's own.
    struct ucred peer;
    socklen_t size = sizeof(peer);
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
           peer.uid != (uid_t)-1 /* it is of this host */ && peer.pid != getpid();
}

static wh_status join(whi_boot_job *job) {
    long fd, rank, size;
    if (!getenv("PMI_FD"))
        return WH_ENOTFOUND;
    if (!parse(getenv("PMI_FD"), 0, 1 << 20, &fd) ||
        !parse(getenv("PMI_SIZE"), 1, 1 << 24, &size) ||
        !parse(getenv("PMI_RANK"), 0, size - 1, &rank)) {
        whi_log(WHI_ERROR, "E-BOOT-04",
                "PMI_FD, PMI_RANK and PMI_SIZE must be numbers, from a launcher; unset them to "
                "start this program alone");
        return WH_EINVAL;
    }
    if (!is_inherited((int)fd))
        return WH_ENOTFOUND;
    pmi1 *p = whi_calloc(1, sizeof(*p));
    if (!p)
        return WH_ENOMEM;
    p->fd = (int)fd;
    *job = (whi_boot_job){.state = p, .rank = (int)rank, .size = (int)size};
    wh_status st = begin(job, p);
    if (st != WH_OK)
        whi_free(p);
    return st;
}

// A request with the store's name in it.
static wh_status ask_store(pmi1 *p, const char *cmd, const char *name, const char *text,
                           const char *answer) {
    char *line = NULL;
    int size = text
                   ? asprintf(&line, "cmd=%s kvsname=%s key=%s value=%s\n", cmd, p->kvs, name, text)
                   : asprintf(&line, "cmd=%s kvsname=%s key=%s\n", cmd, p->kvs, name);
    if (size < 0)
        return WH_ENOMEM;
    wh_status st = ask(p, line, (size_t)size, answer);
    free(line);
    return st;
}

static wh_status put(whi_boot_job *job, const char *name, const char *text) {
    pmi1 *p = job->state;
    wh_status st = ask_store(p, "put", name, text, "put_result");
    if (st != WH_OK)
        return st;
    return went_well(p) ? WH_OK : strange("rc=0", p->line);
}

static wh_status exchange(whi_boot_job *job) {
    return ASK((pmi1 *)job->state, "cmd=barrier_in", "barrier_out");
}

static wh_status get(whi_boot_job *job, int rank, const char *name, char *text) {
    (void)rank;  // the name says it
    pmi1 *p = job->state;
    wh_status st = ask_store(p, "get", name, NULL, "get_result");
    if (st != WH_OK)
        return st;
    if (!went_well(p))
        return WH_ENOTFOUND;
    return value_of(p, "value", text, job->text_max) ? WH_OK : strange("a value", p->line);
}

static void abort_job(whi_boot_job *job, int status) {
    char line[64];
    int size = snprintf(line, sizeof(line), "cmd=abort exitcode=%d\n", status);
    (void)!say(job->state, line, (size_t)size);
}

static void leave(whi_boot_job *job) {
    pmi1 *p = job->state;
    (void)!(ASK(p, "cmd=finalize", "finalize_ack") == WH_OK);
    close(p->fd);
    whi_free(p);
}

const whi_boot_ops whi_boot_pmi1 = {.launcher = "PMI-1",
                                    .join = join,
                                    .put = put,
                                    .exchange = exchange,
                                    .get = get,
                                    .abort = abort_job,
                                    .leave = leave};
