// SPDX-License-Identifier: BSD-3-Clause
//
// A job as texts that end in a zero: size, first, count, bind, how many of the environment, folder, environment, arguments.
#include "cli/run/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/text.h"

enum { NUMBERS = 5, FIXED = NUMBERS + 1 };

static int count_of(char *const *words) {
    int count = 0;
    while (words[count])
        count++;
    return count;
}

static void write_words(buffer *to, char *const *words) {
    for (; *words; words++)
        buffer_add(to, *words, strlen(*words) + 1);
}

void job_write(buffer *to, const run_job *job) {
    int numbers[NUMBERS] = {job->size, job->first, job->count, (int)job->bind, count_of(job->env)};
    for (int i = 0; i < NUMBERS; i++) {
        char text[16];
        buffer_add(to, text, (size_t)snprintf(text, sizeof text, "%d", numbers[i]) + 1);
    }
    buffer_add(to, job->folder, strlen(job->folder) + 1);
    write_words(to, job->env);
    write_words(to, job->argv);
}

static bool split(uint8_t *bytes, size_t size, char **words) {
    size_t count = 0;
    for (size_t at = 0; at < size; at += strlen((char *)bytes + at) + 1)
        words[count++] = (char *)bytes + at;
    words[count] = NULL;
    return count > FIXED;
}

bool job_read(uint8_t *bytes, size_t size, run_job *job) {
    uint64_t numbers[NUMBERS];
    const uint64_t least[NUMBERS] = {1, 0, 1, 0, 0};
    const uint64_t most[NUMBERS] = {RUN_RANKS_MAX, RUN_RANKS_MAX, RUN_RANKS_MAX, RUN_BIND_NONE,
                                    size};
    if (!size || bytes[size - 1] != 0)
        return false;
    size_t count = 0;
    for (size_t i = 0; i < size; i++)
        count += bytes[i] == 0;
    char **words = malloc((count + 1) * sizeof *words);
    bool good = words && split(bytes, size, words);
    for (int i = 0; good && i < NUMBERS; i++)
        good = cli_parse_uint(words[i], least[i], most[i], &numbers[i]);
    // At least the program follows the environment.
    good = good && numbers[1] + numbers[2] <= numbers[0] && FIXED + numbers[4] < count;
    for (size_t i = 0; good && i < numbers[4]; i++)
        good = strchr(words[FIXED + i], '=') != NULL;
    if (!good) {
        free(words);
        return false;
    }
    *job = (run_job){.size = (int)numbers[0],
                     .first = (int)numbers[1],
                     .count = (int)numbers[2],
                     .bind = (run_bind)numbers[3],
                     .folder = words[NUMBERS],
                     .words = words,
                     .argv = words + FIXED + numbers[4]};
    // Both lists end in a NULL, so the environment moves down by one, over the folder's place.
    job->env = words + NUMBERS;
    memmove(job->env, words + FIXED, numbers[4] * sizeof *words);
    job->env[numbers[4]] = NULL;
    return true;
}

void job_free(run_job *job) {
    free(job->words);
}
