// SPDX-License-Identifier: BSD-3-Clause
//
// Configuration: a set of typed values, one field per row of base/config_table.h.
//
// Code reads cfg->eager_max; everything else goes through text.  An option of the program beats the
// environment, which beats the default, whatever order they are applied in.  A set is plain data:
// it owns nothing and is copied by assignment; it belongs to one thread while it changes.  The
// environment is read and never written.
#ifndef WHI_BASE_CONFIG_H
#define WHI_BASE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <wherry/status.h>

#include "base/config_table.h"

enum {
    WHI_CONFIG_TEXT_MAX = 256,  // with its final zero: a path, a list of lanes, a secret
    WHI_CONFIG_ERROR_MAX = 512  // an error buffer of this size is never too small
};

typedef size_t whi_config_SIZE;
typedef uint64_t whi_config_UINT;
typedef uint64_t whi_config_MS;
typedef bool whi_config_BOOL;
typedef char whi_config_STRING[WHI_CONFIG_TEXT_MAX];
typedef char whi_config_SECRET[WHI_CONFIG_TEXT_MAX];
typedef char whi_config_LIST[WHI_CONFIG_TEXT_MAX];
typedef int whi_config_CHOICE;  // the position of the word in the table's list

// The positions of choices, in the order of the table.  Those of log_level are whi_log_level.
enum { WHI_PROGRESS_WAIT, WHI_PROGRESS_SPIN, WHI_PROGRESS_ADAPTIVE };
enum { WHI_LOCAL_UID_SAME, WHI_LOCAL_UID_ANY };
enum { WHI_BULK_LANE_AUTO, WHI_BULK_LANE_UCX, WHI_BULK_LANE_NONE };
enum { WHI_SHM_READ_NEVER, WHI_SHM_READ_AUTO, WHI_SHM_READ_ALWAYS };
enum { WHI_DEVICE_PATH_AUTO, WHI_DEVICE_PATH_STAGED };
enum { WHI_UCX_RMA_AUTO, WHI_UCX_RMA_NATIVE, WHI_UCX_RMA_SERVED };

typedef enum whi_config_key {
#define WHI_CONFIG_KEY(key, env, type, def, low, high, doc) WHI_CONFIG_##key,
    WHI_CONFIG_TABLE(WHI_CONFIG_KEY)
#undef WHI_CONFIG_KEY
        WHI_CONFIG_COUNT
} whi_config_key;

typedef enum whi_config_source {
    WHI_FROM_DEFAULT,
    WHI_FROM_ENV,
    WHI_FROM_OPTION
} whi_config_source;

typedef struct whi_config {
#define WHI_CONFIG_FIELD(key, env, type, def, low, high, doc) whi_config_##type key;
    WHI_CONFIG_TABLE(WHI_CONFIG_FIELD)
#undef WHI_CONFIG_FIELD
    uint8_t source[WHI_CONFIG_COUNT];  // a whi_config_source for each
} whi_config;

// One setting for people to read; the strings are static except `value`.
typedef struct whi_config_entry {
    const char *key, *env, *type, *def, *low, *high, *doc;
    const char *source;  // "default", "environment" or "option"
    char value[WHI_CONFIG_TEXT_MAX];
} whi_config_entry;

// whi_config_report_fn hears one full sentence about a variable that is unknown (WH_ENOTFOUND) or has a bad value
// (WH_EINVAL).
typedef void (*whi_config_report_fn)(wh_status status, const char *sentence, void *arg);

// whi_config_init fills in the defaults.
void whi_config_init(whi_config *cfg);

// whi_config_load_env applies the WHERRY_* variables in `env`, which looks like environ.
//
// A bad value is reported and leaves the setting as it was, and the result is WH_EINVAL after all
// others have been applied.  An unknown variable is reported, with the nearest known one, and is no
// error.  An empty variable counts as not set.  Settings that are already options stay.  `report`
// may be NULL.
WH_CHECK wh_status whi_config_load_env(whi_config *cfg, char *const *env,
                                       whi_config_report_fn report, void *arg);

// whi_config_set applies an option.
//
// WH_ENOTFOUND for an unknown key, WH_EINVAL for a value that does not fit: then nothing changes
// and `error`, if error_size is not 0, gets a sentence that says what would have been right.
WH_CHECK wh_status whi_config_set(whi_config *cfg, const char *key, const char *value, char *error,
                                  size_t error_size);

// whi_config_entry_at describes setting number `index`; false when index is WHI_CONFIG_COUNT or
// more.  `value` is in the one form that whi_config_set reads back to the same value; a secret that
// is set reads "(set)".
bool whi_config_entry_at(const whi_config *cfg, size_t index, whi_config_entry *entry);

#endif
