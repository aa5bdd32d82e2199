// SPDX-License-Identifier: BSD-3-Clause
//
// How well the copies of staging overlap with the wire, over the test driver (tests/cuda), whose copies are as slow as asked,
// and a relay between two sockets that is, too.
//
//   staging-overlap [--copy MB/s] [--wire MB/s] [--size MiB] [--rounds N]
//
// It prints what a message takes from host to host, from device to device, there as an object of frames of a MiB, too, and
// without staging, and beside them what the slower of copy and wire alone would take, as a part of that: 1 is ideal.  A measurement, not a
// test: it fails only if the bytes are wrong.
#include <arpa/inet.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <wherry/wherry.h>

enum { FRAME = 1 << 20, FRAMES_MOST = 4096 };

static unsigned copy_rate = 400, wire_rate = 400, mebibytes = 64, rounds = 3;

static void must(int good, const char *what) {
    if (good)
        return;
    fprintf(stderr, "staging-overlap: %s\n", what);
    exit(1);
}

static double now(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

// ---- The wire: a thread for each direction.

typedef struct wire {
    int from, to;
} wire;

static void pause_until(double when) {
    double left = when - now();
    if (left > 0)
        usleep((useconds_t)(left * 1e6));
}

static void *carry(void *arg) {
    wire w = *(wire *)arg;
    static const size_t piece = 64 << 10;
    char *bytes = malloc(piece);
    must(bytes != NULL, "no memory");
    double free_at = now();
    ssize_t n;
    while ((n = read(w.from, bytes, piece)) > 0) {
        double begin = now();
        free_at = (free_at < begin - 0.001 ? begin : free_at) + (double)n / (wire_rate * 1e6);
        for (ssize_t done = 0, m; done < n; done += m)
            if ((m = write(w.to, bytes + done, (size_t)(n - done))) <= 0)
                break;
        pause_until(free_at);
    }
    shutdown(w.to, SHUT_WR);
    free(bytes);
    return NULL;
}

static uint16_t server_port;

static void *relay(void *arg) {
    int listener = *(int *)arg;
    int in = accept(listener, NULL, NULL), out = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(server_port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    must(in >= 0 && connect(out, (struct sockaddr *)&to, sizeof(to)) == 0,
         "the relay cannot connect");
    wire wires[2] = {{in, out}, {out, in}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        must(pthread_create(&threads[i], NULL, carry, &wires[i]) == 0, "no thread");
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    close(in);
    close(out);
    return NULL;
}

// begin_relay returns the port that leads over the wire.
static uint16_t begin_relay(pthread_t *thread) {
    static int listener;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(at);
    listener = socket(AF_INET, SOCK_STREAM, 0);
    must(listener >= 0 && bind(listener, (struct sockaddr *)&at, size) == 0 &&
             listen(listener, 1) == 0 &&
             getsockname(listener, (struct sockaddr *)&at, &size) == 0 &&
             pthread_create(thread, NULL, relay, &listener) == 0,
         "no relay");
    return ntohs(at.sin_port);
}

// ---- Two workers of one thread.

static wh_endpoint *accepted;

static void on_accept(wh_endpoint *ep, void *arg) {
    (void)arg;
    accepted = ep;
}

typedef struct pair {
    wh_context *ctx;
    wh_worker *server, *client;
    wh_listener *listener;
    wh_endpoint *to;
    pthread_t relay;
} pair;

static void turn(const pair *p) {
    wh_worker_progress(p->client);
    wh_worker_progress(p->server);
}

static void begin(pair *p, const char *staging) {
    const char *const options[] = {"lanes=stream", staging, NULL};
    char address[32];
    accepted = NULL;
    must(wh_context_create(options, &p->ctx) == WH_OK &&
             wh_worker_create(p->ctx, NULL, &p->server) == WH_OK &&
             wh_worker_create(p->ctx, NULL, &p->client) == WH_OK &&
             wh_listener_open(p->server, "127.0.0.1:0", NULL, on_accept, NULL, &p->listener) ==
                 WH_OK,
         "no workers");
    server_port = wh_listener_port(p->listener);
    snprintf(address, sizeof(address), "127.0.0.1:%u", begin_relay(&p->relay));
    must(wh_endpoint_connect(p->client, address, NULL, &p->to) == WH_OK, "no endpoint");
    while (wh_endpoint_status(p->to) == WH_PENDING || !accepted)
        turn(p);
    must(wh_endpoint_status(p->to) == WH_OK, "no connection");
}

static void end(pair *p) {
    wh_listener_close(p->listener);
    wh_endpoint_abort(p->to);
    wh_endpoint_abort(accepted);
    wh_worker_destroy(p->client);
    wh_worker_destroy(p->server);
    wh_context_destroy(p->ctx);
    pthread_join(p->relay, NULL);
}

// cut makes frames of a MiB of some memory.
static size_t cut(void *memory, size_t size, wh_frame *frames) {
    size_t count = 0;
    for (size_t at = 0; at < size; at += FRAME)
        frames[count++] = (wh_frame){.data = (char *)memory + at, .size = FRAME};
    return count;
}

static void start_frames(const pair *p, void *from, void *to, size_t size, wh_request **sent,
                         wh_request **received) {
    static wh_frame out[FRAMES_MOST], in[FRAMES_MOST];
    size_t count = cut(from, size, out);
    (void)cut(to, size, in);
    must(wh_object_recv(accepted, in, count, sizeof(*in), 1, WH_TAG_MASK_ALL, NULL, received) >=
                 0 &&
             wh_object_send(p->to, NULL, 0, out, count, sizeof(*out), 1, NULL, sent) >= 0,
         "no transfer");
}

static double pass(const pair *p, void *from, void *to, size_t size, bool frames) {
    wh_request *sent = NULL, *received = NULL;
    double start = now();
    if (frames)
        start_frames(p, from, to, size, &sent, &received);
    else
        must(wh_tag_recv(accepted, to, size, 1, WH_TAG_MASK_ALL, NULL, &received) >= 0 &&
                 wh_tag_send(p->to, from, size, 1, NULL, &sent) >= 0,
             "no transfer");
    while (wh_request_status(received) == WH_PENDING ||
           (sent && wh_request_status(sent) == WH_PENDING))
        turn(p);
    double took = now() - start;
    must(wh_request_status(received) == WH_OK, wh_request_error(received));
    wh_result result;
    if (wh_request_result(received, &result) == WH_OK)
        wh_object_free(result.object);
    wh_request_free(received);
    wh_request_free(sent);
    return took;
}

// best returns the shortest time of several transfers.
static double best(const char *staging, void *from, void *to, size_t size, bool frames) {
    pair p;
    double least = 1e9;
    begin(&p, staging);
    (void)pass(&p, from, to, size, frames);  // memory is touched and pinned at the first time
    for (unsigned i = 0; i < rounds; i++) {
        double took = pass(&p, from, to, size, frames);
        least = took < least ? took : least;
    }
    end(&p);
    return least;
}

static void *device(size_t size) {
    void *ptr = NULL;
    must(wh_mem_alloc_kind(WH_MEM_CUDA, 0, size, &ptr) == WH_OK, "no device memory");
    return ptr;
}

static void read_arguments(int argc, char **argv) {
    static const struct {
        const char *name;
        unsigned *value;
    } all[] = {{"--copy", &copy_rate},
               {"--wire", &wire_rate},
               {"--size", &mebibytes},
               {"--rounds", &rounds}};
    for (int i = 1; i < argc; i += 2) {
        unsigned *to = NULL;
        for (size_t k = 0; k < sizeof(all) / sizeof(all[0]); k++)
            if (strcmp(argv[i], all[k].name) == 0)
                to = all[k].value;
        must(to && i + 1 < argc,
             "usage: staging-overlap [--copy MB/s] [--wire MB/s] [--size MiB] [--rounds N]");
        *to = (unsigned)strtoul(argv[i + 1], NULL, 10);
    }
}

// check compares what has come with what was sent, and forgets it.
static void check(const char *from, char *to, void *back, size_t size) {
    must(wh_mem_copy(to, WH_MEM_HOST, back, WH_MEM_CUDA, size) == WH_OK &&
             memcmp(from, to, size) == 0,
         "the bytes are wrong");
    memset(to, 0, size);
    must(wh_mem_copy(back, WH_MEM_CUDA, to, WH_MEM_HOST, size) == WH_OK, "no copy");
}

int main(int argc, char **argv) {
    read_arguments(argc, argv);
    signal(SIGPIPE, SIG_IGN);  // of a side that is gone, at the end
    size_t size = (size_t)mebibytes << 20;
    must(size && size / FRAME <= FRAMES_MOST, "--size is 1 to 4096");
    void (*bandwidth)(unsigned) = NULL;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (driver)
        *(void **)&bandwidth = dlsym(driver, "cutest_bandwidth");
    if (!bandwidth) {
        fprintf(stderr, "staging-overlap: needs the driver of tests/cuda in LD_LIBRARY_PATH\n");
        return 77;
    }
    char *from = malloc(size), *to = calloc(1, size);
    must(from && to, "no memory");
    for (size_t i = 0; i < size; i++)
        from[i] = (char)(i * 7 + i / 4096);
    void *there = device(size), *back = device(size);
    must(wh_mem_copy(there, WH_MEM_CUDA, from, WH_MEM_HOST, size) == WH_OK, "no copy");
    double host = best(NULL, from, to, size, false);
    bandwidth(copy_rate);
    double staged = best(NULL, there, back, size, false);
    double waited = best("stage_max=0", there, back, size, false);
    bandwidth(0);
    check(from, to, back, size);
    bandwidth(copy_rate);
    double framed = best(NULL, there, back, size, true);
    bandwidth(0);
    check(from, to, back, size);
    double copy = (double)size / (copy_rate * 1e6), line = (double)size / (wire_rate * 1e6);
    double ideal = copy > line ? copy : line;
    printf("%u MiB, copies at %u MB/s, wire at %u MB/s: ideal %.1f ms\n", mebibytes, copy_rate,
           wire_rate, ideal * 1e3);
    printf("host to host:                      %.1f ms, %.2f of ideal\n", host * 1e3, line / host);
    printf("device to device, staged:          %.1f ms, %.2f of ideal\n", staged * 1e3,
           ideal / staged);
    printf("the same as frames of a MiB:       %.1f ms, %.2f of ideal\n", framed * 1e3,
           ideal / framed);
    printf("device to device, each waited for: %.1f ms, %.2f of ideal\n", waited * 1e3,
           ideal / waited);
    must(wh_mem_free_kind(WH_MEM_CUDA, there) == WH_OK &&
             wh_mem_free_kind(WH_MEM_CUDA, back) == WH_OK,
         "device memory cannot be freed");
    free(from);
    free(to);
    return 0;
}
