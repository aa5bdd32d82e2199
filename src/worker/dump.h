// SPDX-License-Identifier: BSD-3-Clause
//
// Dumps that are asked for by a signal.
#ifndef WHI_WORKER_DUMP_H
#define WHI_WORKER_DUMP_H

#include "worker/worker.h"

// whi_dump_on_signal lets SIGUSR1 ask all such workers to print their state; whi_dump_if_asked does, in progress.
void whi_dump_on_signal(wh_worker *worker);
void whi_dump_if_asked(wh_worker *worker);
void whi_dump_forget(wh_worker *worker);

#endif
