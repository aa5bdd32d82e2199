// SPDX-License-Identifier: BSD-3-Clause
//
// Objects: a header and several frames as one message, received without knowing their sizes.
//
// The receiver's allocator says where each frame goes, here into one arena, so that the frames lie
// beside each other however many come.  For brevity the worker sends to itself.
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wherry/wherry.h>

enum { TABLE = 42, ROWS = 100000 };

typedef struct arena {
    char *memory;
    size_t size, used;
} arena;

static void must(wh_status status, const char *what) {
    if (status >= WH_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, wh_status_text(status));
    exit(1);
}

// Asked once per frame when an object's head has arrived; the frames' data comes after that.
static wh_status place(wh_object *object, size_t index, void **ptr, void *arg) {
    arena *a = arg;
    size_t size = (wh_object_frame(object, index)->size + 63) & ~(size_t)63;
    if (size > a->size - a->used)
        return WH_ENOMEM;  // rejects the object: its sender gets WH_EREJECTED
    *ptr = a->memory + a->used;
    a->used += size;
    return WH_OK;
}

static void unplace(void *ptr, size_t size, wh_mem_kind kind, int device, void *arg) {
    (void)ptr, (void)size, (void)kind, (void)device, (void)arg;  // the arena goes as a whole
}

static void on_accept(wh_endpoint *ep, void *arg) {
    *(wh_endpoint **)arg = ep;
}

// Connects a worker to itself: *in receives what *out sends.
static void connect_to_self(wh_worker *worker, wh_endpoint **out, wh_endpoint **in) {
    wh_listener *listener;
    char address[64];
    *in = NULL;
    must(wh_listener_open(worker, "127.0.0.1:0", NULL, on_accept, in, &listener), "listen");
    must(wh_listener_address(listener, address, sizeof(address)), "address");
    must(wh_endpoint_connect_wait(worker, address, NULL, out), "connect");
    while (!*in)
        must(wh_worker_wait(worker, 5000), "wait");
    wh_listener_close(listener);
}

int main(void) {
    arena a = {.size = 4 << 20};
    int64_t *ids = calloc(ROWS, sizeof(*ids));
    double *values = calloc(ROWS, sizeof(*values));
    a.memory = malloc(a.size);
    if (!a.memory || !ids || !values)
        return 1;
    for (int i = 0; i < ROWS; i++) {
        ids[i] = i;
        values[i] = i / 2.0;
    }

    wh_context *ctx;
    wh_worker *worker;
    wh_endpoint *out, *in;
    must(wh_context_create(NULL, &ctx), "context");
    must(wh_worker_create(ctx, NULL, &worker), "worker");
    must(wh_worker_set_allocator(worker, WH_MEM_HOST,
                                 WH_ALLOCATOR(.alloc = place, .free_fn = unplace, .arg = &a)),
         "allocator");
    connect_to_self(worker, &out, &in);

    const char *header = "{\"columns\": [\"id\", \"value\"]}";
    wh_frame frames[] = {
        {.data = ids, .size = ROWS * sizeof(*ids)},
        {.data = values, .size = ROWS * sizeof(*values)},
    };
    wh_request *sent;
    must(wh_object_send(out, header, strlen(header), frames, 2, sizeof(wh_frame), TABLE, NULL,
                        &sent),
         "send");

    wh_object *object;
    size_t header_size;
    must(wh_object_recv_wait(in, TABLE, WH_TAG_MASK_ALL, 5000, &object), "receive");
    const char *text = wh_object_header(object, &header_size);
    printf("%.*s\n", (int)header_size, text);
    bool right = wh_object_count(object) == 2;
    for (size_t i = 0; i < wh_object_count(object); i++) {
        const wh_frame *frame = wh_object_frame(object, i);
        printf("frame %zu: %zu bytes\n", i, frame->size);
        right = right && memcmp(frame->data, frames[i].data, frame->size) == 0;
    }
    wh_object_free(object);

    if (sent)  // NULL when the send was done within its call
        must(wh_request_wait(sent, 5000), "send");
    wh_request_free(sent);
    must(wh_endpoint_close_wait(out, 5000), "close");
    wh_endpoint_abort(in);
    wh_worker_destroy(worker);
    wh_context_destroy(ctx);
    free(a.memory);
    free(ids);
    free(values);
    return right ? 0 : 1;
}
