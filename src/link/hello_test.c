// SPDX-License-Identifier: BSD-3-Clause
//
// The handshake's record and its proof: nothing is lost between the two ends of the codec, nothing that a
// stranger sends gets past it unchecked, and no proof is good for anything but its own handshake and role.
#include "link/hello.h"

#include "base/bytes.h"
#include "base/rng.h"
#include "base/test.h"
#include "link/wire.h"

enum { AT_STEP = 8, AT_SIZE = 10, AT_VERSION_MIN = 12, AT_VERSION_MAX = 14 };

static whi_hello sample(void) {
    whi_hello h = {.step = WHI_STEP_ANSWER,
                   .version_min = 1,
                   .version_max = 3,
                   .flags = 0x01020304,
                   .features = 0x1112131415161718,
                   .lanes = 0x21222324,
                   .status = WH_EAUTH,
                   .pid = 0x31323334,
                   .uid = 0x41424344,
                   .eager_max = 0x51525354,
                   .chunk_max = 0x61626364,
                   .ucx_version = 0x71727374,
                   .listener = 0x8182838485868788,
                   .local_name = "wherry-0123456789abcdef0123456789abcdef",
                   .host = "node7",
                   .text = "one sentence"};
    whi_rng rng;
    whi_rng_init(&rng, 7);
    uint8_t *fields[] = {h.uuid, h.boot_id, h.token};
    for (size_t f = 0; f < 3; f++)
        for (int i = 0; i < 16; i++)
            fields[f][i] = (uint8_t)whi_rng_u64(&rng);
    for (int i = 0; i < 32; i++) {
        h.nonce[i] = (uint8_t)whi_rng_u64(&rng);
        h.mac[i] = (uint8_t)whi_rng_u64(&rng);
    }
    return h;
}

static void check_same(const whi_hello *a, const whi_hello *b) {
    CHECK_EQ_INT(a->step, b->step);
    CHECK_EQ_INT(a->version_min, b->version_min);
    CHECK_EQ_INT(a->version_max, b->version_max);
    CHECK_EQ_INT(a->flags, b->flags);
    CHECK(a->features == b->features);
    CHECK_EQ_INT(a->lanes, b->lanes);
    CHECK_EQ_INT(a->status, b->status);
    CHECK_MEM(a->uuid, b->uuid, 16);
    CHECK_MEM(a->boot_id, b->boot_id, 16);
    CHECK_MEM(a->nonce, b->nonce, 32);
    CHECK_MEM(a->token, b->token, 16);
    CHECK_EQ_INT(a->pid, b->pid);
    CHECK_EQ_INT(a->uid, b->uid);
    CHECK_EQ_INT(a->eager_max, b->eager_max);
    CHECK_EQ_INT(a->chunk_max, b->chunk_max);
    CHECK_EQ_INT(a->ucx_version, b->ucx_version);
    CHECK(a->listener == b->listener);
    CHECK_EQ_STR(a->local_name, b->local_name);
    CHECK_EQ_STR(a->host, b->host);
    CHECK_EQ_STR(a->text, b->text);
    CHECK_MEM(a->mac, b->mac, 32);
}

TEST(round_trip) {
    uint8_t bytes[WHI_HELLO_SIZE], again[WHI_HELLO_SIZE];
    whi_hello out = sample(), in;
    whi_hello_encode(&out, bytes);
    CHECK_EQ_INT(whi_hello_decode(bytes, &in), WH_OK);
    check_same(&out, &in);
    whi_hello_encode(&in, again);
    CHECK_MEM(bytes, again, WHI_HELLO_SIZE);
}

// Every bit that is flipped is refused, or seen in a field, or lies where nothing is read: never ignored by mistake.
TEST(every_bit_counts) {
    uint8_t good[WHI_HELLO_SIZE], bytes[WHI_HELLO_SIZE], again[WHI_HELLO_SIZE];
    whi_hello out = sample();
    whi_hello_encode(&out, good);
    unsigned unread = 0;
    for (unsigned bit = 0; bit < 8 * WHI_HELLO_SIZE; bit++) {
        whi_hello in;
        memcpy(bytes, good, sizeof(bytes));
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        if (whi_hello_decode(bytes, &in) != WH_OK)
            continue;
        whi_hello_encode(&in, again);
        unread += memcmp(again, good, WHI_HELLO_SIZE) == 0;
    }
    // Unread are: the reserved byte, what lies behind the end of a text, and the unused space before the proof.
    size_t fields = 16 + 4 + 8 + 4 + 4 + 16 + 16 + 32 + 16 + 5 * 4 + 8 + WHI_LOCAL_NAME_MAX + 64 +
                    WHI_HELLO_TEXT_MAX + WHI_HELLO_MAC_SIZE;
    size_t behind = WHI_LOCAL_NAME_MAX - strlen(out.local_name) + 64 - strlen(out.host) +
                    WHI_HELLO_TEXT_MAX - strlen(out.text);
    CHECK(unread <= 8 * (1 + behind + WHI_HELLO_SIZE - fields));
}

TEST(rubbish_is_refused) {
    uint8_t bytes[WHI_HELLO_SIZE];
    whi_hello out = sample(), in;
    for (int i = 0; i < 8; i++) {
        whi_hello_encode(&out, bytes);
        bytes[i] ^= 0x20;
        CHECK_EQ_INT(whi_hello_decode(bytes, &in), WH_EPROTOCOL);
    }
    static const uint8_t bad_steps[] = {0, 7, 255};
    for (size_t i = 0; i < sizeof(bad_steps); i++) {
        whi_hello_encode(&out, bytes);
        bytes[AT_STEP] = bad_steps[i];
        CHECK_EQ_INT(whi_hello_decode(bytes, &in), WH_EPROTOCOL);
    }
    whi_hello_encode(&out, bytes);
    bytes[AT_SIZE]++;
    CHECK_EQ_INT(whi_hello_decode(bytes, &in), WH_EPROTOCOL);
    whi_rng rng;
    whi_rng_init(&rng, 1);
    for (int n = 0; n < 1000; n++) {
        for (int i = 0; i < WHI_HELLO_SIZE; i++)
            bytes[i] = (uint8_t)whi_rng_u64(&rng);
        CHECK_EQ_INT(whi_hello_decode(bytes, &in), WH_EPROTOCOL);
    }
}

TEST(versions) {
    const unsigned ours = WHI_PROTOCOL_VERSION, least = WHI_PROTOCOL_VERSION_MIN;
    const struct {
        unsigned min, max;
        wh_status status;
    } cases[] = {
        {ours, ours, WH_OK},         {least, ours + 5, WH_OK},
        {0, 0xffff, WH_OK},          {ours + 1, ours + 2, WH_EVERSION},
        {0, least - 1, WH_EVERSION}, {ours, ours - 1, WH_EPROTOCOL},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        uint8_t bytes[WHI_HELLO_SIZE];
        whi_hello out = sample(), in;
        out.version_min = (uint16_t)cases[i].min;
        out.version_max = (uint16_t)cases[i].max;
        whi_hello_encode(&out, bytes);
        CHECK_EQ_INT(whi_hello_decode(bytes, &in), cases[i].status);
        // The error has to name both sides' versions, so they are there even then.
        if (cases[i].status != WH_EPROTOCOL) {
            CHECK_EQ_INT(in.version_min, cases[i].min);
            CHECK_EQ_INT(in.version_max, cases[i].max);
        }
    }
}

// What another version has behind the first 16 bytes is not looked at.
TEST(a_future_version_is_told_from_rubbish) {
    uint8_t bytes[WHI_HELLO_SIZE];
    whi_hello out = sample(), in;
    out.version_min = out.version_max = WHI_PROTOCOL_VERSION + 1;
    whi_hello_encode(&out, bytes);
    memset(bytes + 16, 0xff, WHI_HELLO_SIZE - 16);
    bytes[AT_STEP] = 99;
    bytes[AT_SIZE] = 0;
    CHECK_EQ_INT(whi_hello_decode(bytes, &in), WH_EVERSION);
}

TEST(texts_are_printable_and_end) {
    uint8_t bytes[WHI_HELLO_SIZE];
    whi_hello out = sample(), in;
    memset(out.local_name, 'n', sizeof(out.local_name));
    memset(out.host, 0x1b, sizeof(out.host));
    memset(out.text, 0x80, sizeof(out.text));
    memcpy(out.text, "a\nb\tc\x7f", 6);
    whi_hello_encode(&out, bytes);
    CHECK_EQ_INT(whi_hello_decode(bytes, &in), WH_OK);
    const char *texts[] = {in.local_name, in.host, in.text};
    const size_t sizes[] = {sizeof(in.local_name), sizeof(in.host), sizeof(in.text)};
    for (int i = 0; i < 3; i++) {
        CHECK_EQ_INT(strnlen(texts[i], sizes[i]), sizes[i] - 1);
        for (const char *c = texts[i]; *c; c++)
            CHECK(*c >= ' ' && *c <= '~');
    }
    CHECK(strncmp(in.text, "a?b?c?", 6) == 0);
}

// ---- the proof

static uint8_t hello[WHI_HELLO_SIZE], answer[WHI_HELLO_SIZE];

static void make_records(void) {
    whi_hello h = sample();
    h.step = WHI_STEP_HELLO;
    whi_hello_encode(&h, hello);
    h.step = WHI_STEP_ANSWER;
    h.nonce[0] ^= 1;
    whi_hello_encode(&h, answer);
}

static void prove(const char *secret, whi_hello_role role, uint8_t mac[WHI_HELLO_MAC_SIZE]) {
    CHECK_EQ_INT(whi_hello_prove(secret, role, hello, answer, mac), WH_OK);
}

TEST(a_proof_repeats) {
    uint8_t a[WHI_HELLO_MAC_SIZE], b[WHI_HELLO_MAC_SIZE];
    make_records();
    prove("secret", WHI_ROLE_CONNECTOR, a);
    prove("secret", WHI_ROLE_CONNECTOR, b);
    CHECK(whi_mac_equal(a, b));
}

TEST(a_reflected_proof_is_refused) {
    uint8_t a[WHI_HELLO_MAC_SIZE], b[WHI_HELLO_MAC_SIZE];
    make_records();
    prove("secret", WHI_ROLE_CONNECTOR, a);
    prove("secret", WHI_ROLE_ACCEPTOR, b);
    CHECK(!whi_mac_equal(a, b));
}

TEST(another_secret_is_refused) {
    static const char *const others[] = {"Secret", "secret ", "secre", "", "terces"};
    uint8_t a[WHI_HELLO_MAC_SIZE], b[WHI_HELLO_MAC_SIZE];
    make_records();
    prove("secret", WHI_ROLE_CONNECTOR, a);
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
        prove(others[i], WHI_ROLE_CONNECTOR, b);
        CHECK(!whi_mac_equal(a, b));
    }
}

TEST(one_bit_of_a_proof_off_is_refused) {
    uint8_t a[WHI_HELLO_MAC_SIZE], b[WHI_HELLO_MAC_SIZE];
    make_records();
    prove("secret", WHI_ROLE_ACCEPTOR, a);
    for (int bit = 0; bit < 8 * WHI_HELLO_MAC_SIZE; bit++) {
        memcpy(b, a, sizeof(b));
        b[bit / 8] ^= (uint8_t)(1u << bit % 8);
        CHECK(!whi_mac_equal(a, b));
    }
}

// Every byte of both records but the proofs themselves is signed.
TEST(a_proof_covers_both_records) {
    uint8_t a[WHI_HELLO_MAC_SIZE], b[WHI_HELLO_MAC_SIZE];
    make_records();
    prove("secret", WHI_ROLE_CONNECTOR, a);
    uint8_t *records[] = {hello, answer};
    for (int r = 0; r < 2; r++) {
        for (int i = 0; i < WHI_HELLO_SIZE; i++) {
            records[r][i] ^= 1;
            prove("secret", WHI_ROLE_CONNECTOR, b);
            bool proof = i >= WHI_HELLO_SIZE - WHI_HELLO_MAC_SIZE;
            CHECK(whi_mac_equal(a, b) == proof);
            records[r][i] ^= 1;
        }
    }
}

// The keyed hash is RFC 4231's: another implementation of the protocol must come to the same bytes.
TEST(the_proof_is_an_hmac_over_label_hello_and_answer) {
    static const uint8_t expected[WHI_HELLO_MAC_SIZE] = {
        0xbc, 0x27, 0xaa, 0x43, 0x49, 0x4b, 0xfd, 0x80, 0x6a, 0xdc, 0x04,
        0x5e, 0x0b, 0xe9, 0x5e, 0xfa, 0xbb, 0x38, 0x36, 0x0c, 0xd8, 0x23,
        0x15, 0xf8, 0xa2, 0xa2, 0x6c, 0x2e, 0x53, 0x85, 0x8c, 0xfb};
    uint8_t a[WHI_HELLO_MAC_SIZE];
    for (int i = 0; i < WHI_HELLO_SIZE; i++) {
        hello[i] = (uint8_t)i;
        answer[i] = (uint8_t)(i * 3);
    }
    prove("key", WHI_ROLE_ACCEPTOR, a);
    CHECK_MEM(a, expected, sizeof(a));
}

// Two hosts that are not known are not the same one.
TEST(the_same_host) {
    uint8_t here[16] = {1, 2}, unknown[16] = {0};
    whi_hello peer = {.step = WHI_STEP_HELLO};
    CHECK(!whi_hello_same_host(&peer, here));
    CHECK(!whi_hello_same_host(&peer, unknown));
    memcpy(peer.boot_id, here, sizeof(here));
    CHECK(whi_hello_same_host(&peer, here));
    peer.boot_id[15] = 1;
    CHECK(!whi_hello_same_host(&peer, here));
}

TEST_MAIN()
