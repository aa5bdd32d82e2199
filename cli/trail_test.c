// SPDX-License-Identifier: BSD-3-Clause
//
// Tests of a trail: how deep it goes, with how few descriptors, and that a directory which was
// moved leads nowhere.
#include "bench/expect.h"
#include "cli/trail.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static char top[] = "/tmp/wherry-trail-XXXXXX";

static int open_top(void) {
    return open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

// The lowest descriptor that is free, which rises with each one that is open.
static int lowest_free(void) {
    int fd = open_top();
    close(fd);
    return fd;
}

static void test_deep(void) {
    enum { DEPTH = 1000 };
    trail way;
    int before = lowest_free();
    EXPECT(trail_begin(&way, open_top()));
    for (int i = 0; i < DEPTH; i++) {
        EXPECT(mkdirat(trail_fd(&way), "d", 0700) == 0);
        EXPECT(trail_enter(&way, "d"));
    }
    EXPECT(lowest_free() <= before + 2);
    for (int i = 0; i < DEPTH; i++) {
        EXPECT(trail_leave(&way));
        EXPECT(unlinkat(trail_fd(&way), "d", AT_REMOVEDIR) == 0);
    }
    trail_end(&way);
    EXPECT(lowest_free() == before);
}

static void test_refused(void) {
    trail way;
    EXPECT(trail_begin(&way, open_top()));
    EXPECT(symlinkat("/", trail_fd(&way), "link") == 0);
    EXPECT(!trail_enter(&way, "link") && (errno == ENOTDIR || errno == ELOOP));
    EXPECT(!trail_enter(&way, "missing") && errno == ENOENT);
    EXPECT(way.depth == 1);
    EXPECT(unlinkat(trail_fd(&way), "link", 0) == 0);
    trail_end(&way);
}

// top/a/b/c, of which c is current when b goes to another place: a is not found again through it.
static void test_moved(void) {
    const char *names[] = {"a", "b", "c"};
    trail way;
    int at = open_top();
    EXPECT(trail_begin(&way, open_top()));
    for (int i = 0; i < 3; i++) {
        EXPECT(mkdirat(trail_fd(&way), names[i], 0700) == 0);
        EXPECT(trail_enter(&way, names[i]));
    }
    EXPECT(renameat(at, "a/b", at, "b") == 0);
    EXPECT(trail_leave(&way));  // b is still open
    EXPECT(!trail_leave(&way) && errno == ESTALE);
    trail_end(&way);
    EXPECT(unlinkat(at, "b/c", AT_REMOVEDIR) == 0 && unlinkat(at, "b", AT_REMOVEDIR) == 0);
    EXPECT(unlinkat(at, "a", AT_REMOVEDIR) == 0);
    close(at);
}

int main(void) {
    if (!mkdtemp(top))
        return 77;
    test_deep();
    test_refused();
    test_moved();
    rmdir(top);
    printf("%s\n", failures ? "failed" : "passed");
    return failures != 0;
}
