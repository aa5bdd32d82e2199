// SPDX-License-Identifier: BSD-3-Clause
//
// See pmix_fake.h.
#include "rt/boot/pmix_fake.h"

#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define PROTOTYPE(result, name, args) EXPORT result name args;
WHI_PMIX_CALLS(PROTOTYPE)
#undef PROTOTYPE

extern EXPORT fake_pmix fake_pmix_says;
fake_pmix fake_pmix_says = {
    .size_type = WHI_PMIX_UINT32, .size = 1, .type = WHI_PMIX_STRING, .aborted = -1};
static fake_pmix *const fake = &fake_pmix_says;

static fake_store own_store = {.lock = PTHREAD_MUTEX_INITIALIZER};
static fake_entry put[64];  // not yet committed
static int put_count;

static fake_store *the_store(void) {
    return fake->store ? fake->store : &own_store;
}

static uint32_t own_rank(void) {
    const char *rank = getenv("PMIX_RANK");
    return rank ? (uint32_t)atoi(rank) : 0;
}

static bool says(const whi_pmix_info *info, size_t infos, const char *key) {
    return infos == 1 && strcmp(info->key, key) == 0 && info->value.type == WHI_PMIX_BOOL &&
           info->value.data.flag;
}

int PMIx_Init(whi_pmix_proc *proc, const whi_pmix_info *info, size_t infos) {
    (void)info, (void)infos;
    if (fake->init)
        return fake->init;
    fake->inits++;
    const char *nspace = fake->nspace ? fake->nspace : getenv("PMIX_NAMESPACE");
    memset(proc, 0, sizeof(*proc));
    memcpy(proc->nspace, nspace, strnlen(nspace, sizeof(proc->nspace)));  // perhaps without an end
    proc->rank = own_rank();
    return WHI_PMIX_SUCCESS;
}

int PMIx_Put(uint8_t scope, const char *key, const whi_pmix_value *value) {
    if (fake->put)
        return fake->put;
    if (scope != WHI_PMIX_GLOBAL || value->type != WHI_PMIX_STRING || strlen(key) >= FAKE_KEY ||
        strlen(value->data.string) > FAKE_TEXT || put_count == sizeof(put) / sizeof(put[0]))
        abort();
    fake_entry *entry = &put[put_count++];
    entry->rank = own_rank();
    strcpy(entry->key, key);
    strcpy(entry->text, value->data.string);
    return WHI_PMIX_SUCCESS;
}

int PMIx_Commit(void) {
    fake_store *store = the_store();
    if (fake->commit)
        return fake->commit;
    pthread_mutex_lock(&store->lock);
    if (store->count + put_count > FAKE_ENTRIES)
        abort();
    memcpy(store->entry + store->count, put, (size_t)put_count * sizeof(put[0]));
    store->count += put_count;
    put_count = 0;
    pthread_mutex_unlock(&store->lock);
    return WHI_PMIX_SUCCESS;
}

int PMIx_Fence(const whi_pmix_proc *procs, size_t count, const whi_pmix_info *info, size_t infos) {
    fake_store *store = the_store();
    if (fake->fence)
        return fake->fence;
    if (procs || count)
        abort();
    for (int phase = 0; phase < 2; phase++) {
        if (store != &own_store)
            pthread_barrier_wait(&store->fence);
        if (phase == 0 && says(info, infos, WHI_PMIX_COLLECT_DATA))
            store->collected = store->count;
    }
    return WHI_PMIX_SUCCESS;
}

static const char *find(uint32_t rank, const char *key) {
    const fake_store *store = the_store();
    for (int i = 0; i < store->collected; i++)
        if (store->entry[i].rank == rank && strcmp(store->entry[i].key, key) == 0)
            return store->entry[i].text;
    return NULL;
}

int PMIx_Get(const whi_pmix_proc *proc, const char *key, const whi_pmix_info *info, size_t infos,
             whi_pmix_value **value) {
    bool size = strcmp(key, WHI_PMIX_JOB_SIZE) == 0;
    if (size && (fake->job_size || proc->rank != WHI_PMIX_RANK_WILDCARD))
        return fake->job_size ? fake->job_size : WHI_PMIX_ERR_NOT_FOUND;
    if (!size && fake->get)
        return fake->get;
    if (!size && fake->none)
        return WHI_PMIX_SUCCESS;
    const char *text = size || fake->text ? fake->text : find(proc->rank, key);
    if (!size && !text)
        return says(info, infos, WHI_PMIX_IMMEDIATE) ? WHI_PMIX_ERR_NOT_FOUND : FAKE_NOT_SEEN;
    whi_pmix_value *made = calloc(1, sizeof(*made));
    if (!made)
        abort();
    if (size) {
        *made = (whi_pmix_value){.type = fake->size_type, .data.uint32 = fake->size};
    } else {
        made->type = strlen(text) >= FAKE_TEXT ? FAKE_COMPRESSED : fake->type;
        if (made->type != WHI_PMIX_STRING)
            made->data.uint32 = 5;
        else
            made->data.string = fake->no_text ? NULL : strdup(text);
    }
    *value = made;
    return WHI_PMIX_SUCCESS;
}

int PMIx_Abort(int status, const char *text, const whi_pmix_proc *procs, size_t count) {
    (void)text, (void)procs;
    fake->aborted = count ? -1 : status;
    return WHI_PMIX_SUCCESS;
}

int PMIx_Finalize(const whi_pmix_info *info, size_t infos) {
    (void)info, (void)infos;
    fake->finalizes++;
    return WHI_PMIX_SUCCESS;
}

const char *PMIx_Error_string(int status) {
    return status == FAKE_NOT_SEEN ? NULL : "SOME-ERROR";
}

const char *PMIx_Get_version(void) {
    return "a library of a test";
}

const char *PMIx_Proc_state_string(uint8_t state) {
    (void)state;
    return "UNKNOWN";
}
