// SPDX-License-Identifier: BSD-3-Clause
//
// NVRTC, the library that compiles CUDA C at run time: opened when it is first asked, and needed by nobody.
//
// Any thread; it compiles one text at a time.
#ifndef WHI_MEM_NVRTC_H
#define WHI_MEM_NVRTC_H

#include <stddef.h>

#include <wherry/status.h>

// whi_nvrtc_version returns its version, 12010 for 12.1; 0: there is none here.
int whi_nvrtc_version(void);

// whi_nvrtc_compile compiles a text for devices of `capability`, and allocates *code, which the caller frees with whi_free.
//
// WH_ENOTSUP: there is no NVRTC, or it refuses the text or the device; the log says why.
WH_CHECK wh_status whi_nvrtc_compile(const char *text, int capability, void **code, size_t *size);

#endif
