// SPDX-License-Identifier: BSD-3-Clause
//
// The log: what is shown, what is not even evaluated, where it goes, and what a line looks like.
#include "base/log.h"

#include <errno.h>
#include <pthread.h>
#include <regex.h>

#include "base/test.h"

static struct {
    int count;
    char level[16], id[32], text[2048];
    void *arg;
} heard;

static void hear(const char *level, const char *id, const char *text, void *arg) {
    heard.count++;
    snprintf(heard.level, sizeof(heard.level), "%s", level);
    snprintf(heard.id, sizeof(heard.id), "%s", id);
    snprintf(heard.text, sizeof(heard.text), "%s", text);
    heard.arg = arg;
    errno = EIO;  // a sink may do anything
}

static void listen(void) {
    memset(&heard, 0, sizeof(heard));
    whi_log_set_sink(hear, &heard);
    whi_log_set_level(WHI_WARN);
}

TEST(sink_hears_everything) {
    listen();
    whi_log(WHI_ERROR, "E-TEST-01", "lost %d of %s", 3, "them");
    CHECK_EQ_INT(heard.count, 1);
    CHECK_EQ_STR(heard.level, "error");
    CHECK_EQ_STR(heard.id, "E-TEST-01");
    CHECK_EQ_STR(heard.text, "lost 3 of them");
    CHECK(heard.arg == &heard);
}

TEST(levels) {
    static const char *const names[] = {"error", "warn", "info", "debug", "trace"};
    for (int shown = WHI_LOG_OFF; shown <= WHI_TRACE; shown++) {
        listen();
        whi_log_set_level((whi_log_level)shown);
        for (int level = WHI_ERROR; level <= WHI_TRACE; level++) {
            int before = heard.count;
            whi_log((whi_log_level)level, "X-TEST-02", "text");
            CHECK_EQ_INT(heard.count - before, level <= shown);
            if (level <= shown)
                CHECK_EQ_STR(heard.level, names[level]);
        }
    }
}

TEST(arguments_are_not_evaluated_when_off) {
    listen();
    int evaluated = 0;
    whi_log(WHI_INFO, "I-TEST-03", "%d", ++evaluated);
    whi_log_once_per(WHI_INFO, "I-TEST-03", 1, "%d", ++evaluated);
    CHECK_EQ_INT(evaluated, 0);
    whi_log(WHI_WARN, "W-TEST-03", "%d", ++evaluated);
    CHECK_EQ_INT(evaluated, 1);
}

TEST(level_names) {
    whi_log_level level = WHI_TRACE;
    CHECK_EQ_INT(whi_log_level_parse("warn", &level), WH_OK);
    CHECK_EQ_INT(level, WHI_WARN);
    CHECK_EQ_INT(whi_log_level_parse("off", &level), WH_OK);
    CHECK_EQ_INT(level, WHI_LOG_OFF);
    CHECK_EQ_INT(whi_log_level_parse("WARN", &level), WH_EINVAL);
    CHECK_EQ_INT(whi_log_level_parse("", &level), WH_EINVAL);
    CHECK_EQ_INT(whi_log_level_parse(NULL, &level), WH_EINVAL);
    CHECK_EQ_INT(level, WHI_LOG_OFF);
    CHECK_EQ_STR(whi_log_level_name(WHI_DEBUG), "debug");
}

TEST(public_functions) {
    listen();
    wh_log_set_sink(hear, heard.text);
    CHECK_EQ_INT(wh_log_set_level("info"), WH_OK);
    CHECK_EQ_INT(wh_log_set_level("loud"), WH_EINVAL);
    whi_log(WHI_INFO, "I-TEST-04", "still info");
    whi_log(WHI_DEBUG, "D-TEST-04", "not debug");
    CHECK_EQ_INT(heard.count, 1);
    CHECK(heard.arg == heard.text);
}

TEST(the_last_error_can_be_taken) {
    listen();
    (void)wh_log_take_error();  // of another test
    whi_log(WHI_ERROR, "E-TEST-08", "the %s", "first");
    whi_log(WHI_ERROR, "E-TEST-08", "the %s", "second");
    whi_log(WHI_WARN, "W-TEST-08", "no error");
    CHECK_EQ_STR(wh_log_take_error(), "the second");
    CHECK_EQ_STR(wh_log_take_error(), "");
    CHECK_EQ_INT(wh_log_set_level("off"), WH_OK);
    whi_log(WHI_ERROR, "E-TEST-08", "not shown");
    CHECK_EQ_INT(heard.count, 3);
    CHECK_EQ_STR(wh_log_take_error(), "not shown");
}

static void *takes(void *arg) {
    (void)arg;
    CHECK_EQ_STR(wh_log_take_error(), "");
    return NULL;
}

TEST(an_error_is_of_its_thread) {
    listen();
    whi_log(WHI_ERROR, "E-TEST-08", "mine");
    pthread_t other;
    CHECK(pthread_create(&other, NULL, takes, NULL) == 0);
    CHECK(pthread_join(other, NULL) == 0);
    CHECK_EQ_STR(wh_log_take_error(), "mine");
}

TEST(a_held_error_that_is_taken_is_not_shown) {
    listen();
    wh_log_hold_errors(true);
    whi_log(WHI_ERROR, "E-TEST-09", "the first");
    whi_log(WHI_WARN, "W-TEST-09", "no error");
    CHECK_EQ_INT(heard.count, 1);
    whi_log(WHI_ERROR, "E-TEST-10", "the second");
    CHECK_EQ_INT(heard.count, 2);
    CHECK_EQ_STR(heard.id, "E-TEST-09");
    CHECK_EQ_STR(heard.text, "the first");
    CHECK_EQ_STR(wh_log_take_error(), "the second");
    wh_log_hold_errors(false);
    CHECK_EQ_INT(heard.count, 2);
    whi_log(WHI_ERROR, "E-TEST-11", "shown again");
    CHECK_EQ_INT(heard.count, 3);
}

TEST(a_held_error_that_nobody_takes_is_shown) {
    listen();
    wh_log_hold_errors(true);
    whi_log(WHI_ERROR, "E-TEST-12", "kept");
    CHECK_EQ_INT(heard.count, 0);
    wh_log_hold_errors(false);
    CHECK_EQ_INT(heard.count, 1);
    CHECK_EQ_STR(heard.id, "E-TEST-12");
    wh_log_hold_errors(false);
    CHECK_EQ_INT(heard.count, 1);
    CHECK_EQ_STR(wh_log_take_error(), "kept");
}

TEST(a_held_error_that_comes_again_is_shown_once) {
    listen();
    wh_log_hold_errors(true);
    whi_log(WHI_ERROR, "E-TEST-13", "again and again");
    whi_log(WHI_ERROR, "E-TEST-13", "again and again");
    CHECK_EQ_INT(heard.count, 0);
    wh_log_hold_errors(false);
    CHECK_EQ_INT(heard.count, 1);
}

TEST(a_layer_logs_as_the_library_does) {
    listen();
    errno = E2BIG;
    CHECK_EQ_INT(wh_log_write("warn", "W-LAYER-01", "rank %d of %s\n", 3, "them"), WH_OK);
    CHECK_EQ_INT(errno, E2BIG);
    CHECK_EQ_STR(heard.level, "warn");
    CHECK_EQ_STR(heard.id, "W-LAYER-01");
    CHECK_EQ_STR(heard.text, "rank 3 of them?");
    CHECK(wh_log_shown("warn") && wh_log_shown("error") && !wh_log_shown("info"));
    CHECK_EQ_INT(wh_log_write("info", "I-LAYER-01", "not shown"), WH_OK);
    CHECK_EQ_INT(heard.count, 1);
    // An error can be taken, shown or not.
    (void)wh_log_take_error();
    CHECK_EQ_INT(wh_log_set_level("off"), WH_OK);
    CHECK(!wh_log_shown("error") && !wh_log_shown("off") && !wh_log_shown("loud") &&
          !wh_log_shown(NULL));
    CHECK_EQ_INT(wh_log_write("error", "E-LAYER-01", "lost"), WH_OK);
    CHECK_EQ_INT(heard.count, 1);
    CHECK_EQ_STR(wh_log_take_error(), "lost");
}

TEST(what_a_layer_may_not_log) {
    listen();
    static const char *const levels[] = {NULL, "", "off", "WARN", "loud"};
    for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++)
        CHECK_EQ_INT(wh_log_write(levels[i], "W-LAYER-01", "text"), WH_EINVAL);
    static const char *const ids[] = {
        NULL,       "",    "W LAYER", "W-LAYER-01\n",
        "W-\x1b[m", "W_1", "W-%s",    "W-012345678901234567890123456789"};
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++)
        CHECK_EQ_INT(wh_log_write("warn", ids[i], "text"), WH_EINVAL);
    CHECK_EQ_INT(heard.count, 0);
    CHECK_EQ_INT(wh_log_write("warn", "W-01234567890123456789012345678", "text"), WH_OK);
    CHECK_EQ_INT(heard.count, 1);
}

TEST(errno_survives) {
    listen();
    errno = E2BIG;
    whi_log(WHI_WARN, "W-TEST-05", "%m");
    CHECK_EQ_INT(errno, E2BIG);
    CHECK_EQ_STR(heard.text, strerror(E2BIG));
}

TEST(one_message_is_one_line) {
    listen();
    whi_log(WHI_WARN, "W-TEST-06", "a\nb\033[1mc");
    CHECK_EQ_STR(heard.text, "a?b?[1mc");
    whi_log(WHI_WARN, "W-TEST-06", "%5000s", "end");
    CHECK_EQ_INT(strlen(heard.text), 1023);
    CHECK_EQ_STR(heard.text + 1020, "...");
}

static void repeat(int times) {
    for (int i = 0; i < times; i++)
        whi_log_once_per(WHI_WARN, "W-TEST-07", 1, "again %d", i);
}

TEST(once_per_second) {
    listen();
    repeat(100);
    CHECK_EQ_INT(heard.count, 1);
    CHECK_EQ_STR(heard.text, "again 0");
    usleep(1100 * 1000);
    repeat(2);
    CHECK_EQ_INT(heard.count, 2);
    CHECK_EQ_STR(heard.text, "again 0 (99 more like this before)");
}

// Catches what `fn` writes to standard error.
static void capture(void (*fn)(void), char *text, size_t size) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    int saved = dup(STDERR_FILENO);
    dup2(ends[1], STDERR_FILENO);
    fn();
    dup2(saved, STDERR_FILENO);
    close(saved);
    close(ends[1]);
    ssize_t n = read(ends[0], text, size - 1);
    close(ends[0]);
    CHECK(n >= 0);
    text[n] = 0;
}

static void say_one(void) {
    whi_log_set_sink(NULL, NULL);
    whi_log(WHI_WARN, "W-SHM-01", "ring of %s is full", "peer 7");
}

TEST(line_on_standard_error) {
    char text[512];
    whi_log_set_level(WHI_WARN);
    capture(say_one, text, sizeof(text));
    regex_t form;
    CHECK(!regcomp(&form,
                   "^wherry: [0-2][0-9]:[0-5][0-9]:[0-6][0-9]\\.[0-9]{3} \\[[0-9]+\\.[0-9]+\\] "
                   "WARN W-SHM-01: ring of peer 7 is full\n$",
                   REG_EXTENDED | REG_NOSUB));
    int differs = regexec(&form, text, 0, NULL, 0);
    regfree(&form);
    CHECK(!differs);
    char pid[32];
    snprintf(pid, sizeof(pid), "[%d.", (int)getpid());
    CHECK(strstr(text, pid));
}

// Each sink gets the argument that was set together with it, whoever changes them meanwhile.
static _Atomic int mixed, stop, delivered;

static void expect_one(const char *level, const char *id, const char *text, void *arg) {
    (void)level, (void)id, (void)text;
    delivered++;
    mixed += arg != (void *)1;
}

static void expect_two(const char *level, const char *id, const char *text, void *arg) {
    (void)level, (void)id, (void)text;
    delivered++;
    mixed += arg != (void *)2;
}

static void *log_until_stopped(void *arg) {
    while (!stop)
        whi_log(WHI_WARN, "W-TEST-08", "text");
    return arg;
}

TEST(sinks_change_while_threads_log) {
    whi_log_set_level(WHI_WARN);
    whi_log_set_sink(expect_one, (void *)1);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, log_until_stopped, NULL);
    while (delivered < 200000) {
        whi_log_set_sink(expect_two, (void *)2);
        whi_log_set_sink(expect_one, (void *)1);
    }
    stop = 1;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQ_INT(mixed, 0);
    whi_log_set_sink(NULL, NULL);
}

TEST_MAIN()
