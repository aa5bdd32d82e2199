// SPDX-License-Identifier: BSD-3-Clause
//
// `wherry doctor HOST:PORT`: connects to whatever listens there, and says how far it came.
//
// The round trip is a flush, which the peer's library answers by itself: the peer may be any program.
#include "cli/clock.h"
#include "cli/doctor.h"

enum { PATIENCE_MS = 2000 };

// What to do about a connect that failed, by how it failed.
static const char *advice(wh_status status) {
    switch (status) {
    case WH_EREFUSED: return "nothing listens there: check the port, and that the program runs";
    case WH_EUNREACHABLE: return "no route: check the host, the network and WHERRY_INTERFACE";
    case WH_ETIMEDOUT:
        return "no answer: a firewall that drops, a wrong host, or a stopped program";
    case WH_EADDRESS: return "write HOST:PORT, [V6]:PORT; check that the name resolves";
    case WH_EAUTH: return "set the same WHERRY_SECRET or WHERRY_SECRET_FILE on both sides";
    case WH_EVERSION: return "install versions of Wherry at most one protocol version apart";
    case WH_ENOLANE: return "WHERRY_LANES of the two sides have nothing in common";
    case WH_EPROTOCOL: return "something else than Wherry listens there";
    case WH_EPEER: return "the other side dropped the connection: its log says why";
    default: return "the log above has the details";
    }
}

// One: a second flush has nothing to wait for, and does not travel.
static void measure(doctor *self, wh_endpoint *ep) {
    uint64_t start = cli_ns();
    wh_status status = wh_endpoint_flush_wait(ep, PATIENCE_MS);
    double us = (double)(cli_ns() - start) / 1000;
    if (status == WH_OK)
        doctor_find(self, FINDING_GOOD, "round trip", NULL,
                    "%.0f us (once, with the time that the program takes to wake up)", us);
    else
        doctor_find(self, FINDING_BAD, "round trip", "does the program there make progress?",
                    "no answer within %d ms: %s", PATIENCE_MS, wh_status_text(status));
}

static void describe(doctor *self, wh_endpoint *ep) {
    char peer[128] = "?", lanes[64] = "?";
    if (wh_endpoint_peer(ep, peer, sizeof peer) != WH_OK ||
        wh_endpoint_lanes(ep, lanes, sizeof lanes) != WH_OK)
        doctor_find(self, FINDING_BAD, "peer", NULL, "%s", wh_endpoint_error(ep));
    else
        doctor_find(self, FINDING_GOOD, "peer", NULL, "connected to %s over %s", peer, lanes);
}

void doctor_peer(doctor *self, const char *address) {
    wh_worker *worker;
    wh_endpoint *ep;
    if (wh_worker_create(self->ctx, NULL, &worker) != WH_OK)
        return;  // the check of ports has said so
    wh_status status = wh_endpoint_connect_wait(worker, address, NULL, &ep);
    if (status != WH_OK) {
        doctor_find(self, FINDING_BAD, "peer", advice(status), "cannot connect to %s: %s", address,
                    wh_status_text(status));
    } else {
        describe(self, ep);
        measure(self, ep);
        if (wh_endpoint_close_wait(ep, PATIENCE_MS) != WH_OK)
            doctor_find(self, FINDING_NOTE, "peer", NULL, "it did not acknowledge the close");
    }
    wh_worker_destroy(worker);
}
