// SPDX-License-Identifier: BSD-3-Clause
//
// What makes a shared object one that can be started: the name of the program that loads it.  `mpicc -vp` links this into programs, and the
// C library's own start of programs, which calls main.
#if defined(__x86_64__)
#define LOADER "/lib64/ld-linux-x86-64.so.2"
#elif defined(__aarch64__)
#define LOADER "/lib/ld-linux-aarch64.so.1"
#else
#error "virtual ranks are for x86-64 and aarch64"
#endif

extern const char whm_vp_interp[];
__attribute__((section(".interp"), used)) const char whm_vp_interp[] = LOADER;
