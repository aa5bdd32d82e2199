// SPDX-License-Identifier: BSD-3-Clause
//
// For tests of chares: the errors that PEs tell of, and elements whose state is plain bytes.
#ifndef WHI_RT_CHARE_ELEMENT_KIT_H
#define WHI_RT_CHARE_ELEMENT_KIT_H

#include <wherry/chare.h>

#include "rt/chare/chares.h"
#include "rt/pe/pe_kit.h"

static struct {
    int count;
    char last[400];  // sentence
} kit_errors;

static inline void kit_on_error(wh_pe *pe, const wh_proxy *proxy, const char *sentence, void *arg) {
    (void)pe;
    (void)proxy;
    CHECK(arg == &kit_errors);
    kit_errors.count++;
    snprintf(kit_errors.last, sizeof(kit_errors.last), "%s", sentence);
}

// kit_count_errors has all PEs note their errors, none of which ends the job.
static inline void kit_count_errors(void) {
    kit_errors.count = 0;
    kit_errors.last[0] = '\0';
    for (int i = 0; i < job.pes; i++)
        CHECK_EQ_INT(wh_chare_on_error(job.pe[i], kit_on_error, &kit_errors), WH_OK);
}

// kit_pack and kit_unpack are those of a class whose state has no pointers.
static inline size_t kit_pack(wh_chare *self, void *to) {
    size_t size = whi_container_of(self, whi_element, pub)->cls->state;
    if (to && size)
        memcpy(to, self->state, size);
    return size;
}

static inline wh_status kit_unpack(wh_chare *self, const void *data, size_t size) {
    CHECK_EQ_INT(size, whi_container_of(self, whi_element, pub)->cls->state);
    if (size)
        memcpy(self->state, data, size);
    return WH_OK;
}

#endif
