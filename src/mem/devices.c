// SPDX-License-Identifier: BSD-3-Clause
//
// How much device memory may be in the process, of all kinds: beside the table of kinds, which knows them all, so that they
// need not know it.
#include "mem/mem.h"

_Atomic size_t whi_mem_device_allocations;
