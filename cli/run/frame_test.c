// SPDX-License-Identifier: BSD-3-Clause
//
// Tests of the frames between launcher and agents, of the jobs in them, and of what is no frame.
#include "bench/expect.h"
#include "cli/run/frame.h"
#include "cli/run/job.h"

#include <string.h>

static int read_text(const char *text, size_t size, frame *read) {
    return frame_read((const uint8_t *)text, size, read);
}
#define READ(text, read) read_text(text, sizeof(text) - 1, read)

static void test_frames(void) {
    buffer to = {NULL, 0, 0, 0};
    frame got;
    frame_write(&to, FRAME_OUT, 70000, "hello", 5);
    frame_write_number(&to, FRAME_EXITED, 3, 0x80000001u);
    frame_write(&to, FRAME_GONE, 0, NULL, 0);
    // Of each prefix: more is needed, and nothing is read.
    for (size_t i = 0; i < FRAME_HEAD_SIZE + 5; i++)
        EXPECT(frame_read(buffer_bytes(&to), i, &got) == 0);
    EXPECT(frame_read(buffer_bytes(&to), buffer_size(&to), &got) == FRAME_HEAD_SIZE + 5);
    EXPECT(got.type == FRAME_OUT && got.rank == 70000 && got.size == 5);
    EXPECT(memcmp(got.bytes, "hello", 5) == 0);
    buffer_drop(&to, FRAME_HEAD_SIZE + 5);
    EXPECT(frame_read(buffer_bytes(&to), buffer_size(&to), &got) == FRAME_HEAD_SIZE + 4);
    EXPECT(got.type == FRAME_EXITED && frame_number(&got) == 0x80000001u);
    buffer_drop(&to, FRAME_HEAD_SIZE + 4);
    EXPECT(frame_read(buffer_bytes(&to), buffer_size(&to), &got) == FRAME_HEAD_SIZE);
    buffer_free(&to);
}

static void test_no_frames(void) {
    frame got;
    EXPECT(READ("L", &got) == -1 && READ("wx", &got) == -1);
    EXPECT(READ("Last login: today", &got) == -1);
    EXPECT(READ("wr\x63", &got) == -1);                       // no type
    EXPECT(READ("wr\x00\x01", &got) == -1);                   // and a byte that is 0
    EXPECT(READ("wr\x08\0\0\0\0\0\3\0\0\0abc", &got) == -1);  // a number of three bytes
    EXPECT(READ("wr\x06\0\0\0\0\0\1\0\1\0", &got) == -1);     // too long, before it comes
    EXPECT(READ("wr\x06\0\0\0\0\0\xff\xff\xff\xff", &got) == -1);
    EXPECT(READ("wr\x00\0\0\0\0\0\x0c\0\0\0wherry run 9", &got) == -1);  // of another version
    EXPECT(READ("wr\x00\0\0\0\0\0\x0c\0\0\0wherry run 1", &got) == 24);
}

static void test_job(void) {
    char folder[] = "/a b", one[] = "A=1", two[] = "B=", program[] = "prog", none[] = "";
    char *env[] = {one, two, NULL}, *argv[] = {program, none, one, NULL};
    run_job job = {.size = 9,
                   .first = 4,
                   .count = 5,
                   .bind = RUN_BIND_NUMA,
                   .folder = folder,
                   .env = env,
                   .argv = argv};
    run_job read;
    buffer to = {NULL, 0, 0, 0};
    job_write(&to, &job);
    EXPECT(job_read(buffer_bytes(&to), buffer_size(&to), &read));
    EXPECT(read.size == 9 && read.first == 4 && read.count == 5 && read.bind == RUN_BIND_NUMA);
    EXPECT(strcmp(read.folder, folder) == 0);
    EXPECT(strcmp(read.env[0], one) == 0 && strcmp(read.env[1], two) == 0 && !read.env[2]);
    EXPECT(strcmp(read.argv[0], program) == 0 && !*read.argv[1] && !read.argv[3]);
    job_free(&read);
    // Without its last byte it is none.
    EXPECT(!job_read(buffer_bytes(&to), buffer_size(&to) - 1, &read));
    buffer_free(&to);
}

static void test_no_jobs(void) {
    static const char *const texts[] = {
        "",                          // nothing
        "2|0|2|0|0|/|",              // no program
        "2|0|2|0|1|/|A=1|",          // nor after the environment
        "2|0|2|0|1|/|A|prog|",       // a variable without a value
        "2|1|2|0|0|/|prog|",         // ranks beyond the job
        "2|0|0|0|0|/|prog|",         // no rank
        "0|0|1|0|0|/|prog|",         // no job
        "2|0|2|4|0|/|prog|",         // bound to what there is not
        "2|-1|2|0|0|/|prog|",        // no number
        "2|0|2|0|99999999|/|prog|",  // more than there are
        "99999999|0|2|0|0|/|prog|",
        "2|0|2|0|0|",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        uint8_t bytes[64];
        run_job read;
        size_t size = strlen(texts[i]);
        for (size_t j = 0; j < size; j++)
            bytes[j] = texts[i][j] == '|' ? 0 : (uint8_t)texts[i][j];
        bool good = job_read(bytes, size, &read);
        if (good)
            job_free(&read);
        EXPECT(!good);
    }
}

int main(void) {
    test_frames();
    test_no_frames();
    test_job();
    test_no_jobs();
    printf("%s\n", failures ? "failed" : "passed");
    return failures != 0;
}
