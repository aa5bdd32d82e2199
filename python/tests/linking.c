// SPDX-License-Identifier: BSD-3-Clause
//
// What test_linking.py builds against the package: as a program, and as a library that the interpreter
// opens.
#include <wherry/wherry.h>

#include <stdio.h>
#include <string.h>

static char logged[1024];

static void keep(const char *level, const char *id, const char *text, void *arg) {
    (void)level, (void)id, (void)arg;
    snprintf(logged, sizeof(logged), "%s", text);
}

const void *linking_engine(void);
void linking_listen(void);
const char *linking_logged(void);

// The address of a function of the engine: the same one for all who share it.
const void *linking_engine(void) {
    return (const void *)wh_version;
}

void linking_listen(void) {
    wh_log_set_sink(keep, NULL);
}

const char *linking_logged(void) {
    return logged;
}

int main(void) {
    wh_context *ctx;
    if (wh_context_create(NULL, &ctx) != WH_OK)
        return 1;
    wh_context_destroy(ctx);
    printf("%s %d\n", wh_version(), strcmp(wh_version(), WH_VERSION_STRING));
    return 0;
}
