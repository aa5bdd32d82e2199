// SPDX-License-Identifier: BSD-3-Clause
//
// See pmi.h.  A request is a line of key=value; its cmd decides.
#include "cli/run/pmi.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/text.h"

typedef struct pmi_entry {
    struct pmi_entry *next;
    char *value;
    char name[];
} pmi_entry;

enum { ANSWER_MAX = PMI_VALUE_MAX + 128, TABLE_SHARE = 8 };

// ---- The store.

static pmi_entry **place_of(const pmi *self, const char *name) {
    uint32_t hash = 2166136261u;  // FNV-1a
    for (const char *c = name; *c; c++)
        hash = (hash ^ (uint8_t)*c) * 16777619u;
    pmi_entry **place = &self->table[hash % self->table_size];
    while (*place && strcmp((*place)->name, name) != 0)
        place = &(*place)->next;
    return place;
}

// A later value takes the place of an earlier one.
static bool store(pmi *self, const char *name, const char *value) {
    pmi_entry **place = place_of(self, name);
    size_t size = strlen(value) + (*place ? 0 : sizeof(pmi_entry) + strlen(name));
    if (self->stored + size > (size_t)self->size * PMI_STORE_SHARE)
        return false;
    char *copy = strdup(value);
    pmi_entry *entry = *place ? *place : calloc(1, sizeof *entry + strlen(name) + 1);
    if (!copy || !entry) {
        free(copy);
        if (!*place)
            free(entry);
        return false;
    }
    if (*place) {
        self->stored -= strlen(entry->value);
        free(entry->value);
    } else {
        memcpy(entry->name, name, strlen(name) + 1);
    }
    entry->value = copy;
    *place = entry;
    self->stored += size;
    return true;
}

bool pmi_open(pmi *self, int size, const char *name, const char *mapping, pmi_say_fn say,
              void *arg) {
    *self = (pmi){.size = size, .say = say, .arg = arg, .table_size = (size_t)size * TABLE_SHARE};
    self->processes = calloc((size_t)size, sizeof *self->processes);
    self->table = calloc(self->table_size, sizeof(pmi_entry *));
    snprintf(self->kvs, sizeof self->kvs, "%s", name);
    char value[PMI_VALUE_MAX];
    int length = snprintf(value, sizeof value, "(vector,%s)", mapping);
    // Without it, programs find out by themselves which processes share a host.
    if (length >= (int)sizeof value)
        length = 0;
    if (self->processes && self->table && (!length || store(self, "PMI_process_mapping", value)))
        return true;
    pmi_close(self);
    return false;
}

void pmi_close(pmi *self) {
    for (size_t i = 0; self->table && i < self->table_size; i++) {
        while (self->table[i]) {
            pmi_entry *entry = self->table[i];
            self->table[i] = entry->next;
            free(entry->value);
            free(entry);
        }
    }
    free(self->table);
    free(self->processes);
}

// ---- Answers.

__attribute__((format(printf, 3, 4))) static pmi_verdict answer(pmi *self, int rank,
                                                                const char *format, ...) {
    char text[ANSWER_MAX];
    va_list args;
    va_start(args, format);
    int size = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    self->say(rank, text, (size_t)size, self->arg);
    return PMI_FINE;
}

__attribute__((format(printf, 2, 3))) static pmi_verdict strange(pmi *self, const char *format,
                                                                 ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(self->complaint, sizeof self->complaint, format, args);
    va_end(args);
    cli_printable(self->complaint);
    return PMI_STRANGE;
}

// ---- Requests.

// value_of finds key=value among the words of a line and copies the value; false: there is none, or it is too long.
static bool value_of(const char *line, const char *key, char *value, size_t max) {
    size_t length = strlen(key);
    for (const char *word = line + strspn(line, " "); *word; word += strspn(word, " ")) {
        size_t size = strcspn(word, " ");
        if (size > length && strncmp(word, key, length) == 0 && word[length] == '=') {
            size -= length + 1;
            if (size >= max)
                return false;
            memcpy(value, word + length + 1, size);
            value[size] = '\0';
            return true;
        }
        word += size;
    }
    return false;
}

static pmi_verdict say_hello(pmi *self, int rank, const char *line) {
    char version[8];
    bool known =
        value_of(line, "pmi_version", version, sizeof version) && strcmp(version, "1") == 0;
    if (known) {
        self->processes[rank].begun = true;
        self->processes[rank].ended = false;
    }
    return answer(self, rank, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=%d\n",
                  known ? 0 : -1);
}

static pmi_verdict say_maxes(pmi *self, int rank, const char *line) {
    (void)line;
    return answer(self, rank, "cmd=maxes kvsname_max=256 keylen_max=%d vallen_max=%d\n",
                  PMI_NAME_MAX, PMI_VALUE_MAX);
}

static pmi_verdict say_store(pmi *self, int rank, const char *line) {
    (void)line;
    return answer(self, rank, "cmd=my_kvsname kvsname=%s\n", self->kvs);
}

static pmi_verdict say_universe(pmi *self, int rank, const char *line) {
    (void)line;
    return answer(self, rank, "cmd=universe_size size=%d\n", self->size);
}

static pmi_verdict say_program(pmi *self, int rank, const char *line) {
    (void)line;
    return answer(self, rank, "cmd=appnum appnum=%d\n", self->processes[rank].program);
}

// Not of PMI-1: our own word, by run-part (cli/run_part.c), which has not begun what its program begins.
static pmi_verdict note_program(pmi *self, int rank, const char *line) {
    char text[16];
    uint64_t number;
    if (!value_of(line, "number", text, sizeof text) ||
        !cli_parse_uint(text, 0, INT32_MAX, &number))
        return strange(self, "rank %d does not say which program it is (PMI)", rank);
    self->processes[rank].program = (int)number;
    self->say(rank, "", 0, self->arg);
    return PMI_FINE;
}

static bool names_store(const pmi *self, const char *line) {
    char kvs[sizeof self->kvs];
    return value_of(line, "kvsname", kvs, sizeof kvs) && strcmp(kvs, self->kvs) == 0;
}

// is_ours tells the name of a value of this library, "RANK-NAME-PART" (src/rt/boot/boot.c), from those of others.
static bool is_ours(const char *name, int rank) {
    char prefix[16];
    int size = snprintf(prefix, sizeof prefix, "%d-", rank);
    return strncmp(name, prefix, (size_t)size) == 0;
}

static pmi_verdict put(pmi *self, int rank, const char *line) {
    char name[PMI_NAME_MAX], value[PMI_VALUE_MAX];
    const char *why = NULL;
    if (!names_store(self, line))
        why = "no_such_store";
    else if (!value_of(line, "key", name, sizeof name))
        why = "bad_key";
    else if (!value_of(line, "value", value, sizeof value))
        why = "bad_value";
    else if (!store(self, name, value))
        why = "store_is_full";
    else
        self->ours = self->ours || is_ours(name, rank);
    return answer(self, rank, "cmd=put_result rc=%d msg=%s\n", why ? -1 : 0, why ? why : "success");
}

static pmi_verdict get(pmi *self, int rank, const char *line) {
    char name[PMI_NAME_MAX];
    if (!names_store(self, line))
        return answer(self, rank, "cmd=get_result rc=-1 msg=no_such_store\n");
    const pmi_entry *entry = NULL;
    if (value_of(line, "key", name, sizeof name))
        entry = *place_of(self, name);
    if (!entry)
        return answer(self, rank, "cmd=get_result rc=-1 msg=key_not_found\n");
    return answer(self, rank, "cmd=get_result rc=0 msg=success value=%s\n", entry->value);
}

// in_vain says whether the barrier waits for a process that has gone.
static pmi_verdict in_vain(pmi *self) {
    for (int i = 0; self->waiting && i < self->size; i++) {
        if (self->processes[i].left || self->processes[i].ended)
            return strange(self, "%d processes wait in a barrier for rank %d, which has ended",
                           self->waiting, i);
    }
    return PMI_FINE;
}

static pmi_verdict wait_for_all(pmi *self, int rank, const char *line) {
    (void)line;
    self->processes[rank].waiting = true;
    if (++self->waiting < self->size)
        return in_vain(self);
    self->waiting = 0;
    for (int i = 0; i < self->size; i++)
        self->processes[i].waiting = false;
    for (int i = 0; i < self->size; i++)
        answer(self, i, "cmd=barrier_out\n");
    return PMI_FINE;
}

static pmi_verdict say_bye(pmi *self, int rank, const char *line) {
    (void)line;
    self->processes[rank].ended = true;
    answer(self, rank, "cmd=finalize_ack\n");
    return in_vain(self);
}

static pmi_verdict end_job(pmi *self, int rank, const char *line) {
    char text[16];
    (void)rank;
    uint64_t code;
    bool given =
        value_of(line, "exitcode", text, sizeof text) && cli_parse_uint(text, 1, UINT32_MAX, &code);
    // As after exit(): the last 8 bits count, and none of them is no success.
    self->exit_code = given && (code & 0xff) ? (int)(code & 0xff) : 1;
    return PMI_ABORT;
}

static pmi_verdict refuse_publish(pmi *self, int rank, const char *line) {
    (void)line;
    return answer(self, rank, "cmd=publish_result rc=-1 msg=not_supported\n");
}

static pmi_verdict refuse_unpublish(pmi *self, int rank, const char *line) {
    (void)line;
    return answer(self, rank, "cmd=unpublish_result rc=-1 msg=not_supported\n");
}

static pmi_verdict refuse_lookup(pmi *self, int rank, const char *line) {
    (void)line;
    return answer(self, rank, "cmd=lookup_result rc=-1 msg=not_supported\n");
}

static const struct {
    const char *cmd;
    pmi_verdict (*run)(pmi *self, int rank, const char *line);
} requests[] = {
    {"init", say_hello},
    {"get_maxes", say_maxes},
    {"get_my_kvsname", say_store},
    {"get_universe_size", say_universe},
    {"get_appnum", say_program},
    {PMI_PROGRAM, note_program},
    {"put", put},
    {"get", get},
    {"barrier_in", wait_for_all},
    {"finalize", say_bye},
    {"abort", end_job},
    {"publish_name", refuse_publish},
    {"unpublish_name", refuse_unpublish},
    {"lookup_name", refuse_lookup},
};

// A request to start more processes has many lines, and one answer at their end.
static pmi_verdict refuse_spawn(pmi *self, int rank, const char *line) {
    bool over = strcmp(line, "endcmd") == 0;
    self->processes[rank].spawning = !over;
    if (over)
        return answer(self, rank, "cmd=spawn_result rc=-1 status=-1 msg=not_supported\n");
    self->say(rank, "", 0, self->arg);
    return PMI_FINE;
}

pmi_verdict pmi_line(pmi *self, int rank, char *line) {
    pmi_process *process = &self->processes[rank];
    char cmd[32];
    if (process->waiting)
        return strange(self, "rank %d asks for something while it waits in a barrier (PMI)", rank);
    if (process->spawning || strcmp(line, "mcmd=spawn") == 0)
        return refuse_spawn(self, rank, line);
    if (!value_of(line, "cmd", cmd, sizeof cmd))
        return strange(self, "rank %d says '%.80s' (PMI), which is no request of PMI-1", rank,
                       line);
    if (!process->begun && strcmp(cmd, "init") != 0 && strcmp(cmd, PMI_PROGRAM) != 0)
        return strange(self, "rank %d asks for %s (PMI) before it has said init", rank, cmd);
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        if (strcmp(cmd, requests[i].cmd) == 0)
            return requests[i].run(self, rank, line);
    }
    return strange(self, "rank %d asks for '%s' (PMI), which is no request of PMI-1", rank, cmd);
}

pmi_verdict pmi_left(pmi *self, int rank) {
    pmi_process *process = &self->processes[rank];
    self->waiting -= process->waiting;
    process->waiting = false;
    process->left = true;
    return in_vain(self);
}

bool pmi_is_in(const pmi *self, int rank) {
    return self->processes[rank].begun && !self->processes[rank].ended;
}

bool pmi_is_done(const pmi *self, int rank) {
    return self->processes[rank].ended;
}

bool pmi_is_waiting(const pmi *self, int rank) {
    return self->processes[rank].waiting;
}
