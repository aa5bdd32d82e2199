# SPDX-License-Identifier: BSD-3-Clause

cdef class Context:
    """Configuration: options, then ``WHERRY_*`` variables, then defaults.  Never changes.

    Options are the settings of the reference: ``Context(credit="1M", lanes="stream")``.
    Numbers and booleans are taken as well as text.  Raises InvalidError when one is not valid,
    NoLaneError when ``lanes`` leaves none that works here; the text says which and why.
    The default of ``ucx_dir`` is the package ``libucx-cu12`` or ``libucx-cu13`` if one is
    installed; empty it is the system's.
    """

    cdef wh_context *c

    def __cinit__(self, **options):
        texts = [option(key, value) for key, value in options.items()]
        if "ucx_dir" not in options and "WHERRY_UCX_DIR" not in environ:
            folder = ucx_package()
            if folder is not None:
                texts.append(option("ucx_dir", folder))
        cdef const char **list = <const char **>malloc((len(texts) + 1) * sizeof(char *))
        if list == NULL:
            raise MemoryError
        for i in range(len(texts)):
            list[i] = texts[i]
        list[len(texts)] = NULL
        listen_in()
        cdef wh_status status = wh_context_create(list, &self.c)
        free(list)
        heard(status, "Context")

    def __dealloc__(self):
        wh_context_destroy(self.c)

    def alloc(self, size, str access not None="rwa"):
        """Allocates zeroed memory of `size` > 0 bytes that peers may use: a RegisteredMemory.

        access: letters of "rwa": they may read (get), write (put), use atomics.

        Its key can be opened over endpoints that lead to workers of this context.  Peers on this
        host map the whole of it: only `access` of their library then keeps them from writing.
        """
        return alloc_memory(self, size_of(size, "size"), access)

    def register(self, buf, str access not None="rwa"):
        """Lets peers use the memory of `buf`, which is held meanwhile: a RegisteredMemory.

        buf: what ``Endpoint.recv`` takes; of access "r" it may be read-only.
        access: letters of "rwa": they may read (get), write (put), use atomics.
        """
        return register_memory(self, buf, access)

    @property
    def config(self):
        """All settings: name -> (value, where it comes from), as text."""
        found = {}
        wh_context_config(self.c, add_config, <void *>found)
        return found

    @property
    def lanes(self):
        """All lanes: name -> (whether this process can use it, why or why not)."""
        found = {}
        wh_context_lanes(self.c, add_lane, <void *>found)
        return found


cdef bytes option(str key, object value):
    if isinstance(value, bool):
        value = "yes" if value else "no"
    elif not isinstance(value, (str, bytes, PathLike)):
        value = str(value)
    return c_text(key, "an option's name") + b"=" + c_text(value, f"option {key}")


cdef void add_config(const wh_config_item *item, void *found) noexcept:
    (<dict>found)[item.key.decode()] = (item.value.decode(), item.source.decode())


cdef void add_lane(const wh_lane_info *lane, void *found) noexcept:
    (<dict>found)[lane.name.decode()] = (bool(lane.usable), lane.reason.decode())
