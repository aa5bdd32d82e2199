// SPDX-License-Identifier: BSD-3-Clause
//
// Random types against the oracle: bounds, pack, unpack, every way of cutting, iov, flatten; and what
// was flattened here packs the same bytes in another process.
//
// Every case follows from its seed alone; a failure prints it, and `random_test seed N` repeats it.
// Argument `cases N` sets how many; the default takes about a minute on one slow core.
#include <assert.h>
#include <sys/wait.h>
#include <unistd.h>

#include <wherry/pack.h>

#include "base/alloc.h"
#include "base/files.h"
#include "base/rng.h"
#include "type/gen.h"
#include "type/kernels/kernels.h"
#include "type/oracle.h"

#include "base/test.h"

enum {
    CASES = 100000,
    SIZE_MAX_ = 3000,  // packed bytes
    SPAN_MAX = 40000,  // bytes of memory
    GUARD = 64,
};

// One case: a type with memory that just covers it.
typedef struct sample {
    uint64_t seed;
    whi_gen gen;
    wh_type *type;
    int64_t count, total, low, span;
    bool overlaps;
    int64_t map[4 * SIZE_MAX_];
    unsigned char memory[4 * SPAN_MAX + 2 * GUARD], other[4 * SPAN_MAX + 2 * GUARD];
    unsigned char packed[4 * SIZE_MAX_ + 2 * GUARD], expected[4 * SIZE_MAX_];
    struct iovec runs[4 * SIZE_MAX_], iov[4 * SIZE_MAX_];
    int64_t nruns;
} sample;

static uint64_t draw(sample *s, uint64_t below) {
    return whi_rng_below(&s->gen.rng, below);
}

// Where the type's origin lies in `memory`, so that map offset `low` is the first byte behind the guard.
static unsigned char *origin(const sample *s, unsigned char *memory) {
    return (unsigned char *)((uintptr_t)memory + GUARD - (uintptr_t)s->low);
}

static void check_bounds(const wh_type *type) {
    whi_oracle_bounds b = whi_oracle_measure(type);
    CHECK_EQ_INT(type->at.size, b.size);
    CHECK_EQ_INT(type->at.basics, b.basics);
    CHECK_EQ_INT(type->at.lb, b.lb);
    CHECK_EQ_INT(type->at.ub, b.ub);
    CHECK_EQ_INT(type->at.true_lb, b.true_lb);
    CHECK_EQ_INT(type->at.true_ub, b.true_ub);
}

static void map_type(sample *s) {
    whi_oracle_map(s->type, s->count, s->map);
    s->overlaps = whi_oracle_span(s->map, s->total, &s->low, &s->span);
}

static void fill_memory(sample *s, size_t size) {
    for (size_t i = 0; i < size; i++)
        s->memory[i] = (unsigned char)(i * 167 + (i >> 8) * 13 + s->seed);
}

static void make_sample(sample *s, uint64_t seed) {
    s->seed = seed;
    s->gen = (whi_gen){.max_size = SIZE_MAX_, .max_span = SPAN_MAX};
    whi_rng_init(&s->gen.rng, seed);
    s->type = whi_gen_type(&s->gen, 1 + (int)draw(s, 5));
    s->count = draw(s, 3) ? 1 : (int64_t)draw(s, 4);
    s->total = s->count * s->type->at.size;
    map_type(s);
    fill_memory(s, (size_t)s->span + 2 * GUARD);
    for (int64_t i = 0; i < s->total; i++)
        s->expected[i] = origin(s, s->memory)[s->map[i]];
    s->nruns = 0;
    for (int64_t i = 0; i < s->total; i++) {
        if (i && s->map[i] == s->map[i - 1] + 1)
            s->runs[s->nruns - 1].iov_len++;
        else
            s->runs[s->nruns++] = (struct iovec){origin(s, s->memory) + s->map[i], 1};
    }
}

static void pack_part(sample *s, int64_t from, int64_t to) {
    size_t actual = 77;
    memset(s->packed, 0xa5, (size_t)(to - from) + 2 * GUARD);
    CHECK_EQ_INT(wh_pack(origin(s, s->memory), s->count, s->type, (size_t)from, s->packed + GUARD,
                         (size_t)(to - from), 0, &actual),
                 WH_OK);
    CHECK_EQ_INT(actual, to - from);
    CHECK_MEM(s->packed + GUARD, s->expected + from, (size_t)(to - from));
    for (int i = 0; i < GUARD; i++)
        CHECK(s->packed[i] == 0xa5 && s->packed[GUARD + to - from + i] == 0xa5);
}

static void unpack_part(sample *s, int64_t from, int64_t to) {
    size_t actual = 77;
    CHECK_EQ_INT(wh_unpack(s->expected + from, (size_t)(to - from), origin(s, s->other), s->count,
                           s->type, (size_t)from, 0, &actual),
                 WH_OK);
    CHECK_EQ_INT(actual, to - from);
}

// After unpacking, memory holds the packed bytes where the map says and is untouched elsewhere.
static void check_unpacked(sample *s) {
    static unsigned char wanted[sizeof(s->other)];
    size_t size = (size_t)s->span + 2 * GUARD;
    memset(wanted, 0x5a, size);
    for (int64_t i = 0; i < s->total; i++)
        origin(s, wanted)[s->map[i]] = s->expected[i];
    CHECK_MEM(s->other, wanted, size);
}

static void check_whole(sample *s) {
    pack_part(s, 0, s->total);
    if (s->overlaps)
        return;
    memset(s->other, 0x5a, (size_t)s->span + 2 * GUARD);
    unpack_part(s, 0, s->total);
    check_unpacked(s);
}

// The packed bytes in two parts, cut at `at`; unpacked last part first.
static void check_cut(sample *s, int64_t at) {
    pack_part(s, 0, at);
    pack_part(s, at, s->total);
    if (s->overlaps)
        return;
    memset(s->other, 0x5a, (size_t)s->span + 2 * GUARD);
    unpack_part(s, at, s->total);
    unpack_part(s, 0, at);
    check_unpacked(s);
}

// The packed bytes in random segments of every size.
static void check_segments(sample *s) {
    memset(s->other, 0x5a, (size_t)s->span + 2 * GUARD);
    int64_t most = 1 + (int64_t)draw(s, (uint64_t)s->total), to;
    for (int64_t from = 0; from < s->total; from = to) {
        to = from + 1 + (int64_t)draw(s, (uint64_t)most);
        to = to < s->total ? to : s->total;
        pack_part(s, from, to);
        if (!s->overlaps)
            unpack_part(s, from, to);
    }
    if (!s->overlaps)
        check_unpacked(s);
}

static void check_cuts(sample *s) {
    if (s->total <= 256)
        for (int64_t at = 0; at <= s->total; at++)
            check_cut(s, at);
    else
        for (int i = 0; i < 3; i++)
            check_segments(s);
}

static void check_iov_from(sample *s, int64_t first, int64_t max) {
    int64_t actual = -1, left = s->nruns - first;
    CHECK_EQ_INT(wh_iov(origin(s, s->memory), s->count, s->type, first, s->iov, max, &actual),
                 WH_OK);
    CHECK_EQ_INT(actual, left < max ? left : max);
    for (int64_t i = 0; i < actual; i++) {
        CHECK(s->iov[i].iov_base == s->runs[first + i].iov_base);
        CHECK_EQ_INT(s->iov[i].iov_len, s->runs[first + i].iov_len);
    }
}

static void check_iov_bytes(sample *s) {
    int64_t from = (int64_t)draw(s, (uint64_t)s->total + 1), actual;
    size_t max_bytes = draw(s, (uint64_t)s->total + 9), bytes, at = 0;
    CHECK_EQ_INT(wh_iov_bytes(origin(s, s->memory), s->count, s->type, (size_t)from, max_bytes,
                              s->iov, (int64_t)draw(s, 20), &actual, &bytes),
                 WH_OK);
    for (int64_t i = 0; i < actual; i++) {
        CHECK_MEM(s->iov[i].iov_base, s->expected + (size_t)from + at, s->iov[i].iov_len);
        at += s->iov[i].iov_len;
    }
    CHECK_EQ_INT(at, bytes);
    CHECK(bytes <= max_bytes);
}

static void check_iov(sample *s) {
    int64_t len = -1, fit, bytes, sum = 0, limit = (int64_t)draw(s, (uint64_t)s->total + 9);
    CHECK_EQ_INT(wh_iov_len(s->count, s->type, &len), WH_OK);
    CHECK_EQ_INT(len, s->nruns);
    check_iov_from(s, 0, s->nruns + 1);
    for (int i = 0; i < 4; i++)
        check_iov_from(s, (int64_t)draw(s, (uint64_t)s->nruns + 1), (int64_t)draw(s, 9));
    check_iov_bytes(s);
    CHECK_EQ_INT(wh_iov_len_max(s->count, s->type, limit, &fit, &bytes), WH_OK);
    for (int64_t i = 0; i < fit; i++)
        sum += (int64_t)s->runs[i].iov_len;
    CHECK_EQ_INT(sum, bytes);
    CHECK(bytes <= limit);
    CHECK(fit == s->nruns || sum + (int64_t)s->runs[fit].iov_len > limit);
}

// The mirror is this program in another process, at other addresses: it reads flattened types,
// packs memory that it fills like ours, and sends the packed bytes back.
typedef struct question {
    size_t flat;  // bytes of the type that follow
    uint64_t seed;
    int64_t count, total, low, span;
} question;

static struct {
    pid_t pid;
    int to, from;
} mirror;

static int be_mirror(void) {
    static sample s;
    static unsigned char flat[1 << 16];
    question q;
    size_t actual;
    while (whi_read_all(STDIN_FILENO, &q, sizeof(q))) {
        if (q.flat > sizeof(flat) || !whi_read_all(STDIN_FILENO, flat, q.flat) ||
            wh_type_unflatten(flat, q.flat, &actual, &s.type) != WH_OK)
            return 1;
        s.seed = q.seed;
        s.low = q.low;
        fill_memory(&s, (size_t)q.span + 2 * GUARD);
        if (wh_pack(origin(&s, s.memory), q.count, s.type, 0, s.packed, sizeof(s.packed), 0,
                    &actual) != WH_OK ||
            actual != (size_t)q.total || !whi_write_all(STDOUT_FILENO, s.packed, actual))
            return 1;
        wh_type_release(s.type);
    }
    return 0;
}

static void start_mirror(void) {
    int there[2], back[2];
    CHECK(pipe(there) == 0 && pipe(back) == 0);
    mirror.pid = fork();
    CHECK(mirror.pid >= 0);
    if (mirror.pid == 0) {
        dup2(there[0], STDIN_FILENO);
        dup2(back[1], STDOUT_FILENO);
        close(there[1]);
        close(back[0]);
        execl("/proc/self/exe", "random_test", "mirror", (char *)NULL);
        _exit(1);
    }
    close(there[0]);
    close(back[1]);
    mirror.to = there[1];
    mirror.from = back[0];
}

static void stop_mirror(void) {
    int status;
    close(mirror.to);
    close(mirror.from);
    CHECK_EQ_INT(waitpid(mirror.pid, &status, 0), mirror.pid);
    CHECK_EQ_INT(status, 0);
}

static void check_mirror(sample *s, const unsigned char *flat, size_t size) {
    const question q = {size, s->seed, s->count, s->total, s->low, s->span};
    CHECK(whi_write_all(mirror.to, &q, sizeof(q)) && whi_write_all(mirror.to, flat, size));
    CHECK(whi_read_all(mirror.from, s->packed, (size_t)s->total));
    CHECK_MEM(s->packed, s->expected, (size_t)s->total);
}

// Flattened and back: the same bytes again, the same type for all that can be asked.
static void check_flatten(sample *s) {
    static unsigned char flat[1 << 16], again[1 << 16];
    size_t size = 0, size_again = 0, used = 0, need = 0;
    wh_type *copy;
    CHECK_EQ_INT(wh_type_flatten(s->type, NULL, 0, &need), WH_ETRUNCATED);
    CHECK_EQ_INT(wh_type_flatten(s->type, flat, sizeof(flat), &size), WH_OK);
    CHECK_EQ_INT(size, need);
    CHECK_EQ_INT(wh_type_unflatten(flat, size, &used, &copy), WH_OK);
    CHECK_EQ_INT(used, size);
    CHECK_EQ_INT(wh_type_flatten(copy, again, sizeof(again), &size_again), WH_OK);
    CHECK_EQ_INT(size_again, size);
    CHECK_MEM(again, flat, size);
    check_mirror(s, flat, size);
    bool equal = false;
    CHECK_EQ_INT(wh_type_equal(s->type, copy, &equal), WH_OK);
    CHECK(equal);
    wh_type *original = s->type;
    s->type = copy;
    pack_part(s, 0, s->total);
    s->type = original;
    wh_type_release(copy);
}

typedef struct tokens {
    int64_t n;
    uint16_t token[4 * SIZE_MAX_];
} tokens;

static void add_token(int64_t offset, wh_type_id id, void *arg) {
    (void)offset;
    tokens *all = arg;
    const whi_basic *basic = &whi_basics[id];
    bool pair = basic->type_class == WHI_TYPE_CLASS_PAIR;
    all->token[all->n++] =
        (uint16_t)((pair ? basic->value_class : basic->type_class) * 256 + basic->value);
    if (pair)
        all->token[all->n++] = WHI_TYPE_CLASS_INT * 256 + sizeof(int);
}

typedef struct borders {
    int64_t limit, at, border, basics, before;
} borders;

static void add_border(int64_t offset, wh_type_id id, void *arg) {
    (void)offset;
    borders *b = arg;
    b->at += whi_basics[id].size;
    b->basics += whi_basics[id].type_class == WHI_TYPE_CLASS_PAIR ? 2 : 1;
    if (b->at > b->limit)
        return;
    b->border = b->at;
    b->before = b->basics;
}

// The last end of an element at or below some bytes of the packed bytes.
static void check_borders(const sample *s) {
    for (int64_t i = 0; i < 5 && s->total; i++) {
        borders b = {.limit = (i * 7919 + (int64_t)s->seed * 104729) % (s->total + 1)};
        int64_t border, basics;
        whi_oracle_walk(s->type, s->count, add_border, &b);
        CHECK_EQ_INT(wh_type_get_border(s->type, b.limit, &border, &basics), WH_OK);
        CHECK_EQ_INT(border, b.border);
        CHECK_EQ_INT(basics, b.before);
    }
}

// Two samples have one signature exactly when the oracle visits the same type classes and widths.
static void check_signature(const sample *s) {
    static tokens now, before;
    static uint64_t hash_before;
    uint64_t hash;
    int64_t basics, elements;
    now.n = 0;
    whi_oracle_walk(s->type, s->count, add_token, &now);
    CHECK_EQ_INT(wh_type_signature(s->type, s->count, &hash, &basics), WH_OK);
    CHECK_EQ_INT(basics, now.n);
    bool same = now.n == before.n && memcmp(now.token, before.token, (size_t)now.n * 2) == 0;
    CHECK(same == (now.n == before.n && hash == hash_before));
    CHECK_EQ_INT(wh_type_get_elements(s->type, s->total, &elements), WH_OK);
    CHECK_EQ_INT(elements, now.n);
    check_borders(s);
    before = now;
    hash_before = hash;
}

// Another way to describe the same bytes: their runs, one by one.
static void check_equal(sample *s) {
    static int64_t lengths[4 * SIZE_MAX_], displacements[4 * SIZE_MAX_];
    wh_type *bytes, *resized;
    bool equal = false;
    for (int64_t i = 0; i < s->nruns; i++) {
        lengths[i] = (int64_t)s->runs[i].iov_len;
        displacements[i] = (unsigned char *)s->runs[i].iov_base - origin(s, s->memory);
    }
    if (s->count != 1)
        return;
    CHECK_EQ_INT(wh_type_create_hindexed(s->nruns, lengths, displacements,
                                         wh_type_basic(WH_TYPE_BYTE), &bytes),
                 WH_OK);
    CHECK_EQ_INT(
        wh_type_create_resized(bytes, s->type->at.lb, s->type->at.ub - s->type->at.lb, &resized),
        WH_OK);
    CHECK_EQ_INT(wh_type_equal(s->type, resized, &equal), WH_OK);
    CHECK(equal);
    // And a copy from the one description to the other moves every byte to its place.
    if (!s->overlaps) {
        size_t actual;
        memset(s->other, 0x5a, (size_t)s->span + 2 * GUARD);
        CHECK_EQ_INT(wh_type_copy(origin(s, s->other), 1, resized, origin(s, s->memory), 1, s->type,
                                  &actual),
                     WH_OK);
        CHECK_EQ_INT(actual, s->total);
        check_unpacked(s);
    }
    wh_type_release(resized);
    wh_type_release(bytes);
}

static void check_sample(sample *s) {
    check_bounds(s->type);
    check_whole(s);
    check_cuts(s);
    check_iov(s);
    check_flatten(s);
    check_signature(s);
    check_equal(s);
}

static uint64_t first_seed = 1, cases = CASES;

// A failed check leaves run_cases by a jump: whoever comes next says where.
static uint64_t running;

static void tell_seed(void) {
    if (running)
        fprintf(stderr, "random types: seed %llu was running\n", (unsigned long long)running);
    running = 0;
}

static void run_cases(const char *isa) {
    static sample s;
    if (!whi_kernels_use(isa))
        SKIP("this processor has no such kernels");
    tell_seed();
    start_mirror();
    for (uint64_t i = 0; i < cases; i++) {
        running = first_seed + i;
        make_sample(&s, running);
        check_sample(&s);
        wh_type_release(s.type);
    }
    running = 0;
    stop_mirror();
    whi_kernels_use(NULL);
}

// All cases with the kernels of this processor, a tenth with each other set.
TEST(best_kernels) {
    run_cases(NULL);
}

TEST(base_kernels) {
    cases /= 10;
    run_cases("base");
}

TEST(avx2_kernels) {
    run_cases("avx2");
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "mirror") == 0)
        return be_mirror();
    atexit(tell_seed);
    if (argc == 3 && strcmp(argv[1], "cases") == 0)
        cases = strtoull(argv[2], NULL, 0);
    if (argc == 3 && strcmp(argv[1], "seed") == 0) {
        first_seed = strtoull(argv[2], NULL, 0);
        cases = 10;
    }
    return whi_test_main("");
}
