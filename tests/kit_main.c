// SPDX-License-Identifier: BSD-3-Clause
//
// Runs the cases of the conformance suite over the configurations that the arguments select.
//
//     conformance [--lane L] [--mode M] [--place P] [--ucx DIR,DIR] [--memory sim|cuda]
//                 [--soak] [--list] [--but PART] [part of a case's name]
//
// --ucx names the UCX of either role; different ones meet between processes only.
// Each configuration runs in processes of its own, so that what goes wrong in one cannot reach the next, and the
// parent stays without threads.  WHERRY_SEED varies which of the equivalent calls a case uses.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kit.h"
#include "kit_baton.h"
#include "kit_loop.h"
#include "ucx_choice.h"

// The last resort, when a call does not come back at all.  Long, because on a machine with much else to do 65536 messages,
// each of which waits for a peer that sleeps, take minutes.
enum { CASE_SECONDS = 400 * KIT_SLOWER, SOAK_CASE_SECONDS = 1200 };

enum { SOAK_GIB = 10, SKIPPED = 77 };  // memory that the cases of a soak need free

wh_mem_kind kit_device = WH_MEM_SIM;

static kit_case *cases, **cases_end = &cases;
static struct {
    const char *part, *but;
    bool soak;
} chosen = {.part = ""};

void kit_add(kit_case *c) {
    *cases_end = c;
    cases_end = &c->next;
}

static bool selected(const kit_case *c, const kit_config *config) {
    bool soak = c->flags & KIT_SOAK;
    if (!strstr(c->name, chosen.part) || soak != chosen.soak)
        return false;
    if (chosen.but && strstr(c->name, chosen.but))
        return false;
    if ((c->flags & KIT_CUDA) && kit_device != WH_MEM_CUDA)
        return false;
    if ((c->flags & KIT_TWO) && config->place == KIT_ONE)
        return false;
    if ((c->flags & KIT_LISTENS) && config->lane == KIT_LOOP)
        return false;
    if ((c->flags & KIT_FORKS) && config->place != KIT_PROCESSES)
        return false;
    return !((c->flags & KIT_SYNCED) && config->mode == KIT_THREAD);
}

// ---- the baton

static void wait_turn(kit_side *me) {
    kit_baton *baton = me->baton;
    while (baton->turn != me->role)
        pthread_cond_wait(&baton->turned, &baton->lock);
    pthread_mutex_unlock(&baton->lock);
    if (me->worker && wh_worker_adopt(me->worker) != WH_OK)
        kit_fail(me, __FILE__, __LINE__, "the worker cannot be adopted");
}

void kit_baton_take(kit_side *me) {
    pthread_mutex_lock(&me->baton->lock);
    wait_turn(me);
}

void kit_baton_pass(kit_side *me) {
    kit_baton *baton = me->baton;
    pthread_mutex_lock(&baton->lock);
    if (!baton->finished[!me->role])
        baton->turn = !me->role;
    pthread_cond_broadcast(&baton->turned);
    wait_turn(me);
}

void kit_baton_finish(kit_side *me) {
    kit_baton *baton = me->baton;
    pthread_mutex_lock(&baton->lock);
    baton->finished[me->role] = true;
    baton->turn = !me->role;
    pthread_cond_broadcast(&baton->turned);
    pthread_mutex_unlock(&baton->lock);
}

// ---- a role

static void on_accept(wh_endpoint *ep, void *arg) {
    kit_side *me = arg;
    unsigned n = atomic_load(&me->accepted_count);
    if (n == KIT_EPS_MAX)
        kit_fail(me, __FILE__, __LINE__, "too many endpoints");
    me->accepted[n] = ep;
    atomic_store(&me->accepted_count, n + 1);
}

static void make_worker(kit_side *me, void *accept_arg) {
    static const wh_progress_mode modes[] = {WH_PROGRESS_WAIT, WH_PROGRESS_SPIN,
                                             WH_PROGRESS_ADAPTIVE, WH_PROGRESS_ADAPTIVE};
    const kit_config *config = me->config;
    const char *options[8] = {kit_lane_options[config->lane]};
    if (config->mode == KIT_WAIT) {
        // Tight limits, so that their edges are met all the time.
        options[1] = "credit=64K";
        options[2] = "announce_max=512";
        options[3] = "ring_size=32K";
        options[4] = "ring_max=32K";
        options[5] = "stream_chunk=8K";
    }
    if (config->lane == KIT_UCX || getenv("WHERRY_BULK_LANE"))
        options[config->mode == KIT_WAIT ? 6 : 1] = ucx_option(me->role);
    REQUIRE_STATUS(wh_context_create(options, &me->ctx), WH_OK);
    size_t size;
    const void *data = kit_data(config->place == KIT_ONE ? 1 : me->role, &size);
    REQUIRE_STATUS(wh_worker_create(me->ctx,
                                    WH_WORKER_OPTS(.mode = modes[config->mode],
                                                   .progress_thread = config->mode == KIT_THREAD,
                                                   .accept = on_accept, .accept_arg = accept_arg,
                                                   .accept_data = data, .accept_data_size = size),
                                    &me->worker),
                   WH_OK);
}

static void publish(kit_side *me) {
    if (me->config->lane == KIT_LOOP)
        return;
    REQUIRE_STATUS(
        wh_worker_address(me->worker, me->shared->blob[me->role], &me->shared->blob_size[me->role]),
        WH_OK);
    if (me->role != 1)
        return;
    size_t size;
    const void *data = kit_data(1, &size);
    REQUIRE_STATUS(wh_listener_open(me->worker, "127.0.0.1:0",
                                    WH_LISTENER_OPTS(.data = data, .data_size = size), on_accept,
                                    me, &me->listener),
                   WH_OK);
    atomic_store(&me->shared->port, wh_listener_port(me->listener));
}

static void finish_case(kit_side *me) {
    SYNC();
    if (me->ep)
        kit_close(me, me->ep);
    me->ep = NULL;
    SYNC();
    wh_counters counters = {.size = sizeof(counters)};
    UNTIL_POLLED(wh_worker_counters(me->worker, &counters) == WH_OK && counters.pending == 0 &&
                 counters.endpoints == me->anchors);
    SYNC();
}

static void run_case(kit_side *me, const kit_case *c) {
    uint64_t start = kit_now_ms();
    me->case_name = c->name;
    alarm(chosen.soak ? SOAK_CASE_SECONDS : CASE_SECONDS);
    atomic_store(&me->accepted_count, 0);
    me->taken = 0;
    SYNC();
    me->ep = kit_pair(me);
    SYNC();
    c->fn(me);
    finish_case(me);
    if (me->role == 0 && getenv("KIT_VERBOSE"))
        fprintf(stderr, "  %s %s %s: %s %llu ms\n", kit_lane_names[me->config->lane],
                kit_mode_names[me->config->mode], kit_place_names[me->config->place], c->name,
                (unsigned long long)(kit_now_ms() - start));
}

static kit_side *alarmed;  // the role of this process that SIGALRM prints

static void on_alarm(int signal) {
    (void)signal;
    // Not allowed in a handler, and all that is left: the process ends here in any case.
    kit_fail(alarmed, __FILE__, __LINE__, "a call has not come back within %d s",
             chosen.soak ? SOAK_CASE_SECONDS : CASE_SECONDS);
}

static void run_role(kit_side *me) {
    if (me->baton)
        kit_baton_take(me);
    me->case_name = "(setup)";
    alarm(CASE_SECONDS);
    SYNC();
    publish(me);
    SYNC();
    wh_endpoint *anchor = NULL;
    if (me->config->lane == KIT_LOOP) {
        // Its links are made by hand: this endpoint keeps them from ending with a case's last one.
        anchor = kit_pair(me);
        me->anchors = 2;
    }
    SYNC();
    for (const kit_case *c = cases; c; c = c->next)
        if (selected(c, me->config))
            run_case(me, c);
    me->case_name = "(end)";
    wh_listener_close(me->listener);
    if (anchor)
        kit_close(me, anchor);
    SYNC();
    if (me->baton)
        kit_baton_finish(me);
}

static void *role_thread(void *arg) {
    kit_side *me = arg;
    if (me->config->place == KIT_THREADS)
        make_worker(me, me);
    run_role(me);
    if (me->config->place == KIT_THREADS) {
        wh_worker_destroy(me->worker);
        wh_context_destroy(me->ctx);
    }
    return NULL;
}

static void start_side(kit_side *me, int role, const kit_config *config, kit_shared *shared) {
    const char *seed = getenv("WHERRY_SEED");
    *me = (kit_side){.role = role, .config = config, .shared = shared};
    me->rng = (seed ? strtoull(seed, NULL, 10) : 1) * 2 + (uint64_t)role;
}

// run_threads runs both roles in this process.
static void run_threads(const kit_config *config, kit_shared *shared) {
    static kit_side sides[2];
    static kit_baton baton = {.lock = PTHREAD_MUTEX_INITIALIZER,
                              .turned = PTHREAD_COND_INITIALIZER};
    bool one = config->place == KIT_ONE;
    for (int role = 0; role < 2; role++)
        start_side(&sides[role], role, config, shared);
    sides[0].other = &sides[1];
    sides[1].other = &sides[0];
    alarmed = &sides[0];
    if (one) {
        make_worker(&sides[0], &sides[1]);  // what is accepted is role 1's
        sides[1].worker = sides[0].worker;
        for (int role = 0; role < 2 && config->mode != KIT_THREAD; role++)
            sides[role].baton = &baton;
    }
    pthread_t threads[2];
    for (int role = 0; role < 2; role++)
        if (pthread_create(&threads[role], NULL, role_thread, &sides[role]) != 0)
            abort();
    for (int role = 0; role < 2; role++)
        pthread_join(threads[role], NULL);
    if (!one)
        return;
    kit_side *me = &sides[0];
    if (config->mode != KIT_THREAD)
        REQUIRE_STATUS(wh_worker_adopt(me->worker), WH_OK);
    wh_worker_destroy(me->worker);
    wh_context_destroy(me->ctx);
    kit_loop_free(me->loop);
}

static void run_process(int role, const kit_config *config, kit_shared *shared) {
    static kit_side side;
    kit_side *me = &side;
    start_side(me, role, config, shared);
    alarmed = me;
    make_worker(me, me);
    run_role(me);
    wh_worker_destroy(me->worker);
    wh_context_destroy(me->ctx);
}

// ---- a configuration

static pid_t start_process(int role, const kit_config *config, kit_shared *shared) {
    fflush(NULL);
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    signal(SIGALRM, on_alarm);
    if (role < 0)
        run_threads(config, shared);
    else
        run_process(role, config, shared);
    exit(0);  // not _exit: the leak checker wants to look
}

static bool run_config(const kit_config *config) {
    kit_shared *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        abort();
    uint64_t start = kit_now_ms();
    pid_t pids[2] = {-1, -1};
    int count = config->place == KIT_PROCESSES ? 2 : 1;
    for (int i = 0; i < count; i++)
        pids[i] = start_process(count == 2 ? i : -1, config, shared);
    bool ok = true;
    for (int left = count; left > 0; left--) {
        int status;
        pid_t pid = wait(&status);
        if (status == 0)
            continue;
        if (ok)
            fprintf(stderr, "role process ended with %s %d\n",
                    WIFSIGNALED(status) ? "signal" : "exit status",
                    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        ok = false;
        for (int i = 0; i < count; i++)
            if (pids[i] > 0 && pids[i] != pid)
                kill(pids[i], SIGKILL);
    }
    munmap(shared, sizeof(*shared));
    printf("%-7s %s %s %s, %.1f s\n", ok ? "ok" : "FAILED", kit_lane_names[config->lane],
           kit_mode_names[config->mode], kit_place_names[config->place],
           (double)(kit_now_ms() - start) / 1000);
    fflush(stdout);
    return ok;
}

static bool exists(const kit_config *config) {
    bool within = config->lane == KIT_LOOP || config->lane == KIT_SELF;
    if (config->lane == KIT_UCX && ucx_mixed() && config->place != KIT_PROCESSES)
        return false;
    return within == (config->place == KIT_ONE);
}

static int index_of(const char *word, const char *const *names, int count) {
    for (int i = 0; i < count; i++)
        if (strcmp(word, names[i]) == 0)
            return i;
    fprintf(stderr, "no such choice: %s\n", word);
    exit(2);
}

static int list(void) {
    for (const kit_case *c = cases; c; c = c->next)
        printf("%s%s\n", c->name, c->flags & KIT_SOAK ? " (soak)" : "");
    return 0;
}

static bool have_memory(size_t gib) {
    unsigned long kib = 0;
    char line[128];
    FILE *file = fopen("/proc/meminfo", "r");
    while (file && fgets(line, sizeof(line), file) &&
           sscanf(line, "MemAvailable: %lu", &kib) != 1) {
    }
    if (file)
        fclose(file);
    return kib >> 20 >= gib;
}

static void choose_memory(const char *name) {
    if (wh_mem_kind_parse(name, &kit_device) == WH_OK && kit_device > WH_MEM_HOST)
        return;
    fprintf(stderr, "no kind of device memory: %s\n", name);
    exit(2);
}

int kit_main(int argc, char **argv) {
    int lane = -1, mode = -1, place = -1;
    for (int i = 1; i < argc; i++) {
        bool more = i + 1 < argc;
        if (!strcmp(argv[i], "--lane") && more)
            lane = index_of(argv[++i], kit_lane_names, KIT_LANES);
        else if (!strcmp(argv[i], "--mode") && more)
            mode = index_of(argv[++i], kit_mode_names, KIT_MODES);
        else if (!strcmp(argv[i], "--place") && more)
            place = index_of(argv[++i], kit_place_names, KIT_PLACES);
        else if (!strcmp(argv[i], "--ucx") && more)
            ucx_choose(argv[++i]);
        else if (!strcmp(argv[i], "--memory") && more)
            choose_memory(argv[++i]);
        else if (!strcmp(argv[i], "--but") && more)
            chosen.but = argv[++i];
        else if (!strcmp(argv[i], "--soak"))
            chosen.soak = true;
        else if (!strcmp(argv[i], "--list"))
            return list();
        else
            chosen.part = argv[i];
    }
    if (chosen.soak)
        kit_hang_ms = SOAK_CASE_SECONDS / 2 * 1000;
    if (chosen.soak && !have_memory(SOAK_GIB)) {
        printf("skipped: less than %d GiB of memory are free\n", SOAK_GIB);
        return SKIPPED;
    }
    bool ucx = (lane < 0 || lane == KIT_UCX) && ucx_usable();
    if (lane == KIT_UCX && !ucx)
        return SKIPPED;
    int passed = 0, failed = 0;
    for (int l = 0; l < KIT_LANES; l++)
        for (int p = 0; p < KIT_PLACES; p++)
            for (int m = 0; m < KIT_MODES; m++) {
                kit_config config = {(kit_lane)l, (kit_mode)m, (kit_place)p};
                if ((lane >= 0 && l != lane) || (mode >= 0 && m != mode) ||
                    (place >= 0 && p != place) || !exists(&config) || (l == KIT_UCX && !ucx))
                    continue;
                bool ok = run_config(&config);
                passed += ok;
                failed += !ok;
            }
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
