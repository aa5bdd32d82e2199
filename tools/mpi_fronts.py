# SPDX-License-Identifier: BSD-3-Clause
"""Write the fronts of the functions of MPI: what programs call.  See src/mpi/front/check.h.

A front checks its arguments in the order objects, root, others; calls the body; gives what that has made.  Whatever fails goes to the error
handler of the object concerned.
"""
from mpi_kinds import KINDS, OBJECTS

RAISERS = ("comm", "win", "file", "session")
SIGNIFICANT = {
    "root": "whm_at_root(comm_, root)",
    "member": "root != MPI_PROC_NULL",
    "leaf": "root != MPI_PROC_NULL && root != MPI_ROOT && {buffer} != MPI_IN_PLACE",
    "given": "{buffer} != MPI_IN_PLACE",
}
LENGTHS = {  # others are names of arguments
    "peers": "whm_peers({comm}_)", "group": "{comm}_->size",
    "sources": "whm_sources({comm}_)", "destinations": "whm_destinations({comm}_)",
}
NARROWED = ("count_out", "acount_out", "unit_out", "position", "aposition")
POINTERS = (
    "int_out", "aint_out", "bigcount_out", "offset_out", "count_out", "acount_out", "unit_out", "position", "aposition", "keyval_ref", "pointer_out",
    "string", "string_out", "request_ref", "message_inout", "status", "status_set", "user_fn", "user_fn_c",
    "comm_errhandler_fn", "win_errhandler_fn", "file_errhandler_fn", "session_errhandler_fn")
ARRAYS = (
    "ints", "ints_inout", "ints_out", "aints_out", "bigcounts_out", "requests", "crequests", "datatypes_out", "infos", "ranges", "strings", "weights")
WIDE = {  # by kind: how an array is taken in the two forms, and whether its elements are not negative
    "counts": ("counts", "take_counts"), "displs": ("ints", "take"), "idispls": ("ints", "take"),
    "adispls": ("take", "take"), "aints": ("take", "take"),
}
LEAST = {  # by kind: error class, least value, why
    "count": ("MPI_ERR_COUNT", 0, "a count is not negative"), "bigcount": ("MPI_ERR_COUNT", 0, "a count is not negative"),
    "asize": ("MPI_ERR_ARG", 0, "a size is not negative"), "wsize": ("MPI_ERR_SIZE", 0, "a size is not negative"),
    "unit": ("MPI_ERR_ARG", 1, "a unit has a byte or more"),
}


def length_error(name):
    return {"count": "MPI_ERR_COUNT", "incount": "MPI_ERR_COUNT", "ndims": "MPI_ERR_DIMS"}.get(name, "MPI_ERR_ARG")


class Front:
    """One form of a function: lines of C, collected argument by argument."""

    def __init__(self, function, name, large):
        self.function, self.name, self.large = function, name, large
        self.locals, self.objects, self.roots, self.checks = [], [], [], []
        self.passed, self.given, self.drops = [], [], []
        self.comm = next((a.name for a in function.arguments if a.kind in ("comm", "win")), None)
        self.raiser = self.find_raiser()
        self.buffer = None  # the last one
        for argument in function.arguments:
            self.add(argument)

    def find_raiser(self):
        """Whose error handler is asked: the kind, and the object.  Of what concerns files, never a communicator's."""
        raisers = ("file",) if self.function.subject == "io" else RAISERS
        for argument in self.function.arguments:
            kind = argument.kind.removesuffix("_free").removeprefix("maybe_")
            if kind in raisers:
                return OBJECTS[kind][2], f"{argument.name}_"
        return ("WHM_FILE" if self.function.subject == "io" else "0"), "NULL"

    def where(self, argument):
        return SIGNIFICANT[argument.where].format(buffer=self.buffer) if argument.where in SIGNIFICANT else None

    def check(self, argument, expression):
        """Adds a check, made where the argument is significant."""
        where = self.where(argument)
        self.checks.append(f"!({where}) ? MPI_SUCCESS : {expression}" if where else expression)

    def length(self, argument):
        return LENGTHS.get(argument.length, argument.length).format(comm=self.comm)

    def add(self, a):
        for handles in (self.add_object, self.add_new, self.add_array, self.add_narrowed, self.add_buffer, self.add_number, self.add_pointer):
            if handles(a):
                return
        self.passed.append(a.name)

    def add_object(self, a):
        kind = a.kind.removesuffix("_free").removesuffix("_ref")
        base = {"committed": "datatype", "some_info": "info", "comm_or_null": "comm"}.get(kind, kind).removeprefix("maybe_")
        if base not in OBJECTS or base == "request":
            return False
        _, struct, number, none, _ = OBJECTS[base]
        handle, name = a.name, f'"{a.name}"'
        self.locals.append(f"{struct} *{a.name}_ = NULL")
        self.passed.append(f"{a.name}_")
        if a.kind.endswith(("_free", "_ref")):
            self.objects.append(f"whm_check_pointer({name}, {handle})")
            handle = f"*{handle}"
        if a.kind.endswith("_free"):
            self.given.append(f"{handle} = {none}")
        if kind == "committed":
            get = f"WHM_GET_COMMITTED({a.name}_, {handle}, {name})"
        elif kind == "comm_or_null":
            get = f"({a.name}_ = whm_object_of({handle}, {number}), MPI_SUCCESS)"
        elif a.kind == "info" or kind.startswith("maybe_"):
            get = f"WHM_GET_OR_NULL({a.name}_, {handle}, {none}, {number}, {name})"
        else:
            get = f"WHM_GET({a.name}_, {handle}, {number}, {name})"
        if kind.removeprefix("maybe_") in RAISERS:
            self.objects.append(get)
        else:
            self.check(a, get)
            if kind == "committed" and self.counted:
                check = f'whm_check_buffer("{self.buffer}", {self.buffer}, {self.counted}, {a.name}_)'
                self.check(a, f"!({self.needed}) ? MPI_SUCCESS : {check}" if self.needed else check)
                self.counted, self.open = None, False
        return True

    counted = None  # the count of the last buffer
    open = False  # its count and type are yet to come; others, as a target's, are not its own
    needed = None  # where that buffer is significant

    def add_new(self, a):
        kind = a.kind.removesuffix("_out")
        if kind == a.kind or kind not in OBJECTS:
            return False
        _, struct, _, none, _ = OBJECTS[kind]
        self.locals.append(f"{struct} *{a.name}_ = NULL")
        self.check(a, f'whm_check_pointer("{a.name}", {a.name})')
        self.passed.append(f"&{a.name}_")
        self.given.append(f"*{a.name} = WHM_GIVE({a.name}_, {none})")
        return True

    def add_array(self, a):
        name = f'"{a.name}"'
        if a.kind in WIDE:
            self.locals.append(f"whm_wide {a.name}_; {a.name}_.at = NULL; {a.name}_.made = NULL")
            self.check(a, f"whm_wide_{WIDE[a.kind][self.large]}(&{a.name}_, {name}, {a.name}, {self.length(a)})")
            self.passed.append(f"{a.name}_.at")
            self.drops.append(f"whm_wide_drop(&{a.name}_)")
        elif a.kind in ("datatypes", "committeds"):
            committed = "true" if a.kind == "committeds" else "false"
            self.locals.append(f"whm_types {a.name}_; {a.name}_.at = NULL; {a.name}_.made = NULL")
            self.check(a, f"whm_types_take(&{a.name}_, {name}, {a.name}, {self.length(a)}, {committed})")
            self.passed.append(f"{a.name}_.at")
            self.drops.append(f"whm_types_drop(&{a.name}_)")
        elif a.kind in ARRAYS and a.length:
            self.check(a, f"whm_check_array({name}, {a.name}, {self.length(a)})")
            self.passed.append(a.name)
        else:
            return False
        return True

    def add_narrowed(self, a):
        if a.kind not in NARROWED:
            return False
        self.locals.append(f"MPI_Count {a.name}_ = 0")
        self.check(a, f'whm_check_pointer("{a.name}", {a.name})')
        if a.kind.endswith("position"):
            self.check(a, f"({a.name}_ = *{a.name}, MPI_SUCCESS)")
        self.passed.append(f"&{a.name}_" if a.kind != "unit_out" else f"(MPI_Aint *)&{a.name}_")
        narrow = f"whm_narrow({a.name}_)" if not self.large and KINDS[a.kind][0] == "int *" else f"{a.name}_"
        self.given.append(f"*{a.name} = {narrow}")
        return True

    def add_buffer(self, a):
        if a.kind not in ("buf", "cbuf", "sendbuf", "placebuf"):
            return False
        self.buffer, self.counted, self.open = a.name, None, True
        self.needed = self.where(a)
        name = f'"{a.name}"'
        if a.kind in ("buf", "cbuf"):
            self.check(a, f"whm_check_place({name}, {a.name})")
        elif a.where == "root":  # of Scatter
            self.check(a, f"whm_check_place({name}, {a.name})")
        elif a.where == "leaf":
            self.checks.append(f"comm_->rank == root && !comm_->remote ? MPI_SUCCESS : whm_check_place({name}, {a.name})")
        self.passed.append(a.name)
        return True

    def add_number(self, a):
        name = f'"{a.name}"'
        if a.kind in LEAST:
            error, least, why = LEAST[a.kind]
            self.check(a, f'whm_check_least({error}, {name}, {a.name}, {least}, "{why}")')
            if a.kind == "count" and self.open:
                self.counted = a.name
        elif a.kind == "length":
            self.check(a, f'whm_check_least({length_error(a.name)}, {name}, {a.name}, 0, "it is not negative")')
        elif a.kind == "rank":
            self.check(a, f"whm_check_dest({self.comm}_, {name}, {a.name})")
        elif a.kind == "source":
            self.check(a, f"whm_check_source({self.comm}_, {name}, {a.name})")
        elif a.kind in ("tag", "rtag", "assertion"):
            self.check(a, f"whm_check_{a.kind}({name}, {a.name})")
        elif a.kind == "root":
            self.roots.append(f"whm_check_root({self.comm}_, root)")
        else:
            return False
        where = self.where(a)
        self.passed.append(f"{where} ? {a.name} : 0" if where else a.name)
        return True

    def add_pointer(self, a):
        if a.kind == "key":
            self.check(a, f'whm_check_key("{a.name}", {a.name})')
        elif a.kind in POINTERS:
            self.check(a, f'whm_check_pointer("{a.name}", {a.name})')
        else:
            return False
        self.passed.append(a.name)
        return True

    def comparison(self):
        """What is said to the other ranks, with WHERRY_MPI_CHECK=1."""
        kind, name = next((kind, a.name) for a in self.function.arguments if (kind := a.kind.removesuffix("_free")) in ("comm", "file"))
        comm = f"{name}_" if kind == "comm" else f"((whm_joint *){name}_)->comm"
        facts = []
        for a in self.function.arguments:
            if a.where == "same" and a.length:
                facts.append(f'{{"other {a.name}", WHM_UNSAID, MPI_ERR_NOT_SAME, whm_hash({a.name}, sizeof(*{a.name}) * (size_t){self.length(a)})}}')
            elif a.where == "same":
                facts.append(f'{{"{a.name}", WHM_NAME_FIRST, MPI_ERR_NOT_SAME, {a.name}}}')
        return f"whm_compare_facts({', '.join([comm, *facts])})" if facts else f"whm_compare_call({comm})"

    def text(self):
        function = self.function
        neighbors = any(a.length in ("sources", "destinations") for a in function.arguments)
        checks = [] if function.any_time else ["whm_check_running()"]
        checks += self.objects + self.roots + [f"whm_check_topology({self.comm}_)"] * neighbors + self.checks
        checks += [self.comparison()] if function.compared else []
        tried = [f"(code = {check})" for check in checks]
        lines = [f"{function.prototype('P' + 'MPI_' + self.name, self.large)} {{",
                 f'    const char *outer = whm_call_begin("MPI_{self.name}");', "    int code;"]
        lines += [f"    {line};" for line in self.locals]
        call = f"code = {function.body}({', '.join(self.passed)});"
        lines += [f"    if (!({' || '.join(tried)}))".replace(" || ", "\n        || "), f"        {call}"] if tried else [f"    {call}"]
        lines += [f"    {line};" for line in self.drops]
        if self.given:
            lines += ["    if (WHM_LIKELY(code == MPI_SUCCESS)) {", *[f"        {line};" for line in self.given], "    }"]
        lines += ["    if (!WHM_LIKELY(code == MPI_SUCCESS))", f"        code = whm_call_fail({self.raiser[0]}, {self.raiser[1]}, code);",
                  "    whm_call_end(outer);", "    return code;", "}"]
        return "\n".join(lines)


def stub(function, name, large):
    """A function that is not there: it names itself once, and its object's error handler is asked."""
    kind, raiser = Front(function, name, large).raiser
    prototype = function.prototype(f"PMPI_{name}", large)
    if function.subject == "t":  # these have no error handlers; what they could read is begun by MPI_T_init_thread
        error = "MPI_T_ERR_CANNOT_INIT" if function.name == "T_init_thread" else "MPI_T_ERR_NOT_INITIALIZED"
        unused = "".join(f"    (void){a.name};\n" for a in function.arguments)
        return (f"{prototype} {{\n    static bool told;\n{unused}    const char *outer = whm_call_begin(\"MPI_{name}\");\n"
                f"    whm_tell_missing(&told);\n    whm_call_end(outer);\n    return {error};\n}}")
    object_, unused = "NULL", ""
    for a in function.arguments:
        if f"{a.name}_" == raiser:
            handle = f"({a.name} ? *{a.name} : {OBJECTS[a.kind.removesuffix('_free')][3]})" if a.kind.endswith("_free") else a.name
            object_ = f"whm_object_of({handle}, {kind})"
        else:
            unused += f"    (void){a.name};\n"
    running = "MPI_SUCCESS" if function.any_time else "whm_check_running()"
    return (f"{prototype} {{\n    static bool told;\n{unused}    const char *outer = whm_call_begin(\"MPI_{name}\");\n"
            f"    int code = {running};\n    if (!code)\n        code = whm_missing(&told);\n"
            f"    code = whm_call_fail({kind}, {object_}, code);\n    whm_call_end(outer);\n    return code;\n}}")


def integer(function, name):
    """MPI_X_toint and MPI_X_fromint."""
    prototype = function.prototype(f"PMPI_{name}", False)
    argument = function.arguments[0]
    if name.endswith("_toint"):
        return f"{prototype} {{\n    return whm_int_of({argument.name});\n}}"
    none = "MPI_MESSAGE_NULL" if function.result == "MPI_Message" else next(o[3] for o in OBJECTS.values() if o[0] == function.result)
    return f"{prototype} {{\n    return ({function.result})whm_handle_of({argument.name}, {none});\n}}"


def front(function, name, large):
    if function.module == "made":
        return integer(function, name)
    if function.module == "none":
        return stub(function, name, large)
    return Front(function, name, large).text()


def write(functions, subject):
    """The fronts of one subject."""
    print("// SPDX-License-Identifier: BSD-3-Clause\n// Made from src/mpi/table.txt by tools/mpi_fronts.py.\n"
          '#include "mpi/front/arrays.h"\n#include "mpi/front/check.h"\n#include "mpi/front/ints.h"\n\n#include "mpi/bodies.h"\n')
    for function in functions:
        if function.subject == subject and function.module != "special":
            for name, large in function.forms:
                print(f"{front(function, name, large)}\nWHM_WEAK(MPI_{name});\n")
