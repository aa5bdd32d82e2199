// SPDX-License-Identifier: BSD-3-Clause
//
// Ranks stay where they are.
#include "random.h"

void roam_step(void) {
    draw(1000);
}
