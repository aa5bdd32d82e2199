// SPDX-License-Identifier: BSD-3-Clause
//
// Calls of the public interface that are refused because of a mistake of their caller: one line in the log each.
//
// All of it is cold: a call comes here when it has found out that it does nothing.
#ifndef WHI_RT_PE_REFUSE_H
#define WHI_RT_PE_REFUSE_H

#include <wherry/rt.h>

#define WHI_COLD __attribute__((cold, noinline))

// whi_refuse(status, id, format, ...) logs why, as an error, and is `status`.  The text begins with the name of the call and ends
// with what to do.
#define whi_refuse(status, id, ...) (whi_refuse_log((id), __VA_ARGS__), (status))

WHI_COLD __attribute__((format(printf, 2, 3))) void whi_refuse_log(const char *id,
                                                                   const char *format, ...);

// What many calls can lack: a PE (`what` is the argument's name), a function, data.
#define whi_refuse_pe(pe, call, what, number)                                                      \
    (whi_refuse_log_pe((pe), (call), (what), (number)), WH_EINVAL)
#define whi_refuse_function(call)                                                                  \
    whi_refuse(WH_EINVAL, "E-RT-11", "%s: the function is NULL: give one to be called", call)
#define whi_refuse_data(call, what, size)                                                          \
    whi_refuse(WH_EINVAL, "E-RT-12",                                                               \
               "%s: %s is NULL, but %zu bytes are said to be there: give the data, or 0 bytes",    \
               call, what, (size_t)(size))

WHI_COLD void whi_refuse_log_pe(const wh_pe *pe, const char *call, const char *what, int number);

#endif
