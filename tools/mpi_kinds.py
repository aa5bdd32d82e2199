# SPDX-License-Identifier: BSD-3-Clause
"""The kinds of arguments in src/mpi/table.txt: their C types in the two forms of a function and in its body."""

# What an argument named `x` is: in the function, in its form for large counts, in the body.  None: as in the first.
# {} is the name; without it, it comes last.
PLAIN = {
    "int": ("int", None, None),
    "length": ("int", None, None),  # not negative
    "rank": ("int", None, None),  # of a communicator or a window, or MPI_PROC_NULL
    "source": ("int", None, None),  # MPI_ANY_SOURCE, too
    "root": ("int", None, None),
    "tag": ("int", None, None),
    "rtag": ("int", None, None),  # MPI_ANY_TAG, too
    "keyval": ("int", None, None),
    "assertion": ("int", None, None),  # of MPI_MODE_NOCHECK and its like
    "keyval_ref": ("int *", None, None),
    "count": ("int", "MPI_Count", "MPI_Count"),
    "bigcount": ("MPI_Count", None, None),
    "asize": ("MPI_Aint", "MPI_Count", "MPI_Count"),
    "stride": ("int", "MPI_Count", "MPI_Aint"),
    "astride": ("MPI_Aint", "MPI_Count", "MPI_Aint"),
    "aint": ("MPI_Aint", None, None),
    "wsize": ("MPI_Aint", None, None),  # not negative
    "unit": ("int", "MPI_Aint", "MPI_Aint"),
    "offset": ("MPI_Offset", None, None),
    "int_out": ("int *", None, None),
    "aint_out": ("MPI_Aint *", None, None),
    "bigcount_out": ("MPI_Count *", None, None),
    "offset_out": ("MPI_Offset *", None, None),
    "count_out": ("int *", "MPI_Count *", "MPI_Count *"),
    "acount_out": ("MPI_Aint *", "MPI_Count *", "MPI_Count *"),
    "unit_out": ("int *", "MPI_Aint *", "MPI_Aint *"),
    "position": ("int *", "MPI_Count *", "MPI_Count *"),
    "aposition": ("MPI_Aint *", "MPI_Count *", "MPI_Count *"),
    # Arrays.
    "counts": ("const int {}[]", "const MPI_Count {}[]", "const MPI_Count *"),
    "displs": ("const int {}[]", "const MPI_Aint {}[]", "const MPI_Aint *"),
    "idispls": ("const int {}[]", "const MPI_Count {}[]", "const MPI_Aint *"),
    "adispls": ("const MPI_Aint {}[]", "const MPI_Count {}[]", "const MPI_Aint *"),
    "aints": ("const MPI_Aint {}[]", None, "const MPI_Aint *"),
    "ints": ("const int {}[]", None, "const int *"),
    "ints_inout": ("int {}[]", None, "int *"),
    "ints_out": ("int {}[]", None, "int *"),
    "aints_out": ("MPI_Aint {}[]", None, "MPI_Aint *"),
    "bigcounts_out": ("MPI_Count {}[]", None, "MPI_Count *"),
    "weights": ("const int *", None, None),  # MPI_UNWEIGHTED, too
    "weights_out": ("int *", None, None),
    "ranges": ("int {}[][3]", None, "int (*{})[3]"),
    "strings": ("char *{}[]", None, "char **"),
    "stringss": ("char **{}[]", None, "char ***"),
    "errcodes_out": ("int {}[]", None, "int *"),
    # Memory.
    "buf": ("void *", None, None),
    "cbuf": ("const void *", None, None),
    "sendbuf": ("const void *", None, None),  # MPI_IN_PLACE, too
    "placebuf": ("void *", None, None),  # the same, where data are received
    "pointer": ("void *", None, None),
    "cpointer": ("const void *", None, None),
    "pointer_out": ("void *", None, None),  # of a pointer
    "pointer_int": ("int *", None, None),
    "argv_inout": ("char ***", None, None),
    "string": ("const char *", None, None),
    "key": ("const char *", None, None),
    "string_out": ("char *", None, None),
    "string_room": ("char *", None, None),  # the same, for as many characters as an argument says: NULL is right where that is 0
    # What stays a handle, and statuses.
    "request": ("MPI_Request", None, None),
    "request_ref": ("MPI_Request *", None, None),
    "requests": ("MPI_Request {}[]", None, "MPI_Request *"),
    "crequests": ("const MPI_Request {}[]", None, "const MPI_Request *"),
    "message": ("MPI_Message", None, None),
    "message_inout": ("MPI_Message *", None, None),
    "status": ("const MPI_Status *", None, None),
    "status_set": ("MPI_Status *", None, None),
    "status_out": ("MPI_Status *", None, None),
    "statuses_out": ("MPI_Status *", None, None),
    "datatypes_out": ("MPI_Datatype {}[]", None, "MPI_Datatype *"),
    "infos": ("const MPI_Info {}[]", None, "const MPI_Info *"),
    "...": ("...", None, None),
}

# Handles that become objects: the type of MPI, the struct, whm_kind, the null handle, the error class.
OBJECTS = {
    "comm": ("MPI_Comm", "whm_comm", "WHM_COMM", "MPI_COMM_NULL", "MPI_ERR_COMM"),
    "group": ("MPI_Group", "whm_group", "WHM_GROUP", "MPI_GROUP_NULL", "MPI_ERR_GROUP"),
    "datatype": ("MPI_Datatype", "whm_type", "WHM_TYPE", "MPI_DATATYPE_NULL", "MPI_ERR_TYPE"),
    "op": ("MPI_Op", "whm_op", "WHM_OP", "MPI_OP_NULL", "MPI_ERR_OP"),
    "request": ("MPI_Request", "whm_request", "WHM_REQUEST", "MPI_REQUEST_NULL", "MPI_ERR_REQUEST"),
    "info": ("MPI_Info", "whm_info", "WHM_INFO", "MPI_INFO_NULL", "MPI_ERR_INFO"),
    "errhandler": ("MPI_Errhandler", "whm_errhandler", "WHM_ERRHANDLER", "MPI_ERRHANDLER_NULL", "MPI_ERR_ERRHANDLER"),
    "win": ("MPI_Win", "whm_win", "WHM_WIN", "MPI_WIN_NULL", "MPI_ERR_WIN"),
    "file": ("MPI_File", "whm_file", "WHM_FILE", "MPI_FILE_NULL", "MPI_ERR_FILE"),
    "session": ("MPI_Session", "whm_session", "WHM_SESSION", "MPI_SESSION_NULL", "MPI_ERR_SESSION"),
}

# Functions of the program.
FUNCTIONS = {
    "comm_copy_attr_fn": "MPI_Comm_copy_attr_function", "comm_delete_attr_fn": "MPI_Comm_delete_attr_function",
    "type_copy_attr_fn": "MPI_Type_copy_attr_function", "type_delete_attr_fn": "MPI_Type_delete_attr_function",
    "win_copy_attr_fn": "MPI_Win_copy_attr_function", "win_delete_attr_fn": "MPI_Win_delete_attr_function",
    "copy_fn": "MPI_Copy_function", "delete_fn": "MPI_Delete_function",
    "comm_errhandler_fn": "MPI_Comm_errhandler_function", "file_errhandler_fn": "MPI_File_errhandler_function",
    "win_errhandler_fn": "MPI_Win_errhandler_function", "session_errhandler_fn": "MPI_Session_errhandler_function",
    "grequest_query_fn": "MPI_Grequest_query_function", "grequest_free_fn": "MPI_Grequest_free_function",
    "grequest_cancel_fn": "MPI_Grequest_cancel_function", "datarep_extent_fn": "MPI_Datarep_extent_function",
    "user_fn": "MPI_User_function", "user_fn_c": "MPI_User_function_c",
    "datarep_conversion_fn": "MPI_Datarep_conversion_function", "datarep_conversion_fn_c": "MPI_Datarep_conversion_function_c",
}


def _all():
    kinds = dict(PLAIN)
    for name, (handle, struct, _, _, _) in OBJECTS.items():
        if name != "request":
            kinds[name] = (handle, None, f"{struct} *")
        kinds[f"{name}_out"] = (f"{handle} *", None, f"{struct} **")  # a new one
        kinds[f"{name}_free"] = (f"{handle} *", None, f"{struct} *")  # the null handle is stored
        kinds[f"raw_{name}"] = (handle, None, None)
        kinds[f"raw_{name}_out"] = (f"{handle} *", None, None)
    kinds["datatypes"] = ("const MPI_Datatype {}[]", None, "whm_type *const *")
    kinds["datatype_ref"] = ("MPI_Datatype *", None, "whm_type *")
    kinds["committed"] = kinds["datatype"]
    kinds["committeds"] = kinds["datatypes"]
    kinds["comm_or_null"] = kinds["comm"]  # may be none
    for name in ("comm", "datatype", "win", "file"):  # may be the null handle, which the body gets as NULL
        kinds[f"maybe_{name}"] = kinds[name]
    kinds["some_info"] = kinds["info"]  # may not be MPI_INFO_NULL, as others may
    kinds["raw_message"] = ("MPI_Message", None, None)
    kinds["raw_datatypes_out"] = ("MPI_Datatype {}[]", None, "MPI_Datatype *")
    kinds["raw_aints_out"] = ("MPI_Aint {}[]", None, "MPI_Aint *")
    for name, function in FUNCTIONS.items():
        kinds[name] = (f"{function} *", None, None)
    for name in ("enum", "cvar_handle", "pvar_handle", "pvar_session", "event_registration", "event_instance", "cb_safety", "source_order"):
        kinds[f"t_{name}"] = (f"MPI_T_{name}", None, None)
        kinds[f"t_{name}_out"] = (f"MPI_T_{name} *", None, None)
    for name in ("event_free_cb", "event_cb", "event_dropped_cb"):
        kinds[f"t_{name}_fn"] = (f"MPI_T_{name}_function *", None, None)
    return kinds


KINDS = _all()


def declare(ctype, name):
    """An argument of that type and name, as C writes it."""
    if ctype == "...":
        return ctype
    if "{}" in ctype:
        return ctype.format(name)
    return f"{ctype}{'' if ctype.endswith('*') else ' '}{name}"
