# SPDX-License-Identifier: BSD-3-Clause
#
# Checkpoints: the C layer writes and reads elements; what is no element is in a group of its own (_checkpoint.py).
#
# Where one is read, PE 0's message with the readonlies says so, and elements wait on each PE until that group's element has come with
# those that were saved.  Those that the new job has set before count.

cdef const char *CHECKPOINTED = "wherry.charm.checkpointed"


def write_checkpoint(str folder, target):
    """Writes a checkpoint; the target is an entry, which is called with None or an exception, or a future."""
    cdef wh_callback callback
    cdef Runtime home = running()
    fill_callback(&callback, target, "what is to be told of a checkpoint")
    callback.entry = ENTRY_CHECKPOINTED
    callback.function = wh_function_id(CHECKPOINTED)
    home.begin_sends()
    must(wh_checkpoint_write(home.pe, folder.encode(errors="surrogateescape"), &callback), "charm.checkpoint")
    home.touch()


def read_checkpoint(str folder):
    """Makes the collections of a checkpoint again; returns a future."""
    cdef wh_callback callback
    cdef Runtime home = running()
    cdef wh_status status
    if home.number or home.has_readonlies or home.restoring:
        raise RuntimeError("a checkpoint is read once, on PE 0, before the first chare is made")
    future = Future()
    fill_callback(&callback, future, "")
    callback.function = wh_function_id(CHECKPOINTED)
    name = folder.encode(errors="surrogateescape")
    wh_log_hold_errors(True)
    status = wh_checkpoint_read(home.pe, name, &callback)
    if status != WH_OK:
        home.futures.pop(future.id, None)
    heard(status, "charm.restart")
    home.publish(True)
    home.touch()
    return future


cdef object checkpoint_error(const wh_call *call):
    """What a checkpoint's callback has as its value: an exception, or None."""
    cdef int32_t status
    if call.size != sizeof(status):
        raise bad_message("the result of a checkpoint is none")
    memcpy(&status, call.args, sizeof(status))
    if status == WH_OK:
        return None
    return CLASS_OF[status](f"a checkpoint failed: {wh_status_text(<wh_status>status).decode()}; the log of the PE on which it "
                            "did says why")


cdef void on_checkpointed_entry(wh_chare *chare, const wh_call *call) noexcept with gil:
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
            element.take(<Method>element.methods[call.ref], (checkpoint_error(call),), None, &nobody)
    except BaseException as error:
        here.fatal("a checkpoint", error)
    here.end_callback()


cdef void on_checkpointed(wh_pe *pe, const wh_call *call, void *arg) noexcept with gil:
    if here is None:
        return
    try:
        found = here.futures.get(call.ref)
        error = checkpoint_error(call)
        if found is not None and error is None:
            (<Future>found).take(None, None)
        elif found is not None:
            (<Future>found).fail(error)
    except BaseException as error:
        here.fatal("a checkpoint", error)
    here.end_callback()
