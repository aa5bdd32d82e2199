// SPDX-License-Identifier: BSD-3-Clause
//
// Strategies of load balancing: functions of loads, without input, output or state.
//
// Any thread.  WH_ENOMEM: `to` is unchanged.
#ifndef WHI_RT_BALANCE_STRATEGY_H
#define WHI_RT_BALANCE_STRATEGY_H

#include <wherry/balance.h>

// A PE up to this many times the mean is not worth a move.
#define WHI_BALANCE_TOLERANCE 1.05

// whi_balance_greedy places the elements anew, the largest first, each where the load is least.  The result is at most the mean,
// or what fixed elements make, and one element more.
wh_status whi_balance_greedy(const wh_balance_element *elements, size_t count, int pes, int32_t *to,
                             void *arg);

// whi_balance_refine moves elements from the PE with most to the PE with least until the largest load is within the
// tolerance or no single move makes it smaller.  No element moves twice, and the largest load never grows.
wh_status whi_balance_refine(const wh_balance_element *elements, size_t count, int pes, int32_t *to,
                             void *arg);

#endif
