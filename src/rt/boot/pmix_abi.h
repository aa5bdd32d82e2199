// SPDX-License-Identifier: BSD-3-Clause
//
// The part of PMIx's binary interface that is used here, so that no header of it is needed.
//
// It is the same in the libraries of OpenPMIx 2 to 5, which are all called libpmix.so.2.  Only the end of a value has
// grown, so arrays of what holds values have one element.  pmix_abi_test.c compares this with a header that is there.
#ifndef WHI_RT_BOOT_PMIX_ABI_H
#define WHI_RT_BOOT_PMIX_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WHI_PMIX_LIBRARY "libpmix.so.2"
#define WHI_PMIX_JOB_SIZE "pmix.job.size"
#define WHI_PMIX_COLLECT_DATA "pmix.collect"
#define WHI_PMIX_IMMEDIATE "pmix.immediate"

enum {
    WHI_PMIX_NSPACE_MAX = 255,  // both without the end
    WHI_PMIX_KEY_MAX = 511,
    WHI_PMIX_SUCCESS = 0,
    WHI_PMIX_ERR_NOT_FOUND = -46,
    WHI_PMIX_GLOBAL = 3,  // a scope
    WHI_PMIX_BOOL = 1,    // types of values
    WHI_PMIX_STRING = 3,
    WHI_PMIX_UINT32 = 14,
};
#define WHI_PMIX_RANK_WILDCARD (UINT32_MAX - 1)

typedef struct whi_pmix_proc {
    char nspace[WHI_PMIX_NSPACE_MAX + 1];
    uint32_t rank;
} whi_pmix_proc;

typedef struct whi_pmix_value {
    uint16_t type;
    union {
        bool flag;
        uint32_t uint32;
        char *string;
        uint64_t room[3];  // the largest that has been seen
    } data;
} whi_pmix_value;

typedef struct whi_pmix_info {
    char key[WHI_PMIX_KEY_MAX + 1];
    uint32_t flags;
    whi_pmix_value value;
} whi_pmix_info;

// X(result, name, arguments)
#define WHI_PMIX_CALLS(X)                                                                          \
    X(int, PMIx_Init, (whi_pmix_proc * proc, const whi_pmix_info *info, size_t infos))             \
    X(int, PMIx_Put, (uint8_t scope, const char *key, const whi_pmix_value *value))                \
    X(int, PMIx_Commit, (void))                                                                    \
    X(int, PMIx_Fence,                                                                             \
      (const whi_pmix_proc *procs, size_t count, const whi_pmix_info *info, size_t infos))         \
    X(int, PMIx_Get,                                                                               \
      (const whi_pmix_proc *proc, const char *key, const whi_pmix_info *info, size_t infos,        \
       whi_pmix_value **value))                                                                    \
    X(int, PMIx_Abort, (int status, const char *text, const whi_pmix_proc *procs, size_t count))   \
    X(int, PMIx_Finalize, (const whi_pmix_info *info, size_t infos))                               \
    X(const char *, PMIx_Error_string, (int status))                                               \
    X(const char *, PMIx_Get_version, (void))                                                      \
    X(const char *, PMIx_Proc_state_string, (uint8_t state)) /* since 2 */

#endif
