// SPDX-License-Identifier: BSD-3-Clause
//
// The engine that is linked and not loaded.
#ifndef BENCH_TYPES_ENGINE_WHERRY_H
#define BENCH_TYPES_ENGINE_WHERRY_H

#include "bench/types/engine.h"

extern const bench_engine bench_engine_wherry;

#endif
