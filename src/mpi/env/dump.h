// SPDX-License-Identifier: BSD-3-Clause
//
// What a rank is doing, for people whose program hangs: `mpiexec -timeout`, `wherry run --dump`, SIGUSR1.
#ifndef WHM_ENV_DUMP_H
#define WHM_ENV_DUMP_H

// whm_dump_begin has the ranks of this process printed in each dump of its worker; once for a process that has joined its job.
void whm_dump_begin(void);

#endif
