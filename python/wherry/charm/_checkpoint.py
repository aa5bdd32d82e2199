# SPDX-License-Identifier: BSD-3-Clause
"""Checkpoints: all groups and arrays of a program written to files, and made again by a later job."""
from __future__ import annotations

import os

from wherry.charm._chare import Chare, Group
from wherry.charm._core import Future, read_checkpoint, runtime, write_checkpoint

TYPE_CHECKING = False  # of typing, whose import is spared where nobody checks
if TYPE_CHECKING:
    from typing import Any, Optional


class Saved(Chare):
    """A group that is there for checkpoints: its elements have what is saved and no element."""

    _at_once = True  # its state is set before the readonlies are there, since it has them

    def __init__(self) -> None:
        self.data: Any = None
        runtime().saved = self.thisProxy

    def note(self, data: Any) -> None:
        self.data = data

    def __getstate__(self) -> Any:
        return dict(runtime().readonlies), self.data

    def __setstate__(self, state: Any) -> None:
        values, self.data = state
        here = runtime()
        here.saved, here.saved_data = self.thisProxy, self.data
        here.take_saved(values)


def checkpoint(folder: Any, data: Any = None, callback: Any = None) -> Optional[Future]:
    """Writes all groups and arrays to a folder, as soon as no message is under way anywhere: ``await`` it.

    folder: is made if it does not exist; the same for all processes.  The last whole checkpoint in it stays until the new one
        is whole.
    data: what ``restart`` gives back: proxies of the program, the number of its step.
    callback: an entry, such as ``self.thisProxy[0].saved``, or a Future that is told in place of what is awaited; an entry is
        called with None, or an exception.  Elements need it: one that awaits cannot be saved.

    Fails with an exception of wherry.errors if something cannot be saved, with a line in the log that says what.
    """
    here = runtime()
    target = Future() if callback is None else callback
    if here.saved is None:
        here.saved = Group(Saved)
    here.saved[0].note(data)
    write_checkpoint(os.path.abspath(folder), target)
    return target if callback is None else None


async def restart(folder: Any) -> Any:
    """Makes the groups and arrays of a checkpoint again: ``await`` it in `main`, before the first chare is made.

    Returns what the checkpoint was given as `data`.  Raises wherry.errors.NotFoundError where there is none, and
    ProtocolError for one that is not whole.
    """
    await read_checkpoint(os.path.abspath(folder))
    return runtime().saved_data
