#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Write the calls of the test `mpi-wrong`: each function that is there, with each argument wrong once; and each that is not there.

    wrong_make.py TABLE > wrong_calls.c

All other arguments are right, and of a job of one process, in which each argument is significant.  What is right and what is wrong of each kind,
and the error class that it gives, stands here; wrong.c has the values.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "tools"))
import mpi_table  # noqa: E402

# They end the program or the library, or cannot fail.
LEFT_OUT = ("Abort", "Init", "Init_thread", "Finalize")

NULLS = {
    "comm": ("MPI_COMM_NULL", "MPI_ERR_COMM"), "group": ("MPI_GROUP_NULL", "MPI_ERR_GROUP"), "datatype": ("MPI_DATATYPE_NULL", "MPI_ERR_TYPE"),
    "committed": ("MPI_DATATYPE_NULL", "MPI_ERR_TYPE"), "op": ("MPI_OP_NULL", "MPI_ERR_OP"), "some_info": ("MPI_INFO_NULL", "MPI_ERR_INFO"),
    "errhandler": ("MPI_ERRHANDLER_NULL", "MPI_ERR_ERRHANDLER"), "win": ("MPI_WIN_NULL", "MPI_ERR_WIN"),
    "file": ("MPI_FILE_NULL", "MPI_ERR_FILE"), "session": ("MPI_SESSION_NULL", "MPI_ERR_SESSION"),
}
FREED = {"info": "MPI_INFO_NULL", "request": "MPI_REQUEST_NULL"}
GOOD = {
    "comm": "right.comm", "comm_or_null": "right.comm", "group": "right.group", "datatype": "MPI_INT", "committed": "MPI_INT", "op": "MPI_SUM",
    "info": "MPI_INFO_NULL", "some_info": "right.info", "errhandler": "MPI_ERRORS_RETURN", "win": "right.win", "file": "right.file",
    "session": "right.session", "request": "right.request", "message": "MPI_MESSAGE_NULL",
    "keyval_ref": "&right.keyval_to_free", "request_ref": "&right.request", "message_inout": "&right.message",
    "requests": "right.requests", "crequests": "right.requests", "datatypes": "right.types", "committeds": "right.types", "datatype_ref": "&right.type",
    "key": '"key"', "string": '"text"', "int": "1", "offset": "0", "aint": "1", "unit": "1", "wsize": "8", "count": "1", "bigcount": "1",
    "asize": "64", "length": "1", "stride": "1", "astride": "1", "rank": "0", "source": "0", "root": "0", "tag": "0", "rtag": "0", "assertion": "0",
    "ints": "right.ints", "ints_inout": "right.zeros", "ranges": "right.ranges", "weights": "MPI_UNWEIGHTED", "aints": "right.aints",
    "strings": "NULL", "stringss": "NULL", "infos": "NULL", "status_out": "MPI_STATUS_IGNORE", "statuses_out": "MPI_STATUSES_IGNORE",
    "pointer_int": "NULL", "argv_inout": "NULL", "user_fn": "right_op", "user_fn_c": "right_op_c",
}
WRONG = {  # kind: (value, error class) ...
    "count": [("-1", "MPI_ERR_COUNT")], "bigcount": [("-1", "MPI_ERR_COUNT")],
    "asize": [("-1", "MPI_ERR_ARG")], "wsize": [("-1", "MPI_ERR_SIZE")], "unit": [("0", "MPI_ERR_ARG")],
    "rank": [("77", "MPI_ERR_RANK"), ("-77", "MPI_ERR_RANK"), ("MPI_ANY_SOURCE", "MPI_ERR_RANK")],
    "source": [("77", "MPI_ERR_RANK"), ("-77", "MPI_ERR_RANK")],
    "root": [("77", "MPI_ERR_ROOT"), ("-1", "MPI_ERR_ROOT"), ("MPI_PROC_NULL", "MPI_ERR_ROOT"), ("MPI_ROOT", "MPI_ERR_ROOT")],
    "tag": [("-77", "MPI_ERR_TAG"), ("MPI_ANY_TAG", "MPI_ERR_TAG")], "rtag": [("-77", "MPI_ERR_TAG")],
    "keyval": [("MPI_KEYVAL_INVALID", "MPI_ERR_KEYVAL"), ("0x7fffffff", "MPI_ERR_KEYVAL")],
    "keyval_ref": [("NULL", "MPI_ERR_ARG"), ("&wrong.keyval", "MPI_ERR_KEYVAL")],
    "committed": [("wrong.loose", "MPI_ERR_TYPE")],
    "info": [("(MPI_Info)MPI_INT", "MPI_ERR_INFO"), ("wrong.freed_info", "MPI_ERR_INFO")],
    "some_info": [("wrong.freed_info", "MPI_ERR_INFO")],
    "request": [("(MPI_Request)MPI_INT", "MPI_ERR_REQUEST"), ("wrong.freed_request", "MPI_ERR_REQUEST")],
    "request_ref": [("NULL", "MPI_ERR_ARG"), ("&wrong.kind_of_request", "MPI_ERR_REQUEST"), ("&wrong.freed_request", "MPI_ERR_REQUEST")],
    "requests": [("NULL", "MPI_ERR_ARG"), ("&wrong.kind_of_request", "MPI_ERR_REQUEST")],
    "crequests": [("NULL", "MPI_ERR_ARG"), ("&wrong.kind_of_request", "MPI_ERR_REQUEST")],
    "message_inout": [("NULL", "MPI_ERR_ARG")],
    "datatype_ref": [("NULL", "MPI_ERR_ARG"), ("&wrong.null_type", "MPI_ERR_TYPE")],
    "datatypes": [("NULL", "MPI_ERR_ARG"), ("&wrong.null_type", "MPI_ERR_TYPE")],
    "committeds": [("NULL", "MPI_ERR_ARG"), ("&wrong.null_type", "MPI_ERR_TYPE"), ("&wrong.loose", "MPI_ERR_TYPE")],
    "counts": [("NULL", "MPI_ERR_ARG"), ("wrong.LARGE", "MPI_ERR_COUNT")],
    "key": [("NULL", "MPI_ERR_INFO_KEY"), ('""', "MPI_ERR_INFO_KEY"), ("wrong.long_key", "MPI_ERR_INFO_KEY")],
    "string": [("NULL", "MPI_ERR_ARG")],
    "assertion": [("1 << 20", "MPI_ERR_ASSERT"), ("-1", "MPI_ERR_ASSERT")],
    "buf": [("MPI_IN_PLACE", "MPI_ERR_BUFFER")], "cbuf": [("MPI_IN_PLACE", "MPI_ERR_BUFFER")],
}
OUTS = ("int_out", "aint_out", "bigcount_out", "offset_out", "count_out", "acount_out", "unit_out", "position", "aposition", "pointer_out",
        "string_out", "status", "status_set", "comm_out", "group_out", "datatype_out", "op_out", "request_out", "info_out", "errhandler_out", "win_out",
        "file_out", "session_out", "user_fn", "user_fn_c", "comm_errhandler_fn", "win_errhandler_fn", "file_errhandler_fn", "session_errhandler_fn")
ARRAYS = ("ints", "ints_out", "aints_out", "bigcounts_out", "datatypes_out", "displs", "idispls", "adispls", "aints", "ranges", "ints_inout")
# Numbers whose meaning is the function's own: what must be said of them.
OTHERS = {
    ("Add_error_code", "errorclass"): [("-1", "MPI_ERR_ARG"), ("16000", "MPI_ERR_ARG")],
    ("Add_error_string", "errorcode"): [("-1", "MPI_ERR_ARG"), ("MPI_ERR_COMM", "MPI_ERR_ARG")],
    ("Cart_create", "dims"): [("&wrong.minus", "MPI_ERR_DIMS")],
    ("Cart_shift", "direction"): [("-1", "MPI_ERR_ARG"), ("9", "MPI_ERR_ARG")],
    ("Cart_coords", "rank"): [("77", "MPI_ERR_RANK"), ("-1", "MPI_ERR_RANK")],
    ("Comm_split", "color"): [("-5", "MPI_ERR_ARG")],
    ("Comm_split_type", "split_type"): [("77", "MPI_ERR_ARG")],
    ("Dims_create", "dims"): [("&wrong.minus", "MPI_ERR_DIMS")],
    ("Error_class", "errorcode"): [("-1", "MPI_ERR_ARG"), ("0x7fffffff", "MPI_ERR_ARG")],
    ("Error_string", "errorcode"): [("-1", "MPI_ERR_ARG"), ("0x7fffffff", "MPI_ERR_ARG")],
    ("Graph_neighbors", "rank"): [("77", "MPI_ERR_RANK")],
    ("File_open", "amode"): [("0", "MPI_ERR_AMODE"), ("MPI_MODE_RDONLY | MPI_MODE_CREATE", "MPI_ERR_AMODE")],
    ("File_open", "filename"): [('"/no/such/folder/file"', "MPI_ERR_NO_SUCH_FILE")],
    ("File_delete", "filename"): [('"/no/such/folder/file"', "MPI_ERR_NO_SUCH_FILE")],
    ("File_seek", "whence"): [("77", "MPI_ERR_ARG")], ("File_seek_shared", "whence"): [("77", "MPI_ERR_ARG")],
    ("File_set_view", "disp"): [("-7", "MPI_ERR_DISP")], ("File_set_view", "datarep"): [('"strange"', "MPI_ERR_UNSUPPORTED_DATAREP")],
    ("Group_excl", "ranks"): [("&wrong.rank", "MPI_ERR_RANK")],
    ("Group_incl", "ranks"): [("&wrong.rank", "MPI_ERR_RANK")],
    ("Group_translate_ranks", "ranks1"): [("&wrong.rank", "MPI_ERR_RANK")],
    ("Intercomm_create", "local_leader"): [("77", "MPI_ERR_RANK")],
    ("Remove_error_class", "errorclass"): [("MPI_ERR_COMM", "MPI_ERR_ARG")],
    ("Remove_error_code", "errorcode"): [("MPI_ERR_COMM", "MPI_ERR_ARG")],
    ("Type_create_darray", "size"): [("-1", "MPI_ERR_ARG")],
    ("Type_create_darray", "order"): [("77", "MPI_ERR_ARG")],
    ("Type_create_subarray", "order"): [("77", "MPI_ERR_ARG")],
    ("Type_match_size", "typeclass"): [("77", "MPI_ERR_ARG")],
    ("Type_match_size", "size"): [("3", "MPI_ERR_ARG")],
    ("Abi_get_fortran_booleans", "logical_size"): [("3", "MPI_ERR_ARG")],
}
# Of windows, by the argument's name.
WINDOWS = {
    "target_rank": [("77", "MPI_ERR_RANK"), ("-77", "MPI_ERR_RANK")], "rank": [("77", "MPI_ERR_RANK"), ("-77", "MPI_ERR_RANK")],
    "lock_type": [("77", "MPI_ERR_LOCKTYPE")],
}
# What is right in this function, where its kind does not say it.
RIGHT = {
    ("Cart_sub", "remain_dims"): "right.zeros", ("Unpack_external", "datarep"): '"external32"', ("Pack_external", "datarep"): '"external32"',
    ("Pack_external_size", "datarep"): '"external32"', ("Type_create_subarray", "order"): "MPI_ORDER_C",
    ("Type_create_darray", "order"): "MPI_ORDER_C", ("Comm_split_type", "split_type"): "MPI_COMM_TYPE_SHARED",
    **{(name, argument): value for name in (
        "Accumulate", "Compare_and_swap", "Fetch_and_op", "Get", "Get_accumulate", "Put", "Raccumulate", "Rget", "Rget_accumulate", "Rput", "Win_lock",
        "Win_flush", "Win_flush_local", "Win_unlock", "Win_shared_query", "Win_lock_all", "Win_fence", "Win_post", "Win_start")
       for argument, value in (("target_rank", "0"), ("rank", "0"), ("lock_type", "MPI_LOCK_SHARED"))},
    ("File_open", "filename"): "right.file_name", ("File_open", "amode"): "MPI_MODE_RDWR", ("File_set_view", "datarep"): '"native"',
    ("File_seek", "whence"): "MPI_SEEK_SET", ("File_seek_shared", "whence"): "MPI_SEEK_SET", ("File_preallocate", "size"): "1",
    ("Type_match_size", "typeclass"): "MPI_TYPECLASS_REAL", ("Type_match_size", "size"): "4", ("Intercomm_create", "local_leader"): "0",
}
# Of a handle of MPI_REQUEST_NULL these functions say that there is no request; the others wait for nothing.
NEED_REQUEST = ("Start", "Startall", "Request_free", "Cancel", "Grequest_complete", "Pready", "Pready_list", "Pready_range", "Parrived")


def right(function, argument, large):
    kind, name = argument.kind, argument.name
    if (function.name, name) in RIGHT:
        return RIGHT[function.name, name]
    if kind == "comm" and function.subject in ("topology", "neighborhood") and not function.name.endswith(("create", "adjacent", "_map")):
        return "right.graph" if function.name.startswith("Graph") else "right.distributed" if function.name.startswith("Dist") else "right.cart"
    if kind == "keyval":
        return f"right.{'type' if function.name.startswith('Type') else 'win' if function.name.startswith('Win') else 'comm'}_keyval"
    if kind in ("counts", "displs", "idispls", "adispls"):
        ctype = mpi_table.c_type(kind, large)
        return {"int": "right.ints", "MPI_Count": "right.large", "MPI_Aint": "right.aints"}[ctype.split()[1]]
    if kind.endswith("_free"):
        return f"&right.{kind.removesuffix('_free')}"
    if kind.endswith("_fn"):
        return GOOD.get(kind, "NULL")
    return GOOD.get(kind.removeprefix("maybe_"), "right.room")


def wrong(function, index, large):
    """What may be wrong with an argument: values and error classes."""
    argument = function.arguments[index]
    kind, name = argument.kind, argument.name
    found = list(WRONG.get(kind, [])) + OTHERS.get((function.name, name), [])
    if function.subject == "io" and kind == "offset" and name in ("offset", "size"):
        found.append(("-1", "MPI_ERR_ARG"))
    if function.subject == "rma" and kind == "int":
        found += WINDOWS.get(name, [])
    if kind in NULLS:
        null, error = NULLS[kind]
        found += [(null, error), (f"({mpi_table.c_type(kind, False)})(uintptr_t)0x300", error)]
    if kind.startswith("maybe_"):
        found.append((f"({mpi_table.c_type(kind, False)})(uintptr_t)0x300", NULLS[kind.removeprefix("maybe_")][1]))
    if kind.endswith("_free"):
        error = NULLS.get(kind.removesuffix("_free"), (None, "MPI_ERR_INFO"))[1]
        found += [("NULL", "MPI_ERR_ARG"), (f"&wrong.null_{kind.removesuffix('_free')}", error)]
    if kind == "length":
        found.append(("-1", {"count": "MPI_ERR_COUNT", "incount": "MPI_ERR_COUNT", "ndims": "MPI_ERR_DIMS"}.get(name, "MPI_ERR_ARG")))
    if kind in OUTS or (kind in ARRAYS and argument.length and argument.length != "0"):
        found.append(("NULL", "MPI_ERR_ARG"))
    after = [a.kind for a in function.arguments[index + 1:index + 3]]
    if kind in ("buf", "cbuf", "sendbuf", "placebuf") and after == ["count", "committed"]:
        found.append(("NULL", "MPI_ERR_BUFFER"))
    if kind in ("request", "request_ref") and function.name in NEED_REQUEST:
        found.append(("MPI_REQUEST_NULL" if kind == "request" else "&wrong.null_request", "MPI_ERR_REQUEST"))
    return [(value.replace("LARGE", "large" if large else "ints"), error) for value, error in found]


def calls(function, name, large, lacking):
    """`lacking`: kinds of objects that nothing makes yet; where one is needed, that argument alone can be tried."""
    needed = {a.kind for a in function.arguments} & lacking
    good = [right(function, a, large) for a in function.arguments]
    heard = 0 if function.subject in ("io", "t") or function.name.startswith("File_") else 1
    for index, argument in enumerate(function.arguments):
        for value, error in wrong(function, index, large) if not needed or argument.kind in needed else []:
            given = [*good[:index], value, *good[index + 1:]]
            text = f"MPI_{name}: {argument.name} = {value}".replace('"', "'")
            yield f'    WRONG("{text}", {error}, {heard}, MPI_{name}({", ".join(given)}));'


def missing(function, name, large):
    """The call of a function that is not there."""
    error, heard = "MPI_ERR_UNSUPPORTED_OPERATION", 1
    if function.subject == "t":  # these have no error handler
        error, heard = "MPI_T_ERR_CANNOT_INIT" if function.name == "T_init_thread" else "MPI_T_ERR_NOT_INITIALIZED", 0
    given = ["0" if a.kind in ("t_cb_safety", "t_source_order") else right(function, a, large) for a in function.arguments]
    return f'    MISSING("MPI_{name}", {error}, {heard}, MPI_{name}({", ".join(given)}));'


def main():
    functions, subjects = mpi_table.read(sys.argv[1])
    there = [f for f in functions if f.module not in ("none", "made", "special") and f.name not in LEFT_OUT]
    print("// Made by wrong_make.py.\n#include \"wrong.h\"\n")
    if "Cart_create" not in {f.name for f in there}:  # nobody has neighbors
        there = [f for f in there if f.subject != "neighborhood"]
    makers = {"win": "Win_create", "file": "File_open", "session": "Session_init"}
    lacking = {kind for kind, maker in makers.items() if maker not in {f.name for f in there}}
    for subject in subjects:
        lines = [line for f in there if f.subject == subject for name, large in f.forms for line in calls(f, name, large, lacking)]
        print(f"static void {subject}(void) {{\n" + "\n".join(lines) + "\n}\n")
    lines = [missing(f, name, large) for f in functions if f.module == "none" for name, large in f.forms]
    print("void missing_calls(void) {\n" + "\n".join(lines) + "\n}\n")
    have = {f.name for f in there}
    print(f"const bool have_topologies = {str('Cart_create' in have).lower()};")
    print(f"const bool have_keyvals = {str('Comm_create_keyval' in have).lower()};")
    print(f"const bool have_win = {str('Win_create' in have).lower()};")
    print(f"const bool have_files = {str('File_open' in have).lower()};")
    print(f"const bool have_sessions = {str('Session_init' in have).lower()};")
    print("void wrong_calls(void) {\n" + "\n".join(f"    {subject}();" for subject in subjects) + "\n}")


if __name__ == "__main__":
    main()
