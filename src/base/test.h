// SPDX-License-Identifier: BSD-3-Clause
//
// The unit test frame: a test program is one C file of TEST blocks that ends with TEST_MAIN().
//
// A failed CHECK ends its test at once, from any depth of calls, by jumping back to the runner; the
// other tests still run.  In a forked child it ends the child with exit status 1, and on a thread
// other than the runner's it aborts, since neither may jump.  `x_test` runs all tests, `x_test
// word` those whose name contains the word.  Exit status: 0 passed, 1 failed, 77 nothing but skips.
#ifndef WHI_TEST_H
#define WHI_TEST_H

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WHI_TEST_PASSED, WHI_TEST_FAILED, WHI_TEST_SKIPPED, WHI_TEST_RESULTS };

typedef struct whi_test {
    const char *name;
    void (*fn)(void);
    struct whi_test *next;
} whi_test;

// One per program, because every test program is one translation unit.
static struct {
    whi_test *first, **last;
    jmp_buf back;
    pid_t pid;
    pthread_t thread;
    int count[WHI_TEST_RESULTS];
} whi_tests;

// TEST(name) { ... } defines a test and registers it before main; tests run in file order.
#define TEST(test_name)                                                                            \
    static void whi_test_##test_name(void);                                                        \
    __attribute__((constructor)) static void whi_test_add_##test_name(void) {                      \
        static whi_test test = {#test_name, whi_test_##test_name, NULL};                           \
        whi_test_add(&test);                                                                       \
    }                                                                                              \
    static void whi_test_##test_name(void)

#define CHECK(cond)                                                                                \
    do {                                                                                           \
        if (!(cond))                                                                               \
            whi_test_end(WHI_TEST_FAILED, __FILE__, __LINE__, "CHECK(%s)", #cond);                 \
    } while (0)

#define CHECK_EQ_INT(a, b)                                                                         \
    whi_test_int((long long)(a), (long long)(b), #a " == " #b, __FILE__, __LINE__)
#define CHECK_EQ_STR(a, b) whi_test_str((a), (b), #a " == " #b, __FILE__, __LINE__)

// CHECK_MEM compares n bytes and names the first that differs.
#define CHECK_MEM(a, b, n) whi_test_mem((a), (b), (n), #a " == " #b, __FILE__, __LINE__)

// SKIP ends the test without a verdict and says why.
#define SKIP(why) whi_test_end(WHI_TEST_SKIPPED, __FILE__, __LINE__, "%s", (why))

#define TEST_MAIN()                                                                                \
    int main(int argc, char **argv) {                                                              \
        return whi_test_main(argc > 1 ? argv[1] : "");                                             \
    }

__attribute__((unused)) static void whi_test_add(whi_test *test) {
    if (!whi_tests.last)
        whi_tests.last = &whi_tests.first;
    *whi_tests.last = test;
    whi_tests.last = &test->next;
}

__attribute__((unused, noreturn, format(printf, 4, 5))) static void
whi_test_end(int result, const char *file, int line, const char *format, ...) {
    va_list args;
    va_start(args, format);
    fprintf(stderr, "%s:%d: %s: ", file, line, result == WHI_TEST_SKIPPED ? "skipped" : "failed");
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    if (getpid() != whi_tests.pid)
        _exit(1);
    if (!pthread_equal(pthread_self(), whi_tests.thread))
        abort();
    longjmp(whi_tests.back, result);
}

__attribute__((unused)) static void whi_test_int(long long a, long long b, const char *text,
                                                 const char *file, int line) {
    if (a != b)
        whi_test_end(WHI_TEST_FAILED, file, line, "%s: %lld is not %lld", text, a, b);
}

__attribute__((unused)) static void whi_test_str(const char *a, const char *b, const char *text,
                                                 const char *file, int line) {
    if (!a || !b || strcmp(a, b) != 0)
        whi_test_end(WHI_TEST_FAILED, file, line, "%s: \"%s\" is not \"%s\"", text,
                     a ? a : "(null)", b ? b : "(null)");
}

__attribute__((unused)) static void whi_test_mem(const void *a, const void *b, size_t size,
                                                 const char *text, const char *file, int line) {
    const unsigned char *x = a, *y = b;
    if (size == 0 || memcmp(x, y, size) == 0)
        return;  // without a look at each byte, which takes the sanitizers long
    for (size_t i = 0; i < size; i++)
        if (x[i] != y[i])
            whi_test_end(WHI_TEST_FAILED, file, line, "%s: byte %zu of %zu: 0x%02x is not 0x%02x",
                         text, i, size, x[i], y[i]);
}

// A function of its own: nothing that lives across the jump is in a register.
static int whi_test_run(const whi_test *test) {
    switch (setjmp(whi_tests.back)) {
    case WHI_TEST_PASSED: test->fn(); return WHI_TEST_PASSED;
    case WHI_TEST_SKIPPED: return WHI_TEST_SKIPPED;
    default: return WHI_TEST_FAILED;
    }
}

__attribute__((unused)) static int whi_test_main(const char *only) {
    static const char *const words[] = {"ok", "FAILED", "skipped"};
    whi_tests.pid = getpid();
    whi_tests.thread = pthread_self();
    for (whi_test *test = whi_tests.first; test; test = test->next) {
        if (!strstr(test->name, only))
            continue;
        int result = whi_test_run(test);
        whi_tests.count[result]++;
        printf("%-8s%s\n", words[result], test->name);
        fflush(stdout);
    }
    const int *count = whi_tests.count;
    printf("%d passed, %d failed\n", count[WHI_TEST_PASSED], count[WHI_TEST_FAILED]);
    if (count[WHI_TEST_FAILED])
        return 1;
    return count[WHI_TEST_PASSED] || !count[WHI_TEST_SKIPPED] ? 0 : 77;
}

#endif
