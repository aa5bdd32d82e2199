// SPDX-License-Identifier: BSD-3-Clause
//
// The switch from one stack to another: what the calling convention asks a function to keep, and nothing else.
#ifndef WHI_RT_ULT_SWITCH_H
#define WHI_RT_ULT_SWITCH_H

// whi_stack_switch stores the registers that belong to the caller and the control words of floating point on the stack, its
// pointer in *from, and goes on where `to` was stored.
void whi_stack_switch(void **from, void *to);

// whi_stack_prepare returns the stack pointer with which a switch calls fn(arg) at the top of a new stack.  fn must not
// return.
void *whi_stack_prepare(void *top, void (*fn)(void *arg), void *arg);

#endif
