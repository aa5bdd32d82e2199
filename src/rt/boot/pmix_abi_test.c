// SPDX-License-Identifier: BSD-3-Clause
//
// What is declared of PMIx's binary interface is what its header says, where that is installed.
#include "rt/boot/pmix_abi.h"

#include "base/test.h"

#if __has_include(<pmix.h>)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wredundant-decls"  // its own, of environ
#include <pmix.h>
#pragma GCC diagnostic pop

#define SAME(ours, theirs) CHECK_EQ_INT((ours), (theirs))

TEST(constants) {
    SAME(WHI_PMIX_NSPACE_MAX, PMIX_MAX_NSLEN);
    SAME(WHI_PMIX_KEY_MAX, PMIX_MAX_KEYLEN);
    SAME(WHI_PMIX_SUCCESS, PMIX_SUCCESS);
    SAME(WHI_PMIX_ERR_NOT_FOUND, PMIX_ERR_NOT_FOUND);
    SAME(WHI_PMIX_GLOBAL, PMIX_GLOBAL);
    SAME(WHI_PMIX_BOOL, PMIX_BOOL);
    SAME(WHI_PMIX_STRING, PMIX_STRING);
    SAME(WHI_PMIX_UINT32, PMIX_UINT32);
    SAME(WHI_PMIX_RANK_WILDCARD, PMIX_RANK_WILDCARD);
    CHECK_EQ_STR(WHI_PMIX_JOB_SIZE, PMIX_JOB_SIZE);
    CHECK_EQ_STR(WHI_PMIX_COLLECT_DATA, PMIX_COLLECT_DATA);
    CHECK_EQ_STR(WHI_PMIX_IMMEDIATE, PMIX_IMMEDIATE);
}

TEST(layouts) {
    SAME(sizeof(whi_pmix_proc), sizeof(pmix_proc_t));
    SAME(offsetof(whi_pmix_proc, rank), offsetof(pmix_proc_t, rank));
    SAME(sizeof((whi_pmix_value){0}.type), sizeof((pmix_value_t){0}.type));
    SAME(offsetof(whi_pmix_value, data), offsetof(pmix_value_t, data));
    CHECK(sizeof(whi_pmix_value) >= sizeof(pmix_value_t));  // the library may copy all of it
    SAME(offsetof(whi_pmix_info, flags), offsetof(pmix_info_t, flags));
    SAME(sizeof((whi_pmix_info){0}.flags), sizeof((pmix_info_t){0}.flags));
    SAME(offsetof(whi_pmix_info, value), offsetof(pmix_info_t, value));
    SAME(sizeof((whi_pmix_value){0}.data.flag), sizeof((pmix_value_t){0}.data.flag));
    SAME(sizeof((whi_pmix_value){0}.data.uint32), sizeof((pmix_value_t){0}.data.uint32));
}

// The calls are never made, so no library is needed; numbers of one size go the same way.
TEST(functions) {
    pmix_proc_t *proc = NULL;
    pmix_value_t *value = NULL;
    pmix_info_t *info = NULL;
    SAME(sizeof(PMIx_Init(proc, info, (size_t)1)), sizeof(int));
    SAME(sizeof(PMIx_Put((pmix_scope_t)1, "key", value)), sizeof(int));
    SAME(sizeof(PMIx_Commit()), sizeof(int));
    SAME(sizeof(PMIx_Fence(proc, (size_t)1, info, (size_t)1)), sizeof(int));
    SAME(sizeof(PMIx_Get(proc, "key", info, (size_t)1, &value)), sizeof(int));
    SAME(sizeof(PMIx_Abort(1, "text", proc, (size_t)1)), sizeof(int));
    SAME(sizeof(PMIx_Finalize(info, (size_t)1)), sizeof(int));
    SAME(sizeof(PMIx_Error_string((pmix_status_t)1)), sizeof(char *));
    SAME(sizeof(PMIx_Get_version()), sizeof(char *));
    SAME(sizeof(PMIx_Proc_state_string((pmix_proc_state_t)1)), sizeof(char *));
    SAME(sizeof(pmix_status_t), sizeof(int));
    SAME(sizeof(pmix_scope_t), sizeof(uint8_t));
    SAME(sizeof(pmix_proc_state_t), sizeof(uint8_t));
}
#else
TEST(header) {
    SKIP("there is no pmix.h (Debian: libpmix-dev)");
}
#endif

TEST_MAIN()
