# SPDX-License-Identifier: BSD-3-Clause
#
# What inspect.signature and editors find out about classes and about methods that are not Cython's
# own: CPython takes it from the beginning of their docstrings.

cdef extern from *:
    """
    /* The text must stay: the type keeps the pointer. */
    static int wherry_set_doc(PyObject *type, const char *doc, PyObject *shown) {
        ((PyTypeObject *)type)->tp_doc = doc;
        int rc = PyDict_SetItemString(((PyTypeObject *)type)->tp_dict, "__doc__", shown);
        PyType_Modified((PyTypeObject *)type);
        return rc;
    }
    """
    int wherry_set_doc(object type, const char *doc, object shown) except -1

cdef dict SIGNATURES = {
    Accumulator: "(buf, type, op, count=1, *, origin=0)",
    Context: "(**options)",
    Cursor: "(buf, type=None, count=1, *, origin=0, hint=None, writable=False)",
    DeviceMemory: "(size, memory='cuda', device=0)",
    View: "(buf, type, count=1, *, origin=0)",
    Worker: "(context=None, *, accept=None)",
    # Made by functions only.
    **{kind: "()" for kind in (Endpoint, Frame, Iteration, Listener, Message, RegisteredMemory,
                               RemoteMemory, Request, Segments, Type)},
}
cdef list class_docs = []


cdef bytes signed_doc(str name, str text, str doc):
    """A docstring from which CPython takes a signature."""
    return f"{name}{text}\n--\n\n{doc}".encode()


cdef str without_signature(str name, str doc):
    """A docstring without the line that Cython has put before it."""
    first, _, rest = doc.partition("\n")
    return rest.lstrip("\n") if first.partition("(")[0].rpartition(".")[2] == name else doc


for kind, text in SIGNATURES.items():
    shown = without_signature(kind.__name__, kind.__doc__)
    class_docs.append(signed_doc(kind.__name__, text, shown))
    wherry_set_doc(kind, class_docs[-1], shown)


cdef str parameters(object function):
    """Those that Cython has put before a docstring, without the words that are C's."""
    first = function.__doc__.partition("\n")[0]
    names = []
    for each in first[first.index("(") + 1:first.rindex(")")].replace(" not None", "").split(", "):
        name, equals, default = each.partition("=")
        names.append(name.rpartition(" ")[2] + equals + default)
    return ", ".join(names)


cdef bytes method_doc(object method):
    """The docstring of a method that takes the place of another."""
    text = parameters(method).replace("self", "$self", 1).replace("=ALL", f"={ALL}")
    return signed_doc(method.__name__, f"({text})", without_signature(method.__name__, method.__doc__))


cdef sign_functions():
    """Cython before 3 does not tell the defaults of a function's arguments, for which it has its own."""
    function = type(dup)
    found = [each for owner in [globals(), *[vars(kind) for kind in SIGNATURES]] for each in owner.values()
             if type(each) is function and (each.__doc__ or "").partition("(")[0].endswith(each.__name__)]
    # One text for all: to compile each for itself would take milliseconds.
    made = eval("[" + ", ".join([f"lambda {parameters(each)}: None" for each in found]) + "]", {"ALL": ALL})
    for each, like in zip(found, made):
        each.__defaults__, each.__kwdefaults__ = like.__defaults__, like.__kwdefaults__


if Endpoint.send_obj.__defaults__ is None:
    sign_functions()
