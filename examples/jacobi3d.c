// SPDX-License-Identifier: BSD-3-Clause
//
// Jacobi iteration on a cube that is cut into blocks, each a chare; start it with `wherry run -n 4 jacobi3d`.
//
// A block exchanges its faces with its neighbours in one of three ways (--mode):
//   channel  from where a face lies to where it belongs, by a channel to each neighbour;
//   post     likewise, as buffers of calls, whose post function says where a face goes;
//   staged   packed into the arguments of a call, and unpacked.
// With --memory cuda (or sim) faces go from device memory to device memory.  What a kernel would do there is done here by the
// processor, which has the block copied to it and back.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <wherry/wherry.h>

#include "jacobi3d_picture.h"

enum { SIDES = 6, EVERY = 10 };

typedef enum mode { CHANNEL, POST, STAGED, MODES } mode;
static const char *const mode_names[] = {"channel", "post", "staged"};

static struct {
    int grid;    // cells of the cube's edge
    int blocks;  // of the cube's edge
    int iterations;
    mode mode;
    wh_mem_kind memory;   // between which faces are exchanged
    bool check;           // against one array in one process
    const char *picture;  // a file, or NULL
} options = {.grid = 48, .blocks = 4, .iterations = 30, .memory = WH_MEM_HOST};

static void fail(wh_pe *pe, const char *what, wh_status status) {
    fprintf(stderr, "jacobi3d: %s: %s\n", what, wh_status_text(status));
    wh_pe_exit(pe, 1);
}

// ---- Blocks: a cube of cells, and a layer of the neighbours' around it.

typedef struct block {
    int edge;  // with that layer
    double *now, *next;
    void *device;  // the cells in device memory; NULL: `now` is all there is
    wh_type *inner[SIDES], *outer[SIDES];  // the faces that are sent, and received
    wh_channel *channels[SIDES];           // by channels; NULL: there is the border of the cube
    wh_pe *pe;                             // by posts
    wh_wait wait;
    int missing;  // buffers that are under way
} block;

static size_t cell(int edge, int x, int y, int z) {
    return ((size_t)x * (size_t)edge + (size_t)y) * (size_t)edge + (size_t)z;
}

static void border(double *cells, int edge, int face_x) {
    for (int y = 0; y < edge; y++)
        for (int z = 0; z < edge; z++)
            cells[cell(edge, face_x, y, z)] = 1;
}

// relax makes `next` of `now`, and returns the largest change.
static double relax(const double *now, double *next, int edge) {
    double most = 0;
    size_t x_step = (size_t)edge * (size_t)edge, y_step = (size_t)edge;
    for (int x = 1; x < edge - 1; x++)
        for (int y = 1; y < edge - 1; y++)
            for (int z = 1; z < edge - 1; z++) {
                size_t at = cell(edge, x, y, z);
                next[at] = (now[at - x_step] + now[at + x_step] + now[at - y_step] +
                            now[at + y_step] + now[at - 1] + now[at + 1]) /
                           6;
                double change = next[at] > now[at] ? next[at] - now[at] : now[at] - next[at];
                most = change > most ? change : most;
            }
    return most;
}

// face describes the layer of cells at a side: of the block itself, or of its neighbour.
static wh_status face(int edge, int side, bool inner, wh_type **type) {
    int64_t sizes[3], lengths[3], starts[3];
    for (int d = 0; d < 3; d++) {
        sizes[d] = edge;
        lengths[d] = edge - 2;
        starts[d] = 1;
    }
    lengths[side / 2] = 1;
    starts[side / 2] = side % 2 ? edge - 1 - inner : inner;
    return wh_type_create_subarray(3, sizes, lengths, starts, WH_ORDER_C,
                                   wh_type_basic(WH_TYPE_DOUBLE), type);
}

// neighbour returns the block at a side, or false at the border.
static bool neighbour(const wh_chare *self, int side, wh_proxy *other) {
    int32_t at[3];
    memcpy(at, self->proxy.index, sizeof(at));
    at[side / 2] += side % 2 ? 1 : -1;
    *other = wh_proxy_at(self->proxy, 3, at);
    return at[side / 2] >= 0 && at[side / 2] < options.blocks;
}

// where returns the cells whose faces are exchanged.
static void *where(block *b) {
    return b->device ? b->device : b->now;
}

static wh_status to_device(block *b) {
    size_t size = cell(b->edge, b->edge, 0, 0) * sizeof(double);
    return b->device ? wh_mem_copy(b->device, options.memory, b->now, WH_MEM_HOST, size) : WH_OK;
}

static wh_status from_device(block *b) {
    size_t size = cell(b->edge, b->edge, 0, 0) * sizeof(double);
    return b->device ? wh_mem_copy(b->now, WH_MEM_HOST, b->device, options.memory, size) : WH_OK;
}

static void construct(wh_chare *self, const wh_call *call) {
    (void)call;
    block *b = self->state;
    b->edge = options.grid / options.blocks + 2;
    size_t cells = cell(b->edge, b->edge, 0, 0);
    b->now = calloc(cells, sizeof(double));
    b->next = calloc(cells, sizeof(double));
    wh_status made = b->now && b->next ? WH_OK : WH_ENOMEM;
    if (made == WH_OK && options.memory != WH_MEM_HOST)
        made = wh_mem_alloc_kind(options.memory, 0, cells * sizeof(double), &b->device);
    if (made != WH_OK) {
        fail(self->pe, "block", made);
        return;
    }
    if (self->proxy.index[0] == 0) {  // one face of the cube is hot
        border(b->now, b->edge, 0);
        border(b->next, b->edge, 0);
    }
    made = to_device(b);
    if (made != WH_OK)
        fail(self->pe, "block", made);
    for (int side = 0; side < SIDES; side++) {
        wh_proxy other;
        wh_status st = face(b->edge, side, true, &b->inner[side]);
        if (st == WH_OK)
            st = face(b->edge, side, false, &b->outer[side]);
        if (st == WH_OK && neighbour(self, side, &other) && options.mode == CHANNEL)
            st = wh_channel_open(self, other, NULL, &b->channels[side]);
        if (st != WH_OK)
            fail(self->pe, "block", st);
    }
}

static void destruct(wh_chare *self) {
    block *b = self->state;
    for (int side = 0; side < SIDES; side++) {
        wh_type_release(b->inner[side]);
        wh_type_release(b->outer[side]);
    }
    free(b->now);
    free(b->next);
    if (wh_mem_free_kind(options.memory, b->device) != WH_OK)
        fprintf(stderr, "jacobi3d: device memory cannot be given back\n");
}

// ---- Faces.

enum { RUN, FACE, FACE_PACKED };  // entries

// by_channels receives into the layer around the block, and sends from the block: nothing is copied in between.
static wh_status by_channels(wh_chare *self, block *b) {
    wh_wait waits[2 * SIDES] = {0};
    wh_status st = WH_OK;
    for (int i = 0; i < 2 * SIDES; i++) {
        int side = i % SIDES;
        wh_channel *channel = b->channels[side];
        waits[i].done = true;
        if (!channel || st < WH_OK)
            continue;
        wh_op_opts opts = {.size = sizeof(opts),
                           .type = i < SIDES ? b->outer[side] : b->inner[side],
                           .mem = options.memory,
                           .done = wh_wait_done,
                           .arg = &waits[i]};
        waits[i].done = false;
        st = i < SIDES ? wh_channel_recv(channel, where(b), 1, &opts, NULL)
                       : wh_channel_send(channel, where(b), 1, &opts, NULL);
        waits[i].done = st != WH_PENDING;
    }
    for (int i = 0; i < 2 * SIDES; i++) {
        wh_status waited = wh_pe_wait(self->pe, &waits[i]);
        if (st >= WH_OK)
            st = waited != WH_OK ? waited : waits[i].result.status;
    }
    return st;
}

// by_posts sends faces as buffers of calls; `run` asks for those of this iteration, and waits until all have come and gone.
static void one_less(block *b) {
    if (--b->missing == 0)
        wh_pe_resume(b->pe, &b->wait);
}

static void on_sent(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    block *b = arg;
    if (result->status != WH_OK)
        fail(b->pe, "face", result->status);
    one_less(b);
}

static void post_face(wh_chare *self, const wh_call *call, wh_frame *buffers) {
    block *b = self->state;
    buffers[0] = (wh_frame){
        .data = where(b), .size = 1, .mem = options.memory, .type = b->outer[call->ref % SIDES]};
}

static void face_has_come(wh_chare *self, const wh_call *call) {
    (void)call;
    one_less(self->state);
}

static wh_status by_posts(wh_chare *self, block *b, int iteration) {
    wh_status st = WH_OK;
    wh_proxy other;
    b->pe = self->pe;
    b->wait = (wh_wait){0};
    b->missing = 1;
    for (int side = 0; st == WH_OK && side < SIDES; side++) {
        wh_frame face = {
            .data = where(b), .size = 1, .mem = options.memory, .type = b->inner[side]};
        if (!neighbour(self, side, &other))
            continue;
        b->missing += 2;
        st = wh_chare_when(self, FACE, iteration * SIDES + side);
        if (st == WH_OK)
            st = wh_chare_send(self->pe, other, FACE, NULL, 0,
                               WH_SEND_OPTS(.ref = iteration * SIDES + (side ^ 1), .buffers = &face,
                                            .count = 1, .frame_size = sizeof(face), .done = on_sent,
                                            .done_arg = b));
    }
    one_less(b);
    return st == WH_OK ? wh_pe_wait(self->pe, &b->wait) : st;
}

// by_arguments packs each face into the arguments of a call, whose number says which it is, and unpacks those that come.
static wh_status by_arguments(wh_chare *self, block *b, int iteration) {
    size_t edge = (size_t)b->edge - 2, size = edge * edge * sizeof(double), done;
    double *packed = malloc(size);
    wh_status st = packed ? WH_OK : WH_ENOMEM;
    wh_proxy other;
    for (int side = 0; st == WH_OK && side < SIDES; side++) {
        if (!neighbour(self, side, &other))
            continue;
        st = wh_pack(where(b), 1, b->inner[side], 0, packed, size, 0, &done);
        if (st == WH_OK)
            st = wh_chare_send(self->pe, other, FACE_PACKED, packed, size,
                               WH_SEND_OPTS(.ref = iteration * SIDES + (side ^ 1)));
    }
    free(packed);
    for (int side = 0; st == WH_OK && side < SIDES; side++) {
        const wh_call *call;
        if (!neighbour(self, side, &other))
            continue;
        st = wh_chare_wait(self, FACE_PACKED, iteration * SIDES + side, &call);
        if (st == WH_OK)
            st = wh_unpack(call->args, call->size, where(b), 1, b->outer[side], 0, 0, &done);
    }
    return st;
}

// ---- The iteration.

static wh_callback to(const char *function, int64_t ref) {
    return (wh_callback){
        .kind = WH_CALLBACK_FUNCTION, .function = wh_function_id(function), .pe = 0, .ref = ref};
}

// give_result contributes the block's own cells, with which the run ends.
static wh_status give_result(wh_chare *self, block *b) {
    int n = b->edge - 2;
    double *cells = malloc((size_t)n * (size_t)n * (size_t)n * sizeof(double)), *next = cells;
    if (!cells)
        return WH_ENOMEM;
    for (int x = 1; x <= n; x++)
        for (int y = 1; y <= n; y++, next += n)
            memcpy(next, &b->now[cell(b->edge, x, y, 1)], (size_t)n * sizeof(double));
    wh_contribution set = {
        .reducer = WH_REDUCER_SET, .data = cells, .count = (size_t)(next - cells) * sizeof(double)};
    wh_callback callback = to("result", 0);
    bool wanted = options.check || options.picture;
    wh_status st = wh_contribute(self, &set, wanted ? 1 : 0, sizeof(set), &callback);
    free(cells);
    return st;
}

static void run(wh_chare *self, const wh_call *call) {
    (void)call;
    block *b = self->state;
    wh_status st = WH_OK;
    for (int i = 0; st == WH_OK && i < options.iterations; i++) {
        st = options.mode == CHANNEL ? by_channels(self, b)
             : options.mode == POST  ? by_posts(self, b, i)
                                     : by_arguments(self, b, i);
        if (st == WH_OK)
            st = from_device(b);
        if (st != WH_OK)
            break;
        double most = relax(b->now, b->next, b->edge), *swap = b->now;
        b->now = b->next;
        b->next = swap;
        st = to_device(b);
        if (st != WH_OK)
            break;
        wh_contribution residual = {.reducer = WH_REDUCER_OP,
                                    .op = WH_REDUCE_MAX,
                                    .type = WH_TYPE_DOUBLE,
                                    .data = &most,
                                    .count = 1};
        wh_callback callback = to("residual", i + 1);
        st = wh_contribute(self, &residual, 1, sizeof(residual), &callback);
    }
    if (st == WH_OK)
        st = give_result(self, b);
    if (st != WH_OK)
        fail(self->pe, "run", st);
}

static void never(wh_chare *self, const wh_call *call) {
    (void)self;
    (void)call;  // `run` waits for the call, and it does not run itself
}

static const wh_entry block_entries[] = {
    [RUN] = {.name = "run", .fn = run, .flags = WH_ENTRY_THREADED},
    [FACE] = {.name = "face", .fn = face_has_come, .post = post_face, .flags = WH_ENTRY_WHEN},
    [FACE_PACKED] = {.name = "face_packed", .fn = never, .flags = WH_ENTRY_WHEN},
};
static const wh_class block_class = {
    .size = sizeof(wh_class),
    .name = "block",
    .state = sizeof(block),
    .construct = construct,
    .destruct = destruct,
    .entries = block_entries,
    .entry_count = sizeof(block_entries) / sizeof(block_entries[0]),
    .entry_size = sizeof(wh_entry),
};

// ---- What PE 0 hears.

static double *residuals;      // of each iteration
static struct timespec began;  // the first iteration, on PE 0

static double seconds_since(const struct timespec *then) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - then->tv_sec) + (double)(now.tv_nsec - then->tv_nsec) / 1e9;
}

static void on_residual(wh_pe *pe, const wh_call *call, void *arg) {
    (void)pe;
    (void)arg;
    double *residual = &residuals[call->ref - 1];
    memcpy(residual, call->args, sizeof(*residual));
    if (call->ref % EVERY == 0 || call->ref == options.iterations)
        printf("iteration %d: residual %.6e\n", (int)call->ref, *residual);
    if (call->ref == options.iterations)
        printf("all iterations: %.6f s\n", seconds_since(&began));
}

// same compares a block with what one array has there.
static bool same(const wh_reduction_item *item, const double *whole) {
    int n = options.grid / options.blocks, edge = options.grid + 2;
    const int32_t *at = item->element.index;
    const double *mine = item->data;
    for (int x = 0; x < n; x++)
        for (int y = 0; y < n; y++)
            for (int z = 0; z < n; z++)
                if (*mine++ !=
                    whole[cell(edge, at[0] * n + x + 1, at[1] * n + y + 1, at[2] * n + z + 1)])
                    return false;
    return true;
}

static bool check(const void *value, size_t size) {
    int edge = options.grid + 2, blocks = 0;
    double *now = calloc(cell(edge, edge, 0, 0), sizeof(double));
    double *next = calloc(cell(edge, edge, 0, 0), sizeof(double)), most = 0;
    bool equal = now && next;
    if (equal) {
        border(now, edge, 0);
        border(next, edge, 0);
    }
    for (int i = 0; equal && i < options.iterations; i++) {
        double *swap = now;
        most = relax(now, next, edge);
        now = next;
        next = swap;
    }
    wh_reduction_item item;
    for (size_t cursor = 0; equal && wh_reduction_next(value, size, &cursor, &item); blocks++)
        equal = same(&item, now);
    equal = equal && blocks == options.blocks * options.blocks * options.blocks &&
            most == residuals[options.iterations - 1];
    free(now);
    free(next);
    printf("%s a serial run\n", equal ? "equal to" : "not equal to");
    return equal;
}

// cut copies what a block has of the cube's slice at z.
static void cut(const wh_reduction_item *item, int z, double *slice) {
    int n = options.grid / options.blocks;
    const int32_t *at = item->element.index;
    const double *cells = item->data;
    if (z / n != at[2])
        return;
    for (int x = 0; x < n; x++)
        for (int y = 0; y < n; y++)
            slice[(size_t)(at[0] * n + x) * (size_t)options.grid + (size_t)(at[1] * n + y)] =
                cells[((size_t)x * (size_t)n + (size_t)y) * (size_t)n + (size_t)(z % n)];
}

static bool picture(const void *value, size_t size) {
    size_t edge = (size_t)options.grid;
    double *slice = calloc(edge * edge, sizeof(double));
    wh_reduction_item item;
    for (size_t cursor = 0; slice && wh_reduction_next(value, size, &cursor, &item);)
        cut(&item, options.grid / 2, slice);
    bool drawn = slice && draw(options.picture, residuals, options.iterations, slice, options.grid);
    if (!drawn)
        fprintf(stderr, "jacobi3d: %s cannot be written\n", options.picture);
    free(slice);
    return drawn;
}

static void on_result(wh_pe *pe, const wh_call *call, void *arg) {
    (void)arg;
    bool good = !options.picture || picture(call->args, call->size);
    good = (!options.check || check(call->args, call->size)) && good;
    wh_pe_exit(pe, good ? 0 : 1);
}

static void start(wh_pe *pe, void *arg) {
    (void)arg;
    int32_t b = options.blocks;
    wh_proxy blocks;
    wh_status st = wh_class_register(pe, &block_class);
    if (st == WH_OK)
        st = wh_function_register(pe, "residual", on_residual, NULL);
    if (st == WH_OK)
        st = wh_function_register(pe, "result", on_result, NULL);
    if (st == WH_OK && wh_pe_number(pe) == 0) {
        st = wh_array_create(pe, "block", WH_ARRAY_OPTS(.dims = 3, .shape = {b, b, b}), NULL, 0,
                             &blocks);
        clock_gettime(CLOCK_MONOTONIC, &began);
        if (st == WH_OK)
            st = wh_chare_send(pe, blocks, RUN, NULL, 0, NULL);
    }
    if (st != WH_OK)
        fail(pe, "start", st);
}

static bool parse_mode(const char *name) {
    for (int i = 0; i < MODES; i++)
        if (strcmp(name, mode_names[i]) == 0) {
            options.mode = (mode)i;
            return true;
        }
    return false;
}

static bool parse(int argc, char **argv) {
    bool good = true;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        int *number = strcmp(argv[i], "--grid") == 0         ? &options.grid
                      : strcmp(argv[i], "--blocks") == 0     ? &options.blocks
                      : strcmp(argv[i], "--iterations") == 0 ? &options.iterations
                                                             : NULL;
        if (strcmp(argv[i], "--check") == 0) {
            options.check = true;
            continue;
        }
        if (number)
            *number = atoi(value);
        else if (strcmp(argv[i], "--picture") == 0 && *value)
            options.picture = value;
        else if (strcmp(argv[i], "--memory") == 0)
            good = wh_mem_kind_parse(value, &options.memory) == WH_OK;
        else if (strcmp(argv[i], "--mode") != 0 || !parse_mode(value))
            return false;
        i++;
    }
    if (options.mode == STAGED && options.memory == WH_MEM_SIM) {
        fprintf(stderr, "jacobi3d: sim memory cannot be packed\n");
        good = false;
    }
    return good && options.blocks > 0 && options.iterations > 0 && options.grid >= options.blocks &&
           options.grid <= 1024 && options.grid % options.blocks == 0;
}

int main(int argc, char **argv) {
    wh_rt *rt;
    int status = 1;
    if (!parse(argc, argv)) {
        fprintf(
            stderr,
            "jacobi3d [--mode channel|post|staged] [--grid N] [--blocks N] [--iterations N] [--check]\n"
            "         [--memory host|sim|cuda] [--picture FILE.svg]\n"
            "The edge of the grid, up to 1024, is a multiple of the blocks'.\n");
        return 2;
    }
    residuals = calloc((size_t)options.iterations, sizeof(double));
    if (!residuals || wh_rt_init(NULL, &rt) != WH_OK)
        return 1;
    if (wh_rt_run(rt, start, NULL, &status) != WH_OK)
        status = 1;
    wh_rt_finish(rt);
    free(residuals);
    return status;
}
