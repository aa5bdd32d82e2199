// SPDX-License-Identifier: BSD-3-Clause
//
// Reads and writes settings as text, driven by the table.
//
// The idea: each row knows its type and the place of its field, so that text becomes a value, the
// value is checked, and only a value that passed is stored: a failed set changes nothing.  The
// invariant: every value in a whi_config is one that this file would accept, the defaults included.
#include "base/config.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

typedef enum type { SIZE, UINT, MS, BOOL, STRING, SECRET, LIST, CHOICE } type;

typedef struct row {
    const char *key, *env;
    type type;
    const char *def, *low, *high, *doc;
    size_t offset;  // of the field in whi_config
} row;

static const row rows[WHI_CONFIG_COUNT] = {
#define ROW(key, env, type, def, low, high, doc)                                                   \
    {#key, env, type, def, low, high, doc, offsetof(whi_config, key)},
    WHI_CONFIG_TABLE(ROW)
#undef ROW
};

static const char *const type_names[] = {"size",   "uint",   "ms",   "bool",
                                         "string", "secret", "list", "choice"};
static const char *const source_names[] = {"default", "environment", "option"};

typedef union value {
    uint64_t number;
    int choice;
    bool yes;
    char text[WHI_CONFIG_TEXT_MAX];
} value;

// Units from small to large.  Writing takes the largest that leaves no rest.
typedef struct unit {
    const char *name;
    uint64_t factor;
} unit;

static const unit no_units[] = {{"", 1}, {NULL, 0}};
static const unit size_units[] = {{"", 1},
                                  {"K", UINT64_C(1) << 10},
                                  {"M", UINT64_C(1) << 20},
                                  {"G", UINT64_C(1) << 30},
                                  {"T", UINT64_C(1) << 40},
                                  {NULL, 0}};
static const unit ms_units[] = {
    {"ms", 1}, {"s", 1000}, {"m", 60 * 1000}, {"h", 3600 * 1000}, {"d", 24 * 3600 * 1000},
    {NULL, 0}};

static const unit *units_of(type t) {
    return t == SIZE ? size_units : t == MS ? ms_units : no_units;
}

// A unit as the user wrote it: none is the smallest, and sizes may end in B or iB.
static const unit *find_unit(type t, const char *text) {
    const unit *units = units_of(t);
    if (!*text)
        return units;
    for (const unit *u = units; u->name; u++) {
        size_t length = strlen(u->name);
        if (!length || strncasecmp(text, u->name, length) != 0)
            continue;
        const char *rest = text + length;
        if (!*rest || (t == SIZE && (!strcasecmp(rest, "B") || !strcasecmp(rest, "iB"))))
            return u;
    }
    return NULL;
}

static bool parse_number(type t, const char *text, uint64_t *number) {
    uint64_t n = 0;
    if (!isdigit((unsigned char)*text))
        return false;
    for (; isdigit((unsigned char)*text); text++)
        if (__builtin_mul_overflow(n, 10, &n) ||
            __builtin_add_overflow(n, (uint64_t)(*text - '0'), &n))
            return false;
    const unit *u = find_unit(t, text);
    return u && !__builtin_mul_overflow(n, u->factor, number);
}

static bool within_bounds(const row *r, uint64_t number) {
    uint64_t bound;
    if (*r->low && (!parse_number(r->type, r->low, &bound) || number < bound))
        return false;
    return !*r->high || (parse_number(r->type, r->high, &bound) && number <= bound);
}

static bool parse_bool(const char *text, bool *yes) {
    static const char *const words[][2] = {
        {"no", "yes"}, {"false", "true"}, {"off", "on"}, {"0", "1"}, {"n", "y"}};
    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
        for (int j = 0; j < 2; j++)
            if (!strcasecmp(text, words[i][j])) {
                *yes = j == 1;
                return true;
            }
    return false;
}

// Returns the position of a word of `length` bytes in a list "a|b|c", or -1.
static int find_word(const char *words, const char *text, size_t length) {
    for (int i = 0; *words; i++) {
        size_t n = strcspn(words, "|");
        if (n == length && !strncmp(words, text, n))
            return i;
        words += n + (words[n] == '|');
    }
    return -1;
}

static bool valid_list(const row *r, const char *text) {
    if (!strcmp(text, r->def))
        return true;
    for (;;) {
        size_t n = strcspn(text, ",");
        if (find_word(r->low, text, n) < 0)
            return false;
        if (!text[n])
            return true;
        text += n + 1;
    }
}

static bool parse(const row *r, const char *text, value *v) {
    switch (r->type) {
    case SIZE:
    case UINT:
    case MS: return parse_number(r->type, text, &v->number) && within_bounds(r, v->number);
    case BOOL: return parse_bool(text, &v->yes);
    case CHOICE: v->choice = find_word(r->low, text, strlen(text)); return v->choice >= 0;
    case LIST:
        if (!valid_list(r, text))
            return false;
        break;
    case STRING:
    case SECRET: break;
    }
    if (strlen(text) >= sizeof(v->text))
        return false;
    strcpy(v->text, text);
    return true;
}

static void store(whi_config *cfg, const row *r, const value *v) {
    void *field = (char *)cfg + r->offset;
    switch (r->type) {
    case SIZE: *(whi_config_SIZE *)field = v->number; return;
    case UINT:
    case MS: *(uint64_t *)field = v->number; return;
    case BOOL: *(whi_config_BOOL *)field = v->yes; return;
    case CHOICE: *(whi_config_CHOICE *)field = v->choice; return;
    case STRING:
    case SECRET:
    case LIST: strcpy(field, v->text); return;
    }
}

static void write_number(type t, uint64_t number, char *text) {
    const unit *best = units_of(t);
    for (const unit *u = best; u->name && number; u++)
        if (number % u->factor == 0)
            best = u;
    snprintf(text, WHI_CONFIG_TEXT_MAX, "%llu%s", (unsigned long long)(number / best->factor),
             number ? best->name : "");
}

static void write_choice(const row *r, int choice, char *text) {
    const char *word = r->low;
    while (choice-- > 0)
        word += strcspn(word, "|") + 1;
    snprintf(text, WHI_CONFIG_TEXT_MAX, "%.*s", (int)strcspn(word, "|"), word);
}

static void write_value(const whi_config *cfg, const row *r, char *text) {
    const void *field = (const char *)cfg + r->offset;
    switch (r->type) {
    case SIZE: write_number(SIZE, *(const whi_config_SIZE *)field, text); return;
    case UINT:
    case MS: write_number(r->type, *(const uint64_t *)field, text); return;
    case BOOL: strcpy(text, *(const whi_config_BOOL *)field ? "yes" : "no"); return;
    case CHOICE: write_choice(r, *(const whi_config_CHOICE *)field, text); return;
    case SECRET: strcpy(text, *(const char *)field ? "(set)" : ""); return;
    case STRING:
    case LIST: strcpy(text, field); return;
    }
}

// The number of single-character edits between two short strings.
static size_t edit_distance(const char *a, const char *b) {
    enum { LENGTH_MAX = 64 };  // longer strings are no misspelled settings
    size_t width = strlen(b);
    if (width >= LENGTH_MAX || strlen(a) >= LENGTH_MAX)
        return LENGTH_MAX;
    size_t line[LENGTH_MAX];
    for (size_t j = 0; j <= width; j++)
        line[j] = j;
    for (size_t i = 0; a[i]; i++) {
        size_t diagonal = line[0];
        line[0] = i + 1;
        for (size_t j = 0; j < width; j++) {
            size_t replace = diagonal + (a[i] != b[j]);
            size_t shorter = line[j] < line[j + 1] ? line[j] : line[j + 1];
            diagonal = line[j + 1];
            line[j + 1] = replace < shorter + 1 ? replace : shorter + 1;
        }
    }
    return line[width];
}

// Whether `name` is what a longer name begins with, up to the end of a word: WHERRY_LOG of WHERRY_LOG_LEVEL.
static bool begins(const char *longer, const char *name) {
    size_t length = strlen(name);
    return !strncmp(longer, name, length) && longer[length] == '_';
}

// Returns the setting whose name looks most like `name`, or NULL when none is near.
static const row *nearest(const char *name, bool by_env) {
    size_t best = strlen(name) / 4 + 2;  // more edits than this make another word
    const row *found = NULL;
    for (size_t i = 0; i < WHI_CONFIG_COUNT; i++) {
        const char *known = by_env ? rows[i].env : rows[i].key;
        size_t distance = begins(known, name) ? 1 : edit_distance(name, known);
        if (distance < best) {
            best = distance;
            found = &rows[i];
        }
    }
    return found;
}

static const row *find_row(const char *name, size_t length, bool by_env) {
    for (size_t i = 0; i < WHI_CONFIG_COUNT; i++) {
        const char *known = by_env ? rows[i].env : rows[i].key;
        if (strlen(known) == length && !strncmp(known, name, length))
            return &rows[i];
    }
    return NULL;
}

// Writes what the row would accept, as the end of a sentence.
static void write_expectation(const row *r, char *text, size_t size) {
    static const char *const kinds[] = {
        [SIZE] = "a size such as 64K, 1M or 2G", [UINT] = "a whole number",
        [MS] = "a time such as 500ms, 5s or 1m", [BOOL] = "yes or no",
        [STRING] = "shorter than 256 bytes",     [SECRET] = "shorter than 256 bytes",
        [LIST] = "a comma list out of",          [CHOICE] = "one of",
    };
    if (r->type == CHOICE)
        snprintf(text, size, "%s %s", kinds[CHOICE], r->low);
    else if (r->type == LIST)
        snprintf(text, size, "%s, or %s %s", r->def, kinds[LIST], r->low);
    else
        snprintf(text, size, "%s%s%s%s%s", kinds[r->type], *r->low ? ", at least " : "", r->low,
                 *r->high ? ", at most " : "", r->high);
}

static wh_status apply(whi_config *cfg, const row *r, const char *name, const char *text,
                       whi_config_source source, char *error, size_t error_size) {
    value v;
    if (parse(r, text, &v)) {
        store(cfg, r, &v);
        cfg->source[r - rows] = (uint8_t)source;
        return WH_OK;
    }
    char expected[WHI_CONFIG_ERROR_MAX / 2];
    write_expectation(r, expected, sizeof(expected));
    if (r->type == SECRET)
        snprintf(error, error_size, "%s must be %s.", name, expected);
    else
        snprintf(error, error_size, "%s is \"%.64s\"; it must be %s.", name, text, expected);
    return WH_EINVAL;
}

void whi_config_init(whi_config *cfg) {
    memset(cfg, 0, sizeof(*cfg));
    for (size_t i = 0; i < WHI_CONFIG_COUNT; i++) {
        char error[WHI_CONFIG_ERROR_MAX];
        wh_status status =
            apply(cfg, &rows[i], rows[i].key, rows[i].def, WHI_FROM_DEFAULT, error, sizeof(error));
        assert(status == WH_OK);
        (void)status;
    }
}

wh_status whi_config_set(whi_config *cfg, const char *key, const char *text, char *error,
                         size_t error_size) {
    if (!key || !text) {
        snprintf(error, error_size, "A setting needs a name and a value.");
        return WH_EINVAL;
    }
    const row *r = find_row(key, strlen(key), false);
    if (r)
        return apply(cfg, r, key, text, WHI_FROM_OPTION, error, error_size);
    const row *near = nearest(key, false);
    snprintf(error, error_size, "There is no setting \"%.64s\".%s%s%s", key,
             near ? "  Did you mean " : "", near ? near->key : "", near ? "?" : "");
    return WH_ENOTFOUND;
}

static void describe_unknown(const char *variable, size_t length, char *error, size_t size) {
    char name[WHI_CONFIG_TEXT_MAX];
    snprintf(name, sizeof(name), "%.*s", (int)(length < 64 ? length : 64), variable);
    const row *near = nearest(name, true);
    snprintf(error, size, "The variable %s is not known.%s%s%s", name,
             near ? "  Did you mean " : "", near ? near->env : "", near ? "?" : "");
}

// Applies one "NAME=value"; WH_ENOTFOUND when it is one of ours in name only.
static wh_status load_variable(whi_config *cfg, const char *variable, char *error, size_t size) {
    static const char prefix[] = "WHERRY_", of_mpi[] = "WHERRY_MPI_";  // which has its own
    size_t length = strcspn(variable, "=");
    if (strncmp(variable, prefix, sizeof(prefix) - 1) != 0 || !variable[length] ||
        !variable[length + 1] || strncmp(variable, of_mpi, sizeof(of_mpi) - 1) == 0)
        return WH_OK;
    const row *r = find_row(variable, length, true);
    if (!r) {
        describe_unknown(variable, length, error, size);
        return WH_ENOTFOUND;
    }
    if (cfg->source[r - rows] == WHI_FROM_OPTION)
        return WH_OK;
    return apply(cfg, r, r->env, variable + length + 1, WHI_FROM_ENV, error, size);
}

wh_status whi_config_load_env(whi_config *cfg, char *const *env, whi_config_report_fn report,
                              void *arg) {
    wh_status result = WH_OK;
    for (; env && *env; env++) {
        char error[WHI_CONFIG_ERROR_MAX];
        wh_status status = load_variable(cfg, *env, error, sizeof(error));
        if (status == WH_EINVAL)
            result = status;
        if (status != WH_OK && report)
            report(status, error, arg);
    }
    return result;
}

bool whi_config_entry_at(const whi_config *cfg, size_t index, whi_config_entry *entry) {
    if (index >= WHI_CONFIG_COUNT)
        return false;
    const row *r = &rows[index];
    *entry = (whi_config_entry){.key = r->key,
                                .env = r->env,
                                .type = type_names[r->type],
                                .def = r->def,
                                .low = r->low,
                                .high = r->high,
                                .doc = r->doc,
                                .source = source_names[cfg->source[index]]};
    write_value(cfg, r, entry->value);
    return true;
}
