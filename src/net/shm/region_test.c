// SPDX-License-Identifier: BSD-3-Clause
//
// Regions: what is made is sealed, what is not sealed is refused, and one memfd is mapped once.
#include "net/shm/region.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/alloc.h"
#include "base/test_child.h"

enum { SIZE = 3 * 4096, ALL = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

static int memfd(size_t size, int seals) {
    int fd = memfd_create("region-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(fd >= 0 && ftruncate(fd, (off_t)size) == 0);
    CHECK(seals == 0 || fcntl(fd, F_ADD_SEALS, seals) == 0);
    return fd;
}

static wh_status attach_and_release(int fd) {
    whi_region *region = NULL;
    wh_status status = whi_region_attach(fd, SIZE, SIZE, &region);
    CHECK((status == WH_OK) == (region != NULL));
    whi_region_release(region);
    return status;
}

TEST(made_sealed_and_zero) {
    whi_region *region = NULL;
    int fd = -1;
    CHECK(whi_region_create("region-test", SIZE, &region, &fd) == WH_OK);
    CHECK_EQ_INT(region->size, SIZE);
    for (int i = 0; i < SIZE; i++)
        CHECK_EQ_INT(((char *)region->base)[i], 0);
    CHECK(ftruncate(fd, 4096) != 0);
    CHECK(ftruncate(fd, 4 * SIZE) != 0);
    CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) != 0);
    CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    close(fd);
    whi_region_release(region);
    whi_region_release(NULL);
}

TEST(mapped_once_per_process) {
    whi_region *first = NULL, *again = NULL, *other = NULL;
    int fd = -1, other_fd = -1;
    CHECK(whi_region_create("region-test", SIZE, &first, &fd) == WH_OK);
    CHECK(whi_region_create("region-test", SIZE, &other, &other_fd) == WH_OK);
    CHECK(whi_region_attach(fd, SIZE, SIZE, &again) == WH_OK);
    CHECK(again == first && other != first && other->base != first->base);
    whi_region_release(first);
    memset(again->base, 1, SIZE);  // still there
    whi_region_release(again);
    CHECK(whi_region_attach(fd, SIZE, SIZE, &again) == WH_OK);
    CHECK_EQ_INT(((char *)again->base)[SIZE - 1], 1);
    whi_region_release(again);
    whi_region_release(other);
    close(fd);
    close(other_fd);
}

TEST(foreign_descriptors) {
    struct {
        int fd;
        wh_status want;
    } cases[] = {
        {memfd(SIZE, ALL), WH_OK},
        {memfd(SIZE, 0), WH_EPROTOCOL},
        {memfd(SIZE, F_SEAL_SHRINK | F_SEAL_SEAL), WH_EPROTOCOL},
        {memfd(SIZE, F_SEAL_GROW | F_SEAL_SEAL), WH_EPROTOCOL},
        {memfd(SIZE, F_SEAL_GROW | F_SEAL_SHRINK), WH_EPROTOCOL},
        {memfd(SIZE, ALL | F_SEAL_WRITE), WH_EPROTOCOL},
        {memfd(SIZE - 1, ALL), WH_EPROTOCOL},
        {memfd(SIZE + 1, ALL), WH_EPROTOCOL},
        {memfd(0, ALL), WH_EPROTOCOL},
        {memfd((size_t)1 << 40, ALL), WH_EPROTOCOL},
        {open("/dev/null", O_RDWR | O_CLOEXEC), WH_EPROTOCOL},
        {open("/proc/self/exe", O_RDONLY | O_CLOEXEC), WH_EPROTOCOL},
        {open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC), WH_EPROTOCOL},
        {-1, WH_EPROTOCOL},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        CHECK_EQ_INT(attach_and_release(cases[i].fd), cases[i].want);
        if (cases[i].fd >= 0)
            close(cases[i].fd);
    }
}

TEST(out_of_memory) {
    whi_region *region = NULL;
    int fd = -1;
    for (uint64_t n = 1;; n++) {
        whi_alloc_fail_at(n);
        wh_status status = whi_region_create("region-test", SIZE, &region, &fd);
        bool reached = whi_alloc_count() >= n;
        whi_alloc_fail_at(0);
        if (!reached) {
            CHECK(status == WH_OK);
            break;
        }
        CHECK(status == WH_ENOMEM && !region && fd == -1);
    }
    close(fd);
    whi_region_release(region);
}

// A forked child has none of the mappings, and makes its own although it may have been forked
// anywhere.
TEST(forked_child) {
    whi_region *region = NULL;
    int fd = -1;
    CHECK(whi_region_create("region-test", SIZE, &region, &fd) == WH_OK);
    pid_t child = fork();
    if (child == 0) {
        unsigned char present;
        CHECK(mincore(region->base, 4096, &present) != 0);
        whi_region *again = NULL;
        CHECK(whi_region_attach(fd, SIZE, SIZE, &again) == WH_OK);
        CHECK(again != region);
        memset(again->base, 7, SIZE);
        whi_region_release(again);
        _exit(0);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK_EQ_INT(((char *)region->base)[SIZE - 1], 7);
    close(fd);
    whi_region_release(region);
}

// Beyond the limit of file size the kernel ends a process, unless somebody asks before.
static void make_under_a_limit(void) {
    struct rlimit limit;
    whi_region *region = NULL;
    int fd = -1;
    CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0);
    limit.rlim_cur = SIZE;
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    CHECK_EQ_INT(whi_region_create("region-test", SIZE + 1, &region, &fd), WH_ELIMIT);
    CHECK(!region && fd == -1);
    CHECK_EQ_INT(whi_region_create("region-test", SIZE, &region, &fd), WH_OK);
    whi_region_release(region);
    close(fd);
}

TEST(a_limit_of_file_size) {
    in_child(make_under_a_limit);
}

static void *attach_often(void *arg) {
    int fd = *(int *)arg;
    for (int i = 0; i < 500; i++) {
        whi_region *region = NULL;
        CHECK(whi_region_attach(fd, SIZE, SIZE, &region) == WH_OK);
        (void)atomic_fetch_add((_Atomic int *)region->base, 1);
        whi_region_release(region);
    }
    return NULL;
}

TEST(many_threads) {
    int fd = memfd(SIZE, ALL);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, attach_often, &fd) == 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    whi_region *region = NULL;
    CHECK(whi_region_attach(fd, SIZE, SIZE, &region) == WH_OK);
    CHECK_EQ_INT(region->refs, 1);
    CHECK_EQ_INT(*(int *)region->base, 4 * 500);
    whi_region_release(region);
    close(fd);
}

TEST_MAIN()
