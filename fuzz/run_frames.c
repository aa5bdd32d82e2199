// SPDX-License-Identifier: BSD-3-Clause
//
// Fuzz target: what the launcher and its agents read from each other, frames and the jobs in them.
//
// What is read lies inside what came, and is written as the same bytes again.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/run/frame.h"
#include "cli/run/job.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(cond) ((cond) ? (void)0 : abort())

static void check_job(const frame *got) {
    uint8_t *bytes = malloc(got->size);
    run_job job, again;
    buffer to = {NULL, 0, 0, 0}, same = {NULL, 0, 0, 0};
    MUST(bytes);
    memcpy(bytes, got->bytes, got->size);
    if (job_read(bytes, got->size, &job)) {
        MUST(job.first + job.count <= job.size && job.argv[0]);
        job_write(&to, &job);
        size_t size = buffer_size(&to);
        MUST(job_read(buffer_bytes(&to), size, &again));
        job_write(&same, &again);
        MUST(buffer_size(&same) == size &&
             memcmp(buffer_bytes(&same), buffer_bytes(&to), size) == 0);
        job_free(&again);
        job_free(&job);
    }
    buffer_free(&same);
    buffer_free(&to);
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    frame got;
    int taken;
    while ((taken = frame_read(data, size, &got)) > 0) {
        buffer same = {NULL, 0, 0, 0};
        MUST((size_t)taken <= size && got.bytes + got.size == data + taken);
        frame_write(&same, got.type, got.rank, got.bytes, got.size);
        MUST(buffer_size(&same) == (size_t)taken &&
             memcmp(buffer_bytes(&same), data, (size_t)taken) == 0);
        buffer_free(&same);
        if (got.type == FRAME_JOB)
            check_job(&got);
        data += taken;
        size -= (size_t)taken;
    }
    return 0;
}
