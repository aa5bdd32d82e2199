// SPDX-License-Identifier: BSD-3-Clause
#include "rt/ult/ult.h"

#include <errno.h>
#include <stdint.h>

#include "base/test.h"
#include "base/test_child.h"

enum { STACK = 64 << 10 };

static whi_ult_stacks stacks;
static char said[64];

static void say(char c) {
    said[strlen(said)] = c;
}

static void begin(unsigned keep) {
    whi_ult_stacks_init(&stacks, STACK, keep);
    memset(said, 0, sizeof(said));
}

static whi_ult *start(void (*fn)(void *arg), void *arg) {
    whi_ult *ult;
    CHECK_EQ_INT(whi_ult_new(&stacks, fn, arg, &ult), WH_OK);
    return ult;
}

static void talk(void *arg) {
    const char *text = arg;
    for (; *text; text++) {
        say(*text);
        whi_ult_suspend();
    }
}

// The argument of a thread is not const, though what is behind it may be.
static void *text_of(const char *text) {
    return (void *)(uintptr_t)text;
}

static whi_ult *start_talk(const char *text) {
    return start(talk, text_of(text));
}

TEST(in_turns) {
    begin(2);
    whi_ult *a = start_talk("ace"), *b = start_talk("bd");
    CHECK(!whi_ult_here());
    CHECK(whi_ult_run(a) && whi_ult_run(b) && whi_ult_run(a) && whi_ult_run(b) && whi_ult_run(a));
    CHECK_EQ_STR(said, "abcde");
    CHECK(!whi_ult_run(a) && !whi_ult_run(b));
    CHECK(!whi_ult_here());
    CHECK_EQ_INT(stacks.alive, 0);
    CHECK_EQ_INT(stacks.kept, 2);
    whi_ult_stacks_fini(&stacks);
}

static void outer(void *arg) {
    whi_ult *self = whi_ult_here(), *inner = start(talk, arg);
    CHECK(self);
    say('(');
    while (whi_ult_run(inner)) {
        CHECK(whi_ult_here() == self);
        whi_ult_suspend();
    }
    say(')');
}

TEST(one_runs_another) {
    begin(0);
    whi_ult *ult = start(outer, text_of("xyz"));
    for (int i = 0; i < 3; i++)
        CHECK(whi_ult_run(ult));
    CHECK(!whi_ult_run(ult));
    CHECK_EQ_STR(said, "(xyz)");
    CHECK_EQ_INT(stacks.alive, 0);
    CHECK_EQ_INT(stacks.kept, 0);
    whi_ult_stacks_fini(&stacks);
}

// Threads that pass on to each other: 'a' to 'd' in turns, then each ends.  Who has run the first one goes on when the last is suspended, or has ended.
static whi_ult *ring[4];
static void pass_on(void *arg) {
    uintptr_t me = (uintptr_t)arg;
    whi_ult_suspend();
    for (int round = 0; round < 3; round++) {
        errno = (int)me;
        say((char)('a' + me));
        whi_ult *next = ring[(me + 1) % 4];
        if (me == 3 && round == 1)
            whi_ult_suspend();
        else
            whi_ult_pass(next);
        CHECK(whi_ult_here() == ring[me]);
        CHECK_EQ_INT(errno, (int)me);
    }
    say('.');
}

// From another place of the stack than the threads were begun from.
static __attribute__((noinline)) bool run_deeper(whi_ult *ult) {
    volatile char here[256];
    for (size_t i = 0; i < sizeof(here); i++)
        here[i] = 1;
    return whi_ult_run(ult) && here[stacks.alive];
}

TEST(passed_on) {
    begin(2);
    for (uintptr_t i = 0; i < 4; i++) {
        ring[i] = start(pass_on, (void *)i);
        CHECK(whi_ult_run(ring[i]));
    }
    CHECK(run_deeper(ring[0]));  // it is the last that suspends itself
    CHECK_EQ_STR(said, "abcdabcd");
    CHECK(!whi_ult_here());
    CHECK(!whi_ult_run(ring[0]));  // all have passed on a third time, and the first ends
    CHECK_EQ_STR(said, "abcdabcdabcd.");
    for (int i = 1; i < 4; i++)
        CHECK(!whi_ult_run(ring[i]));
    CHECK_EQ_STR(said, "abcdabcdabcd....");
    CHECK_EQ_INT(stacks.alive, 0);
    whi_ult_stacks_fini(&stacks);
}

// Many values that live across each switch, in registers and on the stack, of many threads at one time.
static void count(void *arg) {
    uint64_t n = *(uint64_t *)arg, a = n, b = n * 3, c = n ^ 0x55, d = ~n, e = n << 7, f = n + 11;
    double x = (double)n, y = 1 / (x + 1);
    for (unsigned i = 0; i < 20; i++) {
        a += b, b ^= c, c += d, d ^= e, e += f, f ^= a;
        x += y, y *= 1.25;
        whi_ult_suspend();
    }
    *(uint64_t *)arg = a ^ b ^ c ^ d ^ e ^ f ^ (uint64_t)(x * 1000) ^ (uint64_t)(y * 1000);
}

static uint64_t counted(uint64_t n) {
    uint64_t a = n, b = n * 3, c = n ^ 0x55, d = ~n, e = n << 7, f = n + 11;
    double x = (double)n, y = 1 / (x + 1);
    for (unsigned i = 0; i < 20; i++) {
        a += b, b ^= c, c += d, d ^= e, e += f, f ^= a;
        x += y, y *= 1.25;
    }
    return a ^ b ^ c ^ d ^ e ^ f ^ (uint64_t)(x * 1000) ^ (uint64_t)(y * 1000);
}

TEST(registers_are_kept) {
    enum { THREADS = 1000 };
    static uint64_t value[THREADS];
    static whi_ult *ult[THREADS];
    begin(THREADS);
    for (int round = 0; round < 2; round++) {  // the second over used stacks
        for (uint64_t i = 0; i < THREADS; i++) {
            value[i] = i * 977;
            ult[i] = start(count, &value[i]);
        }
        CHECK_EQ_INT(stacks.alive, THREADS);
        for (unsigned turn = 0; turn < 20; turn++)
            for (unsigned i = 0; i < THREADS; i++)
                CHECK(whi_ult_run(ult[(i * 7 + turn) % THREADS]));
        for (unsigned i = 0; i < THREADS; i++)
            CHECK(!whi_ult_run(ult[i]));
        for (uint64_t i = 0; i < THREADS; i++)
            CHECK(value[i] == counted(i * 977));
        CHECK_EQ_INT(stacks.kept, THREADS);
    }
    whi_ult_stacks_fini(&stacks);
}

// The control word of floating point, in which a rounding mode stands.
#if defined(__x86_64__)
enum { UPWARDS = 0x4000 };
static uint64_t control(void) {
    return __builtin_ia32_stmxcsr() & ~0x3fu;  // without what has happened so far
}
static void set_control(uint64_t word) {
    __builtin_ia32_ldmxcsr((unsigned)word);
}
#else
enum { UPWARDS = 1 << 22 };
static uint64_t control(void) {
    uint64_t word;
    __asm__ volatile("mrs %0, fpcr" : "=r"(word));
    return word;
}
static void set_control(uint64_t word) {
    __asm__ volatile("msr fpcr, %0" : : "r"(word));
}
#endif

static void round_upwards(void *arg) {
    uint64_t *seen = arg;
    set_control(control() | UPWARDS);
    errno = 7;
    whi_ult_suspend();
    seen[0] = control();
    seen[1] = (uint64_t)errno;
}

static void look_around(void *arg) {
    *(uint64_t *)arg = control();
}

TEST(errno_and_rounding_are_each_ones_own) {
    begin(2);
    uint64_t first[2] = {0}, second = 0, usual = control();
    whi_ult *ult = start(round_upwards, first), *other = start(look_around, &second);
    errno = 5;
    CHECK(whi_ult_run(ult));
    CHECK_EQ_INT(errno, 5);
    CHECK_EQ_INT(control(), usual);
    CHECK(!whi_ult_run(other));
    CHECK_EQ_INT(second, usual);
    errno = 5;
    CHECK(!whi_ult_run(ult));
    CHECK_EQ_INT(errno, 5);
    CHECK_EQ_INT(control(), usual);
    CHECK_EQ_INT(first[0], usual | UPWARDS);
    CHECK_EQ_INT(first[1], 7);
    whi_ult_stacks_fini(&stacks);
}

// At indices that no compiler knows, or it keeps what is used only.
static unsigned use_stack(unsigned bytes) {
    volatile char here[1024];
    here[bytes % sizeof(here)] = 1;
    if (bytes > sizeof(here))
        here[bytes / 2 % sizeof(here)] = (char)use_stack(bytes - (unsigned)sizeof(here));
    return (unsigned)here[bytes % sizeof(here)];
}

static void use(void *arg) {
    (void)use_stack(*(unsigned *)arg);
    say('.');
}

static void run_over(void) {
    unsigned most = 2 * STACK;
    (void)whi_ult_run(start(use, &most));
}

TEST(the_end_of_a_stack) {
    begin(1);
    unsigned half = STACK / 4;
    CHECK(!whi_ult_run(start(use, &half)));
    CHECK_EQ_STR(said, ".");
    whi_ult *neighbour = start_talk("n");
    CHECK(whi_ult_run(neighbour));
    pid_t pid = child_begin();
    if (!pid) {
        struct rlimit none = {0, 0};
        (void)setrlimit(RLIMIT_CORE, &none);
        signal(SIGSEGV, SIG_DFL);  // which a sanitizer has taken
        run_over();
        _exit(0);
    }
    int status = child_end(pid);
    CHECK(WIFSIGNALED(status));
    CHECK_EQ_INT(WTERMSIG(status), SIGSEGV);
    CHECK(!whi_ult_run(neighbour));
    whi_ult_stacks_fini(&stacks);
}

TEST(sizes_of_stacks) {
    whi_ult_stacks_init(&stacks, 1, 0);
    CHECK_EQ_INT(stacks.size, WHI_ULT_STACK_MIN);
    whi_ult_stacks_init(&stacks, WHI_ULT_STACK_MIN + 1, 0);
    CHECK(stacks.size > WHI_ULT_STACK_MIN && stacks.size % (size_t)getpagesize() == 0);
    // The system has no memory for it.
    whi_ult_stacks_init(&stacks, (size_t)1 << 60, 0);
    whi_ult *ult = NULL;
    CHECK_EQ_INT(whi_ult_new(&stacks, talk, NULL, &ult), WH_ENOMEM);
    CHECK_EQ_INT(stacks.alive, 0);
    whi_ult_stacks_fini(&stacks);
}

static void tell_line(void *arg) {
    *(uintptr_t *)arg = (uintptr_t)__builtin_frame_address(0) / 64 % 64;
}

// What threads touch at the top of their stacks would else share the sets of a cache.
TEST(tops_of_stacks_lie_apart) {
    enum { MANY = 64 };
    bool there[64] = {0};
    whi_ult *all[MANY];
    uintptr_t line;
    begin(MANY);
    for (int i = 0; i < MANY; i++)
        all[i] = start(tell_line, &line);
    for (int i = 0; i < MANY; i++) {
        CHECK(!whi_ult_run(all[i]));
        CHECK(!there[line]);
        there[line] = true;
    }
    whi_ult_stacks_fini(&stacks);
}

TEST(dropped_where_they_are) {
    begin(1);
    whi_ult *fresh = start_talk("a"), *suspended = start_talk("b");
    CHECK(whi_ult_run(suspended));
    whi_ult_drop(fresh);
    whi_ult_drop(suspended);
    CHECK_EQ_INT(stacks.alive, 0);
    CHECK_EQ_INT(stacks.kept, 1);
    CHECK_EQ_STR(said, "b");
    whi_ult_stacks_fini(&stacks);
}

TEST_MAIN()
