// SPDX-License-Identifier: BSD-3-Clause
//
// Which UCX each of a test's two roles uses: two releases meet when they differ.
//
// A process has one UCX for good, so roles with different ones are processes of their own, and whoever starts
// them opens none.  Nothing said: both roles use what WHERRY_UCX_DIR says, else the system's.
#ifndef WHERRY_TESTS_UCX_CHOICE_H
#define WHERRY_TESTS_UCX_CHOICE_H

#include <stdbool.h>

// ucx_choose takes the argument of `--ucx DIR,DIR`: the folders of role 0 and role 1; empty: the system's.  A text
// without a comma ends the program.
void ucx_choose(const char *pair);

// ucx_option returns the option that gives a context the UCX of `role`; NULL when nothing was chosen.
const char *ucx_option(int role);

// ucx_mixed says whether the roles use different ones.
bool ucx_mixed(void);

// ucx_usable says whether each role's UCX can be opened, and, when not, prints why.  It asks in children, so that the
// caller stays free to fork.
bool ucx_usable(void);

#endif
