# SPDX-License-Identifier: BSD-3-Clause
#
# Reductions: what each element of a collection gives, and what comes of it.
#
# A contribution has two parts: the value, and what it is, as values (_values.pxi).  All elements say the same of theirs, so the
# largest of these bytes are the bytes:
#     ("number", "<f8")  ("array", "<f8", shape)  ("set", name of a function, or None)

cdef const char *REDUCED = "wherry.charm.reduced"

cdef dict OPS = {
    "sum": <int>WH_REDUCE_SUM, "product": <int>WH_REDUCE_PROD, "max": <int>WH_REDUCE_MAX, "min": <int>WH_REDUCE_MIN,
    "logical_and": <int>WH_REDUCE_LAND, "logical_or": <int>WH_REDUCE_LOR, "logical_xor": <int>WH_REDUCE_LXOR,
    "bitwise_and": <int>WH_REDUCE_BAND, "bitwise_or": <int>WH_REDUCE_BOR, "bitwise_xor": <int>WH_REDUCE_BXOR}
cdef dict NUMBERS = {
    "b1": <int>WH_TYPE_BOOL, "i1": <int>WH_TYPE_INT8, "i2": <int>WH_TYPE_INT16, "i4": <int>WH_TYPE_INT32,
    "i8": <int>WH_TYPE_INT64, "u1": <int>WH_TYPE_UINT8, "u2": <int>WH_TYPE_UINT16, "u4": <int>WH_TYPE_UINT32,
    "u8": <int>WH_TYPE_UINT64, "f4": <int>WH_TYPE_FLOAT, "f8": <int>WH_TYPE_DOUBLE, "c8": <int>WH_TYPE_COMPLEX_FLOAT,
    "c16": <int>WH_TYPE_COMPLEX_DOUBLE}


cdef tuple described_number(object value, str op):
    """What a number of Python's or an array is, and its bytes."""
    cdef Py_buffer view
    cdef bint logical = op.startswith("logical")
    kind = type(value)
    if kind is bool and logical:
        return ("number", "|b1"), struct_pack("?", value)
    if kind is bool or kind is int:
        try:
            return ("number", "<i8"), struct_pack("=q", value)
        except StructError:
            raise OverflowError(f"{value} does not fit into 64 bits, in which integers are reduced: use Reducer.gather") from None
    if kind is float:
        return ("number", "<f8"), struct_pack("=d", value)
    array = numpy_array()
    if array is not None and not isinstance(value, array) and hasattr(value, "dtype"):  # a number of numpy's
        value = value[...]
    if array is None or not isinstance(value, array) or value.dtype.str[1:] not in NUMBERS or not value.dtype.isnative:
        raise TypeError(f"a '{kind.__name__}' cannot be reduced by {op}: a number, or a numpy array of numbers of 8 to 64 bits "
                        "is needed; Reducer.gather takes anything")
    return ("array", value.dtype.str, value.shape), value.tobytes()


cdef int fill_callback(wh_callback *to, object target, str what) except -1:
    memset(to, 0, sizeof(to[0]))
    if type(target) is BoundEntry and not (<BoundEntry>target).proxy.is_section:
        to.kind = WH_CALLBACK_SEND
        to.entry = ENTRY_REDUCED
        to.proxy = (<BoundEntry>target).proxy.c
        to.ref = (<BoundEntry>target).entry.number
    elif type(target) is Future:
        to.kind = WH_CALLBACK_FUNCTION
        to.function = wh_function_id(REDUCED)
        to.pe = (<Future>target).pe
        to.ref = (<Future>target).id
    else:
        raise TypeError(f"{what} goes to an entry, such as self.thisProxy[0].method, or to a Future, not to {target!r:.80}")
    return 0


def contribute(chare, target, data, reducer, Proxy section):
    """This element's part in the next reduction of its collection, or of a section of it."""
    cdef Element element = chare._element
    cdef wh_contribution parts[2]
    cdef wh_callback callback
    cdef size_t count = 2
    running()
    if element.c == NULL:
        raise RuntimeError(f"{element.name} has ended")
    fill_callback(&callback, target, "the result of a reduction")
    memset(parts, 0, sizeof(parts))
    told = content = b""
    if reducer is None:
        count = 0
    elif reducer in OPS:
        what, content = described_number(data, reducer)
        parts[0].reducer = WH_REDUCER_OP
        parts[0].op = <wh_reduce><int>OPS[reducer]
        parts[0].type = <wh_type_id><int>NUMBERS[what[1][1:]]
        if not wh_reduce_defined(parts[0].op, wh_type_basic(parts[0].type)):
            raise TypeError(f"{reducer} of numbers of type {what[1]} is not defined")
        parts[0].count = len(content) // int(what[1][2:])
    else:
        what = ("set", reducer)
        parts[0].reducer = WH_REDUCER_SET
        content = encode((data,))
        parts[0].count = len(content)
    if count:
        told = encode(what)
        parts[0].data = <const char *>content
        parts[1].reducer = WH_REDUCER_OP
        parts[1].op = WH_REDUCE_MAX
        parts[1].type = WH_TYPE_UINT8
        parts[1].data = <const char *>told
        parts[1].count = len(told)
    wh_log_take_error()
    wh_log_hold_errors(True)  # the exception says it
    if section is None:
        status = wh_contribute(element.c, parts, count, sizeof(parts[0]), &callback)
    elif not section.is_section:
        wh_log_hold_errors(False)
        raise TypeError(f"section is {section!r}: one that ckSection has made is needed")
    else:
        status = wh_section_contribute(element.c, section.section, parts, count, sizeof(parts[0]), &callback)
    if status == WH_ENOTSUP:
        wh_log_take_error()
        wh_log_hold_errors(False)
        raise TypeError(f"{element.chare.thisProxy!r} has no reductions: it is a single chare, or the element was inserted after "
                        "the array had been made")
    heard(status, "reduce")
    here.touch()


cdef object reduced_value(const wh_call *call):
    cdef size_t cursor = 0
    cdef size_t inner = 0
    cdef wh_reduction_item value
    cdef wh_reduction_item told
    cdef wh_reduction_item one
    cdef reader source
    if call.size == 0:
        return None
    if not (wh_reduction_next(call.args, call.size, &cursor, &value)
            and wh_reduction_next(call.args, call.size, &cursor, &told)):
        raise bad_message("a reduction has no result")
    source.at = <const char *>told.data
    source.end = source.at + told.size
    what = take_values(&source)
    if what[0] == "set":
        gathered = []
        while wh_reduction_next(value.data, value.size, &inner, &one):
            source.at = <const char *>one.data
            source.end = source.at + one.size
            gathered.append(take_values(&source)[0])
        return gathered if what[1] == "gather" else reducer_of(what[1])(gathered)
    content = (<const char *>value.data)[:value.size]
    if what[0] == "number":
        return struct_unpack({"|b1": "?", "<i8": "=q", "<f8": "=d"}[what[1]], content)[0]
    from numpy import frombuffer
    return frombuffer(bytearray(content), what[1]).reshape(what[2])


cdef void on_reduced_entry(wh_chare *chare, const wh_call *call) noexcept with gil:
    cdef Element element
    cdef reply nobody
    if here is None:
        return
    try:
        element = element_of(chare)
        if element is not None:
            if call.ref < 0 or call.ref >= len(element.methods):
                raise bad_message(f"{element.name} has no method {call.ref}")
            nobody.pe = -1
            outer = here.charge(element)
            element.take(<Method>element.methods[call.ref], (reduced_value(call),), None, &nobody)
            here.charge(outer)
    except BaseException as error:
        here.fatal("the result of a reduction", error)
    here.end_callback()


cdef void on_reduced(wh_pe *pe, const wh_call *call, void *arg) noexcept with gil:
    if here is None:
        return
    try:
        found = here.futures.get(call.ref)
        value = reduced_value(call)
        if found is not None:
            (<Future>found).take(None, value)
    except BaseException as error:
        here.fatal("the result of a reduction", error)
    here.end_callback()
