// SPDX-License-Identifier: BSD-3-Clause
//
// The ucx lane: the kit between two domains of this process, then what is its own: several lanes on one domain,
// strangers' messages, kept records, closing.
//
// WHERRY_UCX_DIR names another UCX than the system's; without any, all is skipped.
#include "net/ucx/ucx.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/test.h"
#include "net/lane_kit.h"

static void kit_fail(const char *file, int line, const char *text) {
    whi_test_end(WHI_TEST_FAILED, file, line, "%s", text);
}

static void need_ucx(void) {
    const char *why = NULL;
    if (whi_ucx_load(getenv("WHERRY_UCX_DIR"), &why) != WH_OK)
        SKIP(why);
}

// ---- owners

static void wake(void *link) {
    (void)link;  // the kit polls all the time
}

static void gone(void *link) {
    (void)link;
}

static const whi_ucx_owner quiet_owner = {.wake = wake, .closed = gone};

// ---- the kit

// Two domains, and how large things are.
typedef struct way {
    whi_ucx_opts opts;
    whi_ucx *ucx[2];
} way;

static wh_status join(whi_lane *from, whi_lane *to) {
    unsigned char offer[WHI_UCX_OFFER_MAX];
    const char *why = NULL;
    size_t size = whi_ucx_lane_offer(from, offer, sizeof(offer));
    CHECK(size <= sizeof(offer));
    return whi_ucx_lane_connect(to, offer, size, &why);
}

static void end_domains(way *over) {
    for (int i = 0; i < 2; i++) {
        if (over->ucx[i])
            whi_ucx_free(over->ucx[i]);
        over->ucx[i] = NULL;
    }
}

static wh_status kit_open(void *arg, const whi_lane_up *up, void *link_a, whi_lane **a,
                          void *link_b, whi_lane **b) {
    way *over = arg;
    const char *why = NULL;
    need_ucx();
    *a = *b = NULL;
    wh_status status = whi_ucx_create(&over->ucx[0], &why);
    if (status == WH_OK)
        status = whi_ucx_create(&over->ucx[1], &why);
    if (status == WH_OK)
        status = whi_ucx_lane_create(over->ucx[0], &over->opts, up, &quiet_owner, link_a, a);
    if (status == WH_OK)
        status = whi_ucx_lane_create(over->ucx[1], &over->opts, up, &quiet_owner, link_b, b);
    if (status == WH_OK)
        status = join(*a, *b);
    if (status == WH_OK)
        status = join(*b, *a);
    if (status != WH_OK) {
        if (*a)
            (*a)->ops->close(*a);
        if (*b)
            (*b)->ops->close(*b);
        end_domains(over);
    }
    return status;
}

static void kit_done(void *arg) {
    way *over = arg;
    // Together, as two processes would: what one has sent last the other takes.
    uint64_t late = whi_clock_ns() + 2 * WHI_NS_PER_S;
    while ((whi_ucx_closing(over->ucx[0]) || whi_ucx_closing(over->ucx[1])) &&
           whi_clock_ns() < late) {
        (void)whi_ucx_progress(over->ucx[0]);
        (void)whi_ucx_progress(over->ucx[1]);
    }
    end_domains(over);
}

static way plain_way = {.opts = {.eager_limit = 8192, .eager_max = 8192}};
static way small_way = {.opts = {.eager_limit = 2048, .eager_max = 2048, .chunk = 20000}};
// UCX tells of a closed peer late or not at all: the link's socket does.
#define KIT_OF(way)                                                                                \
    { .open = kit_open, .done = kit_done, .arg = &(way), .deaf = true, .fail = kit_fail }
static const whi_kit plain = KIT_OF(plain_way), small = KIT_OF(small_way);

#define KIT(name)                                                                                  \
    TEST(plain_##name) {                                                                           \
        whi_kit_##name(&plain);                                                                    \
    }                                                                                              \
    TEST(small_##name) {                                                                           \
        whi_kit_##name(&small);                                                                    \
    }
WHI_KIT_TESTS(KIT)

TEST_MAIN()
