// SPDX-License-Identifier: BSD-3-Clause
//
// Memory that the launcher has made for all ranks of the job, which are on its host then.
//
// One process may not be able to map it (it has no /proc, or too little room), and then none uses it: who has mapped it says so there before it
// joins the job, where each waits for all others, and looks afterwards whether all have said it.
#ifndef WHM_BASE_OFFERED_H
#define WHM_BASE_OFFERED_H

#include <stdbool.h>

enum { WHM_OFFERED_SIZE = (4 << 20) - 4096 };  // of 4 MiB, which the launcher makes

// whm_offered_take maps it, if it can; before this process joins its job.
void whm_offered_take(void);

// whm_offered_agree finds out whether all processes of the job have; when this one has joined it.
void whm_offered_agree(int processes);

// whm_offered returns WHM_OFFERED_SIZE bytes, zeros until a rank writes there, which stay until the process ends.  NULL: there are none; the same
// on all ranks.
void *whm_offered(void);

#endif
