// SPDX-License-Identifier: BSD-3-Clause
//
// Descriptors of another process, which a child plays.
#include "base/fdshare.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/test_child.h"

static int to_child[2], from_child[2];

static int file_of(char letter) {
    int fd = memfd_create("test", 0);  // which stays over exec
    CHECK(fd >= 0 && write(fd, &letter, 1) == 1);
    return fd;
}

static char letter_in(int fd) {
    char letter = 0;
    CHECK_EQ_INT(pread(fd, &letter, 1, 0), 1);
    return letter;
}

// What the child does at each byte: it shares one more file, takes the oldest back and opens another of its number, or ends.
static void be_child(void) {
    whi_fdshare_name names[8];
    int made = 0, removed = 0;
    char order;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    while (read(to_child[0], &order, 1) == 1 && order != 'e') {
        if (order == 's') {
            CHECK_EQ_INT(whi_fdshare_add(file_of((char)('a' + made)), &names[made]), WH_OK);
            CHECK_EQ_INT(write(from_child[1], &names[made], sizeof(*names)), sizeof(*names));
            made++;
        } else {
            int number = names[removed].fd;
            whi_fdshare_remove(&names[removed++]);
            CHECK_EQ_INT(file_of('z'), number);
            CHECK_EQ_INT(write(from_child[1], &order, 1), 1);
        }
    }
    _exit(0);
}

static pid_t begin(void) {
    CHECK(pipe2(to_child, O_CLOEXEC) == 0 && pipe2(from_child, O_CLOEXEC) == 0);
    pid_t pid = child_begin();
    if (!pid) {
        close(to_child[1]);
        be_child();
    }
    return pid;
}

static void order(char what) {
    CHECK_EQ_INT(write(to_child[1], &what, 1), 1);
}

static whi_fdshare_name next_name(void) {
    whi_fdshare_name name;
    order('s');
    CHECK_EQ_INT(read(from_child[0], &name, sizeof(name)), sizeof(name));
    return name;
}

static int open_files(void) {
    int count = 0;
    for (int fd = 0; fd < 256; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static void need_right(const whi_fdshare_name *name) {
    int fd = -1;
    if (whi_fdshare_take(name, &fd) != WH_OK)
        SKIP("the kernel does not let this process copy another's descriptors");
    CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    close(fd);
}

TEST(descriptors_of_another_process) {
    pid_t pid = begin();
    whi_fdshare_name first = next_name(), second = next_name();
    int fd = -1, before = open_files();
    need_right(&first);
    CHECK(first.id != second.id);
    CHECK_EQ_INT(whi_fdshare_take(&second, &fd), WH_OK);
    CHECK_EQ_INT(letter_in(fd), 'b');
    close(fd);
    // The number of what was taken back is another file's.
    order('r');
    char done;
    CHECK_EQ_INT(read(from_child[0], &done, 1), 1);
    fd = -1;
    CHECK_EQ_INT(whi_fdshare_take(&first, &fd), WH_ENOTFOUND);
    CHECK_EQ_INT(fd, -1);
    // Its place is used again, and its id is not.
    whi_fdshare_name third = next_name();
    CHECK_EQ_INT(third.place, first.place);
    CHECK(third.id != first.id);
    CHECK_EQ_INT(whi_fdshare_take(&first, &fd), WH_ENOTFOUND);
    CHECK_EQ_INT(whi_fdshare_take(&third, &fd), WH_OK);
    CHECK_EQ_INT(letter_in(fd), 'c');
    close(fd);
    order('e');
    CHECK_EQ_INT(child_end(pid), 0);
    CHECK_EQ_INT(whi_fdshare_take(&third, &fd), WH_ENOTSUP);
    CHECK_EQ_INT(open_files(), before);
}

TEST(names_that_lie) {
    pid_t pid = begin();
    whi_fdshare_name good = next_name(), other = next_name();
    int fd = -1, before = open_files();
    need_right(&good);
    for (int lie = 0; lie < 9; lie++) {
        whi_fdshare_name bad = good;
        switch (lie) {
        case 0: bad.pid = getppid(); break;
        case 1: bad.pid = -1; break;
        case 2: bad.random[23] ^= 1; break;
        case 3: bad.board = to_child[0]; break;
        case 4: bad.board = other.fd; break;
        case 5: bad.place = WHI_FDSHARE_MAX; break;
        case 6: bad.board = -1; break;
        case 7: bad.fd = -1; break;
        default: memset(&bad, 0x77, sizeof(bad));
        }
        CHECK_EQ_INT(whi_fdshare_take(&bad, &fd), WH_ENOTSUP);
    }
    good.id++;
    CHECK_EQ_INT(whi_fdshare_take(&good, &fd), WH_ENOTFOUND);
    good.id = 0;
    CHECK_EQ_INT(whi_fdshare_take(&good, &fd), WH_ENOTSUP);
    CHECK_EQ_INT(fd, -1);
    CHECK_EQ_INT(open_files(), before);
    order('e');
    CHECK_EQ_INT(child_end(pid), 0);
}

static whi_fdshare_name names[WHI_FDSHARE_MAX];

static void check_child(void) {
    int fd;
    whi_fdshare_name name;
    for (int i = 0; i < WHI_FDSHARE_MAX; i++)
        CHECK(fcntl(names[i].fd, F_GETFD) < 0);
    CHECK(fcntl(names[0].board, F_GETFD) < 0);
    whi_fdshare_remove(&names[0]);  // which is the parent's
    CHECK_EQ_INT(whi_fdshare_add(file_of('c'), &name), WH_OK);
    CHECK_EQ_INT(name.pid, getpid());
    CHECK(memcmp(name.random, names[0].random, sizeof(name.random)) != 0);
    CHECK_EQ_INT(whi_fdshare_take(&name, &fd), WH_OK);
    CHECK_EQ_INT(letter_in(fd), 'c');
}

TEST(places_end_and_children_have_none) {
    int fd, one_more = file_of('x');
    whi_fdshare_name name;
    for (int i = 0; i < WHI_FDSHARE_MAX; i++) {
        CHECK_EQ_INT(whi_fdshare_add(file_of('a'), &names[i]), WH_OK);
        CHECK(fcntl(names[i].fd, F_GETFD) & FD_CLOEXEC);
    }
    CHECK_EQ_INT(whi_fdshare_add(one_more, &name), WH_ENOTFOUND);
    CHECK_EQ_INT(letter_in(one_more), 'x');  // still the caller's
    need_right(&names[5]);
    in_child(check_child);
    CHECK_EQ_INT(whi_fdshare_take(&names[0], &fd), WH_OK);
    close(fd);
    for (int i = 0; i < WHI_FDSHARE_MAX; i++) {
        whi_fdshare_remove(&names[i]);
        CHECK(fcntl(names[i].fd, F_GETFD) < 0);
    }
    whi_fdshare_remove(&names[0]);  // again: nothing
    CHECK_EQ_INT(whi_fdshare_add(one_more, &name), WH_OK);
}

TEST_MAIN()
