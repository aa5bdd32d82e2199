// SPDX-License-Identifier: BSD-3-Clause
//
// What the C and C++ libraries keep for the process, whatever rank asks for it, must not lie in the rank's memory: files, loaded libraries, the
// environment, threads.
//
// Where a rank would have a pointer to it, the rank stays.
#undef _FILE_OFFSET_BITS  // fopen is fopen here, not fopen64
#include "mpi/mpix/keeps.h"

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <grp.h>
#include <iconv.h>
#include <locale.h>
#include <netdb.h>
#include <pthread.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <wchar.h>

#define PUBLIC __attribute__((visibility("default")))
#define heap whm_mpix_heap

static void use_heap(void *to) {
    heap = to;
}

// ---- What ranks have open: few have anything.

typedef enum kind { FILES, LOCALES, KINDS } kind;

enum { OWNERS = 64 };
static struct {
    const void *heap;
    int open[KINDS];
} owners[OWNERS];
static bool locale_set;  // C++'s, of the process

static int *open_of(const void *of, kind what) {
    int place = 0;
    for (int i = 0; i < OWNERS; i++) {
        if (owners[i].heap == of)
            return &owners[i].open[what];
        if (!owners[i].open[FILES] && !owners[i].open[LOCALES])
            place = i;
    }
    owners[place].heap = of;
    return &owners[place].open[what];
}

static void opened(kind what) {
    if (heap)
        ++*open_of(heap, what);
}

static void closed(kind what) {
    if (heap && *open_of(heap, what) > 0)
        --*open_of(heap, what);
}

static const char *keeps(const void *of) {
    // A wide stream has buffers that it has asked for when the first rank has used it.
    bool wide = fwide(stdout, 0) > 0 || fwide(stderr, 0) > 0 || fwide(stdin, 0) > 0;
    return wide ? "its process reads or writes wide characters with a standard stream"
           : *open_of(of, FILES) > 0   ? "it has files of the C library open"
           : *open_of(of, LOCALES) > 0 ? "it has locales or conversions of iconv"
           : locale_set ? "its process has another locale of C++ than the classic one"
                        : NULL;
}

PUBLIC whm_joint_t whm_joint = {.version = WHM_JOINT_VERSION, .use_heap = use_heap, .keeps = keeps};

// ---- Calling the C library with the process's memory.

// BEHIND makes behind_NAME, which does so.
#define BEHIND(type, name, parameters, arguments)                                                  \
    static type behind_##name parameters {                                                         \
        static type(*next) parameters;                                                             \
        void *mine = heap;                                                                         \
        heap = NULL;                                                                               \
        if (!next) {                                                                               \
            void *symbol = dlsym(RTLD_NEXT, #name);                                                \
            memcpy(&next, &symbol, sizeof(next));                                                  \
        }                                                                                          \
        type result = next arguments;                                                              \
        heap = mine;                                                                               \
        return result;                                                                             \
    }

#define KEPT(type, name, parameters, arguments)                                                    \
    BEHIND(type, name, parameters, arguments)                                                      \
    PUBLIC type name parameters {                                                                  \
        return behind_##name arguments;                                                            \
    }

#define OPENS(name, parameters, arguments)                                                         \
    BEHIND(FILE *, name, parameters, arguments)                                                    \
    PUBLIC FILE *name parameters {                                                                 \
        FILE *file = behind_##name arguments;                                                      \
        if (file)                                                                                  \
            opened(FILES);                                                                         \
        return file;                                                                               \
    }

#define CLOSES(name)                                                                               \
    BEHIND(int, name, (FILE * file), (file))                                                       \
    PUBLIC int name(FILE *file) {                                                                  \
        closed(FILES);                                                                             \
        return behind_##name(file);                                                                \
    }

OPENS(fopen, (const char *path, const char *mode), (path, mode))
OPENS(fopen64, (const char *path, const char *mode), (path, mode))
OPENS(fdopen, (int fd, const char *mode), (fd, mode))
OPENS(tmpfile, (void), ())
OPENS(tmpfile64, (void), ())
OPENS(popen, (const char *command, const char *type), (command, type))
OPENS(fmemopen, (void *buf, size_t size, const char *mode), (buf, size, mode))
OPENS(open_memstream, (char **text, size_t *size), (text, size))
OPENS(open_wmemstream, (wchar_t * *text, size_t *size), (text, size))
CLOSES(fclose)
CLOSES(pclose)
KEPT(void *, dlopen, (const char *path, int flags), (path, flags))
KEPT(int, dlclose, (void *handle), (handle))
KEPT(char *, setlocale, (int category, const char *locale), (category, locale))
KEPT(int, setenv, (const char *name, const char *value, int overwrite), (name, value, overwrite))
KEPT(int, backtrace, (void **frames, int most), (frames, most))  // it loads a library
KEPT(struct passwd *, getpwuid, (uid_t id), (id))
KEPT(struct passwd *, getpwnam, (const char *name), (name))
KEPT(struct group *, getgrgid, (gid_t id), (id))
KEPT(struct group *, getgrnam, (const char *name), (name))
KEPT(struct hostent *, gethostbyname, (const char *name), (name))
KEPT(int, getaddrinfo,
     (const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **all),
     (node, service, hints, all))
KEPT(struct tm *, localtime, (const time_t *at), (at))
KEPT(struct tm *, localtime_r, (const time_t *at, struct tm *to), (at, to))
KEPT(time_t, mktime, (struct tm * at), (at))
KEPT(char *, ctime, (const time_t *at), (at))
KEPT(size_t, strftime, (char *to, size_t most, const char *format, const struct tm *at),
     (to, most, format, at))

PUBLIC void tzset(void) {
    time_t now = 0;
    struct tm at;
    (void)mktime(localtime_r(&now, &at));  // each looks at the zone first
}

// The string would become part of the environment.
BEHIND(int, putenv, (char *text), (text))
BEHIND(char *, strdup, (const char *text), (text))
PUBLIC int putenv(char *text) {
    char *mine = heap ? behind_strdup(text) : text;
    return mine ? behind_putenv(mine) : -1;
}

// ---- Buffers of the standard streams.

BEHIND(void *, malloc, (size_t size), (size))
static bool is_standard(const FILE *file) {
    return file == stdin || file == stdout || file == stderr;
}

// A rank's own buffer is not taken for them.
static char *buffer_for(const FILE *file, char *buffer) {
    return heap && is_standard(file) ? NULL : buffer;
}

BEHIND(int, setvbuf, (FILE * file, char *buffer, int mode, size_t size), (file, buffer, mode, size))
PUBLIC int setvbuf(FILE *file, char *buffer, int mode, size_t size) {
    return behind_setvbuf(file, buffer_for(file, buffer), mode, size);
}
PUBLIC void setbuffer(FILE *file, char *buffer, size_t size) {
    (void)setvbuf(file, buffer, buffer ? _IOFBF : _IONBF, size);
}
PUBLIC void setbuf(FILE *file, char *buffer) {
    setbuffer(file, buffer, BUFSIZ);
}
PUBLIC void setlinebuf(FILE *file) {
    (void)setvbuf(file, NULL, _IOLBF, 0);
}

// freopen drops the stream's buffer, and the next one would be asked for by the rank that prints first.
static FILE *reopened(FILE *file, FILE *got) {
    char *room = heap && got && is_standard(got) && got != stderr ? behind_malloc(BUFSIZ) : NULL;
    if (room)
        (void)behind_setvbuf(got, room, _IOFBF, BUFSIZ);
    if (!got && !is_standard(file))
        closed(FILES);
    return got;
}

BEHIND(FILE *, freopen, (const char *path, const char *mode, FILE *file), (path, mode, file))
PUBLIC FILE *freopen(const char *path, const char *mode, FILE *file) {
    return reopened(file, behind_freopen(path, mode, file));
}
BEHIND(FILE *, freopen64, (const char *path, const char *mode, FILE *file), (path, mode, file))
PUBLIC FILE *freopen64(const char *path, const char *mode, FILE *file) {
    return reopened(file, behind_freopen64(path, mode, file));
}

// std::ios_base::sync_with_stdio: buffers of C++'s own would be filled by one rank after the other, and nobody would know when to write them.  What
// programs gain by them is time only.
BEHIND(bool, _ZNSt8ios_base15sync_with_stdioEb, (bool sync), (sync))
PUBLIC bool _ZNSt8ios_base15sync_with_stdioEb(bool sync);
PUBLIC bool _ZNSt8ios_base15sync_with_stdioEb(bool sync) {
    return heap || behind__ZNSt8ios_base15sync_with_stdioEb(sync);
}

// ---- Locales.

BEHIND(locale_t, newlocale, (int mask, const char *name, locale_t base), (mask, name, base))
BEHIND(locale_t, duplocale, (locale_t locale), (locale))

static bool is_classic(locale_t locale) {
    static locale_t classic;
    if (!classic)
        classic = behind_newlocale(LC_ALL_MASK, "C", NULL);
    return locale == classic;
}

PUBLIC locale_t newlocale(int mask, const char *name, locale_t base) {
    bool counted = base && !is_classic(base);
    locale_t made = behind_newlocale(mask, name, base);
    if (made && !is_classic(made) && !counted)
        opened(LOCALES);
    return made;
}

PUBLIC locale_t duplocale(locale_t locale) {
    locale_t made = behind_duplocale(locale);
    if (made && !is_classic(made))
        opened(LOCALES);
    return made;
}

PUBLIC void freelocale(locale_t locale) {
    static void (*next)(locale_t locale);
    if (!next) {
        void *symbol = dlsym(RTLD_NEXT, "freelocale");
        memcpy(&next, &symbol, sizeof(next));
    }
    if (!is_classic(locale))
        closed(LOCALES);
    next(locale);
}

// The names that C++'s library calls them by.
PUBLIC locale_t __newlocale(int mask, const char *name, locale_t base);
PUBLIC locale_t __newlocale(int mask, const char *name, locale_t base) {
    return newlocale(mask, name, base);
}
PUBLIC locale_t __duplocale(locale_t locale);
PUBLIC locale_t __duplocale(locale_t locale) {
    return duplocale(locale);
}
PUBLIC void __freelocale(locale_t locale);
PUBLIC void __freelocale(locale_t locale) {
    freelocale(locale);
}

// Conversions, which are loaded when they are first asked for.
BEHIND(iconv_t, iconv_open, (const char *to, const char *from), (to, from))
PUBLIC iconv_t iconv_open(const char *to, const char *from) {
    iconv_t made = behind_iconv_open(to, from);
    if (made != (iconv_t)-1)
        opened(LOCALES);
    return made;
}
BEHIND(int, iconv_close, (iconv_t made), (made))
PUBLIC int iconv_close(iconv_t made) {
    closed(LOCALES);
    return behind_iconv_close(made);
}

// std::locale::global, and what std::locale::classic refers to: a locale is a pointer.
BEHIND(void *, _ZNSt6locale6globalERKS_, (void *before, void *const *set), (before, set))
BEHIND(void *const *, _ZNSt6locale7classicEv, (void), ())
PUBLIC void *_ZNSt6locale6globalERKS_(void *before, void *const *set);
PUBLIC void *_ZNSt6locale6globalERKS_(void *before, void *const *set) {
    if (heap)
        locale_set = *set != *behind__ZNSt6locale7classicEv();
    return behind__ZNSt6locale6globalERKS_(before, set);
}

// ---- Threads: what they allocate is the rank's, too; they are the process's.

typedef struct start {
    void *(*fn)(void *arg);
    void *arg, *mine;
} start;

static void *begin(void *arg) {
    start s = *(start *)arg;
    free(arg);
    heap = s.mine;
    return s.fn(s.arg);
}

typedef void *thread_fn(void *arg);
BEHIND(int, pthread_create,
       (pthread_t * thread, const pthread_attr_t *how, thread_fn *fn, void *arg),
       (thread, how, fn, arg))
PUBLIC int pthread_create(pthread_t *thread, const pthread_attr_t *how, thread_fn *fn, void *arg) {
    if (!heap)
        return behind_pthread_create(thread, how, fn, arg);
    whm_joint.share(heap);
    start *s = behind_malloc(sizeof(*s));
    if (!s)
        return EAGAIN;
    *s = (start){fn, arg, heap};
    int error = behind_pthread_create(thread, how, begin, s);
    if (error)
        free(s);
    return error;
}
