// SPDX-License-Identifier: BSD-3-Clause
//
// Addresses: what users write, and the blobs that workers exchange, good and hostile.
#include "link/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "base/rng.h"
#include "base/test.h"
#include "engine/test_kit.h"

TEST(good_texts) {
    static const struct {
        const char *text, *host;
        uint16_t port;
    } good[] = {{"node7:4711", "node7", 4711},
                {"127.0.0.1:1", "127.0.0.1", 1},
                {"[::1]:65535", "::1", 65535},
                {"[fe80::1%eth0]:80", "fe80::1%eth0", 80},
                {"*:0", "", 0},
                {":0", "", 0},
                {"a.b-c_d:007", "a.b-c_d", 7}};
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        char host[WHI_HOST_MAX];
        uint16_t port = 9;
        CHECK_EQ_INT(whi_address_split(good[i].text, host, &port), WH_OK);
        CHECK_EQ_STR(host, good[i].host);
        CHECK_EQ_INT(port, good[i].port);
    }
}

TEST(bad_texts) {
    static const char *const bad[] = {"",
                                      "node7",
                                      "node7:",
                                      ":",
                                      "a:65536",
                                      "a:-1",
                                      "a:+1",
                                      "a: 1",
                                      "a:1x",
                                      "a:0x10",
                                      "::1:80",
                                      "[::1]",
                                      "[]:1",
                                      "[::1:80",
                                      "::1]:80",
                                      "a:b:1",
                                      "a:18446744073709551617",
                                      "[a]b:1"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        char host[WHI_HOST_MAX] = "kept";
        uint16_t port = 9;
        if (whi_address_split(bad[i], host, &port) == WH_OK)
            whi_test_end(WHI_TEST_FAILED, __FILE__, __LINE__, "\"%s\" passed", bad[i]);
        CHECK_EQ_INT(port, 9);
        CHECK_EQ_STR(host, "kept");
    }
}

TEST(long_hosts) {
    char text[WHI_HOST_MAX + 16], host[WHI_HOST_MAX];
    uint16_t port;
    for (size_t length = WHI_HOST_MAX - 2; length < WHI_HOST_MAX + 2; length++) {
        memset(text, 'h', length);
        snprintf(text + length, 8, ":1");
        CHECK_EQ_INT(whi_address_split(text, host, &port),
                     length < WHI_HOST_MAX ? WH_OK : WH_EADDRESS);
    }
}

static whi_blob sample(size_t count) {
    whi_blob blob = {.listener = 0x0102030405060708, .count = count};
    for (int i = 0; i < 16; i++) {
        blob.uuid[i] = (uint8_t)(i + 1);
        blob.boot_id[i] = (uint8_t)(0xf0 - i);
    }
    snprintf(blob.local_name, sizeof(blob.local_name), "wherry-test");
    for (size_t i = 0; i < count; i++) {
        if (i % 2) {
            struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&blob.addrs[i].addr;
            in6->sin6_family = AF_INET6;
            in6->sin6_port = htons((uint16_t)(100 + i));
            CHECK_EQ_INT(inet_pton(AF_INET6, "2001:db8::7", &in6->sin6_addr), 1);
            blob.addrs[i].size = sizeof(*in6);
        } else {
            struct sockaddr_in *in = (struct sockaddr_in *)&blob.addrs[i].addr;
            in->sin_family = AF_INET;
            in->sin_port = htons((uint16_t)(100 + i));
            in->sin_addr.s_addr = htonl(0x0a000001);
            blob.addrs[i].size = sizeof(*in);
        }
    }
    return blob;
}

TEST(blobs_go_round) {
    for (size_t count = 0; count <= WHI_ADDRESSES_MAX; count++) {
        uint8_t bytes[WH_ADDRESS_MAX];
        whi_blob out = sample(count), in;
        size_t size = whi_blob_encode(&out, bytes, sizeof(bytes));
        CHECK(size > 0);
        CHECK_EQ_INT(whi_blob_decode(bytes, size, &in), WH_OK);
        CHECK_MEM(in.uuid, out.uuid, 16);
        CHECK_MEM(in.boot_id, out.boot_id, 16);
        CHECK_EQ_STR(in.local_name, out.local_name);
        CHECK(in.listener == out.listener);
        CHECK_EQ_INT(in.count, count);
        for (size_t i = 0; i < count; i++) {
            char a[80], b[80];
            whi_address_text(&in.addrs[i], a, sizeof(a));
            whi_address_text(&out.addrs[i], b, sizeof(b));
            CHECK_EQ_STR(a, b);
            CHECK_EQ_INT(whi_address_port(&in.addrs[i]), 100 + i);
        }
    }
}

TEST(blobs_that_are_cut_or_too_long) {
    uint8_t bytes[WH_ADDRESS_MAX];
    whi_blob out = sample(3), in;
    size_t size = whi_blob_encode(&out, bytes, sizeof(bytes));
    for (size_t n = 0; n < size; n++) {
        uint8_t *exact = malloc(n + 1);  // so that reading too far is seen
        CHECK(exact);
        memcpy(exact, bytes, n);
        CHECK_EQ_INT(whi_blob_decode(exact, n, &in), WH_EADDRESS);
        free(exact);
        CHECK_EQ_INT(whi_blob_encode(&out, bytes, n), 0);
        (void)whi_blob_encode(&out, bytes, sizeof(bytes));
    }
    bytes[size] = 0;
    CHECK_EQ_INT(whi_blob_decode(bytes, size + 1, &in), WH_EADDRESS);
}

TEST(blobs_with_lies) {
    enum { AT_COUNT = 4 + 16 + 16 + 48 + 8, AT_FIRST = AT_COUNT + 1 };
    uint8_t bytes[WH_ADDRESS_MAX];
    whi_blob out = sample(2), in;
    size_t size = whi_blob_encode(&out, bytes, sizeof(bytes));
    const struct {
        size_t at;
        uint8_t value;
    } lies[] = {{0, 'w'},        {3, '2'},      {AT_COUNT, 1}, {AT_COUNT, 3},
                {AT_COUNT, 255}, {AT_FIRST, 0}, {AT_FIRST, 5}, {AT_FIRST, 255}};
    for (size_t i = 0; i < sizeof(lies) / sizeof(*lies); i++) {
        uint8_t good = bytes[lies[i].at];
        bytes[lies[i].at] = lies[i].value;
        CHECK_EQ_INT(whi_blob_decode(bytes, size, &in), WH_EADDRESS);
        bytes[lies[i].at] = good;
    }
    memset(bytes + AT_FIRST + 1, 0, 2);  // port 0
    CHECK_EQ_INT(whi_blob_decode(bytes, size, &in), WH_EADDRESS);
    // A name that does not end is cut; one bit anywhere never does harm.
    size = whi_blob_encode(&out, bytes, sizeof(bytes));
    memset(bytes + 36, 'n', 48);
    CHECK_EQ_INT(whi_blob_decode(bytes, size, &in), WH_OK);
    CHECK_EQ_INT(strlen(in.local_name), 47);
    for (size_t bit = 0; bit < 8 * size; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        if (whi_blob_decode(bytes, size, &in) == WH_OK)
            CHECK(in.count <= WHI_ADDRESSES_MAX);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

// One address more than there is room for, each of them good.
TEST(blobs_with_too_many_addresses) {
    enum { AT_COUNT = 4 + 16 + 16 + 48 + 8, ADDRESS = 1 + 2 + 16 };
    uint8_t bytes[WH_ADDRESS_MAX + ADDRESS];
    whi_blob out = sample(WHI_ADDRESSES_MAX), *in = malloc(sizeof(*in));
    CHECK(in);
    size_t size = whi_blob_encode(&out, bytes, WH_ADDRESS_MAX);
    CHECK_EQ_INT(size, AT_COUNT + 1 + WHI_ADDRESSES_MAX * ADDRESS);
    memcpy(bytes + size, bytes + size - ADDRESS, ADDRESS);
    bytes[AT_COUNT]++;
    CHECK_EQ_INT(whi_blob_decode(bytes, size + ADDRESS, in), WH_EADDRESS);
    free(in);
}

// The public calls turn hostile blobs down, or fail to connect; the worker goes on.
TEST(connecting_by_hostile_blobs) {
    duo d;
    duo_begin(&d, NULL, NULL);
    uint8_t bytes[WH_ADDRESS_MAX];
    size_t size = 0;
    CHECK_EQ_INT(wh_worker_address(d.server, bytes, &size), WH_OK);
    CHECK(size > 0 && size <= WH_ADDRESS_MAX);
    whi_rng rng;
    whi_rng_init(&rng, 5);
    for (int i = 0; i < 200; i++) {
        uint8_t bad[WH_ADDRESS_MAX];
        memcpy(bad, bytes, size);
        // Not among the addresses, which could be somebody's.
        for (int n = 0; n < 3; n++)
            bad[whi_rng_below(&rng, 36 + 48 + 8)] = (uint8_t)whi_rng_u64(&rng);
        wh_endpoint *ep = NULL;
        wh_status st =
            wh_endpoint_connect_blob(d.client, bad, size, WH_ENDPOINT_OPTS(.timeout_ms = 200), &ep);
        if (st != WH_OK)
            continue;
        UNTIL(&d, wh_endpoint_status(ep) != WH_PENDING);
        wh_endpoint_abort(ep);
    }
    duo_connect(&d);
    duo_end(&d);
}

TEST_MAIN()
