// SPDX-License-Identifier: BSD-3-Clause
//
// Particles that fly through a square cut into cells, each a chare; start it with `wherry run -n 4 particles`.
//
// They begin crowded in one corner and drift, so that few PEs have most of the work, and not always the same ones.  Every few
// steps the cells are balanced (--balance), which is printed, and drawn with --plot.
//
// Positions are 32-bit integers that wrap around at the edge of the square, so a run in many processes has exactly the
// particles of a serial one (--check).
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <wherry/wherry.h>

enum { NEIGHBOURS = 9, PES_MAX = 1024, PLOTS_MAX = 12 };  // itself included

static struct {
    int cells;  // of an edge of the square
    int particles, steps;
    int every;  // steps between balancing
    const char *balance;
    bool told;  // the load is the number of pairs, not the measured time
    bool check;
    const char *plot;
} options = {.cells = 8, .particles = 6000, .steps = 40, .every = 10, .balance = "greedy"};

static void fail(wh_pe *pe, const char *what, wh_status status) {
    fprintf(stderr, "particles: %s: %s\n", what, wh_status_text(status));
    wh_pe_exit(pe, 1);
}

// ---- Particles.

typedef struct particle {
    uint32_t x, y;
    int32_t vx, vy;
} particle;

static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

// first returns where a particle begins: most near the corner, all drifting the same way.
static particle first(int number) {
    uint64_t a = mix((uint64_t)number + 1), b = mix(a + 1), most = UINT32_MAX / 16;
    uint64_t x = a >> 32, y = a & UINT32_MAX, vx = b >> 32, vy = b & UINT32_MAX;
    return (particle){.x = (uint32_t)(x * x >> 32),
                      .y = (uint32_t)(y * y >> 32),
                      .vx = (int32_t)(vx % most / 4 + most / 16),
                      .vy = (int32_t)(vy % most / 4) - (int32_t)(most / 16)};
}

static void fly(particle *p) {
    p->x += (uint32_t)p->vx;
    p->y += (uint32_t)p->vy;
}

static int cell_of(uint32_t at) {
    return (int)((uint64_t)at * (unsigned)options.cells >> 32);
}

// near counts the pairs of particles of a cell that are close to each other: the work.
static uint64_t near(const particle *p, size_t count) {
    uint32_t reach = UINT32_MAX / (uint32_t)options.cells / 8;
    uint64_t pairs = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < i; j++) {
            uint32_t dx = p[i].x - p[j].x, dy = p[i].y - p[j].y;
            pairs += dx + reach <= 2 * reach && dy + reach <= 2 * reach;
        }
    return pairs;
}

// What must be equal in any run, whatever the order of particles.
enum { COUNT, MOMENTUM_X, MOMENTUM_Y, HASH, PAIRS, SUMS };

static void sum(const particle *p, size_t count, uint64_t *sums) {
    for (size_t i = 0; i < count; i++) {
        sums[COUNT]++;
        sums[MOMENTUM_X] += (uint64_t)(int64_t)p[i].vx;
        sums[MOMENTUM_Y] += (uint64_t)(int64_t)p[i].vy;
        sums[HASH] += mix(mix((uint64_t)p[i].x << 32 | p[i].y) + (uint32_t)p[i].vx);
    }
    sums[PAIRS] += near(p, count);
}

// ---- Cells.

typedef struct cell {
    particle *p;
    size_t count, space;
    int32_t step, missing;  // messages of neighbours in this step
    int32_t pe;             // where it was when it reached its sync point
    uint64_t pairs;         // looked at since the last one
} cell;

static bool add(cell *c, const particle *p, size_t count) {
    if (c->count + count > c->space) {
        size_t space = 2 * (c->count + count);
        particle *more = realloc(c->p, space * sizeof(*more));
        if (!more)
            return false;
        c->p = more;
        c->space = space;
    }
    if (count)
        memcpy(c->p + c->count, p, count * sizeof(*p));
    c->count += count;
    return true;
}

static bool is_in(const particle *p, const int32_t *index) {
    return cell_of(p->x) == index[0] && cell_of(p->y) == index[1];
}

static void construct(wh_chare *self, const wh_call *call) {
    (void)call;
    for (int i = 0; i < options.particles; i++) {
        particle p = first(i);
        if (is_in(&p, self->proxy.index) && !add(self->state, &p, 1))
            fail(self->pe, "cell", WH_ENOMEM);
    }
}

static void destruct(wh_chare *self) {
    free(((cell *)self->state)->p);
}

static size_t pack(wh_chare *self, void *to) {
    const cell *c = self->state;
    size_t size = c->count * sizeof(*c->p);
    if (to)
        memcpy(to, c, sizeof(*c));
    if (to && size)
        memcpy((char *)to + sizeof(*c), c->p, size);
    return sizeof(*c) + size;
}

static wh_status unpack(wh_chare *self, const void *data, size_t size) {
    cell *c = self->state;
    memcpy(c, data, sizeof(*c));
    size_t count = c->count;
    c->p = NULL;
    c->count = c->space = 0;
    if (size != sizeof(*c) + count * sizeof(*c->p))
        return WH_EPROTOCOL;
    return add(c, (const void *)((const char *)data + sizeof(*c)), count) ? WH_OK : WH_ENOMEM;
}

// ---- Steps.

enum { STEP, TAKE, RESUME };  // entries

static wh_callback to(const char *function, int64_t ref) {
    return (wh_callback){
        .kind = WH_CALLBACK_FUNCTION, .function = wh_function_id(function), .pe = 0, .ref = ref};
}

static wh_status contribute(wh_chare *self, const uint64_t *values, size_t count,
                            const char *function, int64_t ref) {
    wh_contribution part = {.reducer = WH_REDUCER_OP,
                            .op = WH_REDUCE_SUM,
                            .type = WH_TYPE_UINT64,
                            .data = values,
                            .count = count};
    wh_callback callback = to(function, ref);
    return wh_contribute(self, &part, 1, sizeof(part), &callback);
}

// send_to gives a neighbour the particles that fly there; what has gone is taken out.
static wh_status send_to(wh_chare *self, cell *c, int32_t dx, int32_t dy, particle *leaving) {
    int32_t n = options.cells;
    const int32_t at[2] = {(self->proxy.index[0] + dx + n) % n,
                           (self->proxy.index[1] + dy + n) % n};
    size_t gone = 0, left = 0;
    for (size_t i = 0; i < c->count; i++) {
        if (is_in(&c->p[i], at))
            leaving[gone++] = c->p[i];
        else
            c->p[left++] = c->p[i];
    }
    c->count = left;
    return wh_chare_send(self->pe, wh_proxy_at(self->proxy, 2, at), TAKE, leaving,
                         gone * sizeof(*leaving), WH_SEND_OPTS(.ref = c->step));
}

static void step(wh_chare *self, const wh_call *call) {
    (void)call;
    cell *c = self->state;
    particle *leaving = malloc((c->count + 1) * sizeof(*leaving));
    wh_status st = leaving ? WH_OK : WH_ENOMEM;
    for (size_t i = 0; i < c->count; i++)
        fly(&c->p[i]);
    c->step++;
    c->missing = NEIGHBOURS;
    for (int i = 0; st == WH_OK && i < NEIGHBOURS; i++) {
        st = send_to(self, c, i % 3 - 1, i / 3 - 1, leaving);
        if (st == WH_OK)
            st = wh_chare_when(self, TAKE, c->step);
    }
    free(leaving);
    if (st == WH_OK && c->count)
        st = WH_EINVAL;  // one flies further than to a neighbour
    if (st != WH_OK)
        fail(self->pe, "step", st);
}

static wh_status go_on(wh_chare *self) {
    return wh_chare_send(self->pe, self->proxy, STEP, NULL, 0, NULL);
}

static wh_status end_step(wh_chare *self, cell *c) {
    uint64_t sums[SUMS] = {0};
    if (c->step == options.steps) {
        sum(c->p, c->count, sums);
        return contribute(self, sums, SUMS, "result", 0);
    }
    c->pairs += c->count * c->count / 2;
    if (near(c->p, c->count) > c->count * c->count)
        return WH_EINVAL;  // the work is not optimised away
    if (c->step % options.every)
        return go_on(self);
    c->pe = wh_pe_number(self->pe);
    wh_status st = options.told ? wh_chare_set_load(self, (double)c->pairs) : WH_OK;
    return st == WH_OK ? wh_chare_sync(self) : st;
}

static void take(wh_chare *self, const wh_call *call) {
    cell *c = self->state;
    wh_status st = add(c, call->args, call->size / sizeof(particle)) ? WH_OK : WH_ENOMEM;
    if (st == WH_OK && --c->missing == 0)
        st = end_step(self, c);
    if (st != WH_OK)
        fail(self->pe, "particles that come", st);
}

// resume tells PE 0 which PE has had the work of this cell, and which one has it now.
static void resume(wh_chare *self, const wh_call *call) {
    cell *c = self->state;
    uint64_t load[2 * PES_MAX] = {0};
    int pes = wh_rt_pes(wh_pe_rt(self->pe));
    load[c->pe] = load[pes + wh_pe_number(self->pe)] = c->pairs;
    wh_status st = contribute(self, load, 2 * (size_t)pes, "balanced", call->ref);
    c->pairs = 0;
    if (st == WH_OK)
        st = go_on(self);
    if (st != WH_OK)
        fail(self->pe, "resume", st);
}

static const wh_entry cell_entries[] = {
    [STEP] = {.name = "step", .fn = step},
    [TAKE] = {.name = "take", .fn = take, .flags = WH_ENTRY_WHEN},
    [RESUME] = {.name = "resume", .fn = resume},
};
static const wh_class cell_class = {
    .size = sizeof(wh_class),
    .name = "cell",
    .state = sizeof(cell),
    .construct = construct,
    .destruct = destruct,
    .pack = pack,
    .unpack = unpack,
    .entries = cell_entries,
    .entry_count = sizeof(cell_entries) / sizeof(cell_entries[0]),
    .entry_size = sizeof(wh_entry),
};

// ---- What PE 0 hears: loads before and after each balancing.

static struct {
    wh_proxy cells;
    int pes, count;
    uint64_t *load[PLOTS_MAX];  // of each balancing: by PE, before, then after
} seen;

static double over_mean(const uint64_t *load, int pes) {
    uint64_t most = 0, all = 0;
    for (int i = 0; i < pes; i++) {
        most = load[i] > most ? load[i] : most;
        all += load[i];
    }
    return all ? (double)most * pes / (double)all : 1;
}

static void on_balanced(wh_pe *pe, const wh_call *call, void *arg) {
    (void)arg;
    const uint64_t *load = call->args;
    wh_balance_step last = {.size = sizeof(last)};
    wh_status st = wh_balance_last(pe, seen.cells, &last);
    seen.pes = wh_rt_pes(wh_pe_rt(pe));
    if (st != WH_OK) {
        fail(pe, "balance", st);
        return;
    }
    printf("step %d: pairs, max/mean %.2f, balanced %.2f; load, max/mean %.2f, balanced %.2f; "
           "%d of %d cells moved in %.1f ms\n",
           (int)call->ref * options.every, over_mean(load, seen.pes),
           over_mean(load + seen.pes, seen.pes), last.max_before / last.mean_before,
           last.max_after / last.mean_after, (int)last.moved, (int)last.elements,
           last.seconds * 1e3);
    if (seen.count < PLOTS_MAX && (seen.load[seen.count] = malloc(call->size)))
        memcpy(seen.load[seen.count++], load, call->size);
}

// ---- The picture: for each balancing a row of bars, one pair per PE, before and after.

enum { BAR = 14, ROW = 90, LEFT = 70, TOP = 40 };

static void draw_row(FILE *file, const uint64_t *load, int row) {
    uint64_t most = 1, all = 0;
    for (int i = 0; i < 2 * seen.pes; i++)
        most = load[i] > most ? load[i] : most;
    for (int i = 0; i < seen.pes; i++)
        all += load[i];
    int bottom = TOP + ROW * (row + 1) - 20, width = seen.pes * 3 * BAR;
    double mean = (double)all / seen.pes * (ROW - 30) / (double)most;
    for (int i = 0; i < 2 * seen.pes; i++) {
        double height = (double)load[i] * (ROW - 30) / (double)most;
        int x = LEFT + i % seen.pes * 3 * BAR + (i >= seen.pes ? BAR : 0);
        fprintf(file, "<rect x='%d' y='%.1f' width='%d' height='%.1f' fill='%s'/>\n", x,
                bottom - height, BAR - 2, height, i < seen.pes ? "#bbb" : "#2a6fb0");
    }
    fprintf(file,
            "<line x1='%d' x2='%d' y1='%.1f' y2='%.1f' stroke='#c33' stroke-dasharray='4 3'/>\n"
            "<text x='8' y='%d'>step %d</text>\n",
            LEFT - 4, LEFT + width, bottom - mean, bottom - mean, bottom,
            (row + 1) * options.every);
}

static bool plot(void) {
    FILE *file = fopen(options.plot, "w");
    if (!file)
        return false;
    int width = LEFT + seen.pes * 3 * BAR + 20, height = TOP + ROW * seen.count + 10;
    fprintf(file,
            "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' "
            "font-family='sans-serif' font-size='12'>\n"
            "<rect width='100%%' height='100%%' fill='white'/>\n"
            "<text x='8' y='20'>pairs per PE: grey before, blue after balancing, red the "
            "mean</text>\n",
            width > 420 ? width : 420, height);
    for (int i = 0; i < seen.count; i++)
        draw_row(file, seen.load[i], i);
    fprintf(file, "</svg>\n");
    return fclose(file) == 0;
}

// ---- The end.

// serial does all steps here, for comparison.
static bool serial(uint64_t *sums) {
    size_t n = (size_t)options.particles;
    particle *all = malloc((n + 1) * sizeof(*all)), *some = malloc((n + 1) * sizeof(*some));
    bool ok = all && some;
    for (size_t i = 0; ok && i < n; i++) {
        all[i] = first((int)i);
        for (int s = 0; s < options.steps; s++)
            fly(&all[i]);
    }
    for (int32_t c = 0; ok && c < options.cells * options.cells; c++) {
        const int32_t at[2] = {c / options.cells, c % options.cells};
        size_t count = 0;
        for (size_t i = 0; i < n; i++)
            if (is_in(&all[i], at))
                some[count++] = all[i];
        sum(some, count, sums);
    }
    free(all);
    free(some);
    return ok;
}

static void on_result(wh_pe *pe, const wh_call *call, void *arg) {
    (void)arg;
    const uint64_t *sums = call->args;
    uint64_t expected[SUMS] = {0};
    int status = 0;
    printf("%llu particles, momentum %lld, %lld\n", (unsigned long long)sums[COUNT],
           (long long)sums[MOMENTUM_X], (long long)sums[MOMENTUM_Y]);
    if (options.check) {
        bool equal = serial(expected) && memcmp(sums, expected, sizeof(expected)) == 0;
        printf("%s a serial run\n", equal ? "equal to" : "not equal to");
        status = !equal;
    }
    if (options.plot && !plot()) {
        perror(options.plot);
        status = 1;
    }
    for (int i = 0; i < seen.count; i++)
        free(seen.load[i]);
    wh_pe_exit(pe, status);
}

static void start(wh_pe *pe, void *arg) {
    (void)arg;
    wh_status st = wh_class_register(pe, &cell_class);
    if (st == WH_OK)
        st = wh_function_register(pe, "balanced", on_balanced, NULL);
    if (st == WH_OK)
        st = wh_function_register(pe, "result", on_result, NULL);
    if (st == WH_OK && wh_pe_number(pe) == 0) {
        st = wh_array_create(pe, "cell",
                             WH_ARRAY_OPTS(.dims = 2, .shape = {options.cells, options.cells},
                                           .balance = options.balance, .resume = RESUME),
                             NULL, 0, &seen.cells);
        if (st == WH_OK)
            st = wh_chare_send(pe, seen.cells, STEP, NULL, 0, NULL);
    }
    if (st != WH_OK)
        fail(pe, "start", st);
}

static bool parse(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        int *number = strcmp(argv[i], "--cells") == 0       ? &options.cells
                      : strcmp(argv[i], "--particles") == 0 ? &options.particles
                      : strcmp(argv[i], "--steps") == 0     ? &options.steps
                      : strcmp(argv[i], "--every") == 0     ? &options.every
                                                            : NULL;
        const char **text = strcmp(argv[i], "--balance") == 0 ? &options.balance
                            : strcmp(argv[i], "--plot") == 0  ? &options.plot
                                                              : NULL;
        bool *flag = strcmp(argv[i], "--check") == 0  ? &options.check
                     : strcmp(argv[i], "--told") == 0 ? &options.told
                                                      : NULL;
        if (!number && !text && !flag)
            return false;
        if (flag)
            *flag = true;
        else if (number)
            *number = atoi(value);
        else
            *text = value;
        i += !flag;
    }
    return options.cells >= 3 && options.cells <= 16 && options.particles >= 0 &&
           options.steps > 0 && options.every > 0;
}

int main(int argc, char **argv) {
    wh_rt *rt;
    int status = 1;
    if (!parse(argc, argv)) {
        fprintf(stderr, "particles [--cells N] [--particles N] [--steps N] [--every N] [--told] "
                        "[--balance none|greedy|refine|distributed] [--plot FILE.svg] [--check]\n"
                        "The edge of the square has 3 to 16 cells.\n");
        return 2;
    }
    if (wh_rt_init(NULL, &rt) != WH_OK)
        return 1;
    if (wh_rt_pes(rt) > PES_MAX)
        fprintf(stderr, "particles: at most %d PEs\n", PES_MAX);
    else if (wh_rt_run(rt, start, NULL, &status) != WH_OK)
        status = 1;
    wh_rt_finish(rt);
    return status;
}
