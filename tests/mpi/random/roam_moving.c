// SPDX-License-Identifier: BSD-3-Clause
//
// Ranks move, with what is pending.
#include "random.h"

#include <wherry_mpix.h>

void roam_step(void) {
    int processes;
    unsigned number = draw(1000);
    OK(MPIX_Process(NULL, &processes));
    OK(MPIX_Migrate((int)(number + (unsigned)me) % processes));
}
