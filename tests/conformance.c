// SPDX-License-Identifier: BSD-3-Clause
//
// The conformance suite: what the public API promises, over every lane, in every mode; see kit.h and kit_main.c.
#include "kit.h"

int main(int argc, char **argv) {
    return kit_main(argc, argv);
}
