// SPDX-License-Identifier: BSD-3-Clause
//
// Memory of this process, for the programs whose start-up is measured; any thread may ask.
#ifndef BENCH_CHARM_PSS_H
#define BENCH_CHARM_PSS_H

// bench_pss_kib returns the proportional set size in KiB: resident memory, of which it counts what others share by its part.
// Zero where the kernel does not tell it.
long bench_pss_kib(void);

// bench_pss_print prints the line of results that run.py reads.
void bench_pss_print(const long *kib, int count);

#endif
