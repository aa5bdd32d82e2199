// SPDX-License-Identifier: BSD-3-Clause
//
// The same transfer of files over plain TCP sockets, to compare `wherry send` and `recv` with: the same
// walk, the same hashing and checking, the same files written in the same way, but blocking send and
// recv in between, and a process per sender.  It is built for the demonstration and not installed; it
// trusts its peer.
//
//   plain-files recv DIR COUNT       prints its port, takes COUNT senders
//   plain-files send PORT PATH...    sends to this host
#include "bench/raw.h"
#include "cli/digest.h"
#include "cli/store.h"
#include "cli/walk.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

// What travels: these two sizes, the header of transfer.h, the data.
typedef struct plain_sizes {
    uint32_t header, data;
} plain_sizes;

static char header[TRANSFER_HEADER_MAX], data[TRANSFER_PART];

__attribute__((noreturn)) static void fail(const char *what, const char *why) {
    fprintf(stderr, "plain-files: %s: %s\n", what, why ? why : strerror(errno));
    exit(1);
}

static void send_all(int fd, const void *bytes, size_t size, int flags) {
    const char *at = bytes;
    while (size > 0) {
        ssize_t sent = send(fd, at, size, flags | MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            fail("send", NULL);
        at += sent;
        size -= (size_t)sent;
    }
}

// False at the end of the stream.
static bool recv_all(int fd, void *bytes, size_t size) {
    char *at = bytes;
    while (size > 0) {
        ssize_t got = recv(fd, at, size, MSG_WAITALL);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        at += got;
        size -= (size_t)got;
    }
    return true;
}

typedef struct plain_sender {
    int fd;
    digest *digest;
} plain_sender;

static void send_entry(const plain_sender *self, const transfer_entry *entry, size_t size) {
    plain_sizes sizes = {.data = (uint32_t)size};
    sizes.header = (uint32_t)transfer_encode(entry, header);
    send_all(self->fd, &sizes, sizeof sizes, MSG_MORE);
    send_all(self->fd, header, sizes.header, size ? MSG_MORE : 0);
    send_all(self->fd, data, size, 0);
}

static size_t read_part(int fd, size_t size) {
    size_t have = 0;
    while (have < size) {
        ssize_t got = read(fd, data + have, size - have);
        if (got <= 0)
            break;
        have += (size_t)got;
    }
    return have;
}

static void send_file(const plain_sender *self, const transfer_entry *entry, const walk_at *at) {
    static transfer_entry part;
    const char *path = at->path;
    transfer_copy(&part, entry);
    int fd = walk_open(at);
    if (fd < 0 || !digest_begin(self->digest))
        fail(path, NULL);
    do {
        uint64_t left = part.head.size - part.head.offset;
        size_t size = left < TRANSFER_PART ? (size_t)left : TRANSFER_PART;
        if (read_part(fd, size) != size || !digest_add(self->digest, data, size))
            fail(path, "cannot be read or hashed");
        part.head.flags = part.head.offset == 0 ? TRANSFER_FIRST : 0;
        if (left == size) {
            part.head.flags |= TRANSFER_LAST;
            if (!digest_end(self->digest, part.head.digest))
                fail(path, "cannot be hashed");
        }
        send_entry(self, &part, size);
        part.head.offset += size;
    } while (part.head.offset < part.head.size);
    close(fd);
}

static bool visit(const transfer_entry *entry, const walk_at *at, void *arg) {
    const plain_sender *self = arg;
    if (entry->head.kind == TRANSFER_FILE)
        send_file(self, entry, at);
    else
        send_entry(self, entry, 0);
    return true;
}

static void skip(const char *path, const char *why, bool failed, void *arg) {
    (void)arg;
    if (failed)
        fail(path, why);
}

static int run_send(int port, char **paths, int count) {
    bench_socket sock = {.fd = -1};
    plain_sender self = {.digest = digest_create()};
    walk all = {.visit = visit, .skip = skip, .arg = &self};
    char done;
    if (!self.digest || !bench_socket_connect(&sock, "127.0.0.1", port))
        fail("connect", NULL);
    self.fd = sock.fd;
    for (int i = 0; i < count; i++)
        walk_path(&all, paths[i]);
    shutdown(self.fd, SHUT_WR);
    if (!recv_all(self.fd, &done, 1))
        fail("the receiver", "did not confirm");
    return 0;
}

static const char *take_part(store_place *at, store_file *file, digest *sum,
                             const transfer_entry *entry, size_t size) {
    uint8_t have[TRANSFER_DIGEST];
    const char *why = NULL;
    if (entry->head.flags & TRANSFER_FIRST) {
        why = store_begin(at, entry, file);
        if (!why && !digest_begin(sum))
            why = "cannot be hashed";
    }
    if (!why)
        why = store_write(file, data, size);
    if (!why && !digest_add(sum, data, size))
        why = "cannot be hashed";
    if (why || !(entry->head.flags & TRANSFER_LAST))
        return why;
    if (!digest_end(sum, have) || memcmp(have, entry->head.digest, sizeof have) != 0)
        return "its digest is wrong";
    return store_finish(file, entry);
}

// One connection, in a process of its own.
static int serve(int fd, store *to) {
    store_file file = {.fd = -1};
    plain_sizes sizes;
    static store_place place;
    static transfer_entry entry;
    digest *sum = digest_create();
    if (!sum)
        fail("digest", NULL);
    store_place_init(&place, to);
    while (recv_all(fd, &sizes, sizeof sizes)) {
        if (sizes.header > sizeof header || sizes.data > sizeof data ||
            !recv_all(fd, header, sizes.header) || !recv_all(fd, data, sizes.data))
            fail("a sender", "broke off");
        const char *why = transfer_decode(header, sizes.header, sizes.data, &entry);
        if (why)
            fail("a sender", why);
        if (entry.head.kind == TRANSFER_FILE)
            why = take_part(&place, &file, sum, &entry, sizes.data);
        else if (entry.head.kind == TRANSFER_DIR)
            why = store_dir(&place, &entry);
        else if (entry.head.kind == TRANSFER_LEAVE)
            why = store_leave(&place, &entry);
        else if (entry.head.kind == TRANSFER_LINK)
            why = store_link(&place, &entry);
        if (why)
            fail(entry.name, why);
    }
    send_all(fd, "", 1, 0);
    return 0;
}

static int run_recv(const char *directory, int count) {
    store to;
    int port, failed = 0;
    const char *why = store_open(&to, directory);
    if (why)
        fail(directory, why);
    int listener = bench_socket_listen("127.0.0.1", &port);
    if (listener < 0)
        fail("listen", NULL);
    printf("%d\n", port);
    fflush(stdout);
    for (int i = 0; i < count; i++) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            fail("accept", NULL);
        if (fork() == 0)
            return serve(fd, &to);
        close(fd);
    }
    for (int i = 0; i < count; i++) {
        int status;
        if (wait(&status) < 0 || status != 0)
            failed = 1;
    }
    return failed;
}

int main(int argc, char **argv) {
    if (argc == 4 && strcmp(argv[1], "recv") == 0)
        return run_recv(argv[2], (int)strtol(argv[3], NULL, 10));
    if (argc >= 4 && strcmp(argv[1], "send") == 0)
        return run_send((int)strtol(argv[2], NULL, 10), argv + 3, argc - 3);
    fprintf(stderr, "usage: plain-files recv DIR COUNT | send PORT PATH...\n");
    return 2;
}
