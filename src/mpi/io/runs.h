// SPDX-License-Identifier: BSD-3-Clause
//
// What the parts of src/mpi/io share that look into a view.
#ifndef WHM_IO_RUNS_H
#define WHM_IO_RUNS_H

#include "mpi/io/file.h"

enum { WHM_RUNS = 64 };  // at a time

typedef struct whm_run {  // bytes of the file that lie one behind the other
    MPI_Offset at;
    MPI_Count size;
} whm_run;

// whm_view_runs finds where `size` bytes of the view's data lie, from byte `at` of the data on: up to `most` runs, at most WHM_RUNS, which
// cover *bytes.
int whm_view_runs(const whm_view *view, MPI_Offset at, MPI_Count size, whm_run *runs, int most,
                  int *n, MPI_Count *bytes);

// whm_datarep_check: MPI_SUCCESS if a view can have the representation of this name.
int whm_datarep_check(const char *name);

#endif
