// SPDX-License-Identifier: BSD-3-Clause
//
// What a program can ask about the library, the machine and its own start.
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <wherry/context.h>

#include "mpi/base/process.h"
#include "mpi/bodies.h"
#include "mpi/env/info.h"
#include "mpi/env/kinds.h"

int mpi_get_version(int *version, int *subversion) {
    *version = MPI_VERSION;
    *subversion = MPI_SUBVERSION;
    return MPI_SUCCESS;
}

int mpi_get_library_version(char *version, int *resultlen) {
    *resultlen =
        snprintf(version, MPI_MAX_LIBRARY_VERSION_STRING, "Wherry %s, MPI %d.%d, ABI %d.%d",
                 wh_version(), MPI_VERSION, MPI_SUBVERSION, MPI_ABI_VERSION, MPI_ABI_SUBVERSION);
    return MPI_SUCCESS;
}

int mpi_get_processor_name(char *name, int *resultlen) {
    if (gethostname(name, MPI_MAX_PROCESSOR_NAME))
        return whm_fail(MPI_ERR_OTHER, "the host's name is longer than MPI_MAX_PROCESSOR_NAME");
    name[MPI_MAX_PROCESSOR_NAME - 1] = 0;
    *resultlen = (int)strlen(name);
    return MPI_SUCCESS;
}

// Every process is restricted to the memory of one host, and to nothing smaller that this library knows of.
int mpi_get_hw_resource_info(whm_info **hw_info) {
    whm_info *info = whm_info_new();
    if (!info)
        return whm_no_memory();
    int rc = whm_info_put(info, "mpi_shared_memory", "true");
    if (rc != MPI_SUCCESS) {
        whm_info_release(info);
        return rc;
    }
    *hw_info = info;
    return MPI_SUCCESS;
}

// ---- MPI_INFO_ENV.

// join adds a word to `all`, behind a blank unless it is the first.  False: it does not fit.
static bool join(char *all, size_t *used, bool first, const char *word) {
    size_t length = strlen(word);
    if (*used + length + 2 > MPI_MAX_INFO_VAL)
        return false;
    *used += (size_t)sprintf(all + *used, "%s%s", first ? "" : " ", word);
    return true;
}

// put_command puts the program and its arguments, joined by blanks, as far as they fit.
static int put_command(whm_info *info, int argc, char *const *argv) {
    char all[MPI_MAX_INFO_VAL] = "";
    size_t used = 0;
    for (int i = 1; i < argc && argv[i] && join(all, &used, i == 1, argv[i]);)
        i++;
    int rc = whm_info_put(info, "command", argv[0]);
    return rc == MPI_SUCCESS ? whm_info_put(info, "argv", all) : rc;
}

// own_words reads the words that this process was started with, which the kernel keeps, each with a zero behind it.  Of a line that is longer
// than `room` the beginning, with an end in the middle of a word.
static size_t own_words(char *words, size_t room) {
    FILE *file = fopen("/proc/self/cmdline", "re");
    size_t size = file ? fread(words, 1, room, file) : 0;
    if (file)
        fclose(file);
    return size;
}

static int put_own_command(whm_info *info) {
    char program[MPI_MAX_INFO_VAL] = "", words[PATH_MAX + MPI_MAX_INFO_VAL];
    char all[MPI_MAX_INFO_VAL] = "";
    if (readlink("/proc/self/exe", program, sizeof(program) - 1) < 0)
        program[0] = 0;
    size_t used = 0, size = own_words(words, sizeof(words));
    while (size > 0 && words[size - 1])
        size--;
    const char *end = words + size, *word = words;
    for (bool first = true; word < end && (word += strlen(word) + 1) < end; first = false) {
        if (!join(all, &used, first, word))
            break;
    }
    int rc = whm_info_put(info, "command", program);
    return rc == MPI_SUCCESS ? whm_info_put(info, "argv", all) : rc;
}

static int put_machine(whm_info *info) {
    struct utsname name;
    char path[MPI_MAX_INFO_VAL];
    int rc = MPI_SUCCESS;
    if (uname(&name) == 0) {
        rc = whm_info_put(info, "host", name.nodename);
        if (rc == MPI_SUCCESS)
            rc = whm_info_put(info, "arch", name.machine);
    }
    if (rc == MPI_SUCCESS && getcwd(path, sizeof(path)))
        rc = whm_info_put(info, "wdir", path);
    return rc;
}

static int fill(whm_info *info, int argc, char *const *argv) {
    int rc = argc > 0 ? put_command(info, argc, argv) : put_own_command(info);
    if (rc == MPI_SUCCESS)
        rc = put_machine(info);
    if (rc == MPI_SUCCESS)
        rc = whm_info_put(info, "thread_level", "MPI_THREAD_MULTIPLE");
    if (rc == MPI_SUCCESS && whm_alloc_kinds_asked())  // what was asked for, not what there is
        rc = whm_info_put(info, "mpi_memory_alloc_kinds", whm_alloc_kinds_asked());
    return rc;
}

int mpi_info_create_env(int argc, char **argv, whm_info **info) {
    *info = whm_info_new();
    if (!*info)
        return whm_no_memory();
    int rc = fill(*info, argc, argc > 0 ? argv : NULL);
    if (rc != MPI_SUCCESS) {
        whm_info_release(*info);
        *info = NULL;
    }
    return rc;
}

void whm_infos_begin(whm_rank *rank) {
    // It is asked for so rarely that one without memory stays without what did not fit.
    whm_info *info = whm_info_new();
    if (!info)
        return;
    (void)fill(info, 0, NULL);
    info->o.handle = MPI_INFO_ENV;
    rank->named[(uintptr_t)MPI_INFO_ENV] = &info->o;
}
