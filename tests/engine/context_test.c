// SPDX-License-Identifier: BSD-3-Clause
//
// Contexts: options and environment, the file of the secret, and the lanes that are left.
#include "worker/context.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "engine/test_kit.h"
#include "link/wire.h"
#include "net/shm/ring.h"

static wh_status create(const char *option, const char *option2, wh_context **ctx) {
    const char *options[] = {option, option2, NULL};
    return wh_context_create(options, ctx);
}

static wh_status creates(const char *option, const char *option2) {
    wh_context *ctx = NULL;
    kit_log_begin();
    wh_status st = create(option, option2, &ctx);
    wh_log_set_sink(NULL, NULL);
    CHECK((st == WH_OK) == (ctx != NULL));
    wh_context_destroy(ctx);
    return st;
}

TEST(options_that_are_wrong) {
    static const char *const bad[] = {
        "eager_max", "=8K",         "eager_max=", "eager_max=2X",   "no_such=1",
        "",          "eager_max=1", "lanes=tcp",  "handshake_max=0"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        CHECK_EQ_INT(creates(bad[i], NULL), WH_EINVAL);
        CHECK(logged("E-CFG-01"));
    }
    char longer[200];
    memset(longer, 'k', sizeof(longer) - 1);
    longer[100] = '=';
    longer[199] = '\0';
    CHECK_EQ_INT(creates(longer, NULL), WH_EINVAL);
    CHECK_EQ_INT(creates("eager_max=16K", "ring_size=32K"), WH_EINVAL);
    CHECK(logged("E-CFG-07"));
}

// Each of the two is within its limits, and their product is not what a peer would accept.
TEST(bulk_memory_is_bounded) {
    static const char *const options[] = {"bulk_chunk=1G", "bulk_chunks=64", NULL};
    duo d;
    duo_begin(&d, options, options);
    CHECK_EQ_INT(d.ctx[0]->config.bulk_chunks, 1);
    duo_connect(&d);
    duo_end(&d);
    wh_context *ctx = NULL;
    CHECK_EQ_INT(create("bulk_chunk=20M", "bulk_chunks=64", &ctx), WH_OK);
    CHECK_EQ_INT(ctx->config.bulk_chunk, 20 << 20);
    CHECK_EQ_INT(ctx->config.bulk_chunks, 51);
    wh_context_destroy(ctx);
}

TEST(version) {
    char text[32];
    snprintf(text, sizeof(text), "%d.%d.%d", WH_VERSION_MAJOR, WH_VERSION_MINOR, WH_VERSION_PATCH);
    CHECK_EQ_STR(WH_VERSION_STRING, text);
    CHECK_EQ_STR(wh_version(), text);
}

TEST(options_win_over_the_environment) {
    wh_context *ctx = NULL;
    CHECK(setenv("WHERRY_EAGER_MAX", "4K", 1) == 0);
    CHECK_EQ_INT(create(NULL, NULL, &ctx), WH_OK);
    CHECK_EQ_INT(ctx->config.eager_max, 4096);
    wh_context_destroy(ctx);
    CHECK_EQ_INT(create("eager_max=2K", NULL, &ctx), WH_OK);
    CHECK_EQ_INT(ctx->config.eager_max, 2048);
    wh_context_destroy(ctx);
    CHECK_EQ_STR(getenv("WHERRY_EAGER_MAX"), "4K");
    unsetenv("WHERRY_EAGER_MAX");
}

TEST(unknown_variables_are_reported) {
    CHECK(setenv("WHERRY_EAGER_MAXX", "4K", 1) == 0);
    CHECK_EQ_INT(creates(NULL, NULL), WH_OK);
    CHECK(logged("W-CFG-01") && logged("WHERRY_EAGER_MAXX"));
    unsetenv("WHERRY_EAGER_MAXX");
}

// ---- the file of the secret

static char path[] = "/tmp/wherry-secret-XXXXXX";
static char option[64];

static void make_file(const char *content, size_t size, mode_t mode) {
    snprintf(path, sizeof(path), "/tmp/wherry-secret-XXXXXX");
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    CHECK_EQ_INT(write(fd, content, size), size);
    CHECK(fchmod(fd, mode) == 0);
    close(fd);
    snprintf(option, sizeof(option), "secret_file=%s", path);
}

static wh_status with_file(const char *content, mode_t mode, char secret[64]) {
    make_file(content, strlen(content), mode);
    wh_context *ctx = NULL;
    kit_log_begin();
    wh_status st = create(option, NULL, &ctx);
    wh_log_set_sink(NULL, NULL);
    if (st == WH_OK)
        snprintf(secret, 64, "%.63s", ctx->config.secret);
    wh_context_destroy(ctx);
    unlink(path);
    return st;
}

TEST(secret_file) {
    char secret[64];
    CHECK_EQ_INT(with_file("sesame\n", 0600, secret), WH_OK);
    CHECK_EQ_STR(secret, "sesame");
    CHECK_EQ_INT(with_file("sesame\r\nsecond line\n", 0400, secret), WH_OK);
    CHECK_EQ_STR(secret, "sesame");
    CHECK_EQ_INT(with_file("with blanks ", 0600, secret), WH_OK);
    CHECK_EQ_STR(secret, "with blanks ");
}

TEST(secret_file_that_others_can_read) {
    static const mode_t modes[] = {0640, 0604, 0644, 0440, 0666};
    char secret[64];
    for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++) {
        CHECK_EQ_INT(with_file("sesame\n", modes[i], secret), WH_EPERM);
        CHECK(logged("E-CFG-03") && logged("chmod 600") && !logged("sesame"));
    }
}

TEST(secret_file_without_a_secret) {
    char secret[64];
    CHECK_EQ_INT(with_file("", 0600, secret), WH_EINVAL);
    CHECK_EQ_INT(with_file("\nsesame\n", 0600, secret), WH_EINVAL);
    CHECK(logged("E-CFG-04"));
    CHECK_EQ_INT(creates("secret_file=/nonexistent/secret", NULL), WH_EINVAL);
    CHECK(logged("E-CFG-02") && logged("/nonexistent/secret"));
    CHECK_EQ_INT(creates("secret_file=/tmp", NULL), WH_EPERM);  // a directory that all can read
}

TEST(a_given_secret_wins_over_the_file) {
    wh_context *ctx = NULL;
    make_file("from the file\n", 14, 0600);
    CHECK_EQ_INT(create(option, "secret=given", &ctx), WH_OK);
    CHECK_EQ_STR(ctx->config.secret, "given");
    wh_context_destroy(ctx);
    unlink(path);
}

static void find_secret(const wh_config_item *item, void *arg) {
    if (strcmp(item->key, "secret") == 0)
        CHECK_EQ_STR(item->value, "(set)");
    CHECK(!strstr(item->value, "sesame"));
    ++*(unsigned *)arg;
}

TEST(the_secret_is_never_shown) {
    wh_context *ctx = NULL;
    unsigned items = 0;
    CHECK_EQ_INT(create("secret=sesame", NULL, &ctx), WH_OK);
    wh_context_config(ctx, find_secret, &items);
    CHECK(items > 10);
    wh_context_destroy(ctx);
}

// ---- lanes

TEST(lanes) {
    static const struct {
        const char *option;
        uint32_t lanes;
    } cases[] = {{"lanes=auto", WHI_LANE_SHM | WHI_LANE_STREAM},
                 {"lanes=stream", WHI_LANE_STREAM},
                 {"lanes=shm,stream", WHI_LANE_SHM | WHI_LANE_STREAM},
                 {"lanes=stream,shm", WHI_LANE_SHM | WHI_LANE_STREAM}};
    const char *why = NULL;
    uint32_t there = whi_shm_available(WHI_RING_MIN, &why) ? UINT32_MAX : ~(uint32_t)WHI_LANE_SHM;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        wh_context *ctx = NULL;
        CHECK_EQ_INT(create(cases[i].option, NULL, &ctx), WH_OK);
        CHECK_EQ_INT(ctx->lanes, cases[i].lanes & there);
        wh_context_destroy(ctx);
    }
    char text[8];
    whi_context_lane_names(WHI_LANE_SHM | WHI_LANE_STREAM | WHI_LANE_UCX, text, sizeof(text));
    CHECK_EQ_INT(strlen(text), sizeof(text) - 1);  // cut, not overrun
    whi_context_lane_names(0, text, sizeof(text));
    CHECK_EQ_STR(text, "none");
}

TEST(a_context_lives_as_long_as_its_workers) {
    wh_context *ctx = kit_context(NULL);
    wh_worker *worker = kit_worker(ctx);
    wh_context_destroy(ctx);
    CHECK_EQ_INT(wh_worker_progress(worker), 0);
    wh_worker_destroy(worker);
}

TEST_MAIN()
