# SPDX-License-Identifier: BSD-3-Clause
"""Classes of chares: what their methods are, and how they are made."""
from __future__ import annotations

import zlib
from collections import deque
from math import prod
from types import FunctionType

from wherry.charm._balance import strategy_of
from wherry.charm._core import Entry, Future, Method, Proxy, at_sync, contribute, current, move, runtime, set_load
from wherry.charm._names import class_name, classes
from wherry.charm._reducer import name_of

TYPE_CHECKING = False  # of typing, whose import is spared where nobody checks
if TYPE_CHECKING:
    from typing import Any, Callable, Iterable, Sequence, Type, TypeVar, Union

    from wherry.charm._balance import Strategy

    F = TypeVar("F", bound=Callable[..., Any])
    C = TypeVar("C", bound=type)
CO_COROUTINE = 0x80  # inspect's
DIMS_MAX = 6


class Chare:
    """An object that lives on some PE and is called by messages: derive your classes from it.

    All methods that do not begin with an underscore can be called through a proxy, and run where the
    object is, one at a time; an ``async def`` lets others run where it awaits.

    ``Chare(Cls, args=[...], onPE=1)`` makes one object of class Cls and returns its proxy; without onPE
    the library chooses the PE.
    """

    thisIndex: Any  # of the element in its group or array
    thisProxy: Any  # of the whole group or array; of a single chare, of itself

    _element: Any
    _methods: Any
    _methods_sum: int
    _resume: int
    _proxy_class: Any

    if not TYPE_CHECKING:
        def __new__(cls, of=None, args=(), onPE=-1):
            if cls is not Chare:
                raise TypeError(f"{cls.__name__} objects are made by Chare({cls.__name__}), Group({cls.__name__}) or "
                                f"Array({cls.__name__}, shape), which return a proxy")
            return runtime().create_chare(checked(of), onPE, tuple(args))
    else:
        def __new__(cls, *args: Any, **keywords: Any) -> Any:
            ...

    def __init_subclass__(cls, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        add_class(cls)

    def __reduce__(self) -> Any:
        raise TypeError(f"a {type(self).__name__} stays where it is: pass self.thisProxy, or self.thisProxy[self.thisIndex]")

    def reduce(self, target: Any, data: Any = None, reducer: Any = None, section: Any = None) -> None:
        """Gives this object's part in the next reduction of its group or array, all of whose objects do so.

        target: what gets the result: an entry, such as ``self.thisProxy[0].done`` or ``self.thisProxy.done``
            for all, or a Future; the same from all objects.
        data: its value; reducer: how they are combined, one of Reducer. Without: the target is told,
            with None, when all have come.
        section: of its elements alone, of which this is one.
        """
        contribute(self, target, data, None if reducer is None else name_of(reducer), section)

    def allreduce(self, data: Any = None, reducer: Any = None) -> Future:
        """As reduce, and every object gets the result: ``await self.allreduce(data, Reducer.sum)``."""
        Chare.reduce(self, self.thisProxy._reduced, data, reducer)
        future = Future()
        future._awaits = f"all {type(self).__name__} objects to contribute to a reduction"
        self.__dict__.setdefault("_results", deque()).append(future)
        return future

    def barrier(self) -> Future:
        """``await self.barrier()``: all objects of the group or array have come to theirs."""
        return Chare.allreduce(self)

    def migrate(self, pe: int) -> None:
        """Moves this object to a PE, as soon as nothing of it runs and no coroutine of it is suspended.

        What is sent to it follows. Its attributes are pickled, or what its __getstate__ returns, and it is
        made again without __init__.
        """
        move(self, pe)

    def AtSync(self) -> None:
        """This object has reached its sync point: its ``resumeFromSync()`` is called when all of its array have, and those have
        moved that the array's strategy has chosen.

        It returns at once, and until then the object still takes calls. One of which a coroutine is suspended then stays
        where it is, and goes on with the others.
        """
        at_sync(self)

    def setLoad(self, load: float) -> None:
        """Says how much this object has had to do since its last sync point, in place of the seconds that its methods took.

        In any unit, the same for all objects of the array; 0 or more.
        """
        set_load(self, load)

    def _created(self) -> None:
        """What is awaited until an element has been made."""

    def _reduced(self, value: Any) -> None:
        """The result of the next allreduce."""
        self.__dict__["_results"].popleft().take_value(value)


def is_async(fn: Any) -> bool:
    """Whether it is an ``async def``."""
    return isinstance(fn, FunctionType) and bool(fn.__code__.co_flags & CO_COROUTINE)


def add_class(cls: Any) -> None:
    """Numbers the methods: the same on all PEs, as they are sorted."""
    names = ["_created", "_reduced"]
    for name in sorted(dir(cls)):
        own = next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), None)
        if not name.startswith("_") and isinstance(own, FunctionType) and own is not getattr(Chare, name, None):
            names.append(name)
    cls._methods, entries = [], {}
    for number, name in enumerate(names):
        fn = getattr(cls, name)
        cls._methods.append(Method(fn, name, getattr(fn, "_when", None), is_async(fn)))
        entries[name] = Entry(number, name, fn.__doc__)
    cls._resume = names.index("resumeFromSync") if "resumeFromSync" in names else -1
    cls._methods_sum = zlib.crc32(" ".join(names).encode())
    cls._proxy_class = type(f"{cls.__name__}Proxy", (Proxy,), {
        "__slots__": (), "__doc__": cls.__doc__, "__module__": cls.__module__, "_chare": cls, **entries})
    classes[class_name(cls)] = cls


def checked(cls: Any) -> Any:
    if not (isinstance(cls, type) and issubclass(cls, Chare) and cls is not Chare):
        raise TypeError(f"a class that is derived from Chare is needed, not {cls!r}")
    return cls


def Group(cls: Type[Chare], args: Iterable[Any] = ()) -> Any:
    """Makes a group: one object of a class on each PE.  Returns its proxy, whose indices are PEs."""
    return runtime().create_group(checked(cls), tuple(args))


def Array(cls: Type[Chare], dims: Union[int, Sequence[int], None] = None, ndims: int = 0,
          args: Iterable[Any] = (), map: Union[Type["ArrayMap"], str, None] = None, useAtSync: bool = False,
          balance: Union[str, "Strategy", None] = None) -> Any:
    """Makes an array of objects, and returns its proxy.

    dims: how many there are, or how many in each of up to 6 dimensions.  Without: none yet, and
        ``ckInsert(index, args)`` and in the end ``ckDoneInserting()`` of the proxy make them; ndims
        says how many dimensions their indices have.
    map: where they are: "block", "round-robin", or a class derived from ArrayMap.
    balance: how they move to PEs that have less to do, at their sync points (AtSync): "greedy" places all anew, "refine" moves few,
        "distributed" decides without one PE that sees all, "none" only measures, and a function that addStrategy has made one
        does what it does.  The class needs a method ``resumeFromSync(self)``.  Default: they stay.
    useAtSync: the same as balance="greedy", where that is not given.
    """
    shape = None
    if dims is not None:
        shape = (dims,) if isinstance(dims, int) else tuple(dims)
        ndims = len(shape)
        if any(not isinstance(n, int) or n < 1 for n in shape) or prod(shape) >= 1 << 31:
            raise ValueError(f"dims is {dims!r}: 1 element or more in each dimension, below 2^31 in all")
    if not 1 <= ndims <= DIMS_MAX:
        raise ValueError(f"an array has 1 to {DIMS_MAX} dimensions, not {ndims}")
    if map is not None and not isinstance(map, str):
        if not issubclass(map, ArrayMap):
            raise TypeError(f"map is {map!r}: \"block\", \"round-robin\" or a class derived from ArrayMap is needed")
        map = class_name(map)
    elif map not in (None, "block", "round-robin"):
        raise ValueError(f"map is {map!r}: \"block\", \"round-robin\" or a class derived from ArrayMap is needed")
    return runtime().create_array(checked(cls), shape, ndims, map, strategy_of(cls, useAtSync, balance), tuple(args))


class ArrayMap:
    """Where the elements of an array are: derive a class, and define procNum."""

    def __init_subclass__(cls, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        maps[class_name(cls)] = cls
        if running := current():
            running.register_map(class_name(cls), cls().procNum)

    def procNum(self, index: Any) -> int:
        """The PE of an index, which is a tuple.  It must be the same on all PEs."""
        raise NotImplementedError(f"{type(self).__name__}.procNum(index) is needed")


maps: dict[str, Type[ArrayMap]] = {}


def register(cls: C) -> C:
    """Decorates a class of chares; not needed, deriving it from Chare is enough."""
    return checked(cls)  # type: ignore[no-any-return]


def coro(fn: F) -> F:
    """Decorates an entry that waits: it has to be an ``async def``."""
    if not is_async(fn):
        raise TypeError(f"{fn.__name__} awaits nothing: write 'async def {fn.__name__}', and 'await' where it waits")
    return fn


def when(condition: Union[str, Callable[..., bool]]) -> Callable[[F], F]:
    """Decorates an entry that runs only when a condition holds; a message that comes earlier waits.

    The condition is a text of Python, in which ``self`` and the entry's parameters can be used, such as
    ``"self.step == step"``, or a function of the same parameters. It is looked at when the message comes,
    and after each entry of the object.
    """
    def decorate(fn: F) -> F:
        test = condition
        if isinstance(test, str):
            import inspect

            fields = inspect.signature(fn).parameters.values()
            names = ", ".join(str(field.replace(annotation=field.empty, default=field.empty)) for field in fields)
            test = eval(compile(f"lambda {names}: ({test})", f"<when of {fn.__qualname__}>", "eval"), fn.__globals__)
            test.__defaults__, test.__kwdefaults__ = fn.__defaults__, fn.__kwdefaults__
        fn._when = test  # type: ignore[attr-defined]
        return fn
    return decorate


def created(proxies: Iterable[Any]) -> "list[Any]":
    return [proxy._created(awaitable=True) for proxy in proxies]
