// SPDX-License-Identifier: BSD-3-Clause
//
// Messages between two ends of one PE: what they hold, where it lies, and memory that is out.
#include <wherry/mem.h>
#include <wherry/type.h>

#include "base/alloc.h"
#include "rt/channel/channel_kit.h"

// ---- Elements and lengths.

static int exchange_pes = 1;    // of the next exchange
static wh_status other_status;  // how its send ended

// exchange sends one message into a receive, in either order, and returns how the receive ended.
static wh_status exchange(const void *from, size_t size, const wh_op_opts *how, void *to,
                          size_t room, const wh_op_opts *into, bool send_first) {
    wh_channel *a, *b;
    op sent = {.ends = 0}, got = {.ends = 0};
    wh_op_opts out = *how, in = *into;
    begin(exchange_pes, 1);
    open_pair(&a, &b);
    out.done = in.done = on_op;
    out.arg = &sent;
    in.arg = &got;
    if (send_first)
        began(&sent, wh_channel_send(a, from, size, &out, NULL));
    began(&got, wh_channel_recv(b, to, room, &in, NULL));
    if (!send_first)
        began(&sent, wh_channel_send(a, from, size, &out, NULL));
    UNTIL(sent.ends && got.ends);
    CHECK(sent.ends == 1 && got.ends == 1);
    works_on(a, b);
    close_pair(a, b);
    end(true);
    other_status = sent.status;
    return got.status;
}

TEST(layouts) {
    double from[8][8], to[8][8] = {{0}};
    wh_type *column;
    for (int i = 0; i < 64; i++)
        from[i / 8][i % 8] = i;
    CHECK_EQ_INT(wh_type_create_vector(8, 1, 8, wh_type_basic(WH_TYPE_DOUBLE), &column), WH_OK);
    const wh_op_opts typed = {.size = sizeof(typed), .type = column},
                     row = {.size = sizeof(row), .type = wh_type_basic(WH_TYPE_DOUBLE)},
                     plain = {.size = sizeof(plain)};
    for (int first = 0; first < 2; first++) {
        memset(to, 0, sizeof(to));
        CHECK_EQ_INT(exchange(from, 1, &typed, to[2], 8, &row, first), WH_OK);
        for (int i = 0; i < 8; i++)
            CHECK(to[2][i] == i * 8 && to[3][i] == 0);
        CHECK_EQ_INT(exchange(to[2], 8, &row, to[0], 1, &typed, first), WH_OK);
        for (int i = 0; i < 8; i++)
            CHECK(to[i][0] == i * 8);
        CHECK_EQ_INT(exchange(from[1], 64, &plain, to, 1, &typed, first), WH_OK);
        for (int i = 0; i < 8; i++)
            CHECK(to[i][0] == 8 + i);
        CHECK_EQ_INT(exchange(from, 1, &typed, to[6], 64, &plain, first), WH_OK);
        CHECK(to[6][0] == 0 && to[6][7] == 56);
        // The beginning of what is expected, and more than it.
        CHECK_EQ_INT(exchange(from[2], 4, &row, to[5], 8, &row, first), WH_OK);
        CHECK(to[5][0] == 16 && to[5][3] == 19 && to[5][4] == 0);
        CHECK_EQ_INT(exchange(from, 1, &typed, to[4], 4, &row, first), WH_ETRUNCATED);
        CHECK(to[4][3] == 24 && to[4][4] == 0);
    }
    wh_type_release(column);
}

// The engine's rules: bytes go with everything, and elements of one kind are compared whatever their number.
TEST(elements) {
    double from[8] = {1}, to[8];
    const wh_type *parts[] = {wh_type_basic(WH_TYPE_INT64), wh_type_basic(WH_TYPE_DOUBLE)};
    const int64_t lengths[] = {1, 1}, places[] = {0, 8};
    wh_type *both;
    CHECK_EQ_INT(wh_type_create_struct(2, lengths, places, parts, &both), WH_OK);
    const wh_op_opts doubles = {.size = sizeof(doubles), .type = parts[1]},
                     ints = {.size = sizeof(ints), .type = parts[0]},
                     any = {.size = sizeof(any), .type = parts[0], .flags = WH_OP_UNTYPED},
                     bytes = {.size = sizeof(bytes), .type = wh_type_basic(WH_TYPE_BYTE)},
                     mixed = {.size = sizeof(mixed), .type = both};
    for (int first = 0; first < 2; first++)
        for (int pes = 1; pes <= 2; pes++) {
            exchange_pes = pes;
            CHECK_EQ_INT(exchange(from, 8, &doubles, to, 8, &ints, first), WH_ETYPE);
            CHECK_EQ_INT(exchange(from, 4, &doubles, to, 8, &ints, first), WH_ETYPE);
            CHECK_EQ_INT(exchange(from, 8, &doubles, to, 4, &ints, first), WH_ETYPE);
            CHECK_EQ_INT(exchange(from, 8, &doubles, to, 8, &any, first), WH_OK);
            CHECK_EQ_INT(exchange(from, 8, &any, to, 8, &doubles, first), WH_OK);
            CHECK_EQ_INT(exchange(from, 64, &bytes, to, 8, &ints, first), WH_OK);
            CHECK_EQ_INT(exchange(from, 8, &ints, to, 64, &bytes, first), WH_OK);
            CHECK_EQ_INT(exchange(from, 4, &mixed, to, 8, &ints, first), WH_ETYPE);
            CHECK_EQ_INT(exchange(from, 3, &mixed, to, 8, &ints, first), WH_OK);
            CHECK_EQ_INT(exchange(from, 3, &mixed, to, 4, &mixed, first), WH_OK);
        }
    exchange_pes = 1;
    wh_type_release(both);
}

// A large one that is not what is expected: its sender hears so, as from another PE.
TEST(large_elements) {
    static double from[4000], to[4000];
    const wh_op_opts doubles = {.size = sizeof(doubles), .type = wh_type_basic(WH_TYPE_DOUBLE)},
                     ints = {.size = sizeof(ints), .type = wh_type_basic(WH_TYPE_INT64)};
    for (int first = 0; first < 2; first++) {
        CHECK_EQ_INT(exchange(from, 4000, &doubles, to, 4000, &ints, first), WH_ETYPE);
        CHECK_EQ_INT(other_status, WH_EREJECTED);
        CHECK_EQ_INT(exchange(from, 4000, &doubles, to, 3000, &doubles, first), WH_ETRUNCATED);
        CHECK_EQ_INT(other_status, WH_OK);
    }
}

TEST(what_is_too_long) {
    const wh_op_opts plain = {.size = sizeof(plain)};
    char from[32], to[32] = {0};
    memset(from, 1, sizeof(from));
    for (int first = 0; first < 2; first++) {
        CHECK_EQ_INT(exchange(from, 32, &plain, to, 16, &plain, first), WH_ETRUNCATED);
        CHECK_EQ_INT(to[15], 1);
        CHECK_EQ_INT(to[16], 0);
        CHECK_EQ_INT(exchange(from, 16, &plain, to, 32, &plain, first), WH_OK);
    }
}

// What no receive could make good is refused at once.
TEST(arguments_that_are_none) {
    wh_channel *a, *b;
    char byte = 0;
    begin(1, 1);
    open_pair(&a, &b);
    const wh_op_opts strange = {.size = sizeof(strange), .flags = 1u << 20};
    for (int met = 0; met < 2; met++) {
        CHECK_EQ_INT(wh_channel_send(a, NULL, 1, NULL, NULL), WH_EINVAL);
        CHECK_EQ_INT(wh_channel_recv(b, NULL, 1, NULL, NULL), WH_EINVAL);
        CHECK_EQ_INT(wh_channel_send(a, &byte, 1, &strange, NULL), WH_ENOTSUP);
        CHECK_EQ_INT(wh_channel_recv(b, &byte, SIZE_MAX,
                                     WH_OP_OPTS(.type = wh_type_basic(WH_TYPE_INT)), NULL),
                     WH_EINVAL);
        CHECK_EQ_INT(wh_channel_send(a, NULL, 0, NULL, NULL), WH_OK);
        CHECK_EQ_INT(wh_channel_recv(b, NULL, 0, NULL, NULL), WH_OK);
    }
    close_pair(a, b);
    end(true);
}

// ---- Devices.

// Memory of a device, which is found out: of messages that are kept, that wait, and that are waited for.
TEST(memory_of_a_device) {
    enum { SIZE = 64 << 10 };
    static char host[SIZE], back[SIZE];
    const wh_op_opts plain = {.size = sizeof(plain)},
                     ints = {.size = sizeof(ints), .type = wh_type_basic(WH_TYPE_INT)},
                     floats = {.size = sizeof(floats), .type = wh_type_basic(WH_TYPE_FLOAT)};
    char *device;
    CHECK_EQ_INT(wh_mem_alloc_kind(WH_MEM_SIM, 0, SIZE, (void **)&device), WH_OK);
    for (int first = 0; first < 2; first++)
        for (int size = 16; size <= SIZE; size *= 64) {
            memset(host, size + first, SIZE);
            memset(back, 0, SIZE);
            CHECK_EQ_INT(exchange(host, (size_t)size, &plain, device, SIZE, &plain, first), WH_OK);
            CHECK_EQ_INT(exchange(device, (size_t)size, &plain, back, SIZE, &plain, first), WH_OK);
            CHECK_MEM(host, back, (size_t)size);
            CHECK_EQ_INT(exchange(host, (size_t)size, &plain, device, 8, &plain, first),
                         WH_ETRUNCATED);
            CHECK_EQ_INT(
                exchange(host, (size_t)size / 4, &ints, device, (size_t)size / 4, &floats, first),
                WH_ETYPE);
            CHECK_EQ_INT(
                exchange(host, (size_t)size / 4, &ints, device, (size_t)size / 4, &ints, first),
                WH_OK);
        }
    CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_SIM, device), WH_OK);
}

// A small one of a device is kept like any other; what is behind a stream waits for its receive, and so does a layout, since this
// kind of memory has no kernels.
TEST(kept_from_a_device) {
    enum { COUNT_OF = 8 };
    int host[2 * COUNT_OF], back[COUNT_OF];
    int *device;
    wh_type *every_second;
    wh_channel *a, *b;
    op late = {.ends = 0}, laid_out = {.ends = 0}, got = {.ends = 0};
    for (int i = 0; i < 2 * COUNT_OF; i++)
        host[i] = i;
    CHECK_EQ_INT(wh_mem_alloc_kind(WH_MEM_SIM, 0, sizeof(host), (void **)&device), WH_OK);
    CHECK_EQ_INT(wh_mem_copy(device, WH_MEM_SIM, host, WH_MEM_HOST, sizeof(host)), WH_OK);
    CHECK_EQ_INT(wh_type_create_vector(COUNT_OF, 1, 2, wh_type_basic(WH_TYPE_INT), &every_second),
                 WH_OK);
    begin(1, 1);
    open_pair(&a, &b);
    CHECK_EQ_INT(wh_channel_send(a, device, sizeof(back), NULL, NULL), WH_OK);
    CHECK_EQ_INT(wh_channel_recv(b, back, sizeof(back), NULL, NULL), WH_OK);
    CHECK_EQ_INT(back[COUNT_OF - 1], COUNT_OF - 1);
    began(&laid_out,
          wh_channel_send(a, device, 1,
                          WH_OP_OPTS(.type = every_second, .done = on_op, .arg = &laid_out), NULL));
    CHECK_EQ_INT(laid_out.status, WH_PENDING);
    began(&got,
          wh_channel_recv(b, back, sizeof(back), WH_OP_OPTS(.done = on_op, .arg = &got), NULL));
    UNTIL(laid_out.ends && got.ends);
    CHECK_EQ_INT(got.status, WH_OK);
    CHECK_EQ_INT(back[COUNT_OF - 1], 2 * (COUNT_OF - 1));
    began(&late, wh_channel_send(a, device, sizeof(back),
                                 WH_OP_OPTS(.stream = &host, .done = on_op, .arg = &late), NULL));
    CHECK_EQ_INT(late.status, WH_PENDING);
    wh_channel_close(b);
    UNTIL(late.ends);
    CHECK_EQ_INT(late.status, WH_ECLOSED);
    wh_channel_close(a);
    end(true);
    wh_type_release(every_second);
    CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_SIM, device), WH_OK);
}

// ---- Memory that is out.

// without_memory has one allocation after the other fail in a send or a receive: what was accepted arrives, in order.
static bool without_memory(uint64_t n, bool send_first, void *to) {
    wh_channel *a, *b;
    op sent = {.ends = 0}, got = {.ends = 0};
    const wh_op_opts into = {.size = sizeof(into), .done = on_op, .arg = &got};
    int value = 1000 + (int)n, found[2] = {0, 0};
    begin(1, 1);
    open_pair(&a, &b);
    if (!send_first)
        began(&got, wh_channel_recv(b, to, sizeof(int), &into, NULL));
    else
        CHECK_EQ_INT(wh_channel_send(a, &value, sizeof(value), NULL, NULL), WH_OK);
    whi_alloc_fail_at(n);
    if (!send_first)
        began(&sent, wh_channel_send(a, &value, sizeof(value),
                                     WH_OP_OPTS(.done = on_op, .arg = &sent), NULL));
    else
        began(&got, wh_channel_recv(b, to, sizeof(int), &into, NULL));
    bool reached = whi_alloc_count() >= n;
    whi_alloc_fail_at(0);
    kit_turns(20);
    op *late = send_first ? &got : &sent;
    if (late->ends && late->status != WH_OK) {
        CHECK_EQ_INT(late->status, WH_ENOMEM);
        memset(late, 0, sizeof(*late));
        if (send_first)
            began(&got, wh_channel_recv(b, to, sizeof(int), &into, NULL));
        else
            began(&sent, wh_channel_send(a, &value, sizeof(value),
                                         WH_OP_OPTS(.done = on_op, .arg = &sent), NULL));
    }
    if (!send_first && got.ends && got.status != WH_OK) {
        CHECK_EQ_INT(got.status, WH_ENOMEM);
        got.ends = 0;
        began(&got, wh_channel_recv(b, to, sizeof(int), &into, NULL));
    }
    UNTIL(got.ends && (send_first || sent.ends));
    CHECK_EQ_INT(got.status, WH_OK);
    CHECK_EQ_INT(wh_mem_copy(found, WH_MEM_HOST, to, WH_MEM_AUTO, sizeof(int)), WH_OK);
    CHECK_EQ_INT(found[0], value);
    works_on(a, b);
    close_pair(a, b);
    end(true);
    return reached;
}

TEST(memory_that_is_out) {
    void *device;
    int host;
    CHECK_EQ_INT(wh_mem_alloc_kind(WH_MEM_SIM, 0, 64, &device), WH_OK);
    for (int which = 0; which < 4; which++) {
        uint64_t n = 1;
        while (without_memory(n, which & 1, which & 2 ? device : &host))
            n++;
        fprintf(stderr, "%d: %llu allocations\n", which, (unsigned long long)n - 1);
    }
    CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_SIM, device), WH_OK);
    // One that cannot be kept was not sent.
    wh_channel *a, *b;
    begin(1, 1);
    open_pair(&a, &b);
    send(a, &sends[0], 1, false);
    whi_alloc_fail_at(1);
    send(a, &sends[1], 2, false);
    whi_alloc_fail_at(0);
    CHECK_EQ_INT(sends[1].status, WH_ENOMEM);
    send(a, &sends[2], 3, false);
    for (int i = 0; i < 2; i++) {
        receive(b, &receives[i], false);
        CHECK_EQ_INT(receives[i].data[0], 1 + 2 * i);
    }
    close_pair(a, b);
    end(true);
}

TEST_MAIN()
