// SPDX-License-Identifier: BSD-3-Clause
//
// Faults: senders that die or stop in the middle of a flood harm nobody but themselves.
//
//     faults [--trials N] [--seed S] [--lane shm|stream|ucx] [--senders N] [--ucx DIR,DIR]
//
// A trial: so many sender processes flood one receiver.  In the middle one of them is killed, or stopped for a while and
// continued.  Every message carries its sender's number, a sequence number and a checksum.  The receiver must see
// each sender's messages whole, once and in order; the survivors must go on delivering from the fault to the
// end; and each operation that waits for the dead one must end, once, with WH_EPEER.  How long that takes is
// recorded; beyond LATE_MS a trial fails.  WHERRY_SEED=n runs trial n alone.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proc.h"
#include "ucx_choice.h"

enum { SENDERS_MAX = 16, LATE_MS = 40000, HANG_MS = 60000, WINDOW = 8, ENTRY_OPS = 4 };

static const size_t sizes[] = {8, 8192, 1 << 20};
static const char *const modes[] = {"wait", "adaptive"};
static const char *const memory_words[] = {"dense", "spread", "on a device", "spread on a device"};

typedef struct trial {
    uint64_t seed;
    const char *lane;
    const char *mode;
    size_t size;
    int senders, victim;
    bool kills;                               // else it stops and continues
    unsigned sender_memory, receiver_memory;  // PROC_SPREAD, PROC_DEVICE
    unsigned per_sender;                      // messages
    unsigned strike_at;  // messages that the receiver has got from the victim before the fault
    unsigned stop_ms;
} trial;

typedef struct common {  // between the processes of a trial
    _Atomic int port;
    _Atomic bool struck;
    pid_t pids[SENDERS_MAX];
} common;

static trial make_trial(uint64_t seed, const char *lane, int senders) {
    // Twelve seeds in a row have every combination of these three; the rest is drawn, layouts too.
    uint64_t state = seed;
    trial t = {.seed = seed, .lane = lane, .senders = senders};
    t.size = sizes[seed % 3];
    t.kills = seed / 3 % 2;
    t.mode = modes[seed / 6 % 2];
    t.victim = (int)proc_below(&state, (uint64_t)senders);
    t.per_sender = t.size == 8 ? 3000 : t.size == 8192 ? 600 : 24;
    t.strike_at = (unsigned)proc_below(&state, t.per_sender / 2);
    t.stop_ms = 20 + (unsigned)proc_below(&state, 200);
    t.sender_memory = (unsigned)proc_below(&state, PROC_MEMORIES);
    t.receiver_memory = (unsigned)proc_below(&state, PROC_MEMORIES);
    return t;
}

// ---- content

typedef struct small {  // what 8 bytes have room for
    uint16_t sender, check;
    uint32_t sequence;
} small;

static uint16_t check_of(uint16_t sender, uint32_t sequence) {
    return (uint16_t)((sequence * 0x9e3779b1u >> 16) ^ (sender * 40503u));
}

static void write_message(void *buf, size_t size, int sender, uint32_t sequence) {
    small head = {(uint16_t)sender, check_of((uint16_t)sender, sequence), sequence};
    memcpy(buf, &head, 8);
    if (size > 8)
        proc_fill((char *)buf + 8, size - 8, (uint64_t)sequence << 8 | (uint64_t)sender);
}

static void check_message(const void *buf, size_t size, int sender, uint32_t sequence) {
    small head;
    memcpy(&head, buf, 8);
    CHECK_INT(head.sender, sender);
    if (head.sequence != sequence)  // nothing twice, nothing missing, nothing out of order
        proc_fail(__FILE__, __LINE__, "sender %d: message %u came in the place of %u", sender,
                  head.sequence, sequence);
    CHECK_INT(head.check, check_of(head.sender, head.sequence));
    if (size > 8)
        CHECK(
            proc_same((const char *)buf + 8, size - 8, (uint64_t)sequence << 8 | (uint64_t)sender));
}

// ---- memory of a message, dense or spread

static void put_message(proc_memory *m, int sender, uint32_t sequence) {
    write_message(m->dense, m->size, sender, sequence);
    proc_memory_lay(m);
}

static void take_message(proc_memory *m, int sender, uint32_t sequence) {
    proc_memory_gather(m);
    check_message(m->dense, m->size, sender, sequence);
}

// ---- a sender

static void run_sender(const trial *t, int number, common *shared) {
    proc_worker w;
    proc_open(&w, t->lane, t->mode, NULL);
    while (!atomic_load(&shared->port))
        usleep(1000);
    char address[32];
    snprintf(address, sizeof(address), "127.0.0.1:%d", atomic_load(&shared->port));
    wh_endpoint *ep = NULL;
    CHECK_STATUS(
        wh_endpoint_connect_wait(w.worker, address, WH_ENDPOINT_OPTS(.timeout_ms = HANG_MS), &ep),
        WH_OK);
    uint64_t name = (uint64_t)number;
    CHECK_STATUS(wh_tag_send_wait(ep, &name, 8, 1, HANG_MS), WH_OK);
    uint64_t go;
    CHECK_STATUS(wh_tag_recv_wait(ep, &go, 8, 2, WH_TAG_MASK_ALL, HANG_MS, NULL), WH_OK);
    proc_memory bufs[WINDOW];
    wh_request *reqs[WINDOW] = {NULL};
    for (int i = 0; i < WINDOW; i++)
        bufs[i] = proc_memory_new(t->size, t->sender_memory);
    for (uint32_t i = 0; i < t->per_sender + WINDOW; i++) {
        wh_request **req = &reqs[i % WINDOW];
        if (*req) {
            CHECK_STATUS(wh_request_wait(*req, HANG_MS), WH_OK);
            wh_request_free(*req);
            *req = NULL;
        }
        if (i >= t->per_sender)
            continue;
        // The last quarter comes after the fault, however fast a sender is.
        while (i == t->per_sender / 4 * 3 && !atomic_load(&shared->struck))
            (void)!wh_worker_wait(w.worker, 1);
        proc_memory *m = &bufs[i % WINDOW];
        put_message(m, number, i);
        wh_status st = wh_tag_send(ep, m->data, m->count, 3, WH_OP_OPTS(.type = m->type), req);
        CHECK(st == WH_OK || st == WH_PENDING);
    }
    CHECK_STATUS(wh_endpoint_close_wait(ep, HANG_MS), WH_OK);
    for (int i = 0; i < WINDOW; i++)
        proc_memory_free(&bufs[i]);
    proc_close(&w);
}

// ---- the receiver

typedef struct peer {
    wh_endpoint *ep;
    int number;  // as it says itself; -1 until then
    uint64_t name;
    proc_memory buf;
    uint32_t got, after;  // messages in all, and since the fault
    bool over;            // nothing more comes from it
    // Operations that nothing ends but the end of the peer.
    _Atomic int ended[ENTRY_OPS];
    wh_status how[ENTRY_OPS];
    char sink[8];
    char *large;
} peer;

typedef struct receiver {
    const trial *t;
    peer peers[SENDERS_MAX];
    int count, named;
    bool struck, continued;
    uint64_t strike_us, ended_us;
    peer *victim;
} receiver;

static receiver the;

static void on_accept(wh_endpoint *ep, void *arg) {
    (void)arg;
    CHECK(the.count < SENDERS_MAX);
    the.peers[the.count++] = (peer){.ep = ep, .number = -1};
}

typedef struct hanging {
    peer *p;
    int which;
} hanging;

static bool ended(const peer *p) {
    for (int op = 0; op < ENTRY_OPS; op++)
        if (!atomic_load(&p->ended[op]))
            return false;
    return p->over;
}

// note_end keeps the time of the last end of the victim's operations.
static void note_end(const peer *p) {
    if (p == the.victim && the.struck)
        the.ended_us = proc_now_us();
}

static void on_hanging(wh_request *req, const wh_result *result, void *arg) {
    hanging *h = arg;
    (void)req;
    h->p->how[h->which] = result->status;
    atomic_fetch_add(&h->p->ended[h->which], 1);
    note_end(h->p);
}

// hang_on starts what will be pending when a peer goes: receives that nothing matches, a send that nobody takes.
static void hang_on(peer *p) {
    static hanging all[SENDERS_MAX][ENTRY_OPS];
    hanging *h = all[p - the.peers];
    for (int i = 0; i < ENTRY_OPS; i++) {
        h[i] = (hanging){p, i};
        const wh_op_opts *opts = WH_OP_OPTS(.done = on_hanging, .arg = &h[i]);
        wh_status st;
        if (i == 0)
            st = wh_tag_recv(p->ep, p->sink, 8, 99, WH_TAG_MASK_ALL, opts, NULL);
        else if (i == 1)
            st = wh_tag_send(p->ep, p->large, 100000, 98, opts, NULL);
        else if (i == 2)
            st = wh_object_recv(p->ep, NULL, 0, 0, 97, WH_TAG_MASK_ALL, opts, NULL);
        else
            st = wh_tag_send(p->ep, p->sink, 8, 96,
                             WH_OP_OPTS(.done = on_hanging, .arg = &h[i], .flags = WH_OP_SYNC),
                             NULL);
        CHECK_STATUS(st, WH_PENDING);
    }
}

static void post(peer *p);

static void on_message(wh_request *req, const wh_result *result, void *arg) {
    peer *p = arg;
    (void)req;
    if (result->status != WH_OK) {
        bool victim = p == the.victim && the.t->kills && the.struck;
        CHECK_STATUS(result->status, victim ? WH_EPEER : WH_ECLOSED);
        if (!victim)
            CHECK_INT(p->got, the.t->per_sender);
        p->over = true;
        note_end(p);
        return;
    }
    CHECK_INT(result->size, the.t->size);
    take_message(&p->buf, p->number, p->got++);
    p->after += the.struck;
    post(p);
}

static void post(peer *p) {
    for (;;) {
        wh_result result;
        wh_status st = wh_tag_recv(
            p->ep, p->buf.data, p->buf.count, 3, WH_TAG_MASK_ALL,
            WH_OP_OPTS(.done = on_message, .arg = p, .result = &result, .type = p->buf.type), NULL);
        if (st == WH_PENDING)
            return;
        if (st != WH_OK) {
            result = (wh_result){.status = st};
            on_message(NULL, &result, p);
            return;
        }
        CHECK_INT(result.size, the.t->size);
        take_message(&p->buf, p->number, p->got++);
        p->after += the.struck;
    }
}

static void on_name(wh_request *req, const wh_result *result, void *arg) {
    peer *p = arg;
    (void)req;
    CHECK_STATUS(result->status, WH_OK);
    p->number = (int)p->name;
    the.named++;
    if (p->number == the.t->victim)
        the.victim = p;
}

static void ask_name(peer *p) {
    wh_result result;
    CHECK((p->large = malloc(100000)));
    p->buf = proc_memory_new(the.t->size, the.t->receiver_memory);
    wh_status st = wh_tag_recv(p->ep, &p->name, 8, 1, WH_TAG_MASK_ALL,
                               WH_OP_OPTS(.done = on_name, .arg = p, .result = &result), NULL);
    if (st == WH_OK)
        on_name(NULL, &result, p);
    else
        CHECK_STATUS(st, WH_PENDING);
}

static void strike(const trial *t, common *shared) {
    pid_t pid = shared->pids[t->victim];
    the.struck = true;
    the.strike_us = proc_now_us();
    CHECK(kill(pid, t->kills ? SIGKILL : SIGSTOP) == 0);
    atomic_store(&shared->struck, true);
}

// survivors_deliver says whether each of the others has delivered something since the fault.
static bool survivors_deliver(void) {
    for (int i = 0; i < the.count; i++)
        if (&the.peers[i] != the.victim && !the.peers[i].after)
            return false;
    return true;
}

static bool all_over(void) {
    for (int i = 0; i < the.count; i++) {
        if (!ended(&the.peers[i]))
            return false;
    }
    return the.count == the.t->senders;
}

static void check_ends(const trial *t) {
    CHECK(the.struck && survivors_deliver());
    for (int i = 0; i < the.count; i++) {
        peer *p = &the.peers[i];
        bool killed = p == the.victim && t->kills;
        for (int op = 0; op < ENTRY_OPS; op++) {
            CHECK_INT(atomic_load(&p->ended[op]), 1);
            // A survivor's orderly close drops what it has not taken.
            bool ok = killed ? p->how[op] == WH_EPEER
                             : p->how[op] == WH_ECLOSED || ((op & 1) && p->how[op] == WH_OK);
            if (!ok)
                proc_fail(__FILE__, __LINE__, "operation %d of sender %d%s ended with %s", op,
                          p->number, killed ? " (killed)" : "", wh_status_name(p->how[op]));
        }
        if (!killed)
            CHECK_INT(p->got, t->per_sender);
        wh_endpoint_abort(p->ep);
        proc_memory_free(&p->buf);
        free(p->large);
    }
}

// run_receiver returns the microseconds from the kill to the last end of the victim's operations.
static uint64_t run_receiver(const trial *t, common *shared) {
    proc_worker w;
    wh_listener *listener = NULL;
    the = (receiver){.t = t};
    proc_open(&w, t->lane, t->mode, NULL);
    CHECK_STATUS(wh_listener_open(w.worker, "127.0.0.1:0", NULL, on_accept, NULL, &listener),
                 WH_OK);
    atomic_store(&shared->port, wh_listener_port(listener));
    uint64_t start_ms = proc_now_ms();
    int asked = 0;
    while (the.named < t->senders) {
        while (asked < the.count)
            ask_name(&the.peers[asked++]);
        (void)!wh_worker_wait(w.worker, 100);
        CHECK(proc_now_ms() - start_ms < HANG_MS);
    }
    for (int i = 0; i < the.count; i++) {
        hang_on(&the.peers[i]);
        post(&the.peers[i]);
        static const uint64_t go = 1;
        CHECK_STATUS(wh_tag_send_wait(the.peers[i].ep, &go, 8, 2, HANG_MS), WH_OK);
    }
    while (!all_over()) {
        (void)!wh_worker_wait(w.worker, 10);
        uint64_t now_ms = proc_now_ms();
        if (!the.struck && the.victim->got >= t->strike_at)
            strike(t, shared);
        bool wait_over = the.struck && proc_now_us() - the.strike_us > t->stop_ms * 1000ull;
        if (wait_over && !t->kills && !the.continued && survivors_deliver()) {
            CHECK(kill(shared->pids[t->victim], SIGCONT) == 0);
            the.continued = true;
        }
        bool late = the.struck && now_ms > the.strike_us / 1000 + LATE_MS;
        if (late && t->kills && !ended(the.victim))
            proc_fail(__FILE__, __LINE__,
                      "operations with the dead sender %d have not ended after %d ms", t->victim,
                      LATE_MS);
        if (now_ms - start_ms > HANG_MS)
            proc_fail(__FILE__, __LINE__, "not over within %d s", HANG_MS / 1000);
    }
    check_ends(t);
    wh_listener_close(listener);
    proc_close(&w);
    return t->kills ? the.ended_us - the.strike_us : 0;
}

// ---- a trial

typedef struct outcome {
    _Atomic uint64_t us;
} outcome;

static pid_t start(const trial *t, int number, common *shared, outcome *out) {
    fflush(NULL);
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    proc_context(
        "trial %llu over %s: %s, %zu bytes, sent %s, received %s, %s sender %d of %d after %u messages, %s",
        (unsigned long long)t->seed, t->lane, t->mode, t->size, memory_words[t->sender_memory],
        memory_words[t->receiver_memory], t->kills ? "kill" : "stop", t->victim, t->senders,
        t->strike_at, number < 0 ? "receiver" : "sender");
    proc_alarm(2 * HANG_MS / 1000);
    // Where two UCX are chosen, senders of both meet, and in turns a receiver of either.
    proc_role(number < 0 ? (int)(t->seed / 12 % 2) : number % 2);
    if (number < 0)
        atomic_store(&out->us, run_receiver(t, shared));
    else
        run_sender(t, number, shared);
    exit(0);
}

static bool run_trial(const trial *t, outcome *out) {
    common *shared = proc_map(sizeof(*shared));
    for (int i = 0; i < t->senders; i++)
        shared->pids[i] = start(t, i, shared, out);
    pid_t receiver_pid = start(t, -1, shared, out);
    bool ok = true;
    for (int left = t->senders + 1; left > 0; left--) {
        int status;
        pid_t pid = wait(&status);
        bool dies = t->kills && pid == shared->pids[t->victim] && WIFSIGNALED(status) &&
                    WTERMSIG(status) == SIGKILL;
        if (status == 0 || dies)
            continue;
        if (ok) {
            for (int i = 0; i < t->senders; i++)
                kill(shared->pids[i], SIGKILL);
            kill(receiver_pid, SIGKILL);
        }
        ok = false;
    }
    return ok;
}

static int by_size(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static bool run_lane(const char *lane, unsigned trials, uint64_t seed, int senders) {
    outcome *out = proc_map(sizeof(*out));
    uint64_t *times = calloc(trials, sizeof(*times));
    unsigned kills = 0, failed = 0;
    CHECK(times);
    for (unsigned i = 0; i < trials; i++) {
        trial t = make_trial(seed + i, lane, senders);
        bool ok = run_trial(&t, out);
        if (!ok)
            printf("FAILED  %s trial %llu; WHERRY_SEED=%llu repeats it\n", lane,
                   (unsigned long long)t.seed, (unsigned long long)t.seed);
        failed += !ok;
        if (ok && t.kills)
            times[kills++] = atomic_load(&out->us);
        fflush(stdout);
    }
    qsort(times, kills, sizeof(*times), by_size);
    printf("%s: %u trials, %u failed", lane, trials, failed);
    if (kills)
        printf("; from the kill to the last end: median %.1f ms, max %.1f ms of %u",
               (double)times[kills / 2] / 1000, (double)times[kills - 1] / 1000, kills);
    printf("\n");
    free(times);
    return failed == 0;
}

int main(int argc, char **argv) {
    unsigned trials = 200;
    const char *only = "";
    int senders = 8;
    bool given;
    uint64_t seed = proc_seed(1, &given);
    if (given)
        trials = 1;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--trials"))
            trials = given ? 1 : (unsigned)atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--seed"))
            seed = given ? seed : strtoull(argv[i + 1], NULL, 0);
        else if (!strcmp(argv[i], "--lane"))
            only = argv[i + 1];
        else if (!strcmp(argv[i], "--senders"))
            senders = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--ucx"))
            ucx_choose(argv[i + 1]);
    }
    CHECK(senders >= 1 && senders <= SENDERS_MAX);
    bool ok = true;
    static const char *const lanes[] = {"shm", "stream", "ucx"};
    // UCX's shared memory does not survive what is done here, see docs/design/ucx.md; its TCP has to.
    (void)setenv("UCX_TLS", "tcp", 0);
    // A UCX that is built with assertions aborts in some trials: only when asked for.
    int count = only[0] ? 3 : 2;
    for (int i = 0; i < count; i++)
        if (strstr(lanes[i], only) && proc_has_lane(lanes[i]))
            ok = run_lane(lanes[i], trials, seed, senders) && ok;
    return ok ? 0 : 1;
}
