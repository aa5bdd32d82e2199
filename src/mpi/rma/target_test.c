// SPDX-License-Identifier: BSD-3-Clause
//
// Accesses whose heads and types say anything: what they do not name rightly is refused, and no byte outside of the window changes.
#include "base/test.h"

#include "mpi/base/process.h"
#include "mpi/rma/access.h"
#include "mpi/type/predefined.h"

enum { SIZE = 256, GUARD = 4096, RANKS = 3 };

static unsigned char memory[GUARD + SIZE + GUARD];
static whm_peer peers[RANKS];
static whm_comm comm = {.size = RANKS};
static whm_win win = {.comm = &comm,
                      .flavor = MPI_WIN_FLAVOR_CREATE,
                      .base = memory + GUARD,
                      .size = SIZE,
                      .unit = 1,
                      .peer = peers};
static whm_win *list[4] = {&win};
static whm_wins wins = {list, 4};

static void begin(void) {
    static whm_rank *here[1];
    if (!whm_self->types)
        CHECK(whm_types_begin(whm_self) == MPI_SUCCESS);
    here[0] = whm_self;
    whm_process_here.rank = here;
    whm_process_here.local = 1;
    whm_self->wins = &wins;
    win.rank = whm_self;
    memset(memory, 0x5A, sizeof(memory));
    memset(peers, 0, sizeof(peers));
}

static unsigned long long state = 88172645463325252ull;
static unsigned random_below(unsigned n) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)(state >> 33) % n;
}

static void check_guards(void) {
    for (int i = 0; i < GUARD; i++)
        CHECK(memory[i] == 0x5A && memory[GUARD + SIZE + i] == 0x5A);
}

static wh_status deliver(const void *head, size_t head_size, const void *data, size_t size) {
    wh_am am = {.header = head, .header_size = head_size, .data = data, .size = size};
    return whm_on_access(&am, NULL);
}

static whm_access put(int64_t disp, int64_t count, MPI_Datatype type) {
    return (whm_access){.kind = WHM_PUT,
                        .origin = 1,
                        .disp = disp,
                        .count = count,
                        .named = (uint32_t)(uintptr_t)type};
}

TEST(ranges) {
    begin();
    static const struct {
        int64_t disp, count;
        size_t size;
        int error;
    } cases[] = {
        {0, 64, 256, MPI_SUCCESS},
        {252, 1, 4, MPI_SUCCESS},
        {253, 1, 4, MPI_ERR_RMA_RANGE},
        {-1, 1, 4, MPI_ERR_RMA_RANGE},
        {0, 65, 260, MPI_ERR_RMA_RANGE},
        {INT64_MAX, 1, 4, MPI_ERR_RMA_RANGE},
        {INT64_MIN, 1, 4, MPI_ERR_RMA_RANGE},
        {0, INT64_MAX, 4, MPI_ERR_COUNT},
        {0, -1, 4, MPI_ERR_COUNT},
        {0, 1, 5, MPI_ERR_TRUNCATE},
        {0, 2, 4, MPI_ERR_TRUNCATE},
        {INT64_MAX, 0, 0, MPI_SUCCESS},
    };
    static const unsigned char data[300] = {1};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        whm_access head = put(cases[i].disp, cases[i].count, MPI_INT);
        peers[1].failure = MPI_SUCCESS;
        CHECK(deliver(&head, sizeof(head), data, cases[i].size) == WH_OK);
        CHECK_EQ_INT(peers[1].failure, cases[i].error);
        CHECK_EQ_INT(peers[1].done, i + 1);
        check_guards();
    }
}

TEST(who_and_what) {
    begin();
    whm_access head = put(0, 1, MPI_INT);
    int value = 7;
    head.win = 1;
    CHECK(deliver(&head, sizeof(head), &value, 4) == WH_OK);
    head.win = 4711;
    CHECK(deliver(&head, sizeof(head), &value, 4) == WH_OK);
    head = put(0, 1, MPI_INT);
    head.origin = RANKS;
    CHECK(deliver(&head, sizeof(head), &value, 4) == WH_OK);
    head.origin = -1;
    CHECK(deliver(&head, sizeof(head), &value, 4) == WH_OK);
    head = put(0, 1, MPI_INT);
    CHECK(deliver(&head, sizeof(head) - 1, &value, 4) == WH_OK);
    CHECK_EQ_INT(peers[1].done, 0);
    CHECK(memory[GUARD] == 0x5A);
    head.named = 0x2ff;
    CHECK(deliver(&head, sizeof(head), &value, 4) == WH_OK);
    CHECK_EQ_INT(peers[1].failure, MPI_ERR_TYPE);
    head.named = 0x10000;  // of an object it would be the address
    peers[1].failure = MPI_SUCCESS;
    CHECK(deliver(&head, sizeof(head), &value, 4) == WH_OK);
    CHECK_EQ_INT(peers[1].failure, MPI_ERR_TYPE);
    peers[1].failure = MPI_SUCCESS;
    head = put(0, 1, MPI_INT);
    head.kind = WHM_ACCUMULATE;
    head.op = WH_REDUCE_MINLOC;
    CHECK(deliver(&head, sizeof(head), &value, 4) == WH_OK);
    CHECK_EQ_INT(peers[1].failure, MPI_ERR_OP);
    CHECK(memory[GUARD] == 0x5A);
}

// Types that were flattened, with bytes changed; heads with fields changed.
TEST(random_messages) {
    begin();
    static unsigned char message[sizeof(whm_access) + 512], data[1024];
    wh_type *vector;
    CHECK(wh_type_create_vector(4, 2, 5, wh_type_basic(WH_TYPE_INT), &vector) == WH_OK);
    size_t flat;
    CHECK(wh_type_flatten(vector, message + sizeof(whm_access), 512, &flat) == WH_OK);
    static const uint8_t kinds[] = {WHM_PUT,   WHM_ACCUMULATE, WHM_PUT,      WHM_ACCUMULATE,
                                    WHM_FLUSH, WHM_POST,       WHM_COMPLETE, WHM_BARRIER};
    for (int i = 0; i < 200000; i++) {
        unsigned char changed[sizeof(message)];
        whm_access head = put(random_below(SIZE), 1 + random_below(2), MPI_INT);
        head.kind = kinds[random_below(8)];
        head.op = (uint8_t)random_below(WH_REDUCES + 1);
        head.flat = (uint32_t)flat;
        head.id = random_below(40);
        memcpy(changed, message, sizeof(message));
        memcpy(changed, &head, sizeof(head));
        if (i % 3)  // in the type, or in disp and count
            changed[offsetof(whm_access, disp) + random_below((unsigned)(flat + 16))] =
                (unsigned char)random_below(256);
        for (int k = 0; k < 64; k++)
            data[k] = (unsigned char)random_below(256);
        size_t size = random_below(4) ? 32 : random_below(sizeof(data));
        (void)deliver(changed, sizeof(head) + flat, data, size);
        if (i % 100 == 0)
            check_guards();
    }
    check_guards();
    CHECK(peers[1].done > 100000 && peers[1].posted > 1000);
    wh_type_release(vector);
}

TEST_MAIN()
