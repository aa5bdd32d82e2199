// SPDX-License-Identifier: BSD-3-Clause
//
// Jobs by PMIx, over a library of ours (pmix_fake.h): how it is found, what it is asked, and what it may say.
//
// Each case is a child, because a library stays loaded.
#include "rt/boot/boot.h"

#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/test_child.h"
#include "rt/boot/pmix_fake.h"

static fake_pmix *fake;

// As another library of the process would have done.
static void load(void) {
    const char *path = getenv("FAKE_PMIX");
    if (!path)
        SKIP("FAKE_PMIX does not name the library (run by `meson test`)");
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    CHECK(library);
    fake = dlsym(library, "fake_pmix_says");
    CHECK(fake);
}

static void be_rank(int rank) {
    char text[16];
    snprintf(text, sizeof(text), "%d", rank);
    setenv("PMIX_RANK", text, 1);
    setenv("PMIX_NAMESPACE", "job@1", 1);
}

static void join_is(wh_status expected) {
    whi_boot *boot;
    CHECK_EQ_INT(whi_boot_join(&boot), expected);
    if (expected == WH_OK)
        whi_boot_leave(boot);
}

static whi_boot *join_as(const char *launcher) {
    whi_boot *boot;
    CHECK_EQ_INT(whi_boot_join(&boot), WH_OK);
    CHECK_EQ_STR(whi_boot_launcher(boot), launcher);
    return boot;
}

// ---- Processes.

enum { RANKS = 3 };
static const size_t sizes[] = {0, 1, 500, 1536, 20000};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]), SIZE_MAX_BYTES = 20000 };

static fake_store *share_store(void) {
    fake_store *store =
        mmap(NULL, sizeof(*store), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(store != MAP_FAILED);
    pthread_barrierattr_t barrier;
    pthread_mutexattr_t mutex;
    pthread_barrierattr_init(&barrier);
    pthread_barrierattr_setpshared(&barrier, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&store->fence, &barrier, RANKS);
    pthread_mutexattr_init(&mutex);
    pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&store->lock, &mutex);
    return store;
}

static void fill(uint8_t *value, size_t size, int rank) {
    for (size_t i = 0; i < size; i++)
        value[i] = (uint8_t)(i * 7 + i / 256 + (size_t)rank * 31);
}

static void tell_all(whi_boot *boot, const char *round) {
    static uint8_t value[SIZE_MAX_BYTES], found[SIZE_MAX_BYTES];
    char name[16];
    for (int i = 0; i < SIZES; i++) {
        fill(value, sizes[i], whi_boot_rank(boot));
        snprintf(name, sizeof(name), "%s-%d", round, i);
        CHECK_EQ_INT(whi_boot_put(boot, name, value, sizes[i]), WH_OK);
    }
    CHECK_EQ_INT(whi_boot_exchange(boot), WH_OK);
    for (int rank = 0; rank < RANKS; rank++) {
        for (int i = 0; i < SIZES; i++) {
            size_t size = 0;
            fill(value, sizes[i], rank);
            snprintf(name, sizeof(name), "%s-%d", round, i);
            CHECK_EQ_INT(whi_boot_get(boot, rank, name, found, sizeof(found), &size), WH_OK);
            CHECK_EQ_INT(size, sizes[i]);
            CHECK_MEM(found, value, size);
        }
    }
}

static void be_process(int rank, fake_store *store) {
    uint8_t value[8];
    size_t size;
    load();
    be_rank(rank);
    fake->size = RANKS;
    fake->store = store;
    whi_boot *boot = join_as("PMIx");
    CHECK_EQ_INT(whi_boot_rank(boot), rank);
    CHECK_EQ_INT(whi_boot_size(boot), RANKS);
    tell_all(boot, "first");
    tell_all(boot, "second");
    CHECK_EQ_INT(whi_boot_get(boot, 1, "none", value, sizeof(value), &size), WH_ENOTFOUND);
    CHECK_EQ_INT(whi_boot_get(boot, 1, "first-2", value, sizeof(value), &size), WH_ETRUNCATED);
    whi_boot_leave(boot);
    CHECK_EQ_INT(fake->finalizes, 1);
}

TEST(processes_know_each_other) {
    pid_t pid[RANKS];
    fake_store *store = share_store();
    for (int i = 0; i < RANKS; i++) {
        pid[i] = child_begin();
        if (!pid[i]) {
            be_process(i, store);
            _exit(0);
        }
    }
    for (int i = 0; i < RANKS; i++)
        CHECK_EQ_INT(child_end(pid[i]), 0);
    munmap(store, sizeof(*store));
}

static void ask_for_abort(void) {
    load();
    be_rank(0);
    whi_boot *boot = join_as("PMIx");
    whi_boot_abort(boot, 7);
    CHECK_EQ_INT(fake->aborted, 7);
    whi_boot_leave(boot);
}

TEST(abort_is_told) {
    in_child(ask_for_abort);
}

// ---- What it may say.

static void joins_that_fail(void) {
    static const struct {
        fake_pmix says;
        int rank;
        wh_status status;
    } cases[] = {
        {{.size_type = WHI_PMIX_UINT32, .size = 2}, 1, WH_OK},
        {{.init = -25}, 0, WH_EPEER},
        {{.init = FAKE_NOT_SEEN}, 0, WH_EPEER},
        {{.job_size = WHI_PMIX_ERR_NOT_FOUND}, 0, WH_EPEER},
        {{.size_type = WHI_PMIX_STRING}, 0, WH_EPROTOCOL},
        {{.size_type = 15, .size = 2}, 0, WH_EPROTOCOL},
        {{.size_type = WHI_PMIX_UINT32, .size = 0}, 0, WH_EPROTOCOL},
        {{.size_type = WHI_PMIX_UINT32, .size = UINT32_MAX}, 0, WH_EPROTOCOL},
        {{.size_type = WHI_PMIX_UINT32, .size = 2}, 2, WH_EPROTOCOL},
        {{.size_type = WHI_PMIX_UINT32, .size = 2}, -1, WH_EPROTOCOL},
        {{.size_type = WHI_PMIX_UINT32, .size = 2, .nspace = "job@2"}, 0, WH_EPROTOCOL},
    };
    load();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        *fake = cases[i].says;
        be_rank(cases[i].rank);
        join_is(cases[i].status);
        CHECK_EQ_INT(fake->finalizes, fake->inits);
    }
    // A name without an end.
    char name[400];
    memset(name, 'x', sizeof(name));
    name[399] = '\0';
    *fake = (fake_pmix){.size_type = WHI_PMIX_UINT32, .size = 1, .nspace = name};
    join_is(WH_EPROTOCOL);
}

TEST(launchers_that_say_strange_things_at_first) {
    in_child(joins_that_fail);
}

static void values_that_are_none(void) {
    static char longer[3073 + 1];
    memset(longer, '0', sizeof(longer) - 1);
    memcpy(longer, "1534:", 5);  // right, but for its length
    const struct {
        fake_pmix says;
        wh_status status;
    } cases[] = {
        {{.text = "2:0aff"}, WH_OK},
        {{.text = "2:0af"}, WH_EPROTOCOL},
        {{.text = "0aff"}, WH_EPROTOCOL},
        {{.text = ""}, WH_EPROTOCOL},
        {{.text = longer}, WH_EPROTOCOL},
        {{.text = "2:0aff", .no_text = true}, WH_EPROTOCOL},
        {{.text = "2:0aff", .type = WHI_PMIX_UINT32}, WH_EPROTOCOL},
        {{.text = "2:0aff", .type = FAKE_COMPRESSED}, WH_EPROTOCOL},
        {{.none = true}, WH_EPEER},
        {{.get = -25}, WH_EPEER},
        {{.get = WHI_PMIX_ERR_NOT_FOUND}, WH_ENOTFOUND},
    };
    load();
    be_rank(0);
    whi_boot *boot = join_as("PMIx");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint8_t value[10000] = {0};
        size_t size = 0;
        *fake = cases[i].says;
        if (!fake->type)
            fake->type = WHI_PMIX_STRING;
        CHECK_EQ_INT(whi_boot_get(boot, 0, "v", value, sizeof(value), &size), cases[i].status);
        if (cases[i].status == WH_OK)
            CHECK(size == 2 && value[0] == 0x0a && value[1] == 0xff);
    }
    *fake = (fake_pmix){.put = -1};
    CHECK_EQ_INT(whi_boot_put(boot, "v", "abc", 3), WH_EPEER);
    *fake = (fake_pmix){.commit = -1};
    CHECK_EQ_INT(whi_boot_exchange(boot), WH_EPEER);
    *fake = (fake_pmix){.fence = -52};
    CHECK_EQ_INT(whi_boot_exchange(boot), WH_EPEER);
    whi_boot_leave(boot);
}

TEST(launchers_that_say_strange_things_later) {
    in_child(values_that_are_none);
}

// ---- The library.

static char folder[] = "/tmp/wherry-pmix-XXXXXX";

static void install(const char *place, const char *file) {
    char path[200];
    CHECK(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/lib", folder);
    CHECK_EQ_INT(mkdir(path, 0700), 0);
    if (strchr(place, '/')) {
        snprintf(path, sizeof(path), "%s/%s", folder, place);
        CHECK_EQ_INT(mkdir(path, 0700), 0);
    }
    snprintf(path, sizeof(path), "%s/%s/libpmix.so.2", folder, place);
    CHECK_EQ_INT(symlink(file, path), 0);
}

static void remove_folder(void) {
    char command[100];
    snprintf(command, sizeof(command), "rm -r '%s'", folder);
    CHECK_EQ_INT(system(command), 0);
}

static void find_by(const char *variable, const char *place) {
    if (!getenv("FAKE_PMIX"))
        SKIP("FAKE_PMIX does not name the library (run by `meson test`)");
    pid_t pid = child_begin();
    if (!pid) {
        install(place, getenv("FAKE_PMIX"));
        setenv(variable, folder, 1);
        be_rank(0);
        whi_boot *boot = join_as("PMIx");
        remove_folder();
        CHECK(dlopen(getenv("FAKE_PMIX"), RTLD_NOW | RTLD_NOLOAD));  // it, and not the system's
        whi_boot_leave(boot);
        _exit(0);
    }
    CHECK_EQ_INT(child_end(pid), 0);
}

TEST(library_of_the_launcher) {
    find_by("PMIX_PREFIX", "lib");
    find_by("OPAL_PREFIX", "lib/openmpi");
}

static void join_without_library(void) {
    be_rank(0);
    unsetenv("PMIX_PREFIX");
    unsetenv("OPAL_PREFIX");
    whi_boot *boot;
    wh_status st = whi_boot_join(&boot);
    // The system may have one, which finds no launcher.
    CHECK_EQ_INT(st, dlopen(WHI_PMIX_LIBRARY, RTLD_NOW | RTLD_NOLOAD) ? WH_EPEER : WH_ENOTSUP);
}

TEST(no_library_is_an_error) {
    in_child(join_without_library);
}

static void join_with_other_library(void) {
    Dl_info libc;
    // A function that no sanitizer has in its place.
    CHECK(dladdr((void *)&gnu_get_libc_version, &libc));
    install("lib", libc.dli_fname);
    setenv("PMIX_PREFIX", folder, 1);
    be_rank(0);
    join_is(WH_ENOTSUP);
    remove_folder();
}

TEST(a_library_without_the_functions) {
    in_child(join_with_other_library);
}

// ---- Several signs.

static void join_beside_others(void) {
    load();
    be_rank(0);
    setenv("PMI_RANK", "0", 1);
    setenv("PMI_SIZE", "2", 1);
    setenv("PMI_FD", "1000", 1);  // closed by mpirun, as it is
    whi_boot_leave(join_as("PMIx"));
    int pair[2];
    char text[16];
    CHECK_EQ_INT(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    snprintf(text, sizeof(text), "%d", pair[0]);  // and since then opened by this process
    setenv("PMI_FD", text, 1);
    whi_boot_leave(join_as("PMIx"));
    close(pair[0]);
    CHECK_EQ_INT(socket(AF_INET, SOCK_STREAM, 0), pair[0]);
    whi_boot_leave(join_as("PMIx"));
}

TEST(inside_a_launcher_of_another_kind) {
    in_child(join_beside_others);
}

static void join_inside_slurm(void) {
    load();
    be_rank(0);
    setenv("PMIX_NAMESPACE", "slurm.pmix.12.3", 1);
    setenv("SLURM_JOB_ID", "12", 1);
    setenv("SLURM_STEP_ID", "3", 1);
    setenv("SLURM_STEP_NUM_TASKS", "2", 1);
    whi_boot_leave(join_as("PMIx"));
    setenv("SLURM_STEP_ID", "4", 1);  // srun --mpi=none, of 2 processes, in step 3
    join_is(WH_ENOTSUP);
    setenv("SLURM_STEP_NUM_TASKS", "1", 1);
    whi_boot_leave(join_as("none"));
    setenv("SLURM_HET_SIZE", "2", 1);  // whose steps and names are other ones
    whi_boot_leave(join_as("PMIx"));
    unsetenv("SLURM_HET_SIZE");
    unsetenv("SLURM_STEP_ID");  // a script
    whi_boot_leave(join_as("PMIx"));
    setenv("PMIX_NAMESPACE", "prterun-node-4711@1", 1);
    setenv("SLURM_STEP_ID", "4", 1);  // mpirun's agents are tasks of a step
    whi_boot_leave(join_as("PMIx"));
}

TEST(a_step_inside_a_step_of_slurm) {
    in_child(join_inside_slurm);
}

TEST_MAIN()
