// SPDX-License-Identifier: BSD-3-Clause
//
// Attributes of datatypes: copied to a duplicate, deleted when the program frees its handle; callbacks may refuse both.
#include "../comm/check.h"

static int copies, deletes, answer;

static int copy(MPI_Datatype type, int key, void *extra, void *in, void *out, int *flag) {
    CHECK(type != MPI_DATATYPE_NULL && key > 0 && extra == &copies);
    *(void **)out = (char *)in + 1;
    *flag = 1;
    copies++;
    return answer;
}

static int delete (MPI_Datatype type, int key, void *value, void *extra) {
    CHECK(type != MPI_DATATYPE_NULL && key > 0 && value && extra == &copies);
    deletes++;
    return answer;
}

int main(int argc, char **argv) {
    int key, flag;
    void *value;
    MPI_Datatype type, twin = MPI_DATATYPE_NULL;
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    OK(MPI_Type_create_keyval(copy, delete, &key, &copies));
    OK(MPI_Type_contiguous(2, MPI_INT, &type));
    OK(MPI_Type_set_attr(type, key, &argc));
    OK(MPI_Type_dup(type, &twin));
    OK(MPI_Type_get_attr(twin, key, &value, &flag));
    CHECK(flag && value == (char *)&argc + 1 && copies == 1);
    OK(MPI_Type_free(&twin));
    CHECK(twin == MPI_DATATYPE_NULL && deletes == 1);
    answer = MPI_ERR_OTHER;
    FAILS(MPI_Type_dup(type, &twin), MPI_ERR_OTHER);
    CHECK(twin == MPI_DATATYPE_NULL && copies == 2 && deletes == 1);
    FAILS(MPI_Type_free(&type), MPI_ERR_OTHER);
    CHECK(type != MPI_DATATYPE_NULL && deletes == 2);
    answer = MPI_SUCCESS;
    OK(MPI_Type_get_attr(type, key, &value, &flag));
    CHECK(flag && value == &argc);
    OK(MPI_Type_free(&type));
    CHECK(deletes == 3);
    OK(MPI_Type_free_keyval(&key));
    CHECK(key == MPI_KEYVAL_INVALID);
    return MPI_Finalize();
}
