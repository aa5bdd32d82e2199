// SPDX-License-Identifier: BSD-3-Clause
//
// See output.h.  Lines of several processes come one after another, never within each other; those of one process alone come
// as they are, so that a question without a newline is seen.
//
// Standard output is shared with others, and stays as it is, so that a write may block: there is none before poll() says
// that PIPE_BUF bytes go.
#include "cli/run/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 64 << 10 };  // a longer line comes in pieces

static const char *const endings[OUTPUT_STREAMS] = {"out", "err"};

static bool open_files(output *self, const char *begin) {
    self->files = calloc((size_t)self->ranks, sizeof *self->files);
    if (!self->files)
        return false;
    memset(self->files, 0xff, (size_t)self->ranks * sizeof *self->files);
    for (int i = 0; i < self->ranks * OUTPUT_STREAMS; i++) {
        char path[PATH_MAX];
        int rank = i / OUTPUT_STREAMS, stream = i % OUTPUT_STREAMS;
        errno = ENAMETOOLONG;
        if (snprintf(path, sizeof path, "%s.%d.%s", begin, rank, endings[stream]) >=
            (int)sizeof path)
            return false;
        self->files[rank][stream] = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        if (self->files[rank][stream] < 0)
            return false;
    }
    return true;
}

bool output_open(output *self, int ranks, bool prefix, const char *files) {
    *self = (output){.ranks = ranks,
                     .prefix = prefix,
                     .whole_lines = prefix || ranks > 1,
                     .sinks = {{.fd = STDOUT_FILENO}, {.fd = STDERR_FILENO}}};
    self->lines = calloc((size_t)ranks, sizeof *self->lines);
    if (self->lines && (!files || open_files(self, files)))
        return true;
    int why = errno;
    output_close(self);
    errno = why;
    return false;
}

void output_close(output *self) {
    for (int i = 0; i < self->ranks * OUTPUT_STREAMS; i++) {
        int rank = i / OUTPUT_STREAMS, stream = i % OUTPUT_STREAMS;
        if (self->lines)
            buffer_free(&self->lines[rank][stream]);
        if (self->files && self->files[rank][stream] >= 0 && close(self->files[rank][stream]) != 0)
            self->file_error = errno;
    }
    for (int i = 0; i < OUTPUT_STREAMS; i++)
        buffer_free(&self->sinks[i].waiting);
    free(self->lines);
    free(self->files);
}

static void put(output_sink *sink, const void *bytes, size_t size) {
    if (!sink->error)
        buffer_add(&sink->waiting, bytes, size);
}

// A piece of a line, and its newline, which the last line of a process may lack.
static void put_line(output *self, int rank, int stream, const void *bytes, size_t size, bool end) {
    output_sink *sink = &self->sinks[stream];
    if (stream == OUTPUT_ERR && self->heard)
        self->heard(self->heard_arg, rank, bytes, size);
    char prefix[16];
    if (self->prefix)
        put(sink, prefix, (size_t)snprintf(prefix, sizeof prefix, "[%d] ", rank));
    put(sink, bytes, size);
    if (end)
        put(sink, "\n", 1);
}

static void end_line(output *self, int rank, int stream) {
    buffer *line = &self->lines[rank][stream];
    if (buffer_size(line))
        put_line(self, rank, stream, buffer_bytes(line), buffer_size(line), true);
    buffer_drop(line, buffer_size(line));
}

// put_lines adds to the line that has begun, and prints what is whole.
static void put_lines(output *self, int rank, int stream, const char *bytes, size_t size) {
    buffer *line = &self->lines[rank][stream];
    while (size) {
        const char *newline = memchr(bytes, '\n', size);
        size_t part = newline ? (size_t)(newline - bytes) + 1 : size;
        if (newline && !buffer_size(line)) {
            put_line(self, rank, stream, bytes, part, false);
        } else {
            buffer_add(line, bytes, part);
            if (newline || buffer_size(line) >= LINE_MAX_BYTES) {
                put_line(self, rank, stream, buffer_bytes(line), buffer_size(line), !newline);
                buffer_drop(line, buffer_size(line));
            }
        }
        bytes += part;
        size -= part;
    }
}

static void put_file(output *self, int fd, const char *bytes, size_t size) {
    while (size && !self->file_error) {
        ssize_t n = write(fd, bytes, size);
        if (n < 0 && errno != EINTR)
            self->file_error = errno;
        if (n > 0) {
            bytes += n;
            size -= (size_t)n;
        }
    }
}

void output_add(output *self, int rank, int stream, const void *bytes, size_t size) {
    if (self->files)
        put_file(self, self->files[rank][stream], bytes, size);
    else if (!self->whole_lines)
        put(&self->sinks[stream], bytes, size);
    else if (size)
        put_lines(self, rank, stream, bytes, size);
    else
        end_line(self, rank, stream);
}

void output_listen(output *self, void (*heard)(void *, int, const char *, size_t), void *arg) {
    self->heard = heard;
    self->heard_arg = arg;
    if (heard)
        self->whole_lines = true;
}

void output_finish(output *self) {
    for (int i = 0; i < self->ranks * OUTPUT_STREAMS; i++)
        end_line(self, i / OUTPUT_STREAMS, i % OUTPUT_STREAMS);
}

void output_say(output *self, const char *format, ...) {
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    put(&self->sinks[OUTPUT_ERR], "wherry run: ", strlen("wherry run: "));
    put(&self->sinks[OUTPUT_ERR], text, strlen(text));
    put(&self->sinks[OUTPUT_ERR], "\n", 1);
}

size_t output_waiting(const output *self) {
    return buffer_size(&self->sinks[OUTPUT_OUT].waiting) +
           buffer_size(&self->sinks[OUTPUT_ERR].waiting);
}

void output_poll(const output *self, struct pollfd polls[OUTPUT_STREAMS]) {
    for (int i = 0; i < OUTPUT_STREAMS; i++) {
        bool waits = buffer_size(&self->sinks[i].waiting) > 0;
        polls[i] = (struct pollfd){.fd = waits ? self->sinks[i].fd : -1, .events = POLLOUT};
    }
}

void output_flush(output *self, const struct pollfd polls[OUTPUT_STREAMS]) {
    for (int i = 0; i < OUTPUT_STREAMS; i++) {
        output_sink *sink = &self->sinks[i];
        size_t size = buffer_size(&sink->waiting);
        if (!polls[i].revents || !size)
            continue;
        ssize_t n =
            write(sink->fd, buffer_bytes(&sink->waiting), size < PIPE_BUF ? size : PIPE_BUF);
        if (n < 0 && errno != EINTR && errno != EAGAIN)
            sink->error = errno;
        buffer_drop(&sink->waiting, sink->error ? size : n > 0 ? (size_t)n : 0);
    }
}
