// SPDX-License-Identifier: BSD-3-Clause
//
// Checkpoints: what is written is made again, on other numbers of PEs; what is not whole is an error that names the file.
#include <dirent.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <wherry/checkpoint.h>
#include <wherry/log.h>
#include <wherry/section.h>

#include "base/rng.h"
#include "rt/chare/checkpoint.h"
#include "rt/pe/pe_kit.h"

enum { VALUES = 30, MOST = 200 };

typedef struct value {
    int64_t number;  // it is packed with as many bytes behind it
} value;

static struct {
    int status, statuses;  // of checkpoints: the last one, how many
    int64_t numbers[MOST];
    int64_t sum;
    int told, sums, errors;
} seen;

static char folder[200];

static void value_construct(wh_chare *self, const wh_call *call) {
    (void)call;
    ((value *)self->state)->number = 1000 + self->proxy.index[0];
}

static size_t value_pack(wh_chare *self, void *to) {
    const value *v = self->state;
    if (to) {
        memcpy(to, &v->number, sizeof(v->number));
        memset((char *)to + sizeof(v->number), (char)v->number, (size_t)v->number);
    }
    return sizeof(v->number) + (size_t)v->number;
}

static wh_status value_unpack(wh_chare *self, const void *data, size_t size) {
    int64_t number;
    CHECK((uintptr_t)data % 16 == 0 && size >= sizeof(number));
    memcpy(&number, data, sizeof(number));
    if (number == 4711)
        return WH_ELIMIT;
    CHECK_EQ_INT(size, sizeof(number) + (size_t)number);
    ((value *)self->state)->number = number;
    for (int64_t i = 0; i < number; i++)
        CHECK(((const char *)data)[(int64_t)sizeof(number) + i] == (char)number);
    return WH_OK;
}

#define VALUE_ENTRIES(ENTRY)                                                                       \
    ENTRY(value, set_to, 0)                                                                        \
    ENTRY(value, tell, 0)                                                                          \
    ENTRY(value, go, 0)                                                                            \
    ENTRY(value, add_up, 0)                                                                        \
    ENTRY(value, asked, WH_ENTRY_WHEN)                                                             \
    ENTRY(value, ask, 0)                                                                           \
    ENTRY(value, sync, 0)
WH_CLASS(value, VALUE_ENTRIES, .state = sizeof(value), .construct = value_construct,
         .pack = value_pack, .unpack = value_unpack);

static void value_set_to(wh_chare *self, const wh_call *call) {
    ((value *)self->state)->number = call->ref;
}

static void value_tell(wh_chare *self, const wh_call *call) {
    (void)call;
    CHECK(self->proxy.index[0] >= 0 && self->proxy.index[0] < MOST);
    seen.numbers[self->proxy.index[0]] = ((value *)self->state)->number;
    seen.told++;
}

static void value_go(wh_chare *self, const wh_call *call) {
    CHECK_EQ_INT(wh_chare_move(self, (int)(call->ref % job.pes)), WH_OK);
}

static void value_add_up(wh_chare *self, const wh_call *call) {
    (void)call;
    wh_contribution part = {.reducer = WH_REDUCER_OP,
                            .op = WH_REDUCE_SUM,
                            .type = WH_TYPE_INT64,
                            .data = &((value *)self->state)->number,
                            .count = 1};
    wh_callback callback = {.kind = WH_CALLBACK_FUNCTION, .function = wh_function_id("sum")};
    CHECK_EQ_INT(wh_contribute(self, &part, 1, sizeof(part), &callback), WH_OK);
}

static void value_asked(wh_chare *self, const wh_call *call) {
    (void)self;
    (void)call;
}

static void value_ask(wh_chare *self, const wh_call *call) {
    CHECK_EQ_INT(wh_chare_when(self, value_asked_entry, call->ref), WH_OK);
}

static void value_sync(wh_chare *self, const wh_call *call) {
    (void)call;
    CHECK_EQ_INT(wh_chare_sync(self), WH_OK);
}

#define STONE_ENTRIES(ENTRY) ENTRY(stone, nothing, 0)
WH_CLASS(stone, STONE_ENTRIES, .state = 8);

static void stone_nothing(wh_chare *self, const wh_call *call) {
    (void)self;
    (void)call;
}

static void on_sum(wh_pe *pe, const wh_call *call, void *arg) {
    (void)pe;
    (void)arg;
    memcpy(&seen.sum, call->args, sizeof(seen.sum));
    seen.sums++;
}

static void on_done(wh_pe *pe, const wh_call *call, void *arg) {
    (void)pe;
    (void)arg;
    int32_t status;
    CHECK_EQ_INT(call->size, sizeof(status));
    memcpy(&status, call->args, sizeof(status));
    seen.status = status;
    seen.statuses++;
}

static void on_error(wh_pe *pe, const wh_proxy *proxy, const char *sentence, void *arg) {
    (void)pe;
    (void)proxy;
    (void)sentence;
    (void)arg;
    seen.errors++;
}

static void begin(int pes, int ppn) {
    memset(&seen, 0, sizeof(seen));
    kit_begin(pes, ppn);
    for (int i = 0; i < pes; i++) {
        CHECK_EQ_INT(wh_class_register(job.pe[i], &value_class), WH_OK);
        CHECK_EQ_INT(wh_class_register(job.pe[i], &stone_class), WH_OK);
        CHECK_EQ_INT(wh_function_register(job.pe[i], "sum", on_sum, NULL), WH_OK);
        CHECK_EQ_INT(wh_function_register(job.pe[i], "done", on_done, NULL), WH_OK);
        CHECK_EQ_INT(wh_chare_on_error(job.pe[i], on_error, NULL), WH_OK);
    }
}

static wh_callback done(int pe) {
    return (wh_callback){
        .kind = WH_CALLBACK_FUNCTION, .function = wh_function_id("done"), .pe = pe};
}

static void is_quiet(wh_pe *pe, void *arg) {
    (void)pe;
    *(bool *)arg = true;
}

static void settle(void) {
    bool quiet = false;
    CHECK_EQ_INT(wh_pe_on_quiescence(job.pe[0], is_quiet, &quiet), WH_OK);
    UNTIL(quiet);
}

static wh_proxy at(wh_proxy array, int number) {
    return wh_proxy_at(array, 1, &number);
}

static void call(wh_proxy to, unsigned entry, int64_t ref) {
    CHECK_EQ_INT(wh_chare_send(job.pe[0], to, entry, "", 0, WH_SEND_OPTS(.ref = ref)), WH_OK);
}

static wh_proxy array_of(int from, const char *cls, int count, uint32_t flags,
                         const char *balance) {
    wh_proxy array;
    CHECK_EQ_INT(wh_array_create(
                     job.pe[from], cls,
                     WH_ARRAY_OPTS(.dims = 1, .shape = {count}, .flags = flags, .balance = balance),
                     NULL, 0, &array),
                 WH_OK);
    return array;
}

static int save(int from) {
    wh_callback callback = done(from);
    int before = seen.statuses;
    CHECK_EQ_INT(wh_checkpoint_write(job.pe[from], folder, &callback), WH_OK);
    UNTIL(seen.statuses == before + 1);
    return seen.status;
}

// load returns the call's status, or that of the callback.
static int load(int from) {
    wh_callback callback = done(from);
    int before = seen.statuses;
    wh_status st = wh_checkpoint_read(job.pe[from], folder, &callback);
    if (st != WH_OK)
        return st;
    UNTIL(seen.statuses == before + 1);
    return seen.status;
}

static void end(void) {
    CHECK_EQ_INT(job.failures, 0);
    kit_end();
}

static void clean(void) {
    DIR *dir = opendir(folder);
    struct dirent *entry;
    char path[600];
    while (dir && (entry = readdir(dir))) {
        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] != '.')
            remove(path);
    }
    if (dir)
        closedir(dir);
    rmdir(folder);
}

static void new_folder(void) {
    snprintf(folder, sizeof(folder), "/tmp/wherry-checkpoint-test-%d", (int)getpid());
    clean();
}

// Collections of a program, and what their elements are.
typedef struct program {
    wh_proxy array, scarce, group, nodes;
} program;

static void tell(wh_proxy collection, int expected) {
    memset(seen.numbers, 0, sizeof(seen.numbers));
    seen.told = 0;
    call(collection, value_tell_entry, 0);
    settle();
    CHECK_EQ_INT(seen.told, expected);
}

static program fill(int pes) {
    program p;
    p.array = array_of(pes - 1, "value", VALUES, 0, NULL);
    p.scarce = array_of(0, "value", 0, WH_ARRAY_ON_DEMAND, NULL);
    CHECK_EQ_INT(wh_group_create(job.pe[pes / 2], "value", NULL, 0, &p.group), WH_OK);
    CHECK_EQ_INT(wh_node_group_create(job.pe[0], "value", NULL, 0, &p.nodes), WH_OK);
    for (int i = 0; i < VALUES; i++) {
        call(at(p.array, i), value_set_to_entry, 100 + i * i);
        call(at(p.array, i), value_go_entry, i * 3);
    }
    for (int i = 0; i < 9; i++)
        call(at(p.scarce, i * i), value_set_to_entry, i);
    for (int i = 0; i < pes; i++)
        call(at(p.group, i), value_set_to_entry, 7 * i);
    settle();
    CHECK_EQ_INT(wh_chare_destroy(job.pe[0], at(p.array, 4)), WH_OK);
    call(p.array, value_add_up_entry, 0);  // counts of reductions begin anew
    settle();
    CHECK_EQ_INT(seen.sums, 1);
    return p;
}

static void check(const program *p, int old, int pes, int ppn) {
    int64_t sum = 0;
    tell(p->array, VALUES - 1);
    for (int i = 0; i < VALUES; i++) {
        CHECK_EQ_INT(seen.numbers[i], i == 4 ? 0 : 100 + i * i);
        sum += seen.numbers[i];
    }
    tell(p->scarce, 9);
    for (int i = 0; i < 9; i++)
        CHECK_EQ_INT(seen.numbers[i * i], i);
    tell(p->group, pes);
    for (int i = 0; i < pes; i++)
        CHECK_EQ_INT(seen.numbers[i], 7 * (i % old));
    tell(p->nodes, pes / ppn);
    CHECK_EQ_INT(seen.numbers[0], 1000);
    for (int round = 1; round <= 2; round++) {
        int before = seen.sums;
        call(p->array, value_add_up_entry, 0);
        settle();
        CHECK(seen.sums == before + 1 && seen.sum == sum);
    }
}

static void twice(int pes, int ppn, int later, int later_ppn) {
    new_folder();
    begin(pes, ppn);
    program p = fill(pes);
    CHECK_EQ_INT(save(pes - 1), WH_OK);
    check(&p, pes, pes, ppn);  // it goes on
    end();
    begin(later, later_ppn);
    CHECK_EQ_INT(load(later / 2), WH_OK);
    check(&p, pes, later, later_ppn);
    wh_proxy other = array_of(p.array.collection % (unsigned)later, "value", 3, 0, NULL);
    CHECK(other.collection != p.array.collection);
    settle();
    tell(other, 3);
    // What has been made again can be saved again.
    call(at(p.array, 7), value_set_to_entry, 55);
    settle();
    CHECK_EQ_INT(save(0), WH_OK);
    end();
    begin(2, 1);
    CHECK_EQ_INT(load(0), WH_OK);
    tell(p.array, VALUES - 1);
    CHECK_EQ_INT(seen.numbers[7], 55);
    end();
    clean();
}

TEST(on_as_many_pes) {
    twice(4, 2, 4, 2);
}

TEST(on_more_pes) {
    twice(2, 1, 7, 1);
    twice(1, 1, 8, 4);
}

TEST(on_fewer_pes) {
    twice(6, 3, 1, 1);
    twice(8, 2, 3, 1);
}

// ---- What is not whole.

static char path_text[600];

static const char *path(const char *name) {
    snprintf(path_text, sizeof(path_text), "%s/%s", folder, name);
    return path_text;
}

static size_t read_file(const char *name, char *bytes, size_t space) {
    FILE *file = fopen(path(name), "rb");
    CHECK(file);
    size_t size = fread(bytes, 1, space, file);
    CHECK(size < space);
    fclose(file);
    return size;
}

static void write_file(const char *name, const char *bytes, size_t size) {
    FILE *file = fopen(path(name), "wb");
    CHECK(file && fwrite(bytes, 1, size, file) == size);
    fclose(file);
}

static void small_checkpoint(void) {
    new_folder();
    begin(2, 2);
    wh_proxy array = array_of(0, "value", 6, 0, NULL);
    for (int i = 0; i < 6; i++)
        call(at(array, i), value_set_to_entry, i);
    settle();
    CHECK_EQ_INT(save(0), WH_OK);
    end();
}

static int load_once(void) {
    begin(2, 1);
    int st = load(1);
    end();
    return st;
}

TEST(broken_files) {
    static char bytes[20000], broken[20000];
    const char *names[] = {"index", "1.pe-0", "1.pe-1"};
    whi_rng rng;
    whi_rng_init(&rng, 1);
    small_checkpoint();
    CHECK_EQ_INT(load_once(), WH_OK);
    for (int f = 0; f < 3; f++) {
        size_t size = read_file(names[f], bytes, sizeof(bytes));
        for (size_t cut = 0; cut < size; cut += 1 + size / 8) {
            write_file(names[f], bytes, cut);
            CHECK_EQ_INT(load_once(), WH_EPROTOCOL);
        }
        for (int i = 0; i < 20; i++) {
            memcpy(broken, bytes, size);
            broken[whi_rng_below(&rng, size)] ^= (char)(1 + whi_rng_below(&rng, 255));
            write_file(names[f], broken, size);
            CHECK_EQ_INT(load_once(), WH_EPROTOCOL);
        }
        CHECK_EQ_INT(remove(path(names[f])), 0);
        CHECK_EQ_INT(load_once(), WH_ENOTFOUND);
        write_file(names[f], bytes, size);
    }
    // A file of another PE, whole as it is.
    size_t size = read_file("1.pe-0", bytes, sizeof(bytes));
    write_file("1.pe-1", bytes, size);
    CHECK_EQ_INT(load_once(), WH_EPROTOCOL);
    clean();
}

// A job that ended in the middle of the next checkpoint leaves files that nobody reads.
TEST(the_last_whole_one_counts) {
    small_checkpoint();
    write_file("2.pe-0", "half", 4);
    write_file("2.pe-1.tmp", "half", 4);
    write_file("index.tmp", "half", 4);
    begin(3, 1);
    CHECK_EQ_INT(load(0), WH_OK);
    // One that cannot be written leaves it, too: PE 1 finds a folder under its name.
    CHECK_EQ_INT(mkdir(path("2.pe-1"), 0777), 0);
    CHECK_EQ_INT(mkdir(path("2.pe-1/in-the-way"), 0777), 0);
    CHECK_EQ_INT(save(2), WH_ESYSTEM);
    end();
    CHECK_EQ_INT(load_once(), WH_OK);
    CHECK(access(path("2.pe-0"), F_OK) != 0);
    CHECK_EQ_INT(rmdir(path("2.pe-1/in-the-way")), 0);
    CHECK_EQ_INT(rmdir(path("2.pe-1")), 0);
    begin(3, 1);
    CHECK_EQ_INT(load(0), WH_OK);
    CHECK_EQ_INT(save(1), WH_OK);
    CHECK(access(path("1.pe-0"), F_OK) != 0 && access(path("2.pe-2"), F_OK) == 0);
    end();
    CHECK_EQ_INT(load_once(), WH_OK);
    // What is no checkpoint is not written over.
    write_file("index", "a list of books", 15);
    begin(2, 1);
    CHECK_EQ_INT(save(1), WH_EPROTOCOL);
    end();
    clean();
}

// ---- What cannot be saved.

static void refused(wh_status status) {
    CHECK_EQ_INT(save(0), status);
    CHECK(access(path("index"), F_OK) != 0);
    end();
}

TEST(what_cannot_be_saved) {
    wh_proxy one;
    const int32_t members[] = {1, 2};
    wh_section section;
    new_folder();
    begin(2, 1);
    (void)array_of(0, "stone", 3, 0, NULL);
    refused(WH_ENOTSUP);
    begin(2, 1);
    CHECK_EQ_INT(wh_chare_create(job.pe[0], "value", 1, NULL, 0, &one), WH_OK);
    refused(WH_ENOTSUP);
    begin(2, 1);
    call(at(array_of(0, "value", 3, 0, NULL), 1), value_ask_entry, 3);
    refused(WH_EBUSY);
    begin(2, 1);
    call(at(array_of(0, "value", 3, 0, NULL), 1), value_asked_entry, 3);
    refused(WH_EBUSY);
    begin(2, 1);
    call(at(array_of(0, "value", 3, 0, NULL), 1), value_add_up_entry, 0);
    refused(WH_EBUSY);
    begin(2, 1);
    call(at(array_of(0, "value", 3, 0, "greedy"), 1), value_sync_entry, 0);
    refused(WH_EBUSY);
    begin(2, 1);
    (void)array_of(0, "value", 3, WH_ARRAY_INSERTING, NULL);
    refused(WH_EBUSY);
    begin(2, 1);
    wh_proxy array = array_of(0, "value", 3, 0, NULL);
    CHECK_EQ_INT(wh_section_create(job.pe[0], array, 1, members, 2, &section), WH_OK);
    refused(WH_EBUSY);
    clean();
}

TEST(what_cannot_be_read) {
    wh_callback callback = done(0);
    new_folder();
    begin(2, 1);
    (void)wh_log_take_error();
    CHECK_EQ_INT(load(0), WH_ENOTFOUND);
    CHECK_EQ_STR(wh_log_take_error(), "");  // a program asks whether there is one
    CHECK_EQ_INT(wh_checkpoint_read(job.pe[0], "", &callback), WH_EINVAL);
    CHECK_EQ_INT(wh_checkpoint_read(job.pe[0], folder, NULL), WH_EINVAL);
    CHECK_EQ_INT(wh_checkpoint_write(job.pe[0], NULL, &callback), WH_EINVAL);
    wh_proxy array = array_of(0, "value", 3, 0, NULL);
    call(at(array, 1), value_set_to_entry, 4711);  // its unpack fails
    settle();
    CHECK_EQ_INT(save(0), WH_OK);
    CHECK_EQ_INT(load(1), WH_EBUSY);  // there are collections
    end();
    CHECK_EQ_INT(load_once(), WH_ELIMIT);
    memset(&seen, 0, sizeof(seen));
    kit_begin(2, 1);  // nothing is registered but the function
    for (int i = 0; i < 2; i++)
        CHECK_EQ_INT(wh_function_register(job.pe[i], "done", on_done, NULL), WH_OK);
    CHECK_EQ_INT(load(0), WH_EINVAL);  // not as if there were none: the program would write over it
    kit_end();
    clean();
}

// Two at a time: the second is told so.
TEST(one_at_a_time) {
    new_folder();
    begin(3, 1);
    (void)fill(3);
    wh_callback callback = done(1);
    CHECK_EQ_INT(wh_checkpoint_write(job.pe[1], folder, &callback), WH_OK);
    CHECK_EQ_INT(wh_checkpoint_write(job.pe[1], folder, &callback), WH_OK);
    UNTIL(seen.statuses == 1);
    CHECK_EQ_INT(seen.status, WH_EBUSY);
    UNTIL(seen.statuses == 2);
    CHECK_EQ_INT(seen.status, WH_OK);
    end();
    clean();
}

TEST_MAIN()
