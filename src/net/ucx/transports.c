// SPDX-License-Identifier: BSD-3-Clause
//
// Which transports UCX would have on this machine, and which memory it knows.
//
// No call of UCX lists the transports; what it prints for people does.  They depend on the environment (UCX_TLS and others) and on
// the settings of a domain, so a domain is made for the question.
#include <pthread.h>
#include <signal.h>
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

// ask_memory_types makes a context for the question: a worker would open ports.
static uint64_t ask_memory_types(void) {
    ucp_context_h context;
    uint64_t types = 0;
    sigset_t all, before;
    if (!whi_ucx_version())
        return 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);  // a thread that UCX starts gets none
    if (whi_ucx_open_context(&context, &types) == UCS_OK)
        whi_ucp.ucp_cleanup(context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return types;
}

bool whi_ucx_knows(int kind) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static bool asked;
    static uint64_t types;
    ucs_memory_type_t type = whi_ucx_memory_of(kind);
    pthread_mutex_lock(&lock);
    if (!asked)
        types = ask_memory_types();
    asked = whi_ucx_version() != 0;
    uint64_t known = types;
    pthread_mutex_unlock(&lock);
    return type != UCS_MEMORY_TYPE_UNKNOWN && (known & UCS_BIT(type));
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
