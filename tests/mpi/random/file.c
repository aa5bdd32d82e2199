// SPDX-License-Identifier: BSD-3-Clause
//
// Files: each rank writes its elements, in pieces between those of others, and reads another's.
#include "random.h"

#include <unistd.h>

enum { MOST = 50000, FEW = 9, WORD = 8 };
enum { AT, AT_ALL, ITS, ITS_ALL, AT_LATER, WAYS };

typedef struct file {
    MPI_Comm comm;
    MPI_File file;
    int size, rank, piece;  // piece: bytes of a rank between those of others
    char name[256];
} file;

static void begin_file(file *f) {
    f->size = size_of(f->comm);
    f->rank = rank_in(f->comm);
    if (f->rank == 0) {
        const char *folder = getenv("TMPDIR");
        snprintf(f->name, sizeof(f->name), "%s/mpi-random-XXXXXX", folder ? folder : "/tmp");
        int fd = mkstemp(f->name);
        CHECK(fd >= 0);
        close(fd);
    }
    OK(MPI_Bcast(f->name, sizeof(f->name), MPI_CHAR, 0, f->comm));
    OK(MPI_File_open(f->comm, f->name, MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
                     &f->file));
}

// The view has the pieces of a rank.
static void view(file *f, int rank) {
    MPI_Datatype piece, pieces;
    OK(MPI_Type_contiguous(f->piece, MPI_BYTE, &piece));
    OK(MPI_Type_create_resized(piece, 0, (MPI_Aint)f->piece * f->size, &pieces));
    OK(MPI_Type_commit(&pieces));
    OK(MPI_File_set_view(f->file, (MPI_Offset)rank * f->piece, MPI_BYTE, pieces, "native",
                         MPI_INFO_NULL));
    OK(MPI_Type_free(&piece));
    OK(MPI_Type_free(&pieces));
}

static void write_block(const file *f, const block *b, int count, MPI_Datatype type, int way) {
    MPI_Request request;
    switch (way) {
    case AT: OK(MPI_File_write_at(f->file, 0, b->at, count, type, MPI_STATUS_IGNORE)); break;
    case AT_ALL:
        OK(MPI_File_write_at_all(f->file, 0, b->at, count, type, MPI_STATUS_IGNORE));
        break;
    case ITS: OK(MPI_File_write(f->file, b->at, count, type, MPI_STATUS_IGNORE)); break;
    case ITS_ALL: OK(MPI_File_write_all(f->file, b->at, count, type, MPI_STATUS_IGNORE)); break;
    default:
        OK(MPI_File_iwrite_at(f->file, 0, b->at, count, type, &request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    }
}

static void read_block(const file *f, const block *b, int count, MPI_Datatype type, int way) {
    MPI_Request request;
    switch (way) {
    case AT: OK(MPI_File_read_at(f->file, 0, b->at, count, type, MPI_STATUS_IGNORE)); break;
    case AT_ALL: OK(MPI_File_read_at_all(f->file, 0, b->at, count, type, MPI_STATUS_IGNORE)); break;
    case ITS: OK(MPI_File_read(f->file, b->at, count, type, MPI_STATUS_IGNORE)); break;
    case ITS_ALL: OK(MPI_File_read_all(f->file, b->at, count, type, MPI_STATUS_IGNORE)); break;
    default:
        OK(MPI_File_iread_at(f->file, 0, b->at, count, type, &request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    }
}

void file_step(void) {
    int each, more = 1 + (int)draw(5);
    MPI_Offset bytes;
    file f = {.comm = comm_draw(), .piece = WORD * (1 + (int)draw(FEW))};
    layout l = layout_draw(), there = layout_peer(&l, &each);
    int count = layout_fit(&l, count_draw(), MOST);
    block from = block_make(&l, count, 0), to = block_make(&there, (MPI_Count)count * each, 1);
    begin_file(&f);
    view(&f, f.rank);
    write_block(&f, &from, count, l.type, (int)draw(WAYS));
    OK(MPI_File_sync(f.file));
    OK(MPI_Barrier(f.comm));
    OK(MPI_File_sync(f.file));
    view(&f, (f.rank + more) % f.size);
    read_block(&f, &to, count * each, there.type, (int)draw(WAYS));
    OK(MPI_File_get_size(f.file, &bytes));
    note("bytes of the file", bytes);
    OK(MPI_File_close(&f.file));
    block_end(&from, "written");
    block_end(&to, "read");
    layout_free(&l);
    layout_free(&there);
}
