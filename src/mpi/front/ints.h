// SPDX-License-Identifier: BSD-3-Clause
//
// Handles as integers, for languages that have no pointers: MPI_Comm_toint, MPI_Comm_fromint and their like.
#ifndef WHM_FRONT_INTS_H
#define WHM_FRONT_INTS_H

// whm_int_of returns the integer of a handle: its value if it is predefined, else a number that is the same for the same handle.  Any thread.
int whm_int_of(const void *handle);

// whm_handle_of returns the handle of such an integer; `none` if it is none.
void *whm_handle_of(int number, void *none);

#endif
