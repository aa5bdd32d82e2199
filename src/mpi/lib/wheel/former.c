// SPDX-License-Identifier: BSD-3-Clause
//
// libmpi_abi.so.0 of a wheel: programs that ask for it get libmpi_abi.so.1, which it needs.  It has nothing of its own.
typedef int nothing;
