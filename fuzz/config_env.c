// SPDX-License-Identifier: BSD-3-Clause
//
// Fuzz target: the WHERRY_* environment, and options.
//
// Each line of the input is one variable.  Whatever they say, every setting can still be written as text, and that text is
// read back to the same.  Each line is also tried as an option.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(cond) ((cond) ? (void)0 : abort())

enum { LINES_MAX = 64 };

static void hear(wh_status status, const char *sentence, void *arg) {
    MUST(status == WH_EINVAL || status == WH_ENOTFOUND);
    (void)arg;
    MUST(strlen(sentence) > 0);
}

// split cuts the text at its line ends, as environ is cut.
static void split(char *text, char *lines[LINES_MAX + 1]) {
    size_t count = 0;
    for (char *at = strtok(text, "\n"); at && count < LINES_MAX; at = strtok(NULL, "\n"))
        lines[count++] = at;
    lines[count] = NULL;
}

static void check_texts(whi_config *cfg) {
    whi_config_entry entry;
    char error[WHI_CONFIG_ERROR_MAX];
    for (size_t i = 0; whi_config_entry_at(cfg, i, &entry); i++) {
        MUST(memchr(entry.value, '\0', sizeof(entry.value)));
        if (strcmp(entry.key, "secret") == 0 || !entry.value[0])
            continue;  // that one is not shown, and "" is not set
        whi_config other = *cfg;
        MUST(whi_config_set(&other, entry.key, entry.value, error, sizeof(error)) == WH_OK);
        whi_config_entry again;
        MUST(whi_config_entry_at(&other, i, &again));
        MUST(strcmp(entry.value, again.value) == 0);
    }
}

static void try_option(whi_config *cfg, char *line) {
    char error[WHI_CONFIG_ERROR_MAX] = "";
    char *equals = strchr(line, '=');
    if (!equals)
        return;
    *equals = '\0';
    wh_status status = whi_config_set(cfg, line, equals + 1, error, sizeof(error));
    MUST(status == WH_OK || (error[0] && memchr(error, '\0', sizeof(error))));
    *equals = '=';
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1), *lines[LINES_MAX + 1];
    MUST(text);
    memcpy(text, data, size);
    text[size] = '\0';
    split(text, lines);
    whi_config cfg;
    whi_config_init(&cfg);
    wh_status status = whi_config_load_env(&cfg, lines, hear, NULL);
    MUST(status == WH_OK || status == WH_EINVAL);
    check_texts(&cfg);
    for (size_t i = 0; lines[i]; i++)
        try_option(&cfg, lines[i]);
    check_texts(&cfg);
    free(text);
    return 0;
}
