// SPDX-License-Identifier: BSD-3-Clause
//
// What tests and simulated device code may do with sim memory beyond the vtable.
//
// Any thread may call all functions; the settings belong to the process.
#ifndef WHI_MEM_SIM_H
#define WHI_MEM_SIM_H

#include "mem/mem.h"

enum {
    WHI_SIM_DEVICES = 4
};  // enough to tell devices apart; each is as large as the host's memory

// whi_sim_set_delay lets each asynchronous copy that is submitted from now on start no earlier than
// `delay_ns` later, and then only when an event is queried; 0, the default, makes it happen at once
// unless earlier work of its stream is still waiting.
void whi_sim_set_delay(uint64_t delay_ns);

// whi_sim_on_copy has `fn` called before each asynchronous copy is submitted, by the thread that does so; NULL: nothing.
void whi_sim_on_copy(void (*fn)(void));

// whi_sim_drain performs everything that is submitted, whatever its delay.
void whi_sim_drain(void);

// whi_sim_engine returns where the simulated device itself may touch the `size` bytes at `ptr`, or
// NULL when they are not inside one live allocation.  This is how a kernel "runs on the device".
void *whi_sim_engine(const void *ptr, size_t size);

// The rest is for sim.c alone: the streams, which know addresses that the engine may touch and
// nothing of allocations.  The names are those of the vtable.  WH_ELIMIT says that too many streams
// have work at one time.
WH_CHECK wh_status whi_sim_submit(void *dst, const void *src, size_t size, void *stream_id);
void whi_sim_record(void *stream_id, whi_mem_event *event);
WH_CHECK wh_status whi_sim_wait(void *stream_id, const whi_mem_event *event);
WH_CHECK wh_status whi_sim_query_event(const whi_mem_event *event);

#endif
