// SPDX-License-Identifier: BSD-3-Clause
//
// Other PEs: those that are lost, and strangers who say that they are one.
#include "rt/pe/pe_kit.h"

static void done(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    *(wh_result *)arg = *result;
}

// ---- Losses.

static void on_echo(wh_pe *pe, wh_pe_msg *msg, void *arg) {
    (*(int *)arg)++;
    if (wh_pe_send(pe, msg->source, 1, NULL, 0, NULL, 0, 0) != WH_OK)
        CHECK(!job.pe[2]);
}

// A PE that dies is told of once, by those that had to do with it, and receives from it end.
TEST(a_lost_pe) {
    int echoes = 0;
    char to[8];
    wh_result result = {.status = WH_PENDING}, early = {.status = WH_PENDING};
    kit_begin(3, 1);
    for (int i = 0; i < 3; i++)
        CHECK_EQ_INT(wh_pe_set_handler(job.pe[i], 1, on_echo, &echoes), WH_OK);
    CHECK_EQ_INT(
        wh_pe_recv_buffer(job.pe[0], 2, to, 8, 1, WH_OP_OPTS(.done = done, .arg = &early), NULL),
        WH_PENDING);
    CHECK_EQ_INT(wh_pe_send(job.pe[0], 2, 1, NULL, 0, NULL, 0, 0), WH_OK);
    UNTIL(echoes > 10);
    CHECK_EQ_INT(
        wh_pe_recv_buffer(job.pe[0], 2, to, 8, 2, WH_OP_OPTS(.done = done, .arg = &result), NULL),
        WH_PENDING);
    whi_pe_destroy(job.pe[2]);
    job.pe[2] = NULL;
    UNTIL(job.lost == 1 && result.status != WH_PENDING && early.status != WH_PENDING);
    CHECK(result.status < 0 && early.status < 0);
    CHECK(wh_pe_send(job.pe[0], 2, 1, NULL, 0, NULL, 0, 0) < 0);
    CHECK(wh_pe_recv_buffer(job.pe[0], 2, to, 8, 3, NULL, NULL) < 0);
    kit_turns(100);
    CHECK_EQ_INT(job.lost, 1);
    kit_end();
}

// What a launcher knows is asked for once per PE, though two endpoints go there.
TEST(a_contact_is_asked_for_once) {
    int echoes = 0;
    kit_begin(3, 1);
    for (int i = 0; i < 3; i++)
        CHECK_EQ_INT(wh_pe_set_handler(job.pe[i], 1, on_echo, &echoes), WH_OK);
    CHECK_EQ_INT(wh_pe_send(job.pe[1], 2, 1, NULL, 0, NULL, 0, 0), WH_OK);
    UNTIL(echoes > 3);
    // PE 1 has its data endpoint to PE 2 open; control follows.
    uint8_t unknown[8] = {WHI_CONTROLS};
    CHECK_EQ_INT(job.contacts[2], 1);
    CHECK_EQ_INT(whi_wire_control(job.wires[1], 2, unknown, sizeof(unknown)), WH_OK);
    UNTIL(job.wires[1]->peers[2]->out[WHI_USE_CONTROL]);
    CHECK_EQ_INT(job.contacts[2], 1);
    CHECK(!job.wires[1]->peers[2]->contact);
    kit_end();
}

// A PE that computes for longer than a connection may take elsewhere has not died: it answers when it returns.
TEST(a_pe_that_computes_while_it_is_first_spoken_to) {
    int echoes = 0;
    setenv("WHERRY_CONNECT_TIMEOUT", "20ms", 1);
    kit_begin(2, 1);
    unsetenv("WHERRY_CONNECT_TIMEOUT");
    for (int i = 0; i < 2; i++)
        CHECK_EQ_INT(wh_pe_set_handler(job.pe[i], 1, on_echo, &echoes), WH_OK);
    CHECK_EQ_INT(wh_pe_send(job.pe[0], 1, 1, NULL, 0, NULL, 0, 0), WH_OK);
    for (uint64_t end = whi_clock_ns() + 100 * WHI_NS_PER_MS; whi_clock_ns() < end;)
        wh_pe_turn(job.pe[0]);
    UNTIL(echoes > 3);
    CHECK_EQ_INT(job.lost, 0);
    kit_end();
}

// ---- Strangers.

static void stranger(const void *data, size_t size, wh_status expected) {
    wh_worker *worker;
    wh_endpoint *ep;
    uint8_t blob[WH_ADDRESS_MAX];
    size_t blob_size = sizeof(blob);
    wh_result result = {.status = WH_PENDING};
    CHECK_EQ_INT(wh_worker_create(job.ctx, NULL, &worker), WH_OK);
    CHECK_EQ_INT(wh_worker_address(job.pe[0]->worker, blob, &blob_size), WH_OK);
    CHECK_EQ_INT(wh_endpoint_connect_blob(worker, blob, blob_size,
                                          WH_ENDPOINT_OPTS(.data = data, .data_size = size,
                                                           .done = done, .arg = &result),
                                          &ep),
                 WH_OK);
    for (int i = 0; i < 100000 && result.status == WH_PENDING; i++) {
        wh_worker_progress(worker);
        kit_turn();
    }
    CHECK_EQ_INT(result.status, expected);
    wh_endpoint_abort(ep);
    wh_worker_destroy(worker);
}

TEST(strangers_are_refused) {
    uint8_t data[WHI_GREETING_SIZE + 1] = "";
    whi_greeting greeting = {.use = WHI_USE_DATA, .pe = 1};
    memcpy(greeting.ticket, kit_ticket, sizeof(kit_ticket));
    kit_begin(2, 1);
    stranger(NULL, 0, WH_EREFUSED);
    stranger("garbage", 7, WH_EREFUSED);
    whi_greeting_write(&greeting, data);
    stranger(data, sizeof(data), WH_EREFUSED);  // too long
    stranger(data, WHI_GREETING_SIZE - 1, WH_EREFUSED);
    greeting.pe = 2;
    whi_greeting_write(&greeting, data);
    stranger(data, WHI_GREETING_SIZE, WH_EREFUSED);
    greeting.pe = 1;
    greeting.ticket[0] ^= 1;
    whi_greeting_write(&greeting, data);
    stranger(data, WHI_GREETING_SIZE, WH_EREFUSED);
    greeting.ticket[0] ^= 1;
    whi_greeting_write(&greeting, data);
    stranger(data, WHI_GREETING_SIZE, WH_OK);  // it is the job's
    kit_end();
}

// Who says to be a PE that has connected is not, and takes nothing away from that.
TEST(a_second_connection_is_refused) {
    int echoes = 0;
    uint8_t data[WHI_GREETING_SIZE];
    whi_greeting greeting = {.use = WHI_USE_DATA, .pe = 1};
    memcpy(greeting.ticket, kit_ticket, sizeof(kit_ticket));
    whi_greeting_write(&greeting, data);
    kit_begin(2, 1);
    for (int i = 0; i < 2; i++)
        CHECK_EQ_INT(wh_pe_set_handler(job.pe[i], 1, on_echo, &echoes), WH_OK);
    CHECK_EQ_INT(wh_pe_send(job.pe[1], 0, 1, NULL, 0, NULL, 0, 0), WH_OK);
    UNTIL(echoes > 3);
    stranger(data, WHI_GREETING_SIZE, WH_EREFUSED);
    int before = echoes;
    UNTIL(echoes > before + 3);
    CHECK_EQ_INT(job.lost, 0);
    kit_end();
}

TEST_MAIN()
