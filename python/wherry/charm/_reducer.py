# SPDX-License-Identifier: BSD-3-Clause
"""How the values of a reduction are combined."""
from __future__ import annotations

TYPE_CHECKING = False  # of typing, whose import is spared where nobody checks
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Union


functions: Dict[str, Callable[[List[Any]], Any]] = {}


class Reducer:
    """Names of reductions, for ``self.reduce(target, data, Reducer.sum)``.

    Those before gather are of numbers and numpy arrays, element by element; integers have 64 bits and
    wrap. gather makes the list of all values, in the order of the indices. ``addReducer(function)`` adds
    one of your own: the function gets that list.
    """

    sum, product, max, min = "sum", "product", "max", "min"
    logical_and, logical_or, logical_xor = "logical_and", "logical_or", "logical_xor"
    bitwise_and, bitwise_or, bitwise_xor = "bitwise_and", "bitwise_or", "bitwise_xor"
    gather = "gather"

    @staticmethod
    def addReducer(function: Callable[[List[Any]], Any]) -> Callable[[List[Any]], Any]:
        """Makes a function a reducer, on all PEs: call it where the module is imported.  It can decorate."""
        if function.__name__ in BUILT_IN:
            raise ValueError(f"there is a reducer {function.__name__!r}: take another name")
        functions[function.__name__] = function
        return function


BUILT_IN = {name for name, value in vars(Reducer).items() if name == value}


def name_of(reducer: Union[str, Callable[[List[Any]], Any]]) -> str:
    if isinstance(reducer, str) and (reducer in BUILT_IN or reducer in functions):
        return reducer
    name = getattr(reducer, "__name__", None)
    if name in functions and functions[name] is reducer:
        return str(name)
    raise ValueError(f"{reducer!r} is no reducer: one of Reducer's is needed, or a function that Reducer.addReducer has made one")


def reducer_of(name: Any) -> Callable[[List[Any]], Any]:
    found = functions.get(name)
    if found is None:
        raise TypeError(f"there is no reducer {name!r} here: call Reducer.addReducer where all processes do")
    return found
