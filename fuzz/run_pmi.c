// SPDX-License-Identifier: BSD-3-Clause
//
// Fuzz target: the launcher's server of PMI-1.  The input is lines, each after a byte that says whose it is; an empty line
// after such a byte is the end of that process.
//
// A process never gets more answers than it has asked for, each is one line or none, and complaints can be printed.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/run/pmi.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(cond) ((cond) ? (void)0 : abort())

enum { RANKS = 4 };

static int due[RANKS];

static void answer(int rank, const char *text, size_t size, void *arg) {
    (void)arg;
    MUST(rank >= 0 && rank < RANKS && due[rank]-- == 1);
    MUST(size == 0 || memchr(text, '\n', size) == text + size - 1);
}

static void check(const pmi *server, pmi_verdict verdict) {
    if (verdict == PMI_ABORT)
        MUST(server->exit_code > 0 && server->exit_code < 256);
    if (verdict == PMI_STRANGE)
        MUST(*server->complaint);
    for (const char *c = server->complaint; *c; c++)
        MUST((unsigned char)*c >= ' ' && *c != 0x7f);
}

static pmi_verdict one_line(pmi *server, int rank, const uint8_t *bytes, size_t size) {
    char *line = malloc(size + 1);
    MUST(line);
    for (size_t i = 0; i < size; i++)
        line[i] = bytes[i] ? (char)bytes[i] : '?';
    line[size] = '\0';
    due[rank]++;
    pmi_verdict verdict = pmi_line(server, rank, line);
    free(line);
    return verdict;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    pmi server;
    MUST(pmi_open(&server, RANKS, "kvs", "(0,1,4)", answer, NULL));
    memset(due, 0, sizeof due);
    pmi_verdict verdict = PMI_FINE;
    while (size > 1 && verdict == PMI_FINE) {
        int rank = data[0] % RANKS;
        const uint8_t *end = memchr(data + 1, '\n', size - 1);
        size_t length = end ? (size_t)(end - data) - 1 : size - 1;
        if (due[rank])  // it waits: an agent passes on nothing of it
            verdict = PMI_FINE;
        else if (!length)
            verdict = pmi_left(&server, rank);
        else
            verdict = one_line(&server, rank, data + 1, length);
        check(&server, verdict);
        data += length + 1 + (end != NULL);
        size -= length + 1 + (end != NULL);
    }
    pmi_close(&server);
    return 0;
}
