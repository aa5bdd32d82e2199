# SPDX-License-Identifier: BSD-3-Clause
#
# Memory of devices, for programs without a library of their own for it.

@cython.no_gc_clear
cdef class DeviceMemory:
    """Memory of a device: `size` bytes, as ``__cuda_array_interface__`` tells of them.

    memory: "cuda", or "sim": a device without hardware, whose memory faults when the CPU touches
        it, for tests.
    device: its number.

    It is freed with the last reference.  ``wherry.copy_memory`` fills it and reads it.  Raises
    NotSupportedError when this machine has no such device, OutOfMemoryError.
    """

    cdef void *data
    cdef wh_mem_kind kind
    cdef size_t bytes
    cdef str kind_name
    cdef object __weakref__

    def __cinit__(self, size, str memory not None="cuda", device=0):
        cdef size_t bytes = size_of(size, "size")
        cdef int number = within(device, "device", 0, INT_MAX)
        if wh_mem_kind_parse(c_text(memory, "memory"), &self.kind) != WH_OK or self.kind in (
                WH_MEM_AUTO, WH_MEM_HOST):
            raise ValueError(f"memory is {memory!r}: cuda or sim")
        listen_in()
        heard(wh_mem_alloc_kind(self.kind, number, bytes or 1, &self.data), "DeviceMemory",
              f": {bytes} bytes of {memory} device {number}")
        self.bytes, self.kind_name = bytes, memory

    def __dealloc__(self):
        wh_mem_free_kind(self.kind, self.data)  # if it fails, the log has said why

    def __len__(self):
        return self.bytes

    @property
    def size(self):
        """Its bytes."""
        return self.bytes

    @property
    def memory(self):
        """Its kind: "cuda" or "sim"."""
        return self.kind_name

    @property
    def __cuda_array_interface__(self):
        return {"version": 3, "data": (<uintptr_t>self.data, False), "strides": None,
                "typestr": "|u1", "stream": None, "shape": (self.bytes,)}

    def __repr__(self):
        return f"<DeviceMemory {self.kind_name}, {self.bytes} bytes>"


def copy_memory(to, source):
    """Copies the bytes of `source` to the beginning of `to`, between any two kinds of memory.

    Both are what ``Endpoint.send`` takes, if it is contiguous; `to` must be writable.  Returns their number, when they
    are there.  Raises ValueError when `to` is too small.  Any thread.
    """
    cdef Hold held_to = hold_dense_message(to, True), held_source = hold_dense_message(source, False)
    if held_source.size > held_to.size:
        raise ValueError(f"copy_memory: {held_source.size} bytes do not fit into {held_to.size}")
    cdef wh_status status
    listen_in()
    with nogil:
        status = wh_mem_copy(held_to.data, WH_MEM_AUTO, held_source.data, WH_MEM_AUTO,
                             held_source.size)
    heard(status, "copy_memory")
    return held_source.size
