// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/env/info.h"

#include <stdlib.h>
#include <string.h>

#include "mpi/base/memory.h"
#include "mpi/bodies.h"

whm_info *whm_info_new(void) {
    return whm_object_new(WHM_INFO, sizeof(whm_info));
}

void whm_info_release(whm_info *info) {
    if (!info || (uintptr_t)info->o.handle < 4096 || !whm_released(info))
        return;
    for (int i = 0; i < info->count; i++) {
        free(info->pair[i].key);
        free(info->pair[i].value);
    }
    free(info->pair);
    whm_object_free(info, sizeof(*info));
}

static whm_pair *find(const whm_info *info, const char *key) {
    for (int i = 0; info && i < info->count; i++) {
        if (strcmp(info->pair[i].key, key) == 0)
            return &info->pair[i];
    }
    return NULL;
}

const char *whm_info_value(const whm_info *info, const char *key) {
    const whm_pair *pair = find(info, key);
    return pair ? pair->value : NULL;
}

static int append(whm_info *info, char *key, char *value) {
    if (info->count == info->room) {
        int room = info->room ? info->room * 2 : 4;
        whm_pair *more = whm_realloc(info->pair, (size_t)room * sizeof(*more));
        if (!more)
            return whm_no_memory();
        info->pair = more;
        info->room = room;
    }
    info->pair[info->count++] = (whm_pair){key, value};
    return MPI_SUCCESS;
}

int whm_info_put(whm_info *info, const char *key, const char *value) {
    char *copy = whm_strdup(value);
    if (!copy)
        return whm_no_memory();
    whm_pair *pair = find(info, key);
    if (pair) {
        free(pair->value);
        pair->value = copy;
        return MPI_SUCCESS;
    }
    char *name = whm_strdup(key);
    int rc = name ? append(info, name, copy) : whm_no_memory();
    if (rc != MPI_SUCCESS) {
        free(name);
        free(copy);
    }
    return rc;
}

int whm_info_copy(const whm_info *info, whm_info **copy) {
    whm_info *made = whm_info_new();
    int rc = made ? MPI_SUCCESS : whm_no_memory();
    for (int i = 0; info && rc == MPI_SUCCESS && i < info->count; i++)
        rc = whm_info_put(made, info->pair[i].key, info->pair[i].value);
    if (rc == MPI_SUCCESS)
        *copy = made;
    else
        whm_info_release(made);
    return rc;
}

int whm_info_hints(whm_info **place, const whm_info *given, const char *const *known) {
    for (; *known; known++) {
        const char *value = whm_info_value(given, *known);
        if (!value)
            continue;
        if (!*place && !(*place = whm_info_new()))
            return whm_no_memory();
        int rc = whm_info_put(*place, *known, value);
        if (rc != MPI_SUCCESS)
            return rc;
    }
    return MPI_SUCCESS;
}

// ---- The functions of MPI.

static int check_key(const char *key) {
    size_t length = strnlen(key, MPI_MAX_INFO_KEY);
    if (length == 0)
        return whm_fail(MPI_ERR_INFO_KEY, "the key is empty");
    if (length >= MPI_MAX_INFO_KEY)
        return whm_fail(MPI_ERR_INFO_KEY, "the key is longer than MPI_MAX_INFO_KEY - 1 = %d",
                        MPI_MAX_INFO_KEY - 1);
    return MPI_SUCCESS;
}

// MPI_INFO_ENV tells how the process was started; programs read it only.
static int check_own(const whm_info *info) {
    return (uintptr_t)info->o.handle < 4096
               ? whm_fail(MPI_ERR_INFO, "MPI_INFO_ENV cannot be changed or freed")
               : MPI_SUCCESS;
}

int mpi_info_create(whm_info **info) {
    *info = whm_info_new();
    return *info ? MPI_SUCCESS : whm_no_memory();
}

int mpi_info_dup(whm_info *info, whm_info **newinfo) {
    return whm_info_copy(info, newinfo);
}

int mpi_info_free(whm_info *info) {
    int rc = check_own(info);
    if (rc == MPI_SUCCESS)
        whm_info_release(info);
    return rc;
}

int mpi_info_set(whm_info *info, const char *key, const char *value) {
    int rc = check_own(info);
    if (rc == MPI_SUCCESS)
        rc = check_key(key);
    if (rc != MPI_SUCCESS)
        return rc;
    if (strnlen(value, MPI_MAX_INFO_VAL) >= MPI_MAX_INFO_VAL)
        return whm_fail(MPI_ERR_INFO_VALUE,
                        "the value of \"%s\" is longer than MPI_MAX_INFO_VAL - 1 = %d", key,
                        MPI_MAX_INFO_VAL - 1);
    return whm_info_put(info, key, value);
}

int mpi_info_delete(whm_info *info, const char *key) {
    int rc = check_own(info);
    if (rc == MPI_SUCCESS)
        rc = check_key(key);
    if (rc != MPI_SUCCESS)
        return rc;
    whm_pair *pair = find(info, key);
    if (!pair)
        return whm_fail(MPI_ERR_INFO_NOKEY, "there is no key \"%s\"", key);
    free(pair->key);
    free(pair->value);
    whm_pair *end = info->pair + --info->count;
    memmove(pair, pair + 1, (size_t)(end - pair) * sizeof(*pair));
    return MPI_SUCCESS;
}

// The length counts no terminating zero; a longer value is cut.
int mpi_info_get(whm_info *info, const char *key, int valuelen, char *value, int *flag) {
    int rc = check_key(key);
    if (rc != MPI_SUCCESS)
        return rc;
    if (valuelen < 0)
        return whm_fail(MPI_ERR_ARG, "the length of the buffer is %d", valuelen);
    const char *found = whm_info_value(info, key);
    *flag = found != NULL;
    if (found) {
        size_t length = strnlen(found, (size_t)valuelen);
        memcpy(value, found, length);
        value[length] = 0;
    }
    return MPI_SUCCESS;
}

int mpi_info_get_valuelen(whm_info *info, const char *key, int *valuelen, int *flag) {
    int rc = check_key(key);
    if (rc != MPI_SUCCESS)
        return rc;
    const char *found = whm_info_value(info, key);
    *flag = found != NULL;
    if (found)
        *valuelen = (int)strlen(found);
    return MPI_SUCCESS;
}

// *buflen is the size of the buffer, terminating zero included, and becomes that which the whole value needs.
int mpi_info_get_string(whm_info *info, const char *key, int *buflen, char *value, int *flag) {
    int rc = check_key(key);
    if (rc != MPI_SUCCESS)
        return rc;
    if (*buflen < 0)
        return whm_fail(MPI_ERR_ARG, "the length of the buffer is %d", *buflen);
    if (*buflen > 0 && !value)
        return whm_fail(MPI_ERR_ARG, "value is NULL, and buflen %d", *buflen);
    const char *found = whm_info_value(info, key);
    *flag = found != NULL;
    if (!found)
        return MPI_SUCCESS;
    if (*buflen > 0) {
        size_t length = strnlen(found, (size_t)*buflen - 1);
        memcpy(value, found, length);
        value[length] = 0;
    }
    *buflen = (int)strlen(found) + 1;
    return MPI_SUCCESS;
}

int mpi_info_get_nkeys(whm_info *info, int *nkeys) {
    *nkeys = info->count;
    return MPI_SUCCESS;
}

int mpi_info_get_nthkey(whm_info *info, int n, char *key) {
    if (n < 0 || n >= info->count)
        return whm_fail(MPI_ERR_ARG, "there is no key %d of %d", n, info->count);
    strcpy(key, info->pair[n].key);
    return MPI_SUCCESS;
}
