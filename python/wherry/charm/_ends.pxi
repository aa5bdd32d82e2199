# SPDX-License-Identifier: BSD-3-Clause
#
# Channels that move with their objects.
#
# The C layer moves the end, and what has been sent to it and not been received.  What goes along here is the rest: values that
# have come and were not asked for, what has come of one whose other parts are to come, and the error of sends.  An object's state
# has an end as its id: whoever unpickles it finds the end that has come.
#
# The receive that is posted ahead is taken back by the C layer when the object leaves (WH_CHANNEL_WITHDRAW); the next one is posted
# where it comes to.  Futures of `recv` stay on their PE, and sends that have not ended have their memory there: both hold the
# object back.

cdef enum:
    RETRY_FIRST_US = 1000
    RETRY_LAST_US = 128000


cdef object end_hindrance(Element element):
    """What of its channels keeps an object where it is; None: nothing that is known here."""
    cdef Channel channel
    for each in element.channels:
        channel = <Channel>each
        for waiter in channel.waiters:
            if not (<Future>waiter).is_done:
                return f"a recv of its channel to {channel.remote!r} waits"
        if channel.unsent.next != &channel.unsent:
            return f"a value that it has sent by its channel to {channel.remote!r} is under way"
    return None


# ---- Going.

cdef object reduced_end(Channel channel):
    if channel.element is None or here is None or here.packing is not channel.element:
        raise TypeError("a Channel stays with its chare, and goes along when that moves: pass what it has received")
    if channel.c == NULL:
        return closed_end, (channel.remote, list(channel.inbox))
    return end_at, (channel.id,)


cdef list packed_ends(Element element):
    cdef Channel channel
    cdef list ends = []
    for each in list(element.channels):
        channel = <Channel>each
        channel.arrive()  # what has landed and was not told yet
        ends.append((channel.id, channel.remote, list(channel.inbox), packed_part(channel), <int>channel.outcome))
    return ends


cdef object packed_part(Channel channel):
    """What has come of a value that is not whole; None: there is none."""
    if channel.rest != NULL:
        return channel.total, channel.rest[:FIRST_MAX - 8]
    if channel.landings is None:
        return None
    arrays = []
    for each in channel.landings[:channel.landed_count]:
        arrays.append((<Landing>each).content())
    return channel.encoded, arrays


# ---- Coming.

def end_at(id):
    """The end of this id, of the object that is being unpickled."""
    return here.arriving.setdefault(id, Channel.__new__(Channel))


def closed_end(remote, values):
    """An end that was closed, with what had come and was not asked for."""
    cdef Channel channel = Channel.__new__(Channel)
    channel.element, channel.remote = here.arriving[None], remote
    channel.inbox.extend(values)
    return channel


cdef int take_end(Element element, object id, object remote, list values, object begun, int outcome) except -1:
    cdef Channel channel = end_at(id)
    must(wh_channel_find(element.c, id, &channel.c), "a channel that has moved")
    channel.remote, channel.id, channel.outcome = remote, id, <wh_status>outcome
    channel.inbox.extend(values)
    if begun is not None:
        take_part(channel, begun[0], begun[1])
    channel.attach(element)
    return channel.post()


cdef int take_part(Channel channel, object first, object second) except -1:
    """What packed_part has packed."""
    cdef reader source
    cdef bytes encoded
    if isinstance(first, int):
        channel.total = first
        return channel.need_rest(second)
    encoded = first
    source.at = encoded
    source.end = source.at + len(encoded)
    channel.decode(&source)
    for data in second:
        (<Landing>channel.landings[channel.landed_count]).fill(data)
        channel.landed_count += 1
    return 0


# ---- An object that is held back tries again.

cdef int try_later(Element element) except -1:
    cdef Runtime home = here
    if element.retries:
        return 0
    element.retry_us = min(2 * element.retry_us, <int>RETRY_LAST_US) if element.retry_us else <int>RETRY_FIRST_US
    home.next_retry += 1
    must(wh_pe_after(home.pe, element.retry_us, on_retry, <void *><uintptr_t>home.next_retry, NULL), "migrate")
    home.held_back[home.next_retry] = element
    element.retries = True
    return home.touch()


cdef void on_retry(wh_pe *pe, void *number) noexcept with gil:
    cdef Element element
    if here is None:
        return
    try:
        element = <Element>here.held_back.pop(<uintptr_t>number)
        element.retries = False
        element.leave_if_due()
    except BaseException as error:
        here.fatal("migrate", error)
    here.end_callback()
