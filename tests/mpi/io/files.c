// SPDX-License-Identifier: BSD-3-Clause
//
// Files by 1 rank or more: views against a model that counts bytes, pointers, modes, representations, errors.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TRIALS = 60, BLOCKS = 6, BYTES = 1 << 16, RECORDS = 50, RECORD = 40 };

static int rank, ranks;
static char name[256];
static MPI_Comm everybody = MPI_COMM_NULL;

static void failed(int line, const char *text) {
    printf("%s:%d: rank %d: %s\n", __FILE__, line, rank, text);
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 1);
}
#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what))                                                                               \
            failed(__LINE__, #what);                                                               \
    } while (0)
#define OK(call) CHECK((call) == MPI_SUCCESS)

static uint64_t seed;
static int draw(int n) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int)((seed >> 33) % (unsigned)n);
}

static int class_of(int code) {
    int class;
    MPI_Error_class(code, &class);
    return class;
}

static MPI_File opened(int amode) {
    MPI_File file;
    OK(MPI_File_open(everybody, name, amode, MPI_INFO_NULL, &file));
    return file;
}

static MPI_File fresh(void) {
    if (rank == 0)
        (void)unlink(name);
    MPI_Barrier(everybody);
    return opened(MPI_MODE_RDWR | MPI_MODE_CREATE);
}

static int bytes_of(const MPI_Status *status) {
    int bytes;
    MPI_Get_count(status, MPI_BYTE, &bytes);
    return bytes;
}

// ---- Views.

// Blocks of a view, in etypes; the model knows where each byte of its data lies.
typedef struct shape {
    int size;  // of an etype
    int blocks, at[BLOCKS], length[BLOCKS];
    int extent, data;  // of a copy, in etypes
    long disp;
    MPI_Datatype etype, filetype;
} shape;

// Ranks take turns in what a copy covers, so that nobody writes where another one does.
static shape draw_shape(void) {
    static const MPI_Datatype types[] = {MPI_BYTE, MPI_SHORT, MPI_INT, MPI_DOUBLE};
    shape s = {.blocks = 1 + draw(BLOCKS)};
    int which = draw(4), at = 0;
    s.etype = types[which];
    MPI_Type_size(s.etype, &s.size);
    for (int i = 0; i < s.blocks; i++) {
        at += draw(4);
        s.at[i] = at;
        s.length[i] = 1 + draw(5);
        at += s.length[i];
        s.data += s.length[i];
    }
    int span = at + draw(3) -
               (draw(2) ? s.at[0] : 0);  // where data begin late they may end behind the extent
    s.extent = span * ranks;
    s.disp = draw(40) + (long)rank * span * s.size;
    MPI_Datatype indexed;
    OK(MPI_Type_indexed(s.blocks, s.length, s.at, s.etype, &indexed));
    OK(MPI_Type_create_resized(indexed, 0, (MPI_Aint)s.extent * s.size, &s.filetype));
    OK(MPI_Type_commit(&s.filetype));
    OK(MPI_Type_free(&indexed));
    return s;
}

static long model(const shape *s, long byte) {
    long etype = byte / s->size, copy = etype / s->data, left = etype % s->data;
    int i = 0;
    while (left >= s->length[i])
        left -= s->length[i++];
    return s->disp + ((long)copy * s->extent + s->at[i] + left) * s->size + byte % s->size;
}

// Memory with gaps: every other element of `size` bytes.
static void one_view(MPI_File file) {
    static unsigned char data[BYTES], gaps[2 * BYTES], back[2 * BYTES], all[8 * BYTES];
    shape s = draw_shape();
    int n = 1 + draw(300), bytes = n * s.size, from = draw(50);
    MPI_Datatype strided;
    OK(MPI_Type_vector(n, 1, 2, s.etype, &strided));
    OK(MPI_Type_commit(&strided));
    for (int i = 0; i < bytes; i++)
        data[i] = (unsigned char)(draw(255) + 1);
    memset(gaps, 0, sizeof(gaps));
    memset(back, 0, sizeof(back));
    for (int i = 0; i < n; i++)
        memcpy(gaps + 2 * i * s.size, data + i * s.size, (size_t)s.size);
    OK(MPI_File_set_size(file, 0));
    OK(MPI_File_set_view(file, s.disp, s.etype, s.filetype, "native", MPI_INFO_NULL));
    MPI_Status status;
    OK(draw(2) ? MPI_File_write_at(file, from, data, n, s.etype, &status)
               : MPI_File_write_at_all(file, from, gaps, 1, strided, &status));
    CHECK(bytes_of(&status) == bytes);
    MPI_Barrier(everybody);
    // What stands there is what the model says.
    FILE *plain = fopen(name, "rb");
    size_t size = fread(all, 1, sizeof(all), plain);
    fclose(plain);
    for (int i = 0; i < bytes; i++) {
        long at = model(&s, (long)from * s.size + i);
        CHECK(at < (long)size && all[at] == data[i]);
    }
    MPI_Offset byte, end;
    OK(MPI_File_get_byte_offset(file, from + n - 1, &byte));
    CHECK(byte == model(&s, ((long)from + n - 1) * s.size));
    // The first etype that does not lie before the end of the file.
    OK(MPI_File_seek(file, 0, MPI_SEEK_END));
    OK(MPI_File_get_position(file, &end));
    CHECK(model(&s, end * s.size) >= (long)size);
    CHECK(end == 0 || model(&s, (end - 1) * s.size) < (long)size);
    OK(MPI_File_seek(file, from, MPI_SEEK_SET));
    if (draw(2))
        OK(MPI_File_read(file, back, 1, strided, &status));
    else
        OK(MPI_File_read_at_all(file, from, back, 1, strided, &status));
    CHECK(bytes_of(&status) == bytes && !memcmp(back, gaps, (size_t)(2 * bytes)));
    // Beyond the end comes as much as there is.
    OK(MPI_File_read_at(file, end > 3 ? end - 3 : 0, back, 100, s.etype, &status));
    CHECK(bytes_of(&status) <= 3 * s.size && bytes_of(&status) > (end > 3 ? 2 : 0) * s.size - 1);
    OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    OK(MPI_Type_free(&strided));
    OK(MPI_Type_free(&s.filetype));
}

static void views(void) {
    MPI_File file = fresh();
    for (int i = 0; i < TRIALS; i++)
        one_view(file);
    MPI_Datatype pair, etype, filetype;
    char rep[MPI_MAX_DATAREP_STRING];
    MPI_Offset disp;
    OK(MPI_Type_contiguous(2, MPI_INT, &pair));
    OK(MPI_Type_commit(&pair));
    OK(MPI_File_set_view(file, 8, MPI_INT, pair, "internal", MPI_INFO_NULL));
    OK(MPI_File_get_view(file, &disp, &etype, &filetype, rep));
    int combiner, a, b, c, size;
    OK(MPI_Type_get_envelope(filetype, &a, &b, &c, &combiner));
    OK(MPI_Type_size(filetype, &size));
    CHECK(disp == 8 && etype == MPI_INT && size == 8 && combiner != MPI_COMBINER_NAMED &&
          !strcmp(rep, "internal"));
    OK(MPI_Type_free(&filetype));
    CHECK(class_of(MPI_File_set_view(file, 0, MPI_DOUBLE, MPI_INT, "native", MPI_INFO_NULL)) ==
          MPI_ERR_TYPE);
    CHECK(class_of(MPI_File_set_view(file, -5, MPI_INT, MPI_INT, "native", MPI_INFO_NULL)) ==
          MPI_ERR_DISP);
    CHECK(class_of(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "strange", MPI_INFO_NULL)) ==
          MPI_ERR_UNSUPPORTED_DATAREP);
    short word = 0;
    CHECK(class_of(MPI_File_write(file, &word, 1, MPI_SHORT, MPI_STATUS_IGNORE)) == MPI_ERR_TYPE);
    OK(MPI_Type_free(&pair));
    OK(MPI_File_close(&file));
    CHECK(file == MPI_FILE_NULL);
}

// ---- The shared pointer.

static void fill(char *record, int who, int which) {
    memset(record, 0, RECORD);
    snprintf(record, RECORD, "%d of rank %d", which, who);
}

static void shared_pointer(void) {
    char record[RECORD], *all = malloc((size_t)RECORDS * (size_t)ranks * RECORD);
    int *seen = calloc((size_t)RECORDS * (size_t)ranks, sizeof(int));
    MPI_File file = fresh();
    MPI_Offset at;
    for (int i = 0; i < RECORDS; i++) {
        fill(record, rank, i);
        if (i % 2) {
            OK(MPI_File_write_shared(file, record, RECORD, MPI_CHAR, MPI_STATUS_IGNORE));
        } else {
            MPI_Request request;
            OK(MPI_File_iwrite_shared(file, record, RECORD, MPI_CHAR, &request));
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        }
    }
    MPI_Barrier(everybody);
    OK(MPI_File_get_position_shared(file, &at));
    CHECK(at == (MPI_Offset)RECORDS * ranks * RECORD);
    OK(MPI_File_read_at_all(file, 0, all, RECORDS * ranks * RECORD, MPI_CHAR, MPI_STATUS_IGNORE));
    for (int i = 0; i < RECORDS * ranks; i++) {
        int who = -1, which = -1;
        CHECK(sscanf(all + i * RECORD, "%d of rank %d", &which, &who) == 2);
        CHECK(!seen[who * RECORDS + which]++);
    }
    // Each rank as many as its number says, in order.
    OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    char mine[64 * RECORD];
    for (int i = 0; i <= rank; i++)
        fill(mine + i * RECORD, rank, i);
    OK(MPI_File_write_ordered(file, mine, (rank + 1) * RECORD, MPI_CHAR, MPI_STATUS_IGNORE));
    MPI_Barrier(everybody);
    OK(MPI_File_read_at(file, (MPI_Offset)rank * (rank + 1) / 2 * RECORD, record, RECORD, MPI_CHAR,
                        MPI_STATUS_IGNORE));
    CHECK(!memcmp(record, mine, RECORD));  // behind those of the ranks before
    OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    memset(mine, 0, sizeof(mine));
    OK(MPI_File_read_ordered_begin(file, mine, (rank + 1) * RECORD, MPI_CHAR));
    MPI_Status status;
    OK(MPI_File_read_ordered_end(file, mine, &status));
    CHECK(bytes_of(&status) == (rank + 1) * RECORD);
    for (int i = 0; i <= rank; i++) {
        fill(record, rank, i);
        CHECK(!memcmp(mine + i * RECORD, record, RECORD));
    }
    OK(MPI_File_get_position_shared(file, &at));
    CHECK(at == (MPI_Offset)ranks * (ranks + 1) / 2 * RECORD);
    if (ranks > 1)
        CHECK(class_of(MPI_File_seek_shared(file, rank, MPI_SEEK_SET)) == MPI_ERR_NOT_SAME);
    OK(MPI_File_close(&file));
    free(all);
    free(seen);
}

// ---- Representations.

static void external(void) {
    MPI_File file = fresh();
    long values[10], back[10];
    char packed[80], raw[80];
    MPI_Aint position = 0;
    for (int i = 0; i < 10; i++)
        values[i] = 100 * rank + i;
    OK(MPI_Pack_external("external32", values, 10, MPI_LONG, packed, sizeof(packed), &position));
    OK(MPI_File_set_view(file, 0, MPI_LONG, MPI_LONG, "external32", MPI_INFO_NULL));
    OK(MPI_File_write_at(file, 10 * rank, values, 10, MPI_LONG, MPI_STATUS_IGNORE));
    MPI_Aint extent;
    OK(MPI_File_get_type_extent(file, MPI_LONG, &extent));
    CHECK(10 * extent == position);
    MPI_Status status;
    OK(MPI_File_read_at(file, 10 * rank, back, 10, MPI_LONG, &status));
    CHECK(bytes_of(&status) == sizeof(back) && !memcmp(back, values, sizeof(back)));
    OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    OK(MPI_File_read_at(file, (MPI_Offset)rank * position, raw, (int)position, MPI_BYTE,
                        MPI_STATUS_IGNORE));
    CHECK(!memcmp(raw, packed, (size_t)position));
    OK(MPI_Register_datarep("as it is", MPI_CONVERSION_FN_NULL, MPI_CONVERSION_FN_NULL, NULL,
                            NULL));
    CHECK(class_of(MPI_Register_datarep("native", MPI_CONVERSION_FN_NULL, MPI_CONVERSION_FN_NULL,
                                        NULL, NULL)) == MPI_ERR_DUP_DATAREP);
    OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "as it is", MPI_INFO_NULL));
    CHECK(class_of(MPI_Register_datarep("as it is", MPI_CONVERSION_FN_NULL, MPI_CONVERSION_FN_NULL,
                                        NULL, NULL)) == MPI_ERR_DUP_DATAREP);
    OK(MPI_File_close(&file));
}

// ---- Modes, pointers and errors.

static void modes(void) {
    MPI_File file;
    int word = 7, amode;
    if (rank == 0)
        (void)unlink(name);
    MPI_Barrier(everybody);
    CHECK(class_of(MPI_File_open(everybody, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &file)) ==
          MPI_ERR_NO_SUCH_FILE);
    CHECK(class_of(MPI_File_open(everybody, name, MPI_MODE_CREATE, MPI_INFO_NULL, &file)) ==
          MPI_ERR_AMODE);
    if (ranks > 1)
        CHECK(class_of(MPI_File_open(everybody, name,
                                     rank ? MPI_MODE_RDWR : MPI_MODE_RDWR | MPI_MODE_CREATE,
                                     MPI_INFO_NULL, &file)) == MPI_ERR_NOT_SAME);
    file = opened(MPI_MODE_WRONLY | MPI_MODE_CREATE | MPI_MODE_EXCL);
    OK(MPI_File_get_amode(file, &amode));
    CHECK(amode == (MPI_MODE_WRONLY | MPI_MODE_CREATE | MPI_MODE_EXCL));
    OK(MPI_File_write_at(file, rank * (MPI_Offset)sizeof(word), &word, 1, MPI_INT,
                         MPI_STATUS_IGNORE));
    CHECK(class_of(MPI_File_read(file, &word, 1, MPI_INT, MPI_STATUS_IGNORE)) == MPI_ERR_ACCESS);
    OK(MPI_File_sync(file));
    OK(MPI_File_close(&file));
    CHECK(class_of(MPI_File_open(everybody, name, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_EXCL,
                                 MPI_INFO_NULL, &file)) == MPI_ERR_FILE_EXISTS);
    file = opened(MPI_MODE_RDONLY);
    CHECK(class_of(MPI_File_write(file, &word, 1, MPI_INT, MPI_STATUS_IGNORE)) ==
          MPI_ERR_READ_ONLY);
    CHECK(class_of(MPI_File_set_size(file, 0)) == MPI_ERR_READ_ONLY);
    OK(MPI_File_close(&file));
    file = opened(MPI_MODE_RDWR | MPI_MODE_APPEND);
    MPI_Offset at, size;
    OK(MPI_File_get_position(file, &at));
    OK(MPI_File_get_size(file, &size));
    CHECK(at == size && size == ranks * (MPI_Offset)sizeof(word));
    OK(MPI_File_get_position_shared(file, &at));
    CHECK(at == size);
    OK(MPI_File_preallocate(file, 10000));
    OK(MPI_File_get_size(file, &size));
    CHECK(size == 10000);
    OK(MPI_File_preallocate(file, 1));
    OK(MPI_File_get_size(file, &size));
    CHECK(size == 10000);
    CHECK(class_of(MPI_File_seek(file, -1, MPI_SEEK_SET)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_File_seek(file, 0, 99)) == MPI_ERR_ARG);
    OK(MPI_File_close(&file));
    file = opened(MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL | MPI_MODE_DELETE_ON_CLOSE);
    CHECK(class_of(MPI_File_write_at(file, 0, &word, 1, MPI_INT, MPI_STATUS_IGNORE)) ==
          MPI_ERR_UNSUPPORTED_OPERATION);
    OK(MPI_File_write_shared(file, &word, 1, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_close(&file));
    CHECK(access(name, F_OK) != 0);
    MPI_Barrier(everybody);
    CHECK(class_of(MPI_File_delete(name, MPI_INFO_NULL)) == MPI_ERR_NO_SUCH_FILE);
}

static void split(void) {
    MPI_File file = fresh();
    int word = rank, back = -1, other;
    MPI_Offset mine = rank * (MPI_Offset)sizeof(word);
    OK(MPI_File_write_at_all_begin(file, mine, &word, 1, MPI_INT));
    CHECK(class_of(MPI_File_read_at_all_begin(file, mine, &back, 1, MPI_INT)) == MPI_ERR_OTHER);
    CHECK(class_of(MPI_File_read_all_end(file, &back, MPI_STATUS_IGNORE)) == MPI_ERR_OTHER);
    CHECK(class_of(MPI_File_write_at_all_end(file, &other, MPI_STATUS_IGNORE)) == MPI_ERR_BUFFER);
    OK(MPI_File_write_at_all_end(file, &word, MPI_STATUS_IGNORE));
    OK(MPI_File_set_atomicity(file, 1));
    MPI_Request request;
    OK(MPI_File_iread_at(file, mine, &back, 1, MPI_INT, &request));
    MPI_Status status;
    OK(MPI_Wait(&request, &status));
    CHECK(back == rank && bytes_of(&status) == sizeof(back));
    int flag;
    OK(MPI_File_get_atomicity(file, &flag));
    CHECK(flag == 1);
    OK(MPI_File_close(&file));
}

// In atomic mode a rank that reads what another one writes sees all of it, or nothing.
static void atomic(void) {
    enum { WORDS = 4096, ROUNDS = 40 };
    static int words[WORDS];
    MPI_File file = fresh();
    MPI_Datatype every_other;
    OK(MPI_Type_vector(WORDS, 1, 2, MPI_INT, &every_other));
    OK(MPI_Type_commit(&every_other));
    OK(MPI_File_set_view(file, 0, MPI_INT, every_other, "native", MPI_INFO_NULL));
    OK(MPI_File_set_atomicity(file, 1));
    for (int i = 0; i < ROUNDS; i++) {
        if (rank == 0) {
            for (int k = 0; k < WORDS; k++)
                words[k] = i;
            OK(MPI_File_write_at(file, 0, words, WORDS, MPI_INT, MPI_STATUS_IGNORE));
        } else {
            MPI_Status status;
            OK(MPI_File_read_at(file, 0, words, WORDS, MPI_INT, &status));
            CHECK(bytes_of(&status) == 0 || bytes_of(&status) == sizeof(words));
            for (int k = 1; k < WORDS && bytes_of(&status); k++)
                CHECK(words[k] == words[0]);
        }
    }
    OK(MPI_File_close(&file));
    OK(MPI_Type_free(&every_other));
}

// Offsets that no file has are errors, move no pointer, and write nothing.
static void far_offsets(void) {
    static const MPI_Offset beyond[] = {(MPI_Offset)1 << 61, (MPI_Offset)1 << 62, INT64_MAX};
    int word = 1;
    MPI_Offset at, size;
    MPI_Datatype spaced, nowhere;
    OK(MPI_Type_create_resized(MPI_INT, 0, 8, &spaced));
    OK(MPI_Type_create_resized(MPI_INT, 0, 0, &nowhere));
    OK(MPI_Type_commit(&spaced));
    OK(MPI_Type_commit(&nowhere));
    MPI_File file = fresh();
    for (int i = 0; i < 6; i++) {
        MPI_Offset far = beyond[i / 2];
        OK(MPI_File_set_view(file, 0, MPI_INT, i % 2 ? spaced : MPI_INT, "native", MPI_INFO_NULL));
        CHECK(class_of(MPI_File_write_at(file, far, &word, 1, MPI_INT, MPI_STATUS_IGNORE)) ==
              MPI_ERR_ARG);
        CHECK(class_of(MPI_File_get_byte_offset(file, far, &at)) == MPI_ERR_ARG);
        OK(MPI_File_seek(file, far, MPI_SEEK_SET));
        CHECK(class_of(MPI_File_write(file, &word, 1, MPI_INT, MPI_STATUS_IGNORE)) == MPI_ERR_ARG);
        OK(MPI_File_get_position(file, &at));
        CHECK(at == far);
        OK(MPI_File_seek_shared(file, far, MPI_SEEK_SET));
        CHECK(class_of(MPI_File_write_shared(file, &word, 1, MPI_INT, MPI_STATUS_IGNORE)) ==
              MPI_ERR_ARG);
        MPI_Barrier(everybody);
    }
    OK(MPI_File_get_size(file, &size));
    CHECK(size == 0);
    CHECK(class_of(MPI_File_set_view(file, 0, MPI_INT, nowhere, "native", MPI_INFO_NULL)) ==
          MPI_ERR_TYPE);
    OK(MPI_File_close(&file));
    OK(MPI_Type_free(&spaced));
    OK(MPI_Type_free(&nowhere));
}

// A view of a sequential file begins where all that was written before ends, also what the slowest rank wrote.
static void sequential_view(void) {
    MPI_File file;
    int word = 1;
    if (rank == 0)
        (void)unlink(name);
    MPI_Barrier(everybody);
    file = opened(MPI_MODE_WRONLY | MPI_MODE_CREATE | MPI_MODE_SEQUENTIAL);
    (void)usleep(20000 * (unsigned)rank);
    for (int i = 0; i <= rank; i++)
        OK(MPI_File_write_shared(file, &word, sizeof(word), MPI_BYTE, MPI_STATUS_IGNORE));
    OK(MPI_File_set_view(file, MPI_DISPLACEMENT_CURRENT, MPI_INT, MPI_INT, "native",
                         MPI_INFO_NULL));
    MPI_Offset disp;
    MPI_Datatype etype, filetype;
    char rep[MPI_MAX_DATAREP_STRING];
    OK(MPI_File_get_view(file, &disp, &etype, &filetype, rep));
    CHECK(disp == (MPI_Offset)sizeof(word) * ranks * (ranks + 1) / 2);
    OK(MPI_File_close(&file));
}

// A file that cannot be deleted is open still, and the next call closes it.
static void failed_close(void) {
    MPI_File file;
    int word = 1;
    if (rank == 0)
        (void)unlink(name);
    MPI_Barrier(everybody);
    file = opened(MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE);
    OK(MPI_File_write_shared(file, &word, 1, MPI_BYTE, MPI_STATUS_IGNORE));
    MPI_Barrier(everybody);
    if (rank == 0)
        CHECK(unlink(name) == 0);
    MPI_Barrier(everybody);
    CHECK(class_of(MPI_File_close(&file)) == MPI_ERR_NO_SUCH_FILE);
    OK(MPI_File_write_shared(file, &word, 1, MPI_BYTE, MPI_STATUS_IGNORE));
    OK(MPI_File_close(&file));
    CHECK(file == MPI_FILE_NULL);
}

static int heard_of;
static void hear(MPI_File *file, int *code, ...) {
    heard_of += *file == MPI_FILE_NULL && class_of(*code) == MPI_ERR_NO_SUCH_FILE ? 1 : 100;
}

static void handlers_and_groups(void) {
    MPI_Errhandler handler, own;
    MPI_File none;
    OK(MPI_File_create_errhandler(hear, &own));
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, own));
    CHECK(MPI_File_open(everybody, "/no/such/file", MPI_MODE_RDONLY, MPI_INFO_NULL, &none) !=
          MPI_SUCCESS);
    CHECK(heard_of == 1);
    MPI_File file = fresh();
    OK(MPI_File_get_errhandler(file, &handler));
    CHECK(handler == own);
    OK(MPI_Errhandler_free(&handler));
    OK(MPI_Errhandler_free(&own));
    OK(MPI_File_close(&file));
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
    file = fresh();
    OK(MPI_File_get_errhandler(file, &handler));
    CHECK(handler == MPI_ERRORS_RETURN);
    MPI_Group group, all;
    int same, found;
    OK(MPI_File_get_group(file, &group));
    OK(MPI_Comm_group(everybody, &all));
    OK(MPI_Group_compare(group, all, &same));
    CHECK(same == MPI_IDENT);
    OK(MPI_Group_free(&group));
    OK(MPI_Group_free(&all));
    MPI_Info info;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "file_perm", "600"));
    OK(MPI_Info_set(info, "striping_factor", "4"));
    OK(MPI_File_set_info(file, info));
    // Only some ranks have something to say.
    OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", rank ? info : MPI_INFO_NULL));
    OK(MPI_Info_free(&info));
    OK(MPI_File_get_info(file, &info));
    OK(MPI_Info_get_nkeys(info, &found));
    CHECK(found == 2);  // with the kinds of memory
    OK(MPI_Info_free(&info));
    OK(MPI_File_close(&file));
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_dup(MPI_COMM_WORLD, &everybody);
    char folder[64] = "/tmp/mpi-files-XXXXXX";
    if (rank == 0 && !mkdtemp(folder))
        failed(__LINE__, "mkdtemp");
    MPI_Bcast(folder, sizeof(folder), MPI_CHAR, 0, everybody);
    snprintf(name, sizeof(name), "%s/file", folder);
    seed = 42 + (uint64_t)ranks;
    views();
    shared_pointer();
    external();
    modes();
    split();
    atomic();
    handlers_and_groups();
    far_offsets();
    sequential_view();
    failed_close();
    MPI_Barrier(everybody);
    if (rank == 0) {
        (void)unlink(name);
        CHECK(rmdir(folder) == 0);  // nothing else was left there
        printf("all right on %d ranks\n", ranks);
    }
    MPI_Comm_free(&everybody);
    MPI_Finalize();
    return 0;
}
