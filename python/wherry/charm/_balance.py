# SPDX-License-Identifier: BSD-3-Clause
"""Strategies of load balancing: those of the library, by their names, and functions of the program."""
from __future__ import annotations

from collections import namedtuple
from operator import index

from wherry.charm._core import current

TYPE_CHECKING = False  # of typing, whose import is spared where nobody checks
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

    Strategy = Callable[[List["BalanceElement"], int], Sequence[int]]
STRATEGIES = ("greedy", "refine", "distributed", "none")

functions: Dict[str, Strategy] = {}


class BalanceElement(namedtuple("BalanceElement", (
        "load",   # float: seconds, or what setLoad has said; 0 or more
        "pe",     # int: where it is
        "fixed",  # bool: it cannot move
        ))):
    """What a strategy knows of an object that is to be balanced."""

    __slots__ = ()


def addStrategy(function: Strategy) -> Strategy:
    """Makes a function a strategy of load balancing, on all PEs: call it where the module is imported.  It can decorate.

    function: is called as ``function(elements, pes)`` with a list of BalanceElement, ordered by PE, and the number of PEs.
        It returns where they are to be: a list or array of as many PEs, 0 up to `pes`.  Who is `fixed` stays in any case.
        It must use nothing but its arguments.  It runs on the PE that has made the array; what it raises ends the program.

    ``Array(Cls, ..., balance=function)`` or ``balance="its name"`` uses it then.
    """
    name = getattr(function, "__name__", None)
    if not callable(function) or not isinstance(name, str):
        raise TypeError(f"a function with a name is needed, not {function!r:.80}")
    if name in STRATEGIES:
        raise ValueError(f"there is a strategy {name!r}: take another name")
    functions[name] = function
    if running := current():
        running.register_strategy(name, choose)
    return function


def strategy_of(cls: Any, use: bool, balance: Union[str, Strategy, None]) -> Optional[str]:
    """The name of the strategy of a new array, or None."""
    if balance is None and use:
        balance = "greedy"
    if balance is None:
        return None
    name = balance if isinstance(balance, str) else getattr(balance, "__name__", None)
    if not isinstance(balance, str) and functions.get(name) is not balance:  # type: ignore[arg-type]
        raise ValueError(f"balance is {balance!r:.80}: charm.addStrategy makes a function a strategy")
    if name not in STRATEGIES and name not in functions:
        raise ValueError(f"balance is {balance!r}: one of {', '.join((*STRATEGIES, *functions))} is needed")
    if cls._resume < 0:
        raise TypeError(f"{cls.__name__} has no method resumeFromSync, in which objects go on when they were balanced")
    return name


def choose(name: str, elements: List[Tuple[float, int, bool]], pes: int) -> List[int]:
    """What a function of the program answers.  Raises what it raises, or what is wrong with the answer."""
    chosen = functions[name](list(map(BalanceElement._make, elements)), pes)
    if not hasattr(chosen, "__len__"):
        raise TypeError(f"{name} has returned {chosen!r:.80}: a list of {len(elements)} PEs is needed")
    if len(chosen) != len(elements):
        raise ValueError(f"{name} has returned {len(chosen)} PEs for {len(elements)} elements")
    wanted = list(map(index, chosen))
    for at, pe in enumerate(wanted):
        if not 0 <= pe < pes:
            raise ValueError(f"{name} has returned PE {pe} for element {at}: there are PEs 0 to {pes - 1}")
    return wanted
