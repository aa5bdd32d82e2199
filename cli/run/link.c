// SPDX-License-Identifier: BSD-3-Clause
//
// See link.h.
#include "cli/run/link.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

enum { AT_ONCE = 128 << 10 };

run_link link_open(int in, int out) {
    fcntl(in, F_SETFL, fcntl(in, F_GETFL) | O_NONBLOCK);
    fcntl(out, F_SETFL, fcntl(out, F_GETFL) | O_NONBLOCK);
    return (run_link){.in = in, .out = out};
}

bool link_fill(run_link *self) {
    ssize_t n = read(self->in, buffer_reserve(&self->received, AT_ONCE), AT_ONCE);
    if (n > 0)
        buffer_extend(&self->received, (size_t)n);
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

bool link_flush(run_link *self) {
    while (buffer_size(&self->unsent)) {
        ssize_t n = write(self->out, buffer_bytes(&self->unsent), buffer_size(&self->unsent));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN;
        buffer_drop(&self->unsent, (size_t)n);
    }
    return true;
}

int link_next(run_link *self, frame *next) {
    int size = frame_read(buffer_bytes(&self->received), buffer_size(&self->received), next);
    if (size <= 0)
        return size;
    buffer_drop(&self->received, (size_t)size);
    return 1;
}
