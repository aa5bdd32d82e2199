// SPDX-License-Identifier: BSD-3-Clause
//
// Tagged messages: matching, order, lengths, credit.
#include <sys/mman.h>

#include "kit.h"

enum { LARGEST_OFTEN = 5000011 };  // above it only once, for the time it takes

CASE(tag_echo_of_all_sizes, 0) {
    for (size_t i = 0; i < kit_size_count; i++) {
        size_t size = kit_sizes[i];
        char *buf = kit_alloc(me, size);
        if (me->role == 0) {
            kit_fill(buf, size, i);
            kit_send(me, me->ep, buf, size, i);
            memset(buf, 0, size);
            kit_recv(me, me->ep, buf, size, i + 1000);
            SAME(buf, size, i + 1000);
        } else {
            kit_recv(me, me->ep, buf, size, i);
            SAME(buf, size, i);
            kit_fill(buf, size, i + 1000);
            kit_send(me, me->ep, buf, size, i + 1000);
        }
        free(buf);
    }
}

enum { MIXED = 60 };

static size_t mixed_size(int i) {
    static const size_t sizes[] = {8, 100000, 0, 8192, 300000, 1, 70000, 64, 1000003, 8193};
    return sizes[(i * 7) % 10];
}

// One tag for all, so that only order tells them apart.
static void send_mixed(kit_side *me, int base) {
    static kit_op ops[2][MIXED];
    void *bufs[MIXED];
    for (int i = 0; i < MIXED; i++) {
        bufs[i] = kit_alloc(me, mixed_size(i));
        kit_fill(bufs[i], mixed_size(i), (uint64_t)(base + i));
        kit_op *op = &ops[me->role][i];
        const wh_op_opts *opts = kit_opts(op);
        BEGIN(op, wh_tag_send(me->ep, bufs[i], mixed_size(i), 5, opts, NULL));
    }
    for (int i = 0; i < MIXED; i++) {
        END(&ops[me->role][i], WH_OK);
        free(bufs[i]);
    }
}

CASE(tag_order_across_sizes_unexpected, 0) {
    if (me->role == 0)
        send_mixed(me, 0);
    else {
        kit_idle(me, 20);
        for (int i = 0; i < MIXED; i++) {
            char *buf = kit_alloc(me, 1 << 20);
            wh_result result;
            kit_op op;
            const wh_op_opts *opts = kit_opts(&op);
            BEGIN(&op, wh_tag_recv(me->ep, buf, 1 << 20, 5, WH_TAG_MASK_ALL, opts, NULL));
            END(&op, WH_OK);
            result = op.result;
            REQUIRE_INT(result.size, mixed_size(i));
            SAME(buf, mixed_size(i), (uint64_t)i);
            free(buf);
        }
    }
}

CASE(tag_order_across_sizes_preposted, 0) {
    if (me->role == 0) {
        SYNC();
        send_mixed(me, 0);
        return;
    }
    static kit_op ops[MIXED];
    char *bufs[MIXED];
    for (int i = 0; i < MIXED; i++) {
        bufs[i] = kit_alloc(me, 1 << 20);
        const wh_op_opts *opts = kit_opts(&ops[i]);
        BEGIN(&ops[i], wh_tag_recv(me->ep, bufs[i], 1 << 20, 0, 0, opts, NULL));
    }
    SYNC();
    for (int i = 0; i < MIXED; i++) {
        END(&ops[i], WH_OK);
        REQUIRE_INT(ops[i].result.size, mixed_size(i));
        REQUIRE_INT(ops[i].result.tag, 5);
        SAME(bufs[i], mixed_size(i), (uint64_t)i);
        free(bufs[i]);
    }
}

CASE(tag_both_ways_at_once, 0) {
    enum { N = 6 };
    const size_t size = 3000001;
    static kit_op sends[2][N], recvs[2][N];
    char *out[N], *in[N];
    for (int i = 0; i < N; i++) {
        out[i] = kit_alloc(me, size);
        in[i] = kit_alloc(me, size);
        kit_fill(out[i], size, (uint64_t)(me->role * 100 + i));
        kit_op *send = &sends[me->role][i], *recv = &recvs[me->role][i];
        const wh_op_opts *opts = kit_opts(send);
        BEGIN(send, wh_tag_send(me->ep, out[i], size, (uint64_t)(me->role * 100 + i), opts, NULL));
        opts = kit_opts(recv);
        BEGIN(recv, wh_tag_recv(me->ep, in[i], size, (uint64_t)(!me->role * 100 + i),
                                WH_TAG_MASK_ALL, opts, NULL));
    }
    for (int i = 0; i < N; i++) {
        END(&sends[me->role][i], WH_OK);
        END(&recvs[me->role][i], WH_OK);
        SAME(in[i], size, (uint64_t)(!me->role * 100 + i));
        free(out[i]);
        free(in[i]);
    }
}

CASE(tag_masks_and_the_earliest_receive, 0) {
    uint64_t value[6] = {0};
    if (me->role == 0) {
        SYNC();
        const uint64_t tags[] = {0x1234, 0x9999, 0x12ff, 0x7777, 0x7777};
        for (uint64_t i = 0; i < 5; i++)
            kit_send(me, me->ep, &tags[i], 8, tags[i]);
        SYNC();
        return;
    }
    // Posted in this order: any source with a mask, the endpoint with a whole tag, the endpoint with a mask, ...
    kit_op ops[5];
    const wh_op_opts *opts = kit_opts(&ops[0]);
    BEGIN(&ops[0], wh_worker_tag_recv(me->worker, &value[0], 8, 0x1200, 0xff00, opts, NULL));
    opts = kit_opts(&ops[1]);
    BEGIN(&ops[1], wh_tag_recv(me->ep, &value[1], 8, 0x1234, WH_TAG_MASK_ALL, opts, &ops[1].req));
    opts = kit_opts(&ops[2]);
    BEGIN(&ops[2], wh_tag_recv(me->ep, &value[2], 8, 0x1200, 0xff00, opts, NULL));
    opts = kit_opts(&ops[3]);
    BEGIN(&ops[3],
          wh_worker_tag_recv(me->worker, &value[3], 8, 0x7777, WH_TAG_MASK_ALL, opts, NULL));
    opts = kit_opts(&ops[4]);
    BEGIN(&ops[4], wh_tag_recv(me->ep, &value[4], 8, 0x7777, WH_TAG_MASK_ALL, opts, NULL));
    SYNC();
    END(&ops[0], WH_OK);
    END(&ops[2], WH_OK);
    END(&ops[3], WH_OK);
    END(&ops[4], WH_OK);
    REQUIRE_INT(value[0], 0x1234);
    REQUIRE_INT(value[2], 0x12ff);
    REQUIRE_INT(ops[2].result.tag, 0x12ff);
    REQUIRE(ops[0].result.source == me->ep && ops[3].result.source == me->ep);
    REQUIRE_INT(atomic_load(&ops[1].ended), 0);
    kit_recv(me, me->ep, &value[5], 8, 0x9999);  // passed over by all of them
    wh_request_cancel(ops[1].req);
    END(&ops[1], WH_ECANCELLED);
    SYNC();
}

CASE(tag_any_source_names_the_endpoint, 0) {
    enum { N = 8 };
    wh_endpoint *eps[N];
    for (int i = 0; i < N; i++)
        eps[i] = kit_pair(me);
    if (me->role == 0) {
        for (uint64_t i = 0; i < N; i++)
            kit_send(me, eps[i], &i, 8, 0xa0);
    } else {
        unsigned seen = 0;
        for (int i = 0; i < N; i++) {
            uint64_t value = 99;
            kit_op op;
            const wh_op_opts *opts = kit_opts(&op);
            if (i & 1) {
                BEGIN(&op, wh_worker_tag_recv(me->worker, &value, 8, 0xa0, ~0ull << 4, opts, NULL));
                END(&op, WH_OK);
            } else if (kit_may_block(me)) {
                REQUIRE_STATUS(wh_worker_tag_recv_wait(me->worker, &value, 8, 0xa0, ~0ull,
                                                       kit_hang_ms, &op.result),
                               WH_OK);
            } else {
                BEGIN(&op, wh_worker_tag_recv(me->worker, &value, 8, 0xa0, ~0ull, opts, &op.req));
                UNTIL(wh_request_status(op.req) != WH_PENDING || atomic_load(&op.ended));
                END(&op, WH_OK);
            }
            REQUIRE(value < N && op.result.source == eps[value]);
            seen |= 1u << value;
        }
        REQUIRE_INT(seen, (1 << N) - 1);
    }
    SYNC();
    for (int i = 0; i < N; i++)
        kit_close(me, eps[i]);
}

CASE(tag_truncation_leaves_the_next_unharmed, 0) {
    static const size_t sizes[] = {9, 8192, 8193, 100000, 3000000};
    for (size_t i = 0; i < 5; i++) {
        size_t size = sizes[i];
        char *buf = kit_alloc(me, size + 64);
        if (me->role == 0) {
            kit_fill(buf, size, i);
            kit_op op;
            const wh_op_opts *opts = kit_opts(&op);
            BEGIN(&op, wh_tag_send(me->ep, buf, size, 3, opts, &op.req));
            END(&op, WH_OK);
            kit_send(me, me->ep, buf, size, 3);
        } else {
            for (size_t room = 0; room < 2; room++) {
                size_t fits = room ? size : i & 1 ? 0 : size / 2;
                memset(buf, 0x77, size + 64);
                kit_op op;
                const wh_op_opts *opts = kit_opts(&op);
                if (me->config->mode == KIT_WAIT)
                    kit_idle(me, 5);  // arrives first
                BEGIN(&op, wh_tag_recv(me->ep, buf, fits, 3, WH_TAG_MASK_ALL, opts, &op.req));
                END(&op, room ? WH_OK : WH_ETRUNCATED);
                REQUIRE_INT(op.result.size, size);
                SAME(buf, fits, i);
                for (size_t at = fits; at < size + 64; at++)
                    REQUIRE_INT(buf[at], 0x77);
            }
        }
        free(buf);
    }
}

static wh_status find(kit_side *me, uint64_t tag, wh_result *result) {
    return kit_flip(me, 2) ? wh_tag_probe(me->ep, tag, WH_TAG_MASK_ALL, result)
                           : wh_worker_tag_probe(me->worker, tag, WH_TAG_MASK_ALL, result);
}

CASE(tag_probe_and_take, 0) {
    static const size_t sizes[] = {0, 8, 8192, 200000};
    for (uint64_t i = 0; i < 4; i++) {
        size_t size = sizes[i];
        char *buf = kit_alloc(me, size);
        wh_result result;
        if (me->role == 0) {
            kit_fill(buf, size, i);
            for (int n = 0; n < 3; n++) {
                kit_op op;
                const wh_op_opts *opts = kit_opts(&op);
                BEGIN(&op, wh_tag_send(me->ep, buf, size, 40 + i, opts, NULL));
                END(&op, WH_OK);
            }
        } else {
            REQUIRE_STATUS(wh_tag_probe(me->ep, 1, WH_TAG_MASK_ALL, &result), WH_ENOTFOUND);
            UNTIL(find(me, 40 + i, &result) == WH_OK);
            REQUIRE_INT(result.size, size);
            REQUIRE_INT(result.tag, 40 + i);
            REQUIRE(result.source == me->ep);
            wh_message *first = NULL, *second = NULL;
            REQUIRE_STATUS(wh_tag_take(me->ep, 40 + i, WH_TAG_MASK_ALL, &result, &first), WH_OK);
            UNTIL(wh_worker_tag_take(me->worker, 40 + i, WH_TAG_MASK_ALL, NULL, &second) == WH_OK ||
                  size > 8192);
            if (second)
                wh_message_drop(second);
            kit_op op;
            const wh_op_opts *opts = kit_opts(&op);
            BEGIN(&op, wh_message_recv(first, buf, size, opts, &op.req));
            END(&op, WH_OK);
            REQUIRE_INT(op.result.size, size);
            SAME(buf, size, i);
            for (int left = second ? 1 : 2; left > 0; left--)
                kit_recv(me, me->ep, buf, size, 40 + i);
            SAME(buf, size, i);
        }
        free(buf);
        SYNC();
    }
}

CASE(tag_take_of_a_withdrawn_message, 0) {
    const size_t size = 100000;
    char *buf = kit_alloc(me, size);
    kit_op op;
    const wh_op_opts *opts = kit_opts(&op);
    if (me->role == 0) {
        BEGIN(&op, wh_tag_send(me->ep, buf, size, 4, opts, &op.req));
        SYNC();
        wh_request_cancel(op.req);
        END(&op, WH_ECANCELLED);
        kit_send(me, me->ep, "x", 1, 5);
        SYNC();
    } else {
        wh_message *msg = NULL;
        UNTIL(wh_tag_take(me->ep, 4, WH_TAG_MASK_ALL, NULL, &msg) == WH_OK);
        SYNC();
        kit_recv(me, me->ep, buf, 1, 5);  // behind the withdrawal
        REQUIRE_STATUS(wh_message_recv(msg, buf, size, opts, &op.req), WH_ECANCELLED);
        wh_message_drop(msg);  // an error has left it ours
        SYNC();
    }
    free(buf);
}

CASE(tag_synchronous_send_waits_for_the_match, 0) {
    static const size_t sizes[] = {0, 8, 8192, 300000};
    for (size_t i = 0; i < 4; i++) {
        char *buf = kit_alloc(me, sizes[i]);
        if (me->role == 0) {
            kit_fill(buf, sizes[i], i);
            kit_op op;
            const wh_op_opts *opts = kit_opts_with(&op, WH_OP_SYNC, 0);
            BEGIN(&op, wh_tag_send(me->ep, buf, sizes[i], 9, opts, &op.req));
            SYNC();
            kit_idle(me, 5);
            REQUIRE_INT(atomic_load(&op.ended), 0);
            SYNC();
            END(&op, WH_OK);
        } else {
            SYNC();
            SYNC();
            kit_recv(me, me->ep, buf, sizes[i], 9);
            SAME(buf, sizes[i], i);
        }
        free(buf);
    }
}

// More small messages than any credit before the first is read: nothing waits, nothing is lost.
CASE(tag_flood_written_before_it_is_read, 0) {
    enum { N = 20000 };
    static kit_op ops[N];
    static char bytes[N][40];
    if (me->role == 0) {
        for (int i = 0; i < N; i++) {
            size_t size = (size_t)i % 41;
            kit_fill(bytes[i], size, (uint64_t)i);
            const wh_op_opts *opts = kit_opts(&ops[i]);
            BEGIN(&ops[i], wh_tag_send(me->ep, bytes[i], size, 1, opts, NULL));
        }
        SYNC();
        for (int i = 0; i < N; i++)
            END(&ops[i], WH_OK);
    } else {
        SYNC();
        for (int i = 0; i < N; i++) {
            char got[40];
            kit_op op;
            const wh_op_opts *opts = kit_opts(&op);
            BEGIN(&op, wh_tag_recv(me->ep, got, 40, 1, WH_TAG_MASK_ALL, opts, NULL));
            END(&op, WH_OK);
            REQUIRE_INT(op.result.size, i % 41);
            SAME(got, (size_t)i % 41, (uint64_t)i);
        }
    }
}

// Beyond the bound of announcements sends stay pending, and end as receives go on; what the other direction does is no
// affair of theirs.
CASE(tag_bound_of_announcements, 0) {
    int bound = me->config->mode == KIT_WAIT ? 512 : 65536;
    if (me->config->mode != KIT_WAIT && me->config->mode != KIT_ADAPTIVE)
        return;  // 65,536 take a while
    int n = bound + 500;
    const size_t size = 9000;
    char *buf = kit_alloc(me, size);
    kit_op back, *ops = kit_alloc(me, sizeof(kit_op) * (size_t)n);
    if (me->role == 0) {
        kit_fill(buf, size, 1);
        for (int i = 0; i < n; i++) {
            const wh_op_opts *opts = kit_opts(&ops[i]);
            BEGIN(&ops[i], wh_tag_send(me->ep, buf, size, (uint64_t)i, opts, NULL));
        }
        uint64_t value = 0;
        kit_recv(me, me->ep, &value, 8, 1);
        REQUIRE_INT(value, 17);
        REQUIRE_INT(atomic_load(&ops[n - 1].ended), 0);
        SYNC();
        for (int i = 0; i < n; i++)
            END(&ops[i], WH_OK);
    } else {
        uint64_t value = 17;
        const wh_op_opts *opts = kit_opts(&back);
        BEGIN(&back, wh_tag_send(me->ep, &value, 8, 1, opts, NULL));
        END(&back, WH_OK);
        SYNC();
        for (int i = 0; i < n; i++) {
            memset(buf, 0, size);
            kit_recv(me, me->ep, buf, size, (uint64_t)i);
            if (i % 97 == 0)
                SAME(buf, size, 1);
        }
    }
    free(ops);
    free(buf);
}

CASE(tag_many_endpoints_on_one_link, 0) {
    enum { N = 100 };
    wh_endpoint *eps[N];
    static kit_op ops[2][N];
    static uint64_t values[2][N];
    for (int i = 0; i < N; i++) {
        eps[i] = kit_pair(me);
        values[me->role][i] = me->role == 0 ? (uint64_t)i * 3 : 0;
    }
    for (int i = 0; i < N; i++) {
        kit_op *op = &ops[me->role][i];
        const wh_op_opts *opts = kit_opts(op);
        if (me->role == 0)
            BEGIN(op, wh_tag_send(eps[N - 1 - i], &values[0][N - 1 - i], 8, 1, opts, NULL));
        else
            BEGIN(op, wh_tag_recv(eps[i], &values[1][i], 8, 1, WH_TAG_MASK_ALL, opts, NULL));
    }
    for (int i = 0; i < N; i++)
        END(&ops[me->role][i], WH_OK);
    for (int i = 0; i < N; i++)
        REQUIRE_INT(values[me->role][i], i * 3);
    wh_counters counters = {.size = sizeof(counters)};
    REQUIRE_STATUS(wh_worker_counters(me->worker, &counters), WH_OK);
    REQUIRE_INT(counters.links, me->config->place == KIT_ONE ? 2 : 1);
    SYNC();
    for (int i = 0; i < N; i++)
        kit_close(me, eps[i]);
}

// An endpoint's large message must not hold up its siblings for ever.
CASE(tag_siblings_share_the_link, 0) {
    wh_endpoint *small = kit_pair(me);
    const size_t size = 32 << 20;
    char *buf = kit_alloc(me, size);
    kit_op op;
    const wh_op_opts *opts = kit_opts(&op);
    uint64_t value;
    if (me->role == 0) {
        kit_fill(buf, size, 2);
        BEGIN(&op, wh_tag_send(me->ep, buf, size, 1, opts, NULL));
        for (value = 0; value < 200; value++)
            kit_send(me, small, &value, 8, value);
    } else {
        BEGIN(&op, wh_tag_recv(me->ep, buf, size, 1, WH_TAG_MASK_ALL, opts, NULL));
        for (uint64_t i = 0; i < 200; i++) {
            kit_recv(me, small, &value, 8, i);
            REQUIRE_INT(value, i);
        }
    }
    END(&op, WH_OK);
    if (me->role == 1)
        SAME(buf, size, 2);
    SYNC();
    kit_close(me, small);
    free(buf);
}

CASE(tag_flush, 0) {
    enum { N = 300 };
    const size_t large = 2000000;
    static kit_op ops[N], recv;
    static uint64_t values[N];
    char *buf = kit_alloc(me, large);
    kit_op flush, big;
    if (me->role == 0) {
        kit_fill(buf, large, 3);
        SYNC();
        const wh_op_opts *opts = kit_opts(&big);
        BEGIN(&big, wh_tag_send(me->ep, buf, large, 2, opts, NULL));
        for (int i = 0; i < N; i++) {
            values[i] = (uint64_t)i;
            opts = kit_opts(&ops[i]);
            BEGIN(&ops[i], wh_tag_send(me->ep, &values[i], 8, 1, opts, NULL));
        }
        END(&big, WH_OK);
        opts = kit_opts(&flush);
        BEGIN(&flush, wh_endpoint_flush(me->ep, opts, &flush.req));
        END(&flush, WH_OK);
        for (int i = 0; i < N; i++)
            END(&ops[i], WH_OK);
        atomic_store(&me->shared->values[0], 1);
        if (kit_may_block(me))
            REQUIRE_STATUS(wh_endpoint_flush_wait(me->ep, kit_hang_ms), WH_OK);
        SYNC();
    } else {
        atomic_store(&me->shared->values[0], 0);
        const wh_op_opts *opts = kit_opts(&recv);
        BEGIN(&recv, wh_tag_recv(me->ep, buf, large, 2, WH_TAG_MASK_ALL, opts, NULL));
        SYNC();
        UNTIL_POLLED(atomic_load(&me->shared->values[0]));
        // All of it is here: nothing more has to be waited for, save for what a progress thread is about to tell.
        REQUIRE(kit_threaded(me) || atomic_load(&recv.ended) == 1);
        END(&recv, WH_OK);
        SAME(buf, large, 3);
        for (uint64_t i = 0; i < N; i++) {
            uint64_t value = N;
            if (kit_threaded(me))
                kit_recv(me, me->ep, &value, 8, 1);
            else
                REQUIRE_STATUS(wh_tag_recv(me->ep, &value, 8, 1, WH_TAG_MASK_ALL, NULL, NULL),
                               WH_OK);
            REQUIRE_INT(value, i);
        }
        SYNC();
    }
    free(buf);
}

// The receiver takes little of a message of more than 4 GiB, of which not one page exists.
CASE(tag_more_than_4_gib_announced, 0) {
    const size_t size = (5ull << 30) + 3;
    if (me->role == 0) {
        char *huge = mmap(NULL, size, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (huge == MAP_FAILED)
            huge = NULL;
        atomic_store(&me->shared->values[1], huge != NULL);
        SYNC();
        if (!huge)
            return;
        memcpy(huge, "begins so", 9);
        kit_send(me, me->ep, huge, size, 1);
        munmap(huge, size);
    } else {
        SYNC();
        if (!atomic_load(&me->shared->values[1]))
            return;
        char got[9] = "";
        kit_op op;
        const wh_op_opts *opts = kit_opts(&op);
        BEGIN(&op, wh_tag_recv(me->ep, got, 9, 1, WH_TAG_MASK_ALL, opts, NULL));
        END(&op, WH_ETRUNCATED);
        REQUIRE_INT(op.result.size, size);
        REQUIRE(memcmp(got, "begins so", 9) == 0);
    }
}

CASE(tag_more_than_4_gib_moved, KIT_SOAK) {
    const size_t size = (4ull << 30) + 4097, step = 64 << 20;
    char *buf = mmap(NULL, size, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    REQUIRE(buf != MAP_FAILED);
    if (me->role == 0) {
        for (size_t at = 0; at < size; at += step)
            kit_fill(buf + at, size - at < step ? size - at : step, at);
        kit_send(me, me->ep, buf, size, 1);
    } else {
        kit_recv(me, me->ep, buf, size, 1);
        for (size_t at = 0; at < size; at += step)
            SAME(buf + at, size - at < step ? size - at : step, at);
    }
    munmap(buf, size);
}

CASE(tag_invalid_arguments, 0) {
    char byte = 0;
    REQUIRE_STATUS(wh_tag_send(NULL, &byte, 1, 0, NULL, NULL), WH_EINVAL);
    REQUIRE_STATUS(wh_tag_send(me->ep, NULL, 1, 0, NULL, NULL), WH_EINVAL);
    REQUIRE_STATUS(wh_tag_recv(me->ep, NULL, 1, 0, 0, NULL, NULL), WH_EINVAL);
    REQUIRE_STATUS(wh_tag_recv(NULL, &byte, 1, 0, 0, NULL, NULL), WH_EINVAL);
    REQUIRE_STATUS(wh_worker_tag_recv(NULL, &byte, 1, 0, 0, NULL, NULL), WH_EINVAL);
    REQUIRE_STATUS(wh_message_recv(NULL, &byte, 1, NULL, NULL), WH_EINVAL);
    REQUIRE_STATUS(wh_endpoint_flush(NULL, NULL, NULL), WH_EINVAL);
    wh_message_drop(NULL);
    wh_request_free(NULL);
    wh_request_cancel(NULL);
}

// Large messages go by the bulk lane where the setting says so, and otherwise host memory never does.
CASE(tag_over_the_bulk_lane, KIT_TWO | KIT_SYNCED) {
    enum { LARGE = 1 << 20 };
    const char *setting = getenv("WHERRY_BULK_LANE");
    bool beside = me->config->lane == KIT_SHM || me->config->lane == KIT_STREAM;
    bool wanted = setting && strcmp(setting, "ucx") == 0 && beside;
    unsigned char *buf = malloc(LARGE);
    REQUIRE(buf);
    memset(buf, 'a' + me->role, LARGE);
    if (me->role == 0) {
        REQUIRE_STATUS(wh_tag_send_wait(me->ep, buf, LARGE, 1, -1), WH_OK);
        wh_counters counters = {.size = sizeof(counters)};
        REQUIRE_STATUS(wh_endpoint_counters(me->ep, &counters), WH_OK);
        REQUIRE(counters.bulk_lane == wanted);
    } else {
        REQUIRE_STATUS(wh_tag_recv_wait(me->ep, buf, LARGE, 1, WH_TAG_MASK_ALL, -1, NULL), WH_OK);
        REQUIRE(buf[0] == 'a' && buf[LARGE - 1] == 'a');
    }
    free(buf);
}
