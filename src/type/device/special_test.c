// SPDX-License-Identifier: BSD-3-Clause
//
// Special kernels: layouts that are used often get theirs, by the test driver's NVRTC, and they move the same bytes as the
// general ones; processes find in the cache what others have compiled.
//
// The settings are of the process, so that each test is one: `special_test part FOLDER` is what they run.
#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <wherry/pack.h>

#include "mem/cuda_kit.h"

enum { SIDE = 24, CELLS = SIDE * SIDE * SIDE, SHAPES = 6 };

static uint64_t cells[CELLS], got[CELLS], wanted[CELLS];

static wh_type *shape(int i) {
    wh_type *type = NULL, *inner = NULL;
    const wh_type *word = wh_type_basic(WH_TYPE_UINT64);
    const int64_t sizes[] = {SIDE, SIDE, SIDE}, part[] = {20, 19, 17}, start[] = {1, 2, 3};
    wh_status st = WH_OK;
    switch (i) {
    case 0: st = wh_type_create_vector(SIDE * SIDE, 1, SIDE, word, &type); break;
    case 1: st = wh_type_create_subarray(3, sizes, part, start, WH_ORDER_C, word, &type); break;
    case 2: st = wh_type_create_vector(500, 3, 7, wh_type_basic(WH_TYPE_INT16), &type); break;
    case 3:
        st = wh_type_create_vector(100, 16, 24, wh_type_basic(WH_TYPE_COMPLEX_DOUBLE), &type);
        break;
    case 4: st = wh_type_create_vector(1000, 5, 9, wh_type_basic(WH_TYPE_BYTE), &type); break;
    default:  // columns of a matrix: a transpose
        st = wh_type_create_vector(100, 1, 100, word, &inner);
        CHECK_EQ_INT(st, WH_OK);
        st = wh_type_create_hvector(100, 1, 8, inner, &type);
        wh_type_release(inner);
    }
    CHECK_EQ_INT(st, WH_OK);
    return type;
}

static long count(const char *library, const char *name) {
    void *found = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
    *(void **)&found = found ? dlsym(found, name) : NULL;
    return found ? ((long (*)(void))found)() : 0;
}

static long compiled(void) {
    return count("libnvrtc.so.13", "cutest_compiled");
}

static unsigned long loads(void) {
    return ENTRY(unsigned long, "cutest_calls", (const char *), "cuModuleLoadDataEx");
}

// Both directions of a layout, whole and in parts, against the host engine.
static void check_shape(const wh_type *type, char *matrix, char *packed) {
    size_t size = (size_t)wh_type_size(type), actual, half = size / 3 & ~(size_t)15;
    CHECK_EQ_INT(wh_pack(cells, 1, type, 0, wanted, size, 0, &actual), WH_OK);
    memset(got, 0, sizeof(got));
    CHECK_EQ_INT(wh_pack(matrix, 1, type, 0, packed, half, 0, &actual), WH_OK);
    CHECK_EQ_INT(wh_pack(matrix, 1, type, half, packed + half, size, 0, &actual), WH_OK);
    CHECK_EQ_INT(wh_mem_copy(got, WH_MEM_HOST, packed, WH_MEM_CUDA, size), WH_OK);
    CHECK_MEM(got, wanted, size);
    memset(got, 0x77, sizeof(got));
    CHECK_EQ_INT(wh_mem_copy(matrix, WH_MEM_CUDA, got, WH_MEM_HOST, sizeof(got)), WH_OK);
    CHECK_EQ_INT(wh_unpack(wanted, size, got, 1, type, 0, 0, &actual), WH_OK);
    CHECK_EQ_INT(wh_unpack(packed + half, size - half, matrix, 1, type, half, 0, &actual), WH_OK);
    CHECK_EQ_INT(wh_unpack(packed, half, matrix, 1, type, 0, 0, &actual), WH_OK);
    CHECK_EQ_INT(wh_mem_copy(wanted, WH_MEM_HOST, matrix, WH_MEM_CUDA, sizeof(wanted)), WH_OK);
    CHECK_MEM(wanted, got, sizeof(got));
    CHECK_EQ_INT(wh_mem_copy(matrix, WH_MEM_CUDA, cells, WH_MEM_HOST, sizeof(cells)), WH_OK);
}

// Uses all layouts until `kernels` special ones are loaded, and then a few times more.
static int part(int kernels) {
    for (size_t i = 0; i < CELLS; i++)
        cells[i] = i * 0x9e3779b97f4a7c15u;
    char *matrix = make(0, sizeof(cells)), *packed = make(0, sizeof(cells));
    CHECK_EQ_INT(wh_mem_copy(matrix, WH_MEM_CUDA, cells, WH_MEM_HOST, sizeof(cells)), WH_OK);
    wh_type *types[SHAPES];
    for (int i = 0; i < SHAPES; i++)
        types[i] = shape(i);
    int left = 2000;  // turns, of ten milliseconds at least
    for (int more = 5; left && more; left--) {
        for (int i = 0; i < SHAPES; i++)
            check_shape(types[i], matrix, packed);
        usleep(10000);
        more -= loads() > (unsigned long)kernels;
    }
    for (int i = 0; i < SHAPES; i++)
        wh_type_release(types[i]);
    unmake(matrix);
    unmake(packed);
    return left ? 0 : 1;
}

// Runs a process of it; returns how many kernels it has compiled, -1: it has failed.
static int run(const char *cache, const char *compile, const char *fail, int kernels) {
    char text[16];
    snprintf(text, sizeof(text), "%d", kernels);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        setenv("WHERRY_KERNEL_CACHE", cache, 1);
        setenv("WHERRY_KERNEL_COMPILE", compile, 1);
        if (fail)
            setenv("CUTEST_NVRTC_FAIL", fail, 1);
        execl("/proc/self/exe", "special_test", "part", text, (char *)NULL);
        _exit(99);
    }
    int status;
    CHECK_EQ_INT(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) && WEXITSTATUS(status) < 90 ? WEXITSTATUS(status) : -1;
}

static char folder[64];

static void make_folder(void) {
    snprintf(folder, sizeof(folder), "/tmp/wherry-special-%d", getpid());
    CHECK(mkdir(folder, 0700) == 0 || errno == EEXIST);
}

static int remove_files(void) {
    DIR *dir = opendir(folder);
    char path[512];
    int files = 0;
    CHECK(dir);
    for (struct dirent *entry; (entry = readdir(dir));)
        if (entry->d_name[0] != '.') {
            snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
            files += unlink(path) == 0;
        }
    closedir(dir);
    return files;
}

// One of each direction.
TEST(layouts_get_kernels_and_others_find_them) {
    make_folder();
    CHECK_EQ_INT(run(folder, "yes", NULL, 2 * SHAPES), 2 * SHAPES);
    CHECK_EQ_INT(run(folder, "yes", NULL, 2 * SHAPES), 0);
    CHECK_EQ_INT(remove_files(), 2 * SHAPES);
    CHECK(rmdir(folder) == 0);
}

TEST(it_can_be_turned_off) {
    make_folder();
    CHECK_EQ_INT(run(folder, "no", NULL, 0), 0);
    CHECK_EQ_INT(remove_files(), 0);
    CHECK(rmdir(folder) == 0);
}

TEST(what_cannot_be_compiled_is_done_without) {
    CHECK_EQ_INT(run("off", "yes", "1", 0), 0);
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "part") == 0) {
        int failed = part(atoi(argv[2]));
        return failed ? 99 : (int)compiled();
    }
    return whi_test_main(argc > 1 ? argv[1] : "");
}
