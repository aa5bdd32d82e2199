// SPDX-License-Identifier: BSD-3-Clause
//
// Calls that are refused say why in one line of the log: what was called, by which names, what was wrong, what to do.
#include <wherry/checkpoint.h>
#include <wherry/section.h>

#include "rt/chare/refused_kit.h"

TEST(before_anything_is_registered) {
    kit_begin(2, 1);
    wh_log_set_sink(hear, NULL);
    wh_pe *pe = job.pe[1];
    wh_proxy proxy = {.collection = 4711};
    wh_section section;
    wh_callback none = {.kind = WH_CALLBACK_NONE};
    const char *words = "error E-CHARE-02|PE 1 has registered nothing|main function";
    REFUSED(WH_ENOTFOUND, wh_group_create(pe, "cell", NULL, 0, &proxy), words);
    REFUSED(WH_ENOTFOUND, wh_node_group_create(pe, "cell", NULL, 0, &proxy), words);
    REFUSED(WH_ENOTFOUND, wh_chare_create(pe, "cell", 0, NULL, 0, &proxy), words);
    REFUSED(WH_ENOTFOUND, wh_chare_send(pe, proxy, 0, NULL, 0, NULL), words);
    REFUSED(WH_ENOTFOUND, wh_chare_destroy(pe, proxy), words);
    REFUSED(WH_ENOTFOUND, wh_array_done(pe, proxy), words);
    REFUSED(WH_ENOTFOUND, wh_array_insert(pe, proxy, NULL, 0), words);
    REFUSED(WH_EINVAL, wh_section_create(pe, proxy, 1, &(int32_t){0}, 1, &section), words);
    REFUSED(WH_EINVAL, wh_section_destroy(pe, (wh_section){.pe = 0}), words);
    REFUSED(WH_EINVAL, wh_checkpoint_write(pe, "/tmp", &none), words);
    finish();
}

TEST(registrations) {
    start();
    wh_pe *pe = job.pe[0];
    wh_class cls = tried_class;
    REFUSED(WH_EINVAL, wh_class_register(pe, &cls), "E-CHARE-01|\"tried\"|take another name");
    REFUSED(WH_EINVAL, wh_class_register(pe, NULL), "E-CHARE-03|wh_class_register|NULL");
    cls.name = "half";
    cls.pack = kit_pack;
    REFUSED(WH_EINVAL, wh_class_register(pe, &cls),
            "E-CHARE-03|class half has pack, but no unpack");
    cls.pack = NULL;
    cls.entries = NULL;
    REFUSED(WH_EINVAL, wh_class_register(pe, &cls), "E-CHARE-03|class half has 3 entries");
    cls.entries = (const wh_entry[]){{.name = "one", .fn = tried_run}, {.name = "two"}};
    cls.entry_count = 2;
    REFUSED(WH_EINVAL, wh_class_register(pe, &cls),
            "E-CHARE-03|entry 1 (two) of class half has no function");
    cls = (wh_class){.size = sizeof(cls)};
    REFUSED(WH_EINVAL, wh_class_register(pe, &cls), "E-CHARE-03|wh_class_register|without a name");
    REFUSED(WH_EINVAL, wh_map_register(pe, "", backwards, NULL), "E-CHARE-03|wh_map_register");
    REFUSED(WH_EINVAL, wh_map_register(pe, "map", NULL, NULL), "E-RT-11|wh_map_register");
    REFUSED(WH_EINVAL, wh_function_register(pe, "f", NULL, NULL), "E-RT-11|wh_function_register");
    REFUSED(WH_EINVAL, wh_reducer_register(pe, "r", NULL, NULL), "E-RT-11|wh_reducer_register");
    REFUSED(WH_EINVAL, wh_balancer_register(pe, "greedy", NULL, NULL),
            "E-CHARE-03|\"greedy\" is a strategy of the library");
    REFUSED(WH_EINVAL, wh_balancer_register(pe, "b", NULL, NULL), "E-RT-11|wh_balancer_register");
    finish();
}

TEST(names_that_nothing_has) {
    start();
    wh_pe *pe = job.pe[1];
    wh_proxy proxy;
    const char *words = "E-CHARE-04|PE 1 knows no class \"tired\"; there are: cell, mover, tried.";
    REFUSED(WH_ENOTFOUND, wh_group_create(pe, "tired", NULL, 0, &proxy), words);
    REFUSED(WH_ENOTFOUND, wh_chare_create(pe, "tired", 0, NULL, 0, &proxy), words);
    REFUSED(WH_EINVAL, wh_group_create(pe, NULL, NULL, 0, &proxy), "E-CHARE-04|wh_group_create");
    REFUSED(WH_EINVAL, wh_node_group_create(pe, NULL, NULL, 0, &proxy),
            "E-CHARE-04|wh_node_group_create|NULL");
    REFUSED(
        WH_ENOTFOUND,
        wh_array_create(pe, "tried", WH_ARRAY_OPTS(.dims = 1, .map = "forwards"), NULL, 0, &proxy),
        "E-CHARE-04|no map \"forwards\"; there are: block, round-robin, backwards.");
    REFUSED(WH_ENOTFOUND,
            wh_array_create(pe, "tried", WH_ARRAY_OPTS(.dims = 1, .balance = "gready"), NULL, 0,
                            &proxy),
            "E-CHARE-04|no balancer \"gready\"; there are: none, greedy, refine, distributed.");
    REFUSED(WH_EINVAL, wh_chare_create(pe, "tried", 4, NULL, 0, &proxy),
            "E-RT-10|wh_chare_create: where is PE 4, and the job has PEs 0 to 3");
    REFUSED(WH_EINVAL, wh_group_create(pe, "tried", NULL, 5, &proxy),
            "E-RT-12|wh_group_create: args is NULL, but 5 bytes");
    finish();
}

TEST(arrays_that_cannot_be) {
    static const struct {
        wh_array_opts opts;
        const char *words;
    } all[] = {
        {{.dims = 0}, "dims is 0, and is to be 1 to 6"},
        {{.dims = 7}, "dims is 7"},
        {{.dims = 1, .shape = {3, 4}}, "dims is 1, and shape[1] is 4"},
        {{.dims = 2, .shape = {3, -4}}, "shape[1] is -4"},
        {{.dims = 3, .shape = {INT32_MAX, INT32_MAX, INT32_MAX}}, "shape has more elements"},
        {{.dims = 1, .flags = 3}, "both WH_ARRAY_INSERTING and WH_ARRAY_ON_DEMAND"},
        {{.dims = 1, .flags = 8}, "flags is 0x8"},
        {{.dims = 1, .reserved = 1}, "reserved 1"},
        {{.dims = 1, .resume = 2}, "resume is entry 2, but balance is not set"},
        {{.dims = 1, .balance = "none", .flags = WH_ARRAY_ON_DEMAND}, "no sync points"},
        {{.dims = 1, .balance = "none", .resume = 0xFFFF}, "resume is 65535"},
        {{.dims = 1, .balance = "none", .resume = 3},
         "resume is entry 3, and class tried has 3: 0 run, 1 run_threaded, 2 resume"},
    };
    start();
    wh_proxy proxy;
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        wh_array_opts opts = all[i].opts;
        opts.size = sizeof(opts);
        REFUSED(WH_EINVAL, wh_array_create(job.pe[0], "tried", &opts, NULL, 0, &proxy),
                "E-CHARE-05|wh_array_create|class tried");
        check_words(__LINE__, all[i].words);
    }
    REFUSED(WH_EINVAL, wh_array_create(job.pe[0], "tried", NULL, NULL, 0, &proxy),
            "E-CHARE-05|opts is NULL");
    finish();
}

TEST(calls_of_nobody) {
    start();
    wh_pe *pe = job.pe[2];
    const wh_proxy zero = {.collection = 0}, noise = {.collection = 3, .dims = 1},
                   far = {.dims = 3, .index = {9}}, flat = wh_proxy_at(array, 1, &(int32_t){1});
    const char *flat_words = "the index has 1 dimensions, and the array of class tried has 2";
    REFUSED(WH_EINVAL, wh_chare_send(pe, zero, 0, NULL, 0, NULL),
            "E-CHARE-06|wh_chare_send: the proxy is zero");
    REFUSED(WH_EINVAL, wh_chare_send(pe, noise, 0, NULL, 0, NULL),
            "E-CHARE-06|the proxy names no collection (number 3");
    REFUSED(WH_EINVAL, wh_chare_send(pe, far, 0, NULL, 0, NULL),
            "E-CHARE-06|names no single chare|begins with PE 9");
    REFUSED(WH_EINVAL, wh_chare_send(pe, flat, 0, NULL, 0, NULL), flat_words);
    REFUSED(WH_EINVAL, wh_chare_destroy(pe, flat), flat_words);
    REFUSED(WH_EINVAL, wh_chare_destroy(pe, flat), "E-CHARE-06|wh_chare_destroy");
    REFUSED(WH_EINVAL, wh_array_insert(pe, flat, NULL, 0), flat_words);
    REFUSED(WH_EINVAL, wh_array_insert(pe, array, NULL, 0),
            "E-CHARE-06|wh_array_insert: the array of class tried: give the element's index");
    REFUSED(WH_EINVAL, wh_array_insert(pe, wh_proxy_at(group, 1, &(int32_t){7}), NULL, 0),
            "element (7) of the group of class mover: only arrays");
    REFUSED(WH_EINVAL, wh_array_insert(pe, at(7, 7), NULL, 9), "E-RT-12|wh_array_insert: args");
    REFUSED(
        WH_EINVAL, wh_array_done(job.pe[0], single),
        "E-CHARE-06|wh_array_done: single chare 1 of those that PE 1 has made on PE 0, of class cell");
    REFUSED(WH_EINVAL, wh_chare_send(pe, at(1, 0), 0xFFFF, NULL, 0, NULL),
            "entry 65535 of element (1, 0) of the array of class tried");
    REFUSED(WH_EINVAL, wh_chare_send(pe, at(1, 0), tried_resume_entry, NULL, 8, NULL),
            "args is NULL for entry resume of element (1, 0) of the array of class tried");
    REFUSED(WH_EINVAL, wh_chare_send(pe, at(1, 0), 0, NULL, 0, WH_SEND_OPTS(.done = wh_wait_done)),
            "done is set, but there are no buffers");
    REFUSED(WH_ENOTSUP, wh_chare_send(pe, array, 0, NULL, 0, WH_SEND_OPTS(.priority = 1)),
            "entry run of the array of class tried, all elements|priority");
    wh_frame frame = {.size = 10};
    REFUSED(WH_EINVAL,
            wh_chare_send(pe, at(0, 0), 0, NULL, 0,
                          WH_SEND_OPTS(.buffers = &frame, .count = 1, .frame_size = sizeof(frame))),
            "buffer 0 has no data");
    REFUSED(WH_EINVAL, wh_chare_send(pe, at(0, 0), 0, NULL, 0, WH_SEND_OPTS(.count = 2)),
            "buffers is NULL, and count is 2");
    CHECK_EQ_INT(wh_chare_destroy(pe, array), WH_OK);
    kit_settle();
    REFUSED(WH_ENOTFOUND, wh_chare_send(pe, at(0, 0), 0, NULL, 0, NULL),
            "E-CHARE-06|the array of class tried has been destroyed");
    finish();
}

// What only the element's PE finds out names it, too.
TEST(sentences_of_the_other_pe) {
    start();
    send(3, at(0, 1), 17, "", 0);
    UNTIL(kit_errors.count == 1);
    CHECK(strstr(kit_errors.last,
                 "PE 3 has called entry 17 of class tried, for element (0, 1) of the "
                 "array of class tried; the class has 3 entries: 0 run, 1"));
    send(3, at(2, 1), tried_run_entry, "", 0);
    UNTIL(kit_errors.count == 2);
    CHECK(strstr(kit_errors.last,
                 "PE 3 has called entry run of element (2, 1) of the array of class "
                 "tried, which does not exist"));
    CHECK_EQ_INT(wh_chare_destroy(job.pe[2], at(2, 1)), WH_OK);
    UNTIL(kit_errors.count == 3);
    CHECK(strstr(kit_errors.last, "PE 2 has asked for the end of element (2, 1)"));
    finish();
}

TEST(futures_and_callbacks) {
    start();
    wh_pe *pe = job.pe[1];
    wh_future future;
    const void *value;
    size_t size;
    CHECK_EQ_INT(wh_future_create(job.pe[0], &future), WH_OK);
    REFUSED(WH_ENOTFOUND, wh_future_get(pe, future, &value, &size),
            "E-CHARE-08|wh_future_get: the future is of PE 0|this is PE 1");
    REFUSED(WH_ENOTFOUND, wh_future_wait(pe, future, &value, &size), "E-CHARE-08|wh_future_wait");
    REFUSED(WH_EINVAL, wh_future_wait(job.pe[0], future, &value, &size),
            "E-CHARE-07|wh_future_wait: what runs now cannot wait|WH_ENTRY_THREADED");
    wh_future_free(job.pe[0], future);
    REFUSED(WH_ENOTFOUND, wh_future_get(job.pe[0], future, &value, &size), "it was freed");
    REFUSED(WH_EINVAL, wh_future_set(pe, (wh_future){.pe = 12}, NULL, 0),
            "E-RT-10|wh_future_set: the future's PE is PE 12");
    REFUSED(WH_EINVAL, wh_future_set(pe, future, NULL, 4), "E-RT-12|wh_future_set: value");
    wh_callback callback = {.kind = WH_CALLBACK_FUNCTION, .pe = 12};
    REFUSED(WH_EINVAL, wh_callback_fire(pe, &callback, NULL, 0),
            "E-CHARE-08|wh_callback_fire: its function is of PE 12, and the job has PEs 0 to 3");
    callback = (wh_callback){.kind = WH_CALLBACK_FUTURE, .future.pe = -1};
    REFUSED(WH_EINVAL, wh_callback_fire(pe, &callback, NULL, 0), "its future is of PE -1");
    REFUSED(WH_EINVAL, wh_callback_fire(pe, &callback, NULL, 3), "the value is NULL");
    callback =
        (wh_callback){.kind = WH_CALLBACK_SEND, .proxy = wh_proxy_at(array, 3, (int32_t[3]){0})};
    REFUSED(WH_EINVAL, wh_callback_fire(pe, &callback, NULL, 0),
            "wh_callback_fire: the index has 3 dimensions, and the array of class tried has 2");
    callback.kind = (wh_callback_kind)9;
    REFUSED(WH_EINVAL, wh_callback_fire(pe, &callback, NULL, 0), "its kind is 9");
    REFUSED(WH_EINVAL, wh_readonly(job.pe[0], NULL, 9, &value), "E-RT-12|wh_readonly: data");
    REFUSED(WH_EINVAL, wh_readonly(job.pe[2], NULL, 9, &value), "E-CHARE-07|wh_readonly");
    CHECK_EQ_INT(wh_readonly(job.pe[0], "12345", 5, &value), WH_OK);
    kit_settle();
    REFUSED(WH_ETRUNCATED, wh_readonly(job.pe[2], NULL, 9, &value),
            "E-CHARE-08|call 1 gives 5 bytes on PE 0, and size is 9 on PE 2");
    finish();
}

TEST(checkpoints) {
    start();
    wh_pe *pe = job.pe[0];
    wh_callback none = {.kind = WH_CALLBACK_NONE};
    static char longest[3100];
    memset(longest, 'x', sizeof(longest) - 1);
    REFUSED(WH_EINVAL, wh_checkpoint_write(pe, "", &none),
            "E-CHARE-16|wh_checkpoint_write: the name of the folder is missing");
    REFUSED(WH_EINVAL, wh_checkpoint_write(pe, longest, &none), "is too long|3000");
    REFUSED(WH_EINVAL, wh_checkpoint_read(pe, "/tmp", NULL), "E-CHARE-16|callback is NULL");
    REFUSED(WH_EBUSY, wh_checkpoint_read(pe, "/tmp", &none),
            "E-CHARE-16|wh_checkpoint_read: /tmp is not read|made collections already");
    finish();
}

static void second(wh_pe *pe, void *arg) {
    wh_wait *wait = arg;
    if (wait->thread)
        REFUSED(WH_EBUSY, wh_pe_wait(pe, wait), "E-RT-09|another thread of PE 1 waits");
    else
        CHECK_EQ_INT(wh_pe_wait(pe, wait), WH_OK);
}

static void of_another_pe(wh_pe *pe, void *arg) {
    (void)pe;
    REFUSED(WH_EINVAL, wh_pe_wait(job.pe[2], arg),
            "E-RT-09|what runs now on PE 2 is no user-level thread of it, but of another PE");
}

TEST(pes) {
    start();
    wh_pe *pe = job.pe[1];
    wh_pe_msg *msg;
    uint64_t tag;
    char head[1000];
    REFUSED(WH_EINVAL, wh_pe_send(pe, 4, 1, NULL, 0, NULL, 0, 0),
            "E-RT-10|wh_pe_send: dest is PE 4, and the job has PEs 0 to 3");
    REFUSED(WH_EINVAL, wh_pe_send(pe, 0, 1, NULL, 0, NULL, 5, 0), "E-RT-12|wh_pe_send: data");
    REFUSED(WH_EINVAL, wh_pe_send(pe, 0, 1, head, 1000, NULL, 0, 0),
            "E-RT-12|wh_pe_send|a head of 1000 bytes");
    // Large data takes another way, and is refused alike.
    static const char large[100000];
    REFUSED(WH_EINVAL, wh_pe_send(pe, 4, 1, NULL, 0, large, sizeof(large), 0),
            "E-RT-10|wh_pe_send: dest is PE 4, and the job has PEs 0 to 3");
    REFUSED(WH_EINVAL, wh_pe_send(pe, 0, 1, head, 1000, large, sizeof(large), 0),
            "E-RT-12|wh_pe_send|a head of 1000 bytes");
    REFUSED(WH_EINVAL, wh_pe_send(pe, 0, 0xFFFE, NULL, 0, NULL, 0, 0),
            "E-RT-08|wh_pe_send: PE 1: handler 65534");
    REFUSED(WH_EINVAL, wh_pe_set_handler(pe, 0xFFFF, NULL, NULL), "E-RT-08|wh_pe_set_handler");
    REFUSED(WH_EINVAL, wh_pe_msg_new(pe, 0xFFFF, NULL, 0, 0, &msg), "E-RT-08|wh_pe_msg_new");
    CHECK_EQ_INT(wh_pe_msg_new(pe, 1, NULL, 0, 0, &msg), WH_OK);
    REFUSED(WH_EINVAL, wh_pe_msg_send(pe, -1, msg), "E-RT-10|wh_pe_msg_send: dest is PE -1");
    REFUSED(WH_EINVAL, wh_pe_next_tag(pe, 4, &tag), "E-RT-10|wh_pe_next_tag");
    REFUSED(WH_EINVAL, wh_pe_send_buffer(pe, 4, head, 1, 1, NULL, NULL),
            "E-RT-10|wh_pe_send_buffer");
    REFUSED(WH_EINVAL, wh_pe_recv_buffer(pe, 4, head, 1, 1, NULL, NULL),
            "E-RT-10|wh_pe_recv_buffer");
    REFUSED(WH_EINVAL, wh_pe_spawn(pe, NULL, NULL), "E-RT-11|wh_pe_spawn: the function is NULL");
    REFUSED(WH_EINVAL, wh_pe_call(pe, NULL, NULL), "E-RT-11|wh_pe_call");
    REFUSED(WH_EINVAL, wh_pe_after(pe, 1, NULL, NULL, NULL), "E-RT-11|wh_pe_after");
    REFUSED(WH_EINVAL, wh_pe_after(pe, UINT64_MAX, second, NULL, NULL), "E-RT-11|delay_us is 1844");
    REFUSED(WH_EINVAL, wh_pe_on_idle(pe, NULL, NULL, NULL), "E-RT-11|wh_pe_on_idle");
    REFUSED(WH_EINVAL, wh_pe_on_quiescence(pe, NULL, NULL), "E-RT-11|wh_pe_on_quiescence");
    REFUSED(WH_EINVAL, wh_pe_on_stream(pe, WH_MEM_HOST, NULL, NULL, NULL),
            "E-RT-11|wh_pe_on_stream");
    wh_wait wait = {.thread = NULL};
    CHECK_EQ_INT(wh_pe_spawn(pe, of_another_pe, &wait), WH_OK);
    CHECK_EQ_INT(wh_pe_spawn(pe, second, &wait), WH_OK);
    CHECK_EQ_INT(wh_pe_spawn(pe, second, &wait), WH_OK);
    wh_pe_resume(pe, &wait);
    kit_settle();
    finish();
}

TEST_MAIN()
