// SPDX-License-Identifier: BSD-3-Clause
//
// Values as the texts that launchers take: hexadecimal, cut into parts that are short enough.
//
// A value is put as "<rank>-<name>-<part>"; the first part begins with the number of bytes and a colon.
#include "rt/boot/boot.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "rt/boot/ops.h"

// The order is that in which a launcher is looked for: docs/design/boot.md.
static const whi_boot_ops *const ways[] = {&whi_boot_pmi1, &whi_boot_pmix};

// A value of a job of one, which needs no launcher.
typedef struct own_value {
    struct own_value *next;
    char *name;
    void *bytes;
    size_t size;
} own_value;

struct whi_boot {
    const whi_boot_ops *ops;  // NULL: a job of one
    whi_boot_job job;
    own_value *own;
    pthread_mutex_t lock;
};

enum { NAME_MAX_BYTES = 64, TEXT_LEAST = 32 };

static const char by_srun[] = "start it by srun --mpi=pmix or srun --mpi=pmi2";
static const char by_other[] =
    "start it by mpiexec of Wherry, or another launcher with PMI-1 or PMIx";

// Signs of launchers that none of the ways can speak to: a variable, the least number that is one, and what to do.  Behind Slurm's are those of PALS,
// which tells the number of processes in PMI_SIZE only, JSM (jsrun), Flux and Open MPI.
static const struct {
    const char *variable;
    int least;
    const char *advice;
} signs[] = {
    {"SLURM_STEP_NUM_TASKS", 2, by_srun},
    {"SLURM_PROCID", 1, by_srun},
    {"PMI_PORT", 0, "start it without -pmi-port"},
    {"PMI_FD", 0, "that is no connection to a launcher"},
    {"PALS_RANKID", 1, by_other},
    {"JSM_NAMESPACE_SIZE", 2, by_other},
    {"FLUX_JOB_SIZE", 2, "start it by flux run -o pmi=simple"},
    {"OMPI_COMM_WORLD_SIZE", 2, "this library cannot join through its PMIx"},
    {"PMI_SIZE", 2, by_other},
};

// WH_ENOTFOUND: this process was started alone.
static wh_status look_for_signs(void) {
    for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++) {
        const char *value = getenv(signs[i].variable);
        if (!value || atoi(value) < signs[i].least)
            continue;
        whi_log(WHI_ERROR, "E-BOOT-10",
                "a launcher has started this process in a way in which it cannot find the others "
                "(%s=%.60s): %s; unset %s to start it alone",
                signs[i].variable, value, signs[i].advice, signs[i].variable);
        return WH_ENOTSUP;
    }
    return WH_ENOTFOUND;
}

wh_status whi_boot_join(whi_boot **made) {
    whi_boot *boot = whi_calloc(1, sizeof(*boot));
    if (!boot)
        return WH_ENOMEM;
    wh_status st = WH_ENOTFOUND;
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]) && st == WH_ENOTFOUND; i++) {
        boot->ops = ways[i];
        st = ways[i]->join(&boot->job);
    }
    if (st == WH_ENOTFOUND)
        st = look_for_signs();
    if (st == WH_ENOTFOUND) {
        boot->ops = NULL;
        boot->job = (whi_boot_job){.size = 1};
        st = WH_OK;
    }
    if (st != WH_OK) {
        whi_free(boot);
        return st;
    }
    pthread_mutex_init(&boot->lock, NULL);
    *made = boot;
    return WH_OK;
}

int whi_boot_rank(const whi_boot *boot) {
    return boot->job.rank;
}

int whi_boot_size(const whi_boot *boot) {
    return boot->job.size;
}

const char *whi_boot_launcher(const whi_boot *boot) {
    return boot->ops ? boot->ops->launcher : "none";
}

// ---- A job of one.

static own_value *find_own(const whi_boot *boot, const char *name) {
    own_value *value = boot->own;
    while (value && strcmp(value->name, name) != 0)
        value = value->next;
    return value;
}

static wh_status put_own(whi_boot *boot, const char *name, const void *bytes, size_t size) {
    own_value *value = whi_calloc(1, sizeof(*value));
    if (!value)
        return WH_ENOMEM;
    *value = (own_value){boot->own, whi_strdup(name), whi_memdup(bytes, size), size};
    if (!value->name || !value->bytes) {
        whi_free(value->name);
        whi_free(value->bytes);
        whi_free(value);
        return WH_ENOMEM;
    }
    boot->own = value;
    return WH_OK;
}

static wh_status get_own(const whi_boot *boot, const char *name, void *bytes, size_t max,
                         size_t *size) {
    const own_value *value = find_own(boot, name);
    if (!value)
        return WH_ENOTFOUND;
    if (value->size > max)
        return WH_ETRUNCATED;
    memcpy(bytes, value->bytes, value->size);
    *size = value->size;
    return WH_OK;
}

// ---- Values as texts.

static wh_status part_name(const whi_boot *boot, int rank, const char *name, size_t part,
                           char text[NAME_MAX_BYTES + 1]) {
    int size = snprintf(text, NAME_MAX_BYTES + 1, "%d-%s-%zu", rank, name, part);
    return size <= NAME_MAX_BYTES && (size_t)size <= boot->job.name_max ? WH_OK : WH_ELIMIT;
}

// The texts of this way and room for one; NULL: there is no memory.
static char *new_text(const whi_boot *boot) {
    return whi_malloc(boot->job.text_max + 1);
}

static wh_status put_parts(whi_boot *boot, const char *name, const uint8_t *bytes, size_t size,
                           char *text) {
    static const char digits[] = "0123456789abcdef";
    size_t at = 0;
    for (size_t part = 0; part == 0 || at < size; part++) {
        char full[NAME_MAX_BYTES + 1];
        wh_status st = part_name(boot, boot->job.rank, name, part, full);
        if (st != WH_OK)
            return st;
        size_t used = part ? 0 : (size_t)snprintf(text, TEXT_LEAST, "%zu:", size);
        for (; at < size && used + 2 <= boot->job.text_max; at++) {
            text[used++] = digits[bytes[at] >> 4];
            text[used++] = digits[bytes[at] & 15];
        }
        text[used] = '\0';
        st = boot->ops->put(&boot->job, full, text);
        if (st != WH_OK)
            return st;
    }
    return WH_OK;
}

static int digit_of(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// read_digits appends the bytes of a text to a value of `size`.
static bool read_digits(const char *text, uint8_t *bytes, size_t size, size_t *at) {
    if (!*text && *at < size)
        return false;  // it would go on for ever
    for (; *text; text += 2) {
        int high = digit_of(text[0]), low = high < 0 ? -1 : digit_of(text[1]);
        if (low < 0 || *at == size)
            return false;
        bytes[(*at)++] = (uint8_t)(high << 4 | low);
    }
    return true;
}

static wh_status bad_value(const char *name) {
    whi_log(WHI_ERROR, "E-BOOT-01", "the launcher's value of '%s' is not what a process has put",
            name);
    return WH_EPROTOCOL;
}

static wh_status get_parts(whi_boot *boot, int rank, const char *name, uint8_t *bytes, size_t max,
                           size_t *size, char *text) {
    size_t whole = 0, at = 0;
    for (size_t part = 0; part == 0 || at < whole; part++) {
        char full[NAME_MAX_BYTES + 1], *digits = text;
        wh_status st = part_name(boot, rank, name, part, full);
        if (st == WH_OK)
            st = boot->ops->get(&boot->job, rank, full, text);
        if (st != WH_OK)
            return st == WH_ENOTFOUND && part ? bad_value(full) : st;
        if (part == 0) {
            char *end;
            unsigned long long said = strtoull(text, &end, 10);
            if (text[0] < '0' || text[0] > '9' || *end != ':' || said > WHI_BOOT_VALUE_MAX)
                return bad_value(full);
            whole = (size_t)said;
            digits = end + 1;
            if (whole > max)
                return WH_ETRUNCATED;
        }
        if (!read_digits(digits, bytes, whole, &at))
            return bad_value(full);
    }
    *size = whole;
    return WH_OK;
}

wh_status whi_boot_put(whi_boot *boot, const char *name, const void *value, size_t size) {
    if (size > WHI_BOOT_VALUE_MAX)
        return WH_ELIMIT;
    if (!boot->ops)
        return put_own(boot, name, value, size);
    char *text = new_text(boot);
    if (!text)
        return WH_ENOMEM;
    pthread_mutex_lock(&boot->lock);
    wh_status st = put_parts(boot, name, value, size, text);
    pthread_mutex_unlock(&boot->lock);
    whi_free(text);
    return st;
}

wh_status whi_boot_exchange(whi_boot *boot) {
    if (!boot->ops)
        return WH_OK;
    pthread_mutex_lock(&boot->lock);
    wh_status st = boot->ops->exchange(&boot->job);
    pthread_mutex_unlock(&boot->lock);
    return st;
}

wh_status whi_boot_get(whi_boot *boot, int rank, const char *name, void *value, size_t max,
                       size_t *size) {
    if (rank < 0 || rank >= boot->job.size)
        return WH_EINVAL;
    if (!boot->ops)
        return get_own(boot, name, value, max, size);
    char *text = new_text(boot);
    if (!text)
        return WH_ENOMEM;
    pthread_mutex_lock(&boot->lock);
    wh_status st = get_parts(boot, rank, name, value, max, size, text);
    pthread_mutex_unlock(&boot->lock);
    whi_free(text);
    return st;
}

void whi_boot_abort(whi_boot *boot, int status) {
    if (boot->ops)
        boot->ops->abort(&boot->job, status);
}

void whi_boot_leave(whi_boot *boot) {
    if (boot->ops)
        boot->ops->leave(&boot->job);
    while (boot->own) {
        own_value *value = boot->own;
        boot->own = value->next;
        whi_free(value->name);
        whi_free(value->bytes);
        whi_free(value);
    }
    pthread_mutex_destroy(&boot->lock);
    whi_free(boot);
}
