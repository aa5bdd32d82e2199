// SPDX-License-Identifier: BSD-3-Clause
//
// The test driver's NVRTC: it compiles the text it is given as C, with the compiler that has compiled the tests, into a
// shared object, whose bytes are the "cubin" (kernels.c loads it).
//
// CUTEST_NVRTC_FAIL has every compilation fail.  It knows the architectures of the test driver's devices, and no other.
#include <fcntl.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver.h"

enum { COMPILATION = 6, INVALID_OPTION = 5 };

typedef struct program {
    char *text, *code;
    size_t size;
} program;

static _Atomic long compiled;

// What precedes a text: the headers whose lines the library has dropped, and where memory is touched.
static const char before[] = "#include <stdbool.h>\n#include <stddef.h>\n#include <stdint.h>\n"
                             "#include <string.h>\n"
                             "__attribute__((visibility(\"default\"))) "
                             "void *(*cutest_reach)(unsigned long long at, size_t size);\n"
                             "#define WHI_REACH(at, size) cutest_reach(at, size)\n";
static const char behind[] = "\n__attribute__((visibility(\"default\"))) extern const size_t "
                             "cutest_args_size;\nconst size_t cutest_args_size = "
                             "sizeof(whi_device_args);\n";

PUBLIC long cutest_compiled(void);
long cutest_compiled(void) {
    return atomic_load(&compiled);
}

PUBLIC int nvrtcVersion(int *major, int *minor);
int nvrtcVersion(int *major, int *minor) {
    *major = 12;
    *minor = 4;
    return 0;
}

PUBLIC int nvrtcCreateProgram(program **made, const char *text, const char *name, int headers,
                              const char *const *header_texts, const char *const *header_names);
int nvrtcCreateProgram(program **made, const char *text, const char *name, int headers,
                       const char *const *header_texts, const char *const *header_names) {
    (void)name, (void)headers, (void)header_texts, (void)header_names;
    *made = calloc(1, sizeof(**made));
    (*made)->text = strdup(text);
    return 0;
}

static int run_compiler(const char *from, const char *to) {
    // execvp's arguments are not const, for reasons of history.
    const char *words[] = {CUTEST_CC, "-shared", "-fPIC", "-O1", "-std=gnu11", "-w",
                           "-x",      "c",       from,    "-o",  to,           NULL};
    pid_t pid;
    int status = 1;
    if (posix_spawnp(&pid, words[0], NULL, NULL, (char **)(uintptr_t)words, environ) != 0 ||
        waitpid(pid, &status, 0) != pid)
        return COMPILATION;
    return status ? COMPILATION : 0;
}

static int read_code(program *p, const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file)
        return COMPILATION;
    fseek(file, 0, SEEK_END);
    p->size = (size_t)ftell(file);
    rewind(file);
    p->code = malloc(p->size);
    size_t got = fread(p->code, 1, p->size, file);
    fclose(file);
    return got == p->size ? 0 : COMPILATION;
}

static int compile(program *p) {
    char from[] = "/tmp/cutest-nvrtc-XXXXXX", to[sizeof(from) + 4];
    int fd = mkstemp(from);
    if (fd < 0)
        return COMPILATION;
    snprintf(to, sizeof(to), "%s.so", from);
    bool written = write(fd, before, sizeof(before) - 1) == (ssize_t)sizeof(before) - 1 &&
                   write(fd, p->text, strlen(p->text)) == (ssize_t)strlen(p->text) &&
                   write(fd, behind, sizeof(behind) - 1) == (ssize_t)sizeof(behind) - 1;
    close(fd);
    int result = written ? run_compiler(from, to) : COMPILATION;
    if (result == 0)
        result = read_code(p, to);
    unlink(from);
    unlink(to);
    return result;
}

PUBLIC int nvrtcCompileProgram(program *p, int count, const char *const *options);
int nvrtcCompileProgram(program *p, int count, const char *const *options) {
    for (int i = 0; i < count; i++)
        if (strcmp(options[i], "--gpu-architecture=sm_80") != 0 &&
            strcmp(options[i], "--gpu-architecture=sm_81") != 0)
            return INVALID_OPTION;
    if (getenv("CUTEST_NVRTC_FAIL"))
        return COMPILATION;
    atomic_fetch_add(&compiled, 1);
    return compile(p);
}

PUBLIC int nvrtcGetCUBINSize(program *p, size_t *size);
int nvrtcGetCUBINSize(program *p, size_t *size) {
    *size = p->size;
    return 0;
}

PUBLIC int nvrtcGetCUBIN(program *p, char *code);
int nvrtcGetCUBIN(program *p, char *code) {
    memcpy(code, p->code, p->size);
    return 0;
}

PUBLIC int nvrtcGetProgramLogSize(program *p, size_t *size);
int nvrtcGetProgramLogSize(program *p, size_t *size) {
    (void)p;
    *size = sizeof("the log");
    return 0;
}

PUBLIC int nvrtcGetProgramLog(program *p, char *text);
int nvrtcGetProgramLog(program *p, char *text) {
    (void)p;
    strcpy(text, "the log");
    return 0;
}

PUBLIC int nvrtcDestroyProgram(program **made);
int nvrtcDestroyProgram(program **made) {
    free((*made)->text);
    free((*made)->code);
    free(*made);
    return 0;
}
