// SPDX-License-Identifier: BSD-3-Clause
//
// The set of descriptors: all that are in it are closed, and no other.
#include "base/fdset.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/test.h"

static int open_at(int number) {
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0 && fcntl(fd, F_DUPFD_CLOEXEC, number) == number);
    close(fd);
    return number;
}

static bool is_open(int fd) {
    return fcntl(fd, F_GETFD) >= 0;
}

TEST(closes_what_is_in_it) {
    static whi_fdset set;
    const int in[] = {63, 64, 130, 255}, out[] = {65, 131};
    for (int i = 0; i < 4; i++)
        whi_fdset_add(&set, open_at(in[i]));
    for (int i = 0; i < 2; i++)
        whi_fdset_add(&set, open_at(out[i]));
    for (int i = 0; i < 2; i++)
        whi_fdset_remove(&set, out[i]);
    whi_fdset_close(&set);
    for (int i = 0; i < 4; i++)
        CHECK(!is_open(in[i]));
    for (int i = 0; i < 2; i++) {
        CHECK(is_open(out[i]));
        close(out[i]);
    }
    (void)open_at(64);
    whi_fdset_close(&set);  // of which it knows nothing any more
    CHECK(is_open(64));
    close(64);
    whi_fdset_fini(&set);
}

TEST(what_it_cannot_keep) {
    static whi_fdset set;
    whi_fdset_add(&set, -1);
    whi_fdset_add(&set, 1 << 20);
    whi_fdset_remove(&set, 1 << 20);
    whi_fdset_remove(&set, 70);
    whi_alloc_fail_at(1);
    whi_fdset_add(&set, open_at(70));
    whi_alloc_fail_at(0);
    whi_fdset_close(&set);
    CHECK(is_open(70));
    close(70);
    whi_fdset_fini(&set);
}

TEST_MAIN()
