// SPDX-License-Identifier: BSD-3-Clause
//
// Tests of the numbers that the command reads and writes.
#include "bench/expect.h"
#include "cli/text.h"

#include <string.h>

static bool near(double a, double b) {
    double difference = a > b ? a - b : b - a;
    return difference <= 0.002 * (b > 0 ? b : 1);
}

static void test_bytes(void) {
    char text[32];
    EXPECT(strcmp(cli_format_bytes(1536, text, sizeof text), "1.50 KiB") == 0);
}

static void test_seconds(void) {
    double seconds = -1;
    EXPECT(cli_parse_seconds("0.3", &seconds) && near(seconds, 0.3));
    EXPECT(cli_parse_seconds("50ms", &seconds) && near(seconds, 0.05));
    EXPECT(!cli_parse_seconds("0", &seconds) && !cli_parse_seconds("1h", &seconds));
    EXPECT(!cli_parse_seconds("nan", &seconds) && !cli_parse_seconds("-1", &seconds));
}

int main(void) {
    test_bytes();
    test_seconds();
    printf("%s\n", failures ? "failed" : "passed");
    return failures != 0;
}
