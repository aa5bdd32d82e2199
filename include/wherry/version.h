// SPDX-License-Identifier: BSD-3-Clause
//
// The version of these headers; wh_version (wherry/context.h) says that of the loaded library.
//
// The build reads it from here, and so do the pkg-config file, the CMake package and the wheel.
#ifndef WHERRY_VERSION_H
#define WHERRY_VERSION_H

#define WH_VERSION_MAJOR 0
#define WH_VERSION_MINOR 2
#define WH_VERSION_PATCH 0
#define WH_VERSION_STRING "0.2.0"

#endif
