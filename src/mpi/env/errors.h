// SPDX-License-Identifier: BSD-3-Clause
//
// Error codes: a class with its text, or a number of the program's own.
#ifndef WHM_ENV_ERRORS_H
#define WHM_ENV_ERRORS_H

#include "mpi/base/rank.h"

// whm_error_text returns the text of an error code; NULL: it is none.
const char *whm_error_text(int code);

// whm_error_name returns what the standard calls a class: "MPI_ERR_TAG"; NULL: it is none of the standard's.
const char *whm_error_name(int code);

// whm_error_last is the largest error code in use: what MPI_LASTUSEDCODE says.
int whm_error_last(void);

void whm_errors_end(whm_rank *rank);

#endif
