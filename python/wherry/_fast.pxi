# SPDX-License-Identifier: BSD-3-Clause
#
# The two calls of every message, send and recv, taken without a tuple of arguments: they would cost
# half as much again otherwise.  With keywords they go the general way.  Cython 3 can do this by
# itself, 0.29 cannot.

cdef extern from *:
    """
    enum { WHERRY_ARGS_MAX = 16 };

    /* Replaces a method of a type by one of the fast calling convention. */
    static int wherry_install(PyObject *type, PyMethodDef *method, const char *name, void *fn,
                              const char *doc) {
        method->ml_name = name;
        method->ml_meth = (PyCFunction)fn;
        method->ml_flags = METH_FASTCALL | METH_KEYWORDS;
        method->ml_doc = doc;
        PyObject *made = PyDescr_NewMethod((PyTypeObject *)type, method);
        if (!made)
            return -1;
        int rc = PyDict_SetItemString(((PyTypeObject *)type)->tp_dict, name, made);
        Py_DECREF(made);
        PyType_Modified((PyTypeObject *)type);
        return rc;
    }

    static PyObject *wherry_general(PyObject *fn, PyObject *self, PyObject **args, Py_ssize_t n,
                                    PyObject *names) {
        PyObject *all[WHERRY_ARGS_MAX + 1] = {self};
        Py_ssize_t count = n + (names ? PyTuple_GET_SIZE(names) : 0);
        if (count > WHERRY_ARGS_MAX) {
            PyErr_SetString(PyExc_TypeError, "too many arguments");
            return NULL;
        }
        for (Py_ssize_t i = 0; i < count; i++)
            all[i + 1] = args[i];
        return PyObject_Vectorcall(fn, all, (size_t)n + 1, names);
    }
    """
    ctypedef struct PyMethodDef:
        pass
    int wherry_install(object type, PyMethodDef *method, const char *name, void *fn,
                       const char *doc) except -1
    object wherry_general(object fn, object self, PyObject **args, Py_ssize_t n, PyObject *names)

cdef PyMethodDef send_method, recv_method
general_send, general_recv = Endpoint.send, Endpoint.recv
# The types keep pointers into them.
cdef bytes send_doc, recv_doc
send_doc, recv_doc = method_doc(general_send), method_doc(general_recv)


cdef object fast_send(object self, PyObject **args, Py_ssize_t n, PyObject *names):
    if names == NULL and n == 1:
        return (<Endpoint>self).start_send(<object>args[0], 0, 0, 0, None)
    if names == NULL and n == 2:
        return (<Endpoint>self).start_send(<object>args[0], bits_of(<object>args[1], "tag"), 0, 0, None)
    return wherry_general(general_send, self, args, n, names)


cdef object fast_recv(object self, PyObject **args, Py_ssize_t n, PyObject *names):
    if names == NULL and n == 1:
        return (<Endpoint>self).start_recv(<object>args[0], 0, UINT64_MAX, 0, None)
    if names == NULL and n == 2:
        return (<Endpoint>self).start_recv(<object>args[0], bits_of(<object>args[1], "tag"),
                                           UINT64_MAX, 0, None)
    if names == NULL and n == 3:
        return (<Endpoint>self).start_recv(<object>args[0], bits_of(<object>args[1], "tag"),
                                           bits_of(<object>args[2], "mask"), 0, None)
    return wherry_general(general_recv, self, args, n, names)


wherry_install(Endpoint, &send_method, b"send", <void *>fast_send, send_doc)
wherry_install(Endpoint, &recv_method, b"recv", <void *>fast_recv, recv_doc)
