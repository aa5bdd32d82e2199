# SPDX-License-Identifier: BSD-3-Clause
#
# Arrays on devices in a call of one object go beside its message: they are copied once, on the device, when it is called, and
# received where the new arrays are.  In the message stands `w` for each, and behind all values what they are (_device.py):
#
#     of each: length and text ; u32: bytes of all these
#
# Those of a value that a channel takes are messages of their own, behind those of the value (_channel.pxi).

cdef enum:
    BESIDE_MAX = 16  # of a call: the rest goes in the message


cdef bint put_beside(writer *to, object array, list beside) except -1:
    """Has an array go beside the message; False where it cannot, or is empty."""
    if beside is None or len(beside) == BESIDE_MAX:
        return False
    told, memory = duplicate(array)
    if not memory.size:
        return False
    beside.append((told, memory))
    put_u8(to, c'w')
    return True


cdef void on_beside_sent(wh_request *req, const wh_result *result, void *beside) noexcept with gil:
    Py_DECREF(<object>beside)


cdef char *address_of(object memory) except? NULL:
    return <char *><size_t>memory.__cuda_array_interface__["data"][0]


cdef int memory_of(object memory, wh_frame *frame) except -1:
    frame.data = address_of(memory)
    frame.mem = WH_MEM_AUTO
    return 0


cdef wh_status send_beside(wh_pe *pe, wh_proxy proxy, writer *to, list beside) except *:
    cdef wh_frame frames[BESIDE_MAX]
    cdef wh_send_opts opts
    cdef size_t begin = to.size, count = 0
    memset(frames, 0, sizeof(frames))
    memset(&opts, 0, sizeof(opts))
    for told, memory in beside:
        memory_of(memory, &frames[count])
        frames[count].size = memory.size
        put_sized(to, told)
        count += 1
    put_u32(to, to.size - begin)
    opts.size = sizeof(opts)
    opts.buffers, opts.count, opts.frame_size = frames, count, sizeof(wh_frame)
    opts.done, opts.done_arg = on_beside_sent, <void *>beside
    Py_INCREF(beside)
    cdef wh_status status = wh_chare_send(pe, proxy, ENTRY_BESIDE, to.data, to.size, &opts)
    if status != WH_OK:
        Py_DECREF(beside)
    return status


# ---- The receiver's.

cdef int split_beside(const wh_call *call, reader *values, reader *told) except -1:
    """The values of a message, and what stands behind them."""
    cdef uint32_t size
    values.at = <const char *>call.args
    values.end = values.at + call.size
    if call.size < sizeof(size):
        raise bad_message("it ends too early")
    memcpy(&size, values.end - sizeof(size), sizeof(size))
    if size > call.size - sizeof(size):
        raise bad_message("it says more than it has")
    told.end = values.end - sizeof(size)
    told.at = values.end = told.end - size
    return 0


cdef int name_places(const wh_call *call, wh_frame *buffers) except -1:
    cdef reader values, told
    cdef size_t i
    split_beside(call, &values, &told)
    for i in range(call.count):
        array = make(take_sized(&told), buffers[i].size)
        memory_of(array.memory, &buffers[i])
        here.landing[<size_t>buffers[i].data] = array
    return 0


cdef void on_post(wh_chare *chare, const wh_call *call, wh_frame *buffers) noexcept with gil:
    if here is None:
        return
    try:
        name_places(call, buffers)
    except BaseException as error:
        here.fatal("a call: its arrays on devices", error)


cdef void on_call_beside(wh_chare *chare, const wh_call *call) noexcept with gil:
    cdef reader values, told
    cdef size_t i
    if here is None:
        return
    outer = here.charge(element_of(chare))
    try:
        split_beside(call, &values, &told)
        call_element(chare, &values, [here.landing.pop(<size_t>call.buffers[i].data) for i in range(call.count)])
    except BaseException as error:
        here.fatal("a call", error)
    here.charge(outer)
    here.end_callback()


# ---- Those of a channel.

cdef bint put_apart(writer *to, object array) except -1:
    """Has an array go behind the message; False where it is empty."""
    cdef part *one
    told, memory = duplicate(array)
    if not memory.size:
        return False
    put_u8(to, c'D')
    put_sized(to, told)
    put_u64(to, memory.size)
    one = new_part(0)
    one.data, one.size = address_of(memory), memory.size
    one.memory = <PyObject *>memory
    Py_INCREF(memory)
    add_part(to, one)
    return True


cdef object take_apart(reader *source, list landings):
    """An array of which its bytes are to come."""
    told = take_sized(source)
    size = take_u64(source)
    if landings is None or not size:
        raise bad_message("the bytes of an array on a device cannot come apart")
    array = make(told, size)
    landings.append(Landing(size, array))
    return array
