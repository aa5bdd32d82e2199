# SPDX-License-Identifier: BSD-3-Clause
"""The program: its begin and end, and what it asks of the PE."""
from __future__ import annotations

import sys
from collections import namedtuple

from wherry._core import get_running_loop
from wherry.charm._balance import choose, functions
from wherry.charm._chare import Chare, maps
from wherry.charm._core import Future, Runtime, last_step, runtime
from wherry.charm._names import class_name
from wherry.charm._plain import Alone

TYPE_CHECKING = False  # of typing, whose import is spared where nobody checks
if TYPE_CHECKING:
    from typing import Any, AsyncIterator, Callable, Dict, Iterable, List, Optional


def start(main: Optional[Callable[[List[str]], Any]] = None, args: Optional[List[str]] = None, *,
          interactive: bool = False) -> None:
    """Runs the program: `main` is called on PE 0, and all goes on until ``exit`` is called.

    main: a function or an ``async def`` of one argument, `args`; or a class derived from Chare, of
        which one object is made with that argument.
    args: default: ``sys.argv``.
    interactive: returns at once, and runs the program in the event loop that runs already: that of
        ``python -m asyncio``, IPython or Jupyter.  `main` may be left out.

    Returns when the program has ended on all PEs; with another exit status than 0 it raises SystemExit.
    """
    if not interactive and main is None:
        raise TypeError("charm.start: a function is needed that the program begins with")
    running = get_running_loop()
    if interactive and running is None:
        raise RuntimeError("charm.start(interactive=True) needs an event loop that runs: use 'python -m asyncio', IPython or "
                           "Jupyter")
    if not interactive and running is not None:
        raise RuntimeError("charm.start runs an event loop, and one runs here already: charm.start(interactive=True) joins it")
    here = Runtime()
    here.open()
    try:
        for cls in maps.values():
            here.register_map(class_name(cls), cls().procNum)
        for name in functions:
            here.register_strategy(name, choose)
        given = list(sys.argv) if args is None else args
        if interactive:
            begin_interactive(here, running, main, given)
        else:
            run(here, main, given)
    except BaseException:
        here.close()
        raise


def main_of(main: Any) -> Callable[[List[str]], Any]:
    if isinstance(main, type) and issubclass(main, Chare):
        return lambda args: runtime().create_chare(main, 0, (args,)) and None
    return main  # type: ignore[no-any-return]


def run(here: Runtime, main: Any, args: List[str]) -> None:
    try:
        if "asyncio" in sys.modules:
            run_with_loop(here, main_of(main), args)
        elif not run_alone(here, main_of(main), args):
            run_with_loop(here, None, args)
        status = here.end()
    finally:
        if here.loop is None:
            here.close()
        else:
            from wherry.charm._loop import end_loop

            end_loop(here)
    if status:
        sys.exit(status)


def run_alone(here: Runtime, main: Any, args: List[str]) -> bool:
    """Until the program has ended, or False: until it has an event loop."""
    with Alone(here) as alone:
        if here.number == 0:
            here.run_main(main, args)
        return alone.run()


def run_with_loop(here: Runtime, main: Any, args: List[str]) -> None:
    """Until the program has ended.  main: None: it has begun."""
    from wherry.charm._loop import Loop, signals_heard

    if here.loop is None:
        here.join(Loop(here))
    with signals_heard(here.loop):
        if here.number == 0 and main is not None:
            here.loop.call_soon(here.run_main, main, args)
        here.loop.run_forever()


def begin_interactive(here: Runtime, loop: Any, main: Any, args: List[str]) -> None:
    if here.processes != 1:
        raise RuntimeError("charm.start(interactive=True) is for one process, without a launcher")
    from wherry.charm._loop import Guest

    here.join(loop)

    def ended() -> None:
        status = here.end()
        if status:
            print(f"wherry.charm: the program has ended with status {status}", file=sys.stderr)
    guest = Guest(here, loop, ended)
    if main is not None:
        here.run_main(main_of(main), args)
        guest.touch()


def exit(code: int = 0) -> None:
    """Ends the program on all PEs, with an exit status of 0 to 255; the entry that has called it goes on to its end."""
    runtime().exit(code)


def myPe() -> int:
    """The number of the PE that this runs on."""
    return runtime().number


def numPes() -> int:
    """How many PEs there are."""
    return runtime().pes


def sleep(seconds: float) -> Future:
    """``await`` it: the PE does other things for so long."""
    return runtime().after(seconds)


def quiescence() -> Future:
    """``await`` it: no PE has a message to handle, and none is under way."""
    return runtime().quiescence()


def awaitCreation(*proxies: Any) -> Future:
    """``await`` it: all chares of these proxies have been made."""
    return wait_all([proxy._created(awaitable=True) for proxy in proxies])


def wait(futures: Iterable[Any]) -> Future:
    """``await`` it: all are done; the result is the list of their results."""
    return wait_all(list(futures))


def wait_all(futures: List[Any]) -> Future:
    done = Future()
    done._awaits = futures
    left = len(futures)

    def one_is_done(_: Any) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            done.settle(futures)
    if not futures:
        done.settle(futures)
    for future in futures:
        future.add_done_callback(one_is_done)
    return done


async def iwait(futures: Iterable[Any]) -> AsyncIterator[Any]:
    """Gives the futures in the order in which they are done: ``async for future in charm.iwait(futures)``."""
    ready: List[Any] = []
    more: List[Future] = []

    def one_is_done(future: Any) -> None:
        ready.append(future)
        if more:
            more.pop().send()
    left = 0
    for future in futures:
        left += 1
        future.add_done_callback(one_is_done)
    while left:
        if not ready:
            more.append(Future())
            await more[0]
        left -= 1
        yield ready.pop(0)


class BalanceStep(namedtuple("BalanceStep", (
        "number",       # int: 1 for the first step of the array
        "elements",     # int: at their sync points
        "fixed",        # int: of them, that could not move
        "moved",        # int
        "max_before", "mean_before", "max_after", "mean_after",  # float
        "seconds",      # float: from the last AtSync until all had moved
        ))):
    """What a step of load balancing did.  Loads are sums over the objects of a PE: seconds, or what setLoad has said."""

    __slots__ = ()


def lastBalance(array: Any) -> Optional[BalanceStep]:
    """What the last step of a balanced array did, on any PE, from the first resumeFromSync of the step there on; None: there was
    none."""
    step = last_step(array)
    return None if step is None else BalanceStep(*step)


class Readonlies:
    """Values that PE 0 sets in `main`, before the first chare is made, and all PEs can read: ``readonlies.n = 5``."""

    def __setattr__(self, name: str, value: Any) -> None:
        here = runtime()
        if here.number or here.published:
            raise AttributeError(f"readonlies.{name} can be set on PE 0 only, before the first chare is made")
        here.readonlies[name] = value

    def __getattr__(self, name: str) -> Any:
        values: Dict[str, Any] = runtime().readonlies
        if name not in values:
            raise AttributeError(f"readonlies.{name} was not set on PE 0 before the first chare was made")
        return values[name]


readonlies = Readonlies()
