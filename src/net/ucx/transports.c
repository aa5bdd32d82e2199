// SPDX-License-Identifier: BSD-3-Clause
//
// Which transports UCX would have on this machine.
//
// No call of UCX lists them; what it prints for people does.  They depend on the environment (UCX_TLS and others) and on
// the settings of a domain, so a domain is made for the question.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/ucx/ucx_lane.h"

// read_print finds lines such as "#      resource 2  :  md 1  dev 2  flags -- tcp/eth0", whose last word counts.
static void read_print(char *print, char *text, size_t size) {
    char *rest = NULL;
    size_t used = 0;
    for (char *line = strtok_r(print, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        const char *word = strrchr(line, ' ');
        if (!strstr(line, " resource ") || !word || used + strlen(word) + 2 > size)
            continue;
        used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", word + 1);
    }
}

void whi_ucx_transports(char *text, size_t size) {
    whi_ucx *ucx;
    const char *why;
    char *print = NULL;
    size_t length = 0;
    *text = '\0';
    if (whi_ucx_create(&ucx, &why) != WH_OK)
        return;
    FILE *file = open_memstream(&print, &length);
    if (file) {
        whi_ucp.ucp_context_print_info(ucx->context, file);
        fclose(file);
        read_print(print, text, size);
    }
    free(print);
    whi_ucx_free(ucx);
}
