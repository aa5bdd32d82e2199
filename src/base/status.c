// SPDX-License-Identifier: BSD-3-Clause
//
// Names and texts of the status codes, expanded from the one list in wherry/status.h.
#include <wherry/status.h>

const char *wh_status_name(wh_status status) {
    switch (status) {
#define NAME(name, number, text)                                                                   \
    case WH_##name: return #name;
        WH_STATUS_LIST(NAME)
#undef NAME
    }
    return "UNKNOWN";
}

const char *wh_status_text(wh_status status) {
    switch (status) {
#define TEXT(name, number, text)                                                                   \
    case WH_##name: return text;
        WH_STATUS_LIST(TEXT)
#undef TEXT
    }
    return "a status code that this version does not know";
}
