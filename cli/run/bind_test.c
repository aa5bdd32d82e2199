// SPDX-License-Identifier: BSD-3-Clause
//
// Tests of how processors are shared out.
#include "bench/expect.h"
#include "cli/run/bind.h"

static void test_shares(void) {
    for (int units = 1; units <= 9; units++) {
        for (int count = 1; count <= 20; count++) {
            int users[9] = {0}, least = count, most = 0, first, last, at = 0;
            for (int local = 0; local < count; local++) {
                bind_share(units, local, count, &first, &last);
                EXPECT(first >= 0 && first < last && last <= units && first >= at);
                at = first;
                for (int i = first; i < last; i++)
                    users[i]++;
            }
            for (int i = 0; i < units; i++) {
                least = users[i] < least ? users[i] : least;
                most = users[i] > most ? users[i] : most;
            }
            EXPECT(least > 0 && most - least <= 1);  // all are used, evenly
        }
    }
}

static void test_lists(void) {
    cpu_set_t set;
    CPU_ZERO(&set);
    EXPECT(bind_read_list("0-3,8,10-11", &set) && CPU_COUNT(&set) == 7 && CPU_ISSET(8, &set));
    EXPECT(bind_read_list("", &set) && CPU_COUNT(&set) == 7);  // a node without processors
    EXPECT(!bind_read_list("x", &set) && !bind_read_list("3-1", &set));
    EXPECT(!bind_read_list("-1", &set) && !bind_read_list("0-99999", &set));
    EXPECT(!bind_read_list("1;2", &set));
}

static void test_choice(void) {
    cpu_set_t free_ones, mine, all;
    EXPECT(sched_getaffinity(0, sizeof free_ones, &free_ones) == 0);
    EXPECT(!bind_choose(RUN_BIND_NONE, 0, 1, &mine));
    EXPECT(!bind_choose(RUN_BIND_AUTO, 0, CPU_SETSIZE + 1, &mine));  // more than there are
    CPU_ZERO(&all);
    for (int i = 0; i < CPU_SETSIZE; i++) {
        EXPECT(bind_choose(RUN_BIND_CORE, i, CPU_SETSIZE, &mine));
        CPU_OR(&all, &all, &mine);
    }
    EXPECT(CPU_EQUAL(&all, &free_ones));
}

int main(void) {
    test_shares();
    test_lists();
    test_choice();
    printf("%s\n", failures ? "failed" : "passed");
    return failures != 0;
}
