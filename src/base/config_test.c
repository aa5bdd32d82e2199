// SPDX-License-Identifier: BSD-3-Clause
//
// Settings: the table is sound, text is read strictly and written canonically, the order of sources
// holds, and each error says what would have been right.
#include "base/config.h"

#include <ctype.h>

#include "base/log.h"
#include "base/test.h"

static whi_config cfg;
static char error[WHI_CONFIG_ERROR_MAX];

static wh_status set(const char *key, const char *value) {
    error[0] = 0;
    return whi_config_set(&cfg, key, value, error, sizeof(error));
}

static const char *get(const char *key) {
    static whi_config_entry entry;
    for (size_t i = 0; whi_config_entry_at(&cfg, i, &entry); i++)
        if (strcmp(entry.key, key) == 0)
            return entry.value;
    return "no such setting";
}

TEST(defaults) {
    whi_config_init(&cfg);
    CHECK_EQ_INT(cfg.log_level, WHI_WARN);
    CHECK_EQ_STR(cfg.lanes, "auto");
    CHECK_EQ_INT(cfg.progress, WHI_PROGRESS_ADAPTIVE);
    CHECK_EQ_INT(cfg.eager_max, 8 << 10);
    CHECK_EQ_INT(cfg.credit, 256 << 10);
    CHECK_EQ_INT(cfg.connect_timeout, 5000);
    CHECK_EQ_INT(cfg.bulk_budget, 256 << 20);
    CHECK_EQ_INT(cfg.local_uid, WHI_LOCAL_UID_SAME);
    CHECK_EQ_INT(cfg.sigusr1_dump, false);
    CHECK_EQ_STR(cfg.secret, "");
}

TEST(table_is_sound) {
    whi_config_init(&cfg);
    whi_config_entry e;
    for (size_t i = 0; whi_config_entry_at(&cfg, i, &e); i++) {
        char env[64] = "WHERRY_";
        for (size_t k = 0; k <= strlen(e.key); k++)
            env[7 + k] = (char)toupper((unsigned char)e.key[k]);
        CHECK_EQ_STR(e.env, env);
        CHECK_EQ_STR(e.source, "default");
        // Defaults and numeric bounds are written the way they would be shown, and are accepted.
        CHECK_EQ_STR(e.value, e.def);
        CHECK_EQ_INT(set(e.key, e.def), WH_OK);
        bool number = !strcmp(e.type, "size") || !strcmp(e.type, "uint") || !strcmp(e.type, "ms");
        if (number && *e.low)
            CHECK_EQ_INT(set(e.key, e.low), WH_OK);
        if (number && *e.high)
            CHECK_EQ_INT(set(e.key, e.high), WH_OK);
        CHECK(strlen(e.doc) > 20);
        CHECK(isupper((unsigned char)e.doc[0]) && e.doc[strlen(e.doc) - 1] == '.');
    }
    CHECK(!whi_config_entry_at(&cfg, WHI_CONFIG_COUNT, &e));
}

TEST(sizes) {
    whi_config_init(&cfg);
    static const struct {
        const char *text;
        size_t bytes;
        const char *canonical;
    } good[] = {{"0", 0, "0"},
                {"1", 1, "1"},
                {"64K", 65536, "64K"},
                {"64k", 65536, "64K"},
                {"64KB", 65536, "64K"},
                {"64KiB", 65536, "64K"},
                {"1024K", 1 << 20, "1M"},
                {"1025K", 1025 << 10, "1025K"},
                {"1000", 1000, "1000"},
                {"1G", 1 << 30, "1G"}};
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        CHECK_EQ_INT(set("bulk_chunk", good[i].text), WH_OK);
        CHECK_EQ_INT(cfg.bulk_chunk, good[i].bytes);
        CHECK_EQ_STR(get("bulk_chunk"), good[i].canonical);
    }
    static const char *const bad[] = {"",
                                      "K",
                                      "-1",
                                      "+1",
                                      " 1",
                                      "1 ",
                                      "1.5K",
                                      "64KX",
                                      "6B",
                                      "0x10",
                                      "64s",
                                      "8X",
                                      "1Ki",
                                      "18446744073709551616",
                                      "99999999999T"};
    CHECK_EQ_INT(set("bulk_chunk", "16K"), WH_OK);
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        CHECK_EQ_INT(set("bulk_chunk", bad[i]), WH_EINVAL);
        CHECK_EQ_INT(cfg.bulk_chunk, 16384);
    }
    CHECK_EQ_INT(set("bulk_budget", "1T"), WH_OK);
    CHECK(cfg.bulk_budget == (size_t)1 << 40);
}

TEST(times) {
    whi_config_init(&cfg);
    static const struct {
        const char *text;
        uint64_t ms;
        const char *canonical;
    } good[] = {{"500ms", 500, "500ms"}, {"500", 500, "500ms"}, {"5s", 5000, "5s"},
                {"60s", 60000, "1m"},    {"90s", 90000, "90s"}, {"1h", 3600000, "1h"}};
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        CHECK_EQ_INT(set("connect_timeout", good[i].text), WH_OK);
        CHECK_EQ_INT(cfg.connect_timeout, good[i].ms);
        CHECK_EQ_STR(get("connect_timeout"), good[i].canonical);
    }
    CHECK_EQ_INT(set("connect_timeout", "5K"), WH_EINVAL);
    CHECK_EQ_INT(set("connect_timeout", "5sB"), WH_EINVAL);
    CHECK_EQ_INT(set("connect_timeout", "0"), WH_EINVAL);
    CHECK_EQ_INT(set("connect_timeout", "2h"), WH_EINVAL);
    CHECK_EQ_INT(set("close_timeout", "0"), WH_EINVAL);
    CHECK_EQ_INT(set("grace", "0"), WH_OK);
    CHECK_EQ_STR(get("grace"), "0");
}

TEST(other_types) {
    whi_config_init(&cfg);
    CHECK_EQ_INT(set("seed", "18446744073709551615"), WH_OK);
    CHECK(cfg.seed == UINT64_MAX);
    CHECK_EQ_STR(get("seed"), "18446744073709551615");
    CHECK_EQ_INT(set("seed", "1K"), WH_EINVAL);
    CHECK_EQ_INT(set("sigusr1_dump", "TRUE"), WH_OK);
    CHECK_EQ_INT(cfg.sigusr1_dump, true);
    CHECK_EQ_STR(get("sigusr1_dump"), "yes");
    CHECK_EQ_INT(set("sigusr1_dump", "0"), WH_OK);
    CHECK_EQ_INT(cfg.sigusr1_dump, false);
    CHECK_EQ_INT(set("sigusr1_dump", "2"), WH_EINVAL);
    CHECK_EQ_INT(set("progress", "spin"), WH_OK);
    CHECK_EQ_INT(cfg.progress, WHI_PROGRESS_SPIN);
    CHECK_EQ_STR(get("progress"), "spin");
    CHECK_EQ_INT(set("progress", "spi"), WH_EINVAL);
    CHECK_EQ_INT(set("progress", "wait|spin"), WH_EINVAL);
    CHECK_EQ_INT(set("progress", ""), WH_EINVAL);
    CHECK_EQ_INT(set("local_uid", "any"), WH_OK);
    CHECK_EQ_INT(cfg.local_uid, WHI_LOCAL_UID_ANY);
}

TEST(lists) {
    whi_config_init(&cfg);
    CHECK_EQ_INT(set("lanes", "shm,stream"), WH_OK);
    CHECK_EQ_STR(cfg.lanes, "shm,stream");
    CHECK_EQ_INT(set("lanes", "ucx"), WH_OK);
    CHECK_EQ_INT(set("lanes", "auto"), WH_OK);
    static const char *const bad[] = {"", "shm,", ",shm", "shm,,ucx", "tcp", "shm,auto", "shm ucx"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        CHECK_EQ_INT(set("lanes", bad[i]), WH_EINVAL);
    CHECK_EQ_STR(error, "lanes is \"shm ucx\"; it must be auto, or a comma list out of "
                        "shm|stream|ucx.");
}

TEST(log_level_positions_are_the_log_levels) {
    whi_config_init(&cfg);
    for (int level = WHI_ERROR; level <= WHI_TRACE; level++) {
        CHECK_EQ_INT(set("log_level", whi_log_level_name((whi_log_level)level)), WH_OK);
        CHECK_EQ_INT(cfg.log_level, level);
    }
}

TEST(errors_are_sentences) {
    whi_config_init(&cfg);
    CHECK_EQ_INT(set("eagermax", "1K"), WH_ENOTFOUND);
    CHECK_EQ_STR(error, "There is no setting \"eagermax\".  Did you mean eager_max?");
    CHECK_EQ_INT(set("frobnicate", "1K"), WH_ENOTFOUND);
    CHECK_EQ_STR(error, "There is no setting \"frobnicate\".");
    CHECK_EQ_INT(set("credit", "1K"), WH_EINVAL);
    CHECK_EQ_STR(error, "credit is \"1K\"; it must be a size such as 64K, 1M or 2G, at least 64K, "
                        "at most 1T.");
    CHECK_EQ_INT(set("progress", "spinn"), WH_EINVAL);
    CHECK_EQ_STR(error, "progress is \"spinn\"; it must be one of wait|spin|adaptive.");
    CHECK_EQ_INT(set(NULL, "1"), WH_EINVAL);
    CHECK_EQ_INT(set("credit", NULL), WH_EINVAL);
    CHECK_EQ_INT(whi_config_set(&cfg, "credit", "1K", NULL, 0), WH_EINVAL);
    char tiny[8];
    CHECK_EQ_INT(whi_config_set(&cfg, "credit", "1K", tiny, sizeof(tiny)), WH_EINVAL);
    CHECK_EQ_STR(tiny, "credit ");
    char key[1000];
    memset(key, 'k', sizeof(key));
    key[999] = 0;
    CHECK_EQ_INT(set(key, "1"), WH_ENOTFOUND);
    CHECK_EQ_INT(set("credit", key), WH_EINVAL);
    CHECK(strlen(error) < 300);
}

TEST(secrets_are_not_shown) {
    whi_config_init(&cfg);
    CHECK_EQ_STR(get("secret"), "");
    CHECK_EQ_INT(set("secret", "open sesame"), WH_OK);
    CHECK_EQ_STR(cfg.secret, "open sesame");
    CHECK_EQ_STR(get("secret"), "(set)");
    whi_config_entry e;
    CHECK(whi_config_entry_at(&cfg, WHI_CONFIG_secret, &e));
    CHECK_EQ_STR(e.value, "(set)");
    char text[WHI_CONFIG_TEXT_MAX + 1];
    memset(text, 's', WHI_CONFIG_TEXT_MAX);
    text[WHI_CONFIG_TEXT_MAX] = 0;
    CHECK_EQ_INT(set("secret", text), WH_EINVAL);
    CHECK_EQ_STR(error, "secret must be shorter than 256 bytes.");
    CHECK_EQ_INT(set("secret", text + 1), WH_OK);  // the longest
    CHECK_EQ_STR(cfg.secret, text + 1);
    CHECK_EQ_INT(set("secret_file", "/etc/key"), WH_OK);
    CHECK_EQ_STR(get("secret_file"), "/etc/key");  // a path is no secret
}

static char reports[4][WHI_CONFIG_ERROR_MAX];
static int report_count;

static void report(wh_status status, const char *sentence, void *arg) {
    CHECK(arg == reports);
    CHECK_EQ_INT(status, strstr(sentence, "is not known") ? WH_ENOTFOUND : WH_EINVAL);
    CHECK(report_count < 4);
    snprintf(reports[report_count++], WHI_CONFIG_ERROR_MAX, "%s", sentence);
}

static wh_status load(char *const *env) {
    report_count = 0;
    return whi_config_load_env(&cfg, env, report, reports);
}

TEST(environment) {
    whi_config_init(&cfg);
    char *env[] = {
        (char[]){"PATH=/bin"},         (char[]){"WHERRY_EAGER_MAX=16K"}, (char[]){"WHERRYING=1"},
        (char[]){"XWHERRY_CREDIT=1"},  (char[]){"WHERRY_CREDIT="},       (char[]){"WHERRY_SEED"},
        (char[]){"WHERRY_SECRET=a=b"}, (char[]){"WHERRY_MPI_STACK=1"},   NULL};
    CHECK_EQ_INT(load(env), WH_OK);
    CHECK_EQ_INT(report_count, 0);
    CHECK_EQ_INT(cfg.eager_max, 16384);
    CHECK_EQ_INT(cfg.source[WHI_CONFIG_eager_max], WHI_FROM_ENV);
    CHECK_EQ_INT(cfg.source[WHI_CONFIG_credit], WHI_FROM_DEFAULT);
    CHECK_EQ_STR(cfg.secret, "a=b");
    whi_config_entry e;
    CHECK(whi_config_entry_at(&cfg, WHI_CONFIG_eager_max, &e));
    CHECK_EQ_STR(e.source, "environment");
    CHECK_EQ_STR(env[1], "WHERRY_EAGER_MAX=16K");
    CHECK_EQ_INT(whi_config_load_env(&cfg, NULL, NULL, NULL), WH_OK);
}

TEST(environment_errors) {
    whi_config_init(&cfg);
    char *env[] = {(char[]){"WHERRY_EAGERMAX=1K"}, (char[]){"WHERRY_CREDIT=lots"},
                   (char[]){"WHERRY_ZZZZZZZZZZZZ=1"}, (char[]){"WHERRY_RING_SIZE=64K"}, NULL};
    CHECK_EQ_INT(load(env), WH_EINVAL);
    CHECK_EQ_INT(report_count, 3);
    CHECK_EQ_STR(reports[0],
                 "The variable WHERRY_EAGERMAX is not known.  Did you mean WHERRY_EAGER_MAX?");
    CHECK(strstr(reports[1], "WHERRY_CREDIT is \"lots\"; it must be a size") == reports[1]);
    CHECK_EQ_STR(reports[2], "The variable WHERRY_ZZZZZZZZZZZZ is not known.");
    CHECK_EQ_INT(cfg.credit, 256 << 10);
    CHECK_EQ_INT(cfg.ring_size, 64 << 10);  // the rest is applied all the same
    char *unknown[] = {(char[]){"WHERRY_LOG=debug"}, NULL};
    CHECK_EQ_INT(load(unknown), WH_OK);
    CHECK_EQ_STR(reports[0],
                 "The variable WHERRY_LOG is not known.  Did you mean WHERRY_LOG_LEVEL?");
    CHECK_EQ_INT(whi_config_load_env(&cfg, env, NULL, NULL), WH_EINVAL);
}

TEST(options_beat_the_environment_in_any_order) {
    char *env[] = {(char[]){"WHERRY_EAGER_MAX=16K"}, NULL};
    whi_config_init(&cfg);
    CHECK_EQ_INT(set("eager_max", "4K"), WH_OK);
    CHECK_EQ_INT(load(env), WH_OK);
    CHECK_EQ_INT(cfg.eager_max, 4096);
    whi_config_init(&cfg);
    CHECK_EQ_INT(load(env), WH_OK);
    CHECK_EQ_INT(set("eager_max", "4K"), WH_OK);
    CHECK_EQ_INT(cfg.eager_max, 4096);
    whi_config_entry e;
    CHECK(whi_config_entry_at(&cfg, WHI_CONFIG_eager_max, &e));
    CHECK_EQ_STR(e.source, "option");
    CHECK_EQ_STR(e.value, "4K");
    CHECK_EQ_STR(e.def, "8K");
}

TEST_MAIN()
