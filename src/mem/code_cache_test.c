// SPDX-License-Identifier: BSD-3-Clause
//
// The cache of compiled code: what comes back, and what does not count.
#include "mem/code_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/test.h"

static char folder[128];
static whi_code_cache cache;

static void begin(void) {
    static int turn;
    snprintf(folder, sizeof(folder), "/tmp/wherry-cache-%d-%d", getpid(), turn++);
    CHECK(mkdir(folder, 0700) == 0);
    cache = (whi_code_cache){.folder = folder, .most = 1 << 20};
}

// How many files there are, and the path of one of them.
static int files(char *path, size_t size) {
    DIR *dir = opendir(folder);
    int count = 0;
    CHECK(dir);
    for (struct dirent *entry; (entry = readdir(dir));)
        if (entry->d_name[0] != '.') {
            count++;
            if (path)
                snprintf(path, size, "%s/%s", folder, entry->d_name);
        }
    closedir(dir);
    return count;
}

static void end(void) {
    char path[512];
    chmod(folder, 0700);
    while (files(path, sizeof(path)))
        CHECK(unlink(path) == 0 || rmdir(path) == 0);
    CHECK(rmdir(folder) == 0);
}

static bool has(const char *key, const char *code) {
    void *got;
    size_t size;
    if (!whi_code_cache_get(&cache, key, &got, &size))
        return false;
    CHECK_EQ_INT(size, strlen(code));
    CHECK_MEM(got, code, size);
    whi_free(got);
    return true;
}

TEST(code_comes_back) {
    begin();
    CHECK(!has("a key", "code"));
    whi_code_cache_put(&cache, "a key", "code", 4);
    whi_code_cache_put(&cache, "another key", "other code", 10);
    CHECK(has("a key", "code") && has("another key", "other code"));
    whi_code_cache_put(&cache, "a key", "newer code", 10);
    CHECK(has("a key", "newer code"));
    CHECK_EQ_INT(files(NULL, 0), 2);
    cache.folder = NULL;
    CHECK(!has("a key", ""));
    whi_code_cache_put(&cache, "a key", "code", 4);
    end();
}

// Every byte of a file counts, and every length.
TEST(what_is_damaged_does_not_count) {
    char path[512], whole[256], damaged[256];
    begin();
    whi_code_cache_put(&cache, "a key", "code", 4);
    CHECK_EQ_INT(files(path, sizeof(path)), 1);
    int fd = open(path, O_RDWR);
    ssize_t size = read(fd, whole, sizeof(whole));
    CHECK(size > 8 && size < (ssize_t)sizeof(whole));
    for (ssize_t i = 0; i < size; i++) {
        memcpy(damaged, whole, sizeof(whole));
        damaged[i] ^= 1;
        CHECK(pwrite(fd, damaged, (size_t)size, 0) == size);
        CHECK(!has("a key", "code"));
    }
    CHECK(pwrite(fd, whole, (size_t)size, 0) == size);
    CHECK(has("a key", "code"));
    for (ssize_t length = size - 1; length >= 0; length--) {
        CHECK(ftruncate(fd, length) == 0);
        CHECK(!has("a key", "code"));
    }
    CHECK(pwrite(fd, whole, (size_t)size, 0) == size && pwrite(fd, "x", 1, size) == 1);
    CHECK(!has("a key", "code"));
    close(fd);
    // What is there is replaced, whatever it is.
    whi_code_cache_put(&cache, "a key", "code", 4);
    CHECK(has("a key", "code"));
    end();
}

// The file of another key under the name of this one: a hash that two keys share.
TEST(the_key_is_compared) {
    char first[512], second[512];
    begin();
    whi_code_cache_put(&cache, "a key", "code", 4);
    files(first, sizeof(first));
    CHECK(unlink(first) == 0);
    whi_code_cache_put(&cache, "b key", "code", 4);
    files(second, sizeof(second));
    CHECK(rename(second, first) == 0);
    CHECK(!has("a key", "code"));
    end();
}

TEST(what_others_could_have_written_does_not_count) {
    char path[512], target[512];
    begin();
    whi_code_cache_put(&cache, "a key", "code", 4);
    files(path, sizeof(path));
    CHECK(chmod(path, 0622) == 0);
    CHECK(!has("a key", "code"));
    CHECK(chmod(path, 0600) == 0);
    CHECK(has("a key", "code"));
    CHECK(chmod(folder, 0770) == 0);
    CHECK(!has("a key", "code"));
    CHECK(chmod(folder, 0700) == 0);
    // A link, in place of the file and of the folder.
    snprintf(target, sizeof(target), "%s/moved", folder);
    CHECK(rename(path, target) == 0 && symlink(target, path) == 0);
    CHECK(!has("a key", "code"));
    CHECK(unlink(path) == 0 && rename(target, path) == 0);
    CHECK(has("a key", "code"));
    snprintf(target, sizeof(target), "%s-link", folder);
    CHECK(symlink(folder, target) == 0);
    cache.folder = target;
    CHECK(!has("a key", "code"));
    CHECK(unlink(target) == 0);
    if (geteuid() == 0) {  // another owner takes root
        cache.folder = folder;
        CHECK(chown(path, 1, 1) == 0);
        CHECK(!has("a key", "code"));
        CHECK(chown(path, 0, 0) == 0 && chown(folder, 1, 1) == 0);
        CHECK(!has("a key", "code"));
        CHECK(chown(folder, 0, 0) == 0);
    }
    end();
}

TEST(a_folder_that_cannot_be_used_is_gone_without) {
    begin();
    cache.folder = "/proc/nowhere/wherry";
    whi_code_cache_put(&cache, "a key", "code", 4);
    CHECK(!has("a key", "code"));
    cache.folder = "/dev/null";
    whi_code_cache_put(&cache, "a key", "code", 4);
    CHECK(!has("a key", "code"));
    // One that is not there is made, for us alone.
    char inner[256];
    struct stat st;
    snprintf(inner, sizeof(inner), "%s/inner", folder);
    cache.folder = inner;
    whi_code_cache_put(&cache, "a key", "code", 4);
    CHECK(has("a key", "code"));
    CHECK(stat(inner, &st) == 0 && (st.st_mode & 0777) == 0700);
    char outer[128];
    memcpy(outer, folder, sizeof(outer));
    memcpy(folder, inner, sizeof(folder));
    end();
    memcpy(folder, outer, sizeof(folder));
    end();
}

TEST(the_oldest_go) {
    static char code[200000], key[16];
    char path[512];
    begin();
    memset(code, 'c', sizeof(code) - 1);
    for (int i = 0; i < 8; i++) {
        snprintf(key, sizeof(key), "key %d", i);
        whi_code_cache_put(&cache, key, code, strlen(code));
        CHECK(has(key, code));
        if (i > 1)
            CHECK(has("key 0", code));  // what is used stays
        usleep(20000);
    }
    CHECK_EQ_INT(files(path, sizeof(path)), 5);
    CHECK(!has("key 1", code) && !has("key 3", code) && has("key 6", code) && has("key 0", code));
    cache.most = 1000;
    whi_code_cache_put(&cache, "large", code, strlen(code));
    CHECK(!has("large", code));
    end();
}

// The user may have named a folder that is used for more.
TEST(files_of_others_stay) {
    static const char *const theirs[] = {"mine.cubin", "0123456789abcdef.cubin.old", "12-0.cubin",
                                         "0123456789abcdef0.cubin", "-0.cubin.draft"};
    enum { THEIRS = sizeof(theirs) / sizeof(theirs[0]) };
    char path[512], code[700];
    begin();
    memset(code, 'c', sizeof(code));
    for (int i = 0; i < THEIRS; i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, theirs[i]);
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
        CHECK(write(fd, code, sizeof(code)) == sizeof(code) && close(fd) == 0);
    }
    // What a process has left that was killed while it wrote is the cache's.
    snprintf(path, sizeof(path), "%s/12-7.cubin.draft", folder);
    CHECK(close(open(path, O_WRONLY | O_CREAT | O_EXCL, 0600)) == 0);
    cache.most = 1000;
    for (int i = 0; i < 3; i++) {
        usleep(20000);
        snprintf(path, sizeof(path), "key %d", i);
        whi_code_cache_put(&cache, path, code, sizeof(code));
    }
    for (int i = 0; i < THEIRS; i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, theirs[i]);
        CHECK(access(path, F_OK) == 0);
    }
    CHECK_EQ_INT(files(NULL, 0), THEIRS + 1);
    end();
}

// Processes that write and read one key at a time: whoever gets something gets it whole.
TEST(two_processes_at_once) {
    static char codes[2][50000];
    begin();
    memset(codes[0], 'a', sizeof(codes[0]) - 1);
    memset(codes[1], 'b', sizeof(codes[1]) - 1);
    for (int child = 0; child < 4; child++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        for (int i = 0; pid == 0 && i < 100; i++) {
            void *got;
            size_t size;
            whi_code_cache_put(&cache, "a key", codes[child % 2], 40000 + (size_t)child);
            if (!whi_code_cache_get(&cache, "a key", &got, &size))
                continue;  // of this moment: the file is another one by now
            const char *text = got;
            for (size_t j = 0; j < size; j++)
                CHECK(text[j] == text[0]);
            CHECK(size >= 40000 && (text[0] == 'a') == (size % 2 == 0));
            whi_free(got);
        }
        if (pid == 0)
            _exit(0);
    }
    for (int child = 0, status; child < 4; child++) {
        CHECK(wait(&status) > 0);
        CHECK_EQ_INT(status, 0);
    }
    CHECK_EQ_INT(files(NULL, 0), 1);
    end();
}

TEST(the_user_s_folder) {
    char where[256];
    setenv("XDG_CACHE_HOME", "/a/cache", 1);
    CHECK(whi_code_cache_folder("", where, sizeof(where)));
    CHECK_EQ_STR(where, "/a/cache/wherry");
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", "/a/home", 1);
    CHECK(whi_code_cache_folder("", where, sizeof(where)));
    CHECK_EQ_STR(where, "/a/home/.cache/wherry");
    CHECK(whi_code_cache_folder("/mine", where, sizeof(where)));
    CHECK_EQ_STR(where, "/mine");
    CHECK(!whi_code_cache_folder("off", where, sizeof(where)));
    CHECK(!whi_code_cache_folder("relative", where, sizeof(where)));
    unsetenv("HOME");
    CHECK(!whi_code_cache_folder("", where, sizeof(where)));
}

TEST_MAIN()
