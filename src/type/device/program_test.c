// SPDX-License-Identifier: BSD-3-Clause
//
// The forms of the program: machine code is tried first, and PTX does what it cannot.
//
// The fatbins are stand-ins: the test driver runs the same kernels for all, and looks at architectures and names only.
// Each test gives the program other code, and has the devices forget what they have loaded.
#include <wherry/pack.h>

#include "mem/cuda_kit.h"
#include "type/device/program.h"

enum { N = 64, CELLS = N * N, ALL = WHI_MEM_PROGRAM_KERNELS, NO_BINARY = 209 };

static int32_t cells[CELLS], back[N];
static int told;  // lines of information about machine code

static long number(const char *name) {
    return ENTRY(long, name, (void));
}

static void count_lines(const char *level, const char *id, const char *text, void *arg) {
    (void)text, (void)arg;
    told += strcmp(level, "info") == 0 && strcmp(id, "I-CUDA-03") == 0;
}

// ---- Stand-ins.

static struct {
    uint32_t magic;
    uint16_t version, head;
    uint64_t size;
    struct {
        uint16_t kind, version;
        uint32_t head;
        uint64_t size;
        uint32_t unused[3], architecture;
        char names[512];
    } entry[2];
} fatbin;

// Code for two architectures with the first `count` kernels.
static const char *code_for(uint32_t first, uint32_t second, int count) {
    const uint32_t architectures[] = {first, second};
    memset(&fatbin, 0, sizeof(fatbin));
    fatbin.magic = 0xba55ed50;
    fatbin.version = 1;
    fatbin.head = offsetof(typeof(fatbin), entry);
    fatbin.size = sizeof(fatbin.entry);
    for (int i = 0; i < 2; i++) {
        fatbin.entry[i].kind = 2;
        fatbin.entry[i].head = offsetof(typeof(fatbin.entry[0]), names);
        fatbin.entry[i].size = sizeof(fatbin.entry[0].names);
        fatbin.entry[i].architecture = architectures[i];
        char *at = fatbin.entry[i].names;
        for (int name = 0; name < count && whi_device_program.names[name]; name++)
            at = stpcpy(at, whi_device_program.names[name]) + 1;
    }
    return (const char *)&fatbin;
}

static void use(const char *code) {
    static _Atomic(void *) before[64];  // what was loaded stays, so that it is not leaked
    static int count;
    (void)entry("cutest_modules");
    for (int device = 0; device < 2; device++) {
        CHECK(count < 64);
        atomic_store(&before[count++], atomic_exchange(&whi_device_program.loaded[device], NULL));
    }
    whi_device_program.code = code;
    whi_log_set_level(WHI_INFO);
    whi_log_set_sink(count_lines, NULL);
    told = 0;
}

// Packs a column on a device; returns whether it was done by machine code.
static bool pack(int device) {
    wh_type *column;
    size_t actual;
    long launches = number("cutest_launches"), of_code = number("cutest_code_launches");
    for (int i = 0; i < CELLS; i++)
        cells[i] = i;
    whi_mem_notice();
    CHECK_EQ_INT(wh_type_create_vector(N, 1, N, wh_type_basic(WH_TYPE_INT32), &column), WH_OK);
    char *matrix = make(device, sizeof(cells)), *packed = make(device, sizeof(back));
    CHECK_EQ_INT(wh_mem_copy(matrix, WH_MEM_CUDA, cells, WH_MEM_HOST, sizeof(cells)), WH_OK);
    CHECK_EQ_INT(wh_pack(matrix, 1, column, 0, packed, sizeof(back), 0, &actual), WH_OK);
    CHECK_EQ_INT(wh_mem_copy(back, WH_MEM_HOST, packed, WH_MEM_CUDA, sizeof(back)), WH_OK);
    for (int i = 0; i < N; i++)
        CHECK_EQ_INT(back[i], i * N);
    unmake(matrix);
    unmake(packed);
    wh_type_release(column);
    CHECK_EQ_INT(number("cutest_launches"), launches + 1);
    return number("cutest_code_launches") == of_code + 1;
}

// ---- Tests.

// What this build has.
TEST(machine_code_is_used_where_the_build_has_it) {
    (void)entry("cutest_modules");
    CHECK_EQ_INT(pack(0), whi_device_code[0] != 0);
}

TEST(machine_code_comes_first) {
    use(code_for(70, 80, ALL));
    long modules = number("cutest_modules");
    CHECK(pack(0));
    CHECK(pack(1));  // of a later minor version
    CHECK(pack(0));
    CHECK_EQ_INT(number("cutest_modules"), modules + 2);
    CHECK_EQ_INT(told, 0);
}

TEST(a_build_without_it) {
    use("");
    CHECK(!pack(0));
    use(NULL);
    CHECK(!pack(0));
    CHECK_EQ_INT(told, 0);
}

// The line comes once in a process.
TEST(a_device_that_it_is_not_for) {
    use(code_for(75, 81, ALL));
    CHECK(!pack(0));
    CHECK(pack(1));
    CHECK_EQ_INT(told, 1);
    use(code_for(75, 90, ALL));
    CHECK(!pack(0));
    CHECK(!pack(1));
    CHECK_EQ_INT(told, 0);
}

TEST(a_driver_that_refuses_it) {
    static const int results[] = {1, 2, 200, NO_BINARY, 218, 222, 300, 999};
    for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++) {
        use(code_for(80, 80, ALL));
        fail_at("cuModuleLoadDataEx", 1, results[i]);
        CHECK(!pack(0));
        CHECK(!pack(0));
        CHECK(pack(1));
    }
}

// What was loaded of it does not stay.
TEST(code_that_lacks_a_kernel) {
    use(code_for(80, 80, 3));
    long modules = number("cutest_modules");
    CHECK(!pack(0));
    CHECK_EQ_INT(number("cutest_modules"), modules + 1);
    use(code_for(80, 80, ALL));
    fail_at("cuModuleGetFunction", 5, 500);
    CHECK(!pack(0));
    CHECK_EQ_INT(number("cutest_modules"), modules + 2);
}

// The error is that of the last form, and the next call tries again.
TEST(neither_form_is_taken) {
    use(code_for(80, 80, ALL));
    listen();
    fail_at("cuModuleLoadDataEx", -1, NO_BINARY);
    CHECK_EQ_INT(ops->kernels->load(0, &whi_device_program), WH_ENOTSUP);
    fail_at("cuModuleLoadDataEx", 0, 0);
    CHECK_EQ_INT(heard_count, 1);
    CHECK_EQ_STR(heard_id, "E-CUDA-01");
    CHECK(strstr(heard_text, "cuModuleLoadDataEx failed with"));
    CHECK(pack(0));
}

TEST_MAIN()
