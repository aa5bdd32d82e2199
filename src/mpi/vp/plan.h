// SPDX-License-Identifier: BSD-3-Clause
//
// Which rank goes where, so that processes have about the same load.
#ifndef WHM_VP_PLAN_H
#define WHM_VP_PLAN_H

// whm_plan changes home[i], the process of rank i, for ranks of which movable[i] says so.  Loads are not negative; all processes that call it with the same
// arguments get the same plan.  Ranks move from the process with the most load to that with the least, the largest first that makes the larger of
// the two smaller, until none does: so few move when loads have changed little.
void whm_plan(int ranks, int processes, const double *load, const unsigned char *movable,
              int *home);

#endif
