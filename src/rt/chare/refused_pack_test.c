// SPDX-License-Identifier: BSD-3-Clause
//
// What the log says of checkpoints and moves that fail: which class, which element, how many bytes; and of a checkpoint that is not
// there, or that the job does not wait for.
#include <sys/stat.h>
#include <unistd.h>

#include <wherry/checkpoint.h>

#include "rt/chare/refused_kit.h"

static char folder[100], path[200];

static const char *in_folder(const char *name) {
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static void clean(void) {
    const char *names[] = {"index", "1.pe-0", "1.pe-1", "1.pe-2", "1.pe-3"};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        remove(in_folder(names[i]));
    rmdir(folder);
}

static void new_folder(void) {
    snprintf(folder, sizeof(folder), "/tmp/wherry-refused-pack-test-%d", (int)getpid());
    clean();
}

static int told, status;

static void on_told(wh_pe *pe, const wh_call *call, void *arg) {
    (void)pe;
    (void)arg;
    int32_t value;
    CHECK_EQ_INT(call->size, sizeof(value));
    memcpy(&value, call->args, sizeof(value));
    status = value;
    told++;
}

// A class that does not unpack, and packs more than it has said.
static bool grows, refuses;

static size_t liar_pack(wh_chare *self, void *to) {
    return kit_pack(self, to) + (to && grows);
}

static wh_status liar_unpack(wh_chare *self, const void *data, size_t size) {
    return refuses ? WH_ELIMIT : kit_unpack(self, data, size);
}

#define LIAR_ENTRIES(ENTRY) ENTRY(liar, go, 0)
WH_CLASS(liar, LIAR_ENTRIES, .state = 24, .pack = liar_pack, .unpack = liar_unpack);

static void liar_go(wh_chare *self, const wh_call *call) {
    CHECK_EQ_INT(wh_chare_move(self, (int)call->ref), WH_OK);
}

// begin_with starts a job with an array of a class, or none.
static wh_proxy begin_with(const char *cls) {
    wh_proxy made = {.collection = 0};
    begin(4, 2);
    grows = refuses = false;
    told = 0;
    for (int i = 0; i < 4; i++) {
        CHECK_EQ_INT(wh_class_register(job.pe[i], &liar_class), WH_OK);
        CHECK_EQ_INT(wh_class_register(job.pe[i], &tried_class), WH_OK);
        CHECK_EQ_INT(wh_function_register(job.pe[i], "told", on_told, NULL), WH_OK);
    }
    if (cls)
        CHECK_EQ_INT(
            wh_array_create(job.pe[0], cls, WH_ARRAY_OPTS(.dims = 1, .shape = {2}), NULL, 0, &made),
            WH_OK);
    kit_settle();
    said.lines = 0;
    wh_log_set_sink(hear, NULL);
    return made;
}

static wh_callback tell_on(int pe) {
    return (wh_callback){
        .kind = WH_CALLBACK_FUNCTION, .function = wh_function_id("told"), .pe = pe};
}

static int save(void) {
    wh_callback callback = tell_on(1);
    int before = told;
    said.lines = 0;
    CHECK_EQ_INT(wh_checkpoint_write(job.pe[1], folder, &callback), WH_OK);
    UNTIL(told == before + 1);
    return status;
}

TEST(elements_that_cannot_be_saved) {
    new_folder();
    (void)begin_with("tried");
    CHECK_EQ_INT(save(), WH_ENOTSUP);
    CHECK(strstr(said.text, "E-CHARE-12 element ("));
    CHECK(
        strstr(said.text, ") of the array of class tried cannot be saved: its class has no pack"));
    finish();
    (void)begin_with("liar");
    grows = true;
    CHECK_EQ_INT(save(), WH_EINVAL);
    CHECK(strstr(said.text,
                 "E-CHARE-12 pack of class liar returns 24 bytes when it is asked for the "
                 "size, and 25 when it writes element ("));
    finish();
    clean();
}

TEST(an_element_that_packs_too_much) {
    wh_proxy liars = begin_with("liar");
    grows = true;
    CHECK_EQ_INT(wh_chare_send(job.pe[0], wh_proxy_at(liars, 1, (int32_t[1]){0}), liar_go_entry,
                               NULL, 0, WH_SEND_OPTS(.ref = 3)),
                 WH_OK);
    UNTIL(job.failures);
    CHECK(strstr(job.failure,
                 "pack of class liar returns 24 bytes when it is asked for the size, and "
                 "25 when it writes element (0) of the array of class liar"));
    wh_log_set_sink(NULL, NULL);
    kit_end();
}

TEST(an_element_that_is_not_unpacked) {
    wh_proxy liars = begin_with("liar");
    refuses = true;
    said.lines = 0;
    CHECK_EQ_INT(wh_chare_send(job.pe[0], wh_proxy_at(liars, 1, (int32_t[1]){0}), liar_go_entry,
                               NULL, 0, WH_SEND_OPTS(.ref = 3)),
                 WH_OK);
    UNTIL(job.failures);
    check_words(__LINE__,
                "E-RT-03 processing element 3: unpack of class liar returns |for the 24 bytes "
                "that pack has made of element (0) of the array of class liar");
    wh_log_set_sink(NULL, NULL);
    kit_end();
}

// ---- Where there is no checkpoint yet.

TEST(no_checkpoint_yet) {
    new_folder();
    wh_callback callback = tell_on(0);
    for (int there = 0; there < 2; there++) {
        (void)begin_with(NULL);
        if (there)
            CHECK_EQ_INT(mkdir(folder, 0777), 0);
        said.lines = 0;
        (void)wh_log_take_error();
        CHECK_EQ_INT(wh_checkpoint_read(job.pe[0], folder, &callback), WH_ENOTFOUND);
        CHECK_EQ_INT(said.lines, 0);  // at the usual level
        CHECK_EQ_STR(wh_log_take_error(), "");
        CHECK_EQ_INT(wh_log_set_level("info"), WH_OK);
        REFUSED(WH_ENOTFOUND, wh_checkpoint_read(job.pe[0], folder, &callback),
                "info I-CHARE-01 there is no checkpoint in |wherry-refused-pack-test");
        CHECK_EQ_INT(wh_log_set_level("warn"), WH_OK);
        finish();
    }
    CHECK_EQ_INT(mkdir(in_folder("index"), 0777), 0);
    (void)begin_with(NULL);
    REFUSED(WH_ESYSTEM, wh_checkpoint_read(job.pe[0], folder, &callback),
            "error E-CHARE-11 cannot read |/index");
    finish();
    CHECK_EQ_INT(rmdir(in_folder("index")), 0);
    FILE *file = fopen(in_folder("index"), "w");
    CHECK(file && fputs("a list of books", file) >= 0);
    fclose(file);
    (void)begin_with(NULL);
    REFUSED(WH_EPROTOCOL, wh_checkpoint_read(job.pe[0], folder, &callback),
            "error E-CHARE-13 |/index cannot be used: it is no checkpoint");
    finish();
    clean();
}

// What a checkpoint names, and this job has not, is no lack of a checkpoint.
TEST(a_class_that_is_not_there) {
    new_folder();
    (void)begin_with("liar");
    CHECK_EQ_INT(save(), WH_OK);
    finish();
    begin(2, 1);
    wh_callback callback = tell_on(0);
    wh_log_set_sink(hear, NULL);
    REFUSED(WH_EINVAL, wh_checkpoint_read(job.pe[0], folder, &callback),
            "E-CHARE-13|its class is not registered; there are: cell");
    finish();
    clean();
}

// ---- A job that does not wait for its checkpoint.

static void leave_before(int asker, int callback_pe, int expected) {
    new_folder();
    (void)begin_with("liar");
    wh_callback callback = tell_on(callback_pe);
    CHECK_EQ_INT(wh_checkpoint_write(job.pe[asker], folder, &callback), WH_OK);
    wh_pe_exit(job.pe[0], 0);
    for (int i = 0; i < 4; i++)
        UNTIL(wh_pe_ended(job.pe[i]));
    char who[40];
    snprintf(who, sizeof(who), "before PE %d heard", asker);
    check_words(__LINE__, "warn W-CHARE-03 wh_checkpoint_write: the job has ended|call wh_pe_exit");
    check_words(__LINE__, who);
    check_words(__LINE__, folder);
    CHECK_EQ_INT(told, expected);
    CHECK(!told || status == WH_ECANCELLED);
    finish();
    CHECK_EQ_INT(said.lines, 1);
    clean();
}

TEST(the_job_ends_first) {
    leave_before(0, 0, 1);
    leave_before(3, 3, 1);
    leave_before(3, 2, 0);  // a message, which nobody handles
}

// One that is written, and whose callback ends the job, is no cause for a warning.
static void on_written(wh_pe *pe, const wh_call *call, void *arg) {
    (void)call;
    (void)arg;
    wh_pe_exit(pe, 0);
}

TEST(the_callback_ends_the_job) {
    new_folder();
    (void)begin_with("liar");
    for (int i = 0; i < 4; i++)
        CHECK_EQ_INT(wh_function_register(job.pe[i], "written", on_written, NULL), WH_OK);
    wh_callback callback = {
        .kind = WH_CALLBACK_FUNCTION, .function = wh_function_id("written"), .pe = 0};
    CHECK_EQ_INT(wh_checkpoint_write(job.pe[3], folder, &callback), WH_OK);
    for (int i = 0; i < 4; i++)
        UNTIL(wh_pe_ended(job.pe[i]));
    finish();
    CHECK_EQ_INT(said.lines, 0);
    clean();
}

TEST_MAIN()
