# SPDX-License-Identifier: BSD-3-Clause
"""The context that a program has without making one, and the functions that use it.

There is one per thread, with a worker of its own, so that programs with an event loop in another thread
than the main one work; ``init`` says the options of all that are made later.
"""
import asyncio
import gc
import inspect
import logging
import os
import threading
import weakref
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import wherry
from ucp import _ucx_config
from ucp._endpoint import Endpoint, cuda_is_there, receive, tags_of
from ucp._libs import ucx_api
from ucp._libs.arr import Array, sent_of, size_of  # noqa: F401  # programs take Array from here
from ucp._libs.ucx_api import AM_STRAY_TAG, HELLO, Allocators, UCXAddress, UCXEndpoint, UCXWorker
from ucp.continuous_ucx_progress import BlockingMode, NonBlockingMode
from ucp.exceptions import UCXConfigError, UCXError, UCXUnreachable, failure

logger = logging.getLogger("ucx")
_SEED_SIZE = 16
_EARLY = 0.05  # seconds in which an endpoint to a worker address may fail at once


class Settings(NamedTuple):
    """What ``init`` was told."""

    options: Dict[str, str] = {}
    blocking_progress_mode: Optional[bool] = None
    connect_timeout: Optional[float] = None


class _Here(threading.local):
    """The context of the calling thread."""

    ctx: "Optional[ApplicationContext]" = None


_here = _Here()
_settings = Settings()


class ApplicationContext:
    """A worker, its options, and how event loops progress it.  One thread's.

    config_dict: options of UCX without ``UCX_``; see the module _ucx_config for what heeds them.
    blocking_progress_mode: whether loops sleep; default: unless UCXPY_NON_BLOCKING_MODE is set.
    connect_timeout: seconds; default: UCXPY_CONNECT_TIMEOUT, else 5.
    """

    def __init__(self, config_dict: Dict[str, str] = {},
                 blocking_progress_mode: Optional[bool] = None,
                 connect_timeout: Optional[float] = None) -> None:
        self._config = dict(config_dict)
        if self._config:
            _ucx_config.options(self._config)  # or raises
        if blocking_progress_mode is None:
            blocking_progress_mode = "UCXPY_NON_BLOCKING_MODE" not in os.environ
        if connect_timeout is None:
            connect_timeout = float(os.environ.get("UCXPY_CONNECT_TIMEOUT", 5))
        self.blocking_progress_mode = blocking_progress_mode
        self.connect_timeout = connect_timeout
        self._transports = ""  # who has restricted them, and to what
        self.context = self._make_context()
        self.worker = UCXWorker(self.context)
        self.progress_tasks: List[Any] = []
        self.endpoints: "weakref.WeakSet[Endpoint]" = weakref.WeakSet()
        self.allocators = Allocators()
        logger.info("using Wherry %s with %s", wherry.__version__, self._config or "no options")

    def _make_context(self) -> wherry.Context:
        told_by = "the option TLS" if "TLS" in self._config else "UCX_TLS"
        transports = self._config.get("TLS", os.environ.get("UCX_TLS"))
        lanes = _ucx_config.lanes(transports, told_by)
        if lanes is not None:
            self._transports = f"{told_by} is {transports!r}"
        try:
            with _ucx_config.in_environment(self._config):
                return wherry.Context(**({"lanes": lanes} if lanes else {}))
        except wherry.NoLaneError as error:
            if not self._transports:
                raise failure(error) from error
            raise UCXConfigError(f"{self._transports}: {error}") from error
        except wherry.Error as error:
            raise failure(error) from error

    # ---- connections

    def create_listener(self, callback_func: Callable[[Endpoint], Any], port: Optional[int] = None,
                        endpoint_error_handling: bool = True) -> "Listener":
        """Listens on all addresses of this machine until the Listener is closed or dropped.

        callback_func: a function or coroutine function; called with an Endpoint per connection.
        port: default: a free one.
        endpoint_error_handling: is always on; so a peer's death never ends this process.

        Raises UCXError when the port is taken.
        """
        self.continuous_ucx_progress()
        me = weakref.ref(self)

        async def accepted(c: wherry.Endpoint) -> None:
            # Nothing here holds the context, so that the callback can close its endpoint and reset.
            ep = _accept(me(), c)
            result = callback_func(ep) if ep is not None else None
            del ep, c
            if inspect.isawaitable(result):
                await result
        try:
            made = self.worker.c.listen(accepted, None, port or 0, data=HELLO).result()
        except wherry.Error as error:
            raise UCXError(str(error)) from error
        logger.info("listening on port %d", made.port)
        return Listener(made, self)

    async def create_endpoint(self, ip_address: str, port: int,
                              endpoint_error_handling: bool = True) -> Endpoint:
        """Connects to a listener.

        Raises UCXNotConnected when nobody listens there, and UCXUnreachable when the peer cannot be
        reached or does not answer within `connect_timeout`.
        """
        self.continuous_ucx_progress()
        seed = os.urandom(_SEED_SIZE)
        op = self._connect(ip_address, port, seed)
        try:
            c = await op
        except wherry.NoLaneError as error:
            raise UCXUnreachable(": ".join(filter(None, [self._transports, str(error)]))) from error
        except wherry.Error as error:
            raise failure(error, under_way=True) from error
        if c.peer_data != HELLO:
            c.abort()
            raise UCXError(f"{ip_address}:{port} is not a listener of ucp")
        return Endpoint(UCXEndpoint(self.worker, c), self, tags_of(seed, True))

    def _connect(self, ip_address: Any, port: int,
                 seed: bytes) -> "wherry.Request[wherry.Endpoint]":
        host = ip_address.decode() if isinstance(ip_address, bytes) else ip_address
        try:
            return self.worker.c.connect(host, int(port), timeout=self.connect_timeout,
                                         data=HELLO + seed)
        except wherry.Error as error:
            raise failure(error) from error

    async def create_endpoint_from_worker_address(
            self, address: Any, endpoint_error_handling: bool = True) -> Endpoint:
        """Connects to a worker by what ``get_worker_address`` gave there.

        The peer need not progress for that: it goes on in the background, and what is sent waits for it.
        """
        self.continuous_ucx_progress()
        try:
            op = self.worker.c.connect(address=bytes(address), timeout=self.connect_timeout,
                                       data=HELLO)
        except wherry.Error as error:
            raise failure(error) from error
        await asyncio.wait([op], timeout=_EARLY)
        below = UCXEndpoint(self.worker, connecting=op)
        below.am_tag = AM_STRAY_TAG
        if not below.connecting:
            below.must_have()
        else:
            op.add_done_callback(lambda _: below.is_alive())  # which looks at the outcome
        return Endpoint(below, self)

    async def recv(self, buffer: Any, tag: int) -> bool:
        """Receives the next message that was sent with that tag and ``force_tag``, from any peer."""
        try:
            size = size_of(buffer)
            await receive(self.worker.c.recv(sent_of(buffer), tag), size)
        except wherry.Error as error:
            raise failure(error) from error
        return True

    # ---- progress

    def continuous_ucx_progress(
            self, event_loop: Optional[asyncio.AbstractEventLoop] = None) -> None:
        """Has an event loop (default: the running one) progress the worker.

        ``create_listener`` and ``create_endpoint`` do that by themselves.
        """
        loop = event_loop or asyncio._get_running_loop()
        self.progress_tasks = [task for task in self.progress_tasks
                               if not task.event_loop.is_closed()]
        if loop is None or any(task.event_loop is loop for task in self.progress_tasks):
            return
        mode = BlockingMode if self.blocking_progress_mode else NonBlockingMode
        self.progress_tasks.append(mode(self.worker, loop))

    async def flush(self) -> None:
        """``Endpoint.flush`` of all endpoints."""
        try:
            await self.worker.c.flush()
        except wherry.Error as error:
            raise failure(error, under_way=True) from error

    def fence(self) -> None:
        """What is sent after it arrives behind what was sent before, on each endpoint."""
        self.worker.fence()

    # ---- active messages

    def register_am_allocator(self, allocator: Callable[[int], Any],
                              allocator_type: str) -> None:
        """Says who gives the memory for active messages from one kind of memory.

        allocator: called with the size in bytes.
        allocator_type: "host" (at first bytearray) or "cuda" (at first wherry.DeviceMemory).
        """
        if allocator_type not in ("host", "cuda"):
            raise UCXError(f"the allocator type is {allocator_type!r}: 'host' or 'cuda'")
        if not callable(allocator):
            raise TypeError(f"the allocator {allocator!r} cannot be called")
        self.allocators.of[allocator_type] = allocator

    # ---- asking

    def get_ucp_worker(self) -> int:
        """The number of the worker: there is no ``ucp_worker_h`` that somebody could use."""
        return self.worker.handle

    def get_config(self) -> Dict[str, str]:
        """UCX's options, name without ``UCX_`` -> value."""
        return _ucx_config.options(self._config)

    def get_worker_address(self) -> UCXAddress:
        """The worker's address, for ``create_endpoint_from_worker_address`` elsewhere."""
        return self.worker.get_address()

    def ucp_context_info(self) -> str:
        """A text about the lanes and settings, for people."""
        lanes = [f"  {name}: {'yes' if there else 'no'}, {why}"
                 for name, (there, why) in self.context.lanes.items()]
        return "\n".join([f"Wherry {wherry.__version__}", *lanes])

    def ucp_worker_info(self) -> str:
        """A text about the worker, for people."""
        return self.worker.info()

    def get_active_transports(self) -> List[str]:
        """What may carry messages, by UCX's names."""
        there = [name for name, (found, _) in self.context.lanes.items() if found]
        return _ucx_config.transports(there)

    @property
    def cuda_support(self) -> bool:
        """Whether memory of CUDA devices can be sent."""
        return cuda_is_there()


def _accept(ctx: Optional[ApplicationContext], c: wherry.Endpoint) -> Optional[Endpoint]:
    """The endpoint of a peer that has connected; None: it was refused."""
    data = c.peer_data or b""
    if ctx is None:
        c.abort()
        return None
    if len(data) != len(HELLO) + _SEED_SIZE or not data.startswith(HELLO):
        logger.error("%s has connected without speaking for ucp: refused", c.peer)
        c.abort()
        return None
    return Endpoint(UCXEndpoint(ctx.worker, c), ctx, tags_of(data[len(HELLO):], False))


class Listener:
    """What ``create_listener`` gives; it listens until it is closed or nobody refers to it."""

    def __init__(self, backend: wherry.Listener, ctx: ApplicationContext) -> None:
        self._b: Optional[wherry.Listener] = backend
        self._port = backend.port
        self._ctx: Optional[ApplicationContext] = ctx

    def closed(self) -> bool:
        """Whether it was closed."""
        return self._b is None

    @property
    def ip(self) -> str:
        """``"0.0.0.0"``: all addresses."""
        return "0.0.0.0"

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self._port

    def close(self) -> None:
        """Ends listening; its endpoints live on."""
        backend, self._b, self._ctx = self._b, None, None
        if backend is not None and backend.worker.owned:
            backend.close()

    def __del__(self) -> None:
        if getattr(self, "_b", None) is not None:
            self.close()


# ---- the context of the calling thread


def _in_child() -> None:
    # It is the parent's; kept, because to end it here would mean to end it there.
    _inherited.append(_here.ctx)
    _here.ctx = None


_inherited: List[Optional[ApplicationContext]] = []
os.register_at_fork(after_in_child=_in_child)


def _get_ctx() -> ApplicationContext:
    if _here.ctx is None:
        _here.ctx = ApplicationContext(*_settings)
    return _here.ctx


def init(options: Dict[str, str] = {}, env_takes_precedence: bool = False,
         blocking_progress_mode: Optional[bool] = None,
         connect_timeout: Optional[float] = None) -> None:
    """Says how contexts are to be made, and makes this thread's.

    Not calling it is the same as calling it without arguments.
    env_takes_precedence: whether a variable ``UCX_NAME`` counts more than ``options["NAME"]``.
    The others: see ApplicationContext.

    Raises RuntimeError when this thread has a context already; ``reset`` ends it.
    """
    global _settings
    if _here.ctx is not None:
        raise RuntimeError("UCX is already initiated: call reset() before init()")
    chosen = {name: value for name, value in options.items()
              if not (env_takes_precedence and "UCX_" + name in os.environ)}
    settings = Settings(chosen, blocking_progress_mode, connect_timeout)
    _here.ctx = ApplicationContext(*settings)
    _settings = settings


def reset() -> None:
    """Ends the context of this thread; the next call makes one anew.

    Endpoints whose peer has closed in order end with it.  Raises UCXError, with what holds it, when
    an endpoint or listener is open: the context ends when they do.
    """
    global _settings
    _settings = Settings()
    ctx, _here.ctx = _here.ctx, None
    if ctx is None:
        return
    for ep in list(ctx.endpoints):
        if ep.closed_by_peer():
            ep.abort()
    gone = weakref.ref(ctx)
    del ctx
    gc.collect()
    left = gone()
    if left is None:
        return
    holders = [str(held)[:200] for held in gc.get_referrers(left)
               if not inspect.isframe(held)]
    raise UCXError("Trying to reset UCX but not all Endpoints and/or Listeners are closed(). "
                   "The following objects are still referencing ApplicationContext: "
                   + "".join("\n  " + holder for holder in holders))


def get_ucx_version() -> Tuple[int, int, int]:
    """UCX's release, such as (1, 13, 1); (0, 0, 0): UCX is not installed, and not needed."""
    return ucx_api.get_ucx_version()


def get_config() -> Dict[str, str]:
    """UCX's options; before anything has made a context: those that it would have."""
    if _here.ctx is None:
        return _ucx_config.options(_settings.options)
    return _here.ctx.get_config()


def progress() -> bool:
    """Moves what can move without waiting; whether anything did."""
    return _get_ctx().worker.progress()


def create_listener(callback_func: Callable[[Endpoint], Any], port: Optional[int] = None,
                    endpoint_error_handling: bool = True) -> Listener:
    return _get_ctx().create_listener(callback_func, port, endpoint_error_handling)


async def create_endpoint(ip_address: str, port: int,
                          endpoint_error_handling: bool = True) -> Endpoint:
    return await _get_ctx().create_endpoint(ip_address, port, endpoint_error_handling)


async def create_endpoint_from_worker_address(address: Any,
                                              endpoint_error_handling: bool = True) -> Endpoint:
    return await _get_ctx().create_endpoint_from_worker_address(address, endpoint_error_handling)


def continuous_ucx_progress(event_loop: Optional[asyncio.AbstractEventLoop] = None) -> None:
    _get_ctx().continuous_ucx_progress(event_loop)


def register_am_allocator(allocator: Callable[[int], Any], allocator_type: str) -> None:
    _get_ctx().register_am_allocator(allocator, allocator_type)


async def recv(buffer: Any, tag: int) -> bool:
    return await _get_ctx().recv(buffer, tag)


def get_ucp_worker() -> int:
    return _get_ctx().get_ucp_worker()


def get_ucp_context_info() -> str:
    return _get_ctx().ucp_context_info()


def get_ucp_worker_info() -> str:
    return _get_ctx().ucp_worker_info()


def get_active_transports() -> List[str]:
    return _get_ctx().get_active_transports()


def get_worker_address() -> UCXAddress:
    return _get_ctx().get_worker_address()


def get_ucx_address_from_buffer(buffer: Any) -> UCXAddress:
    """An address that came as bytes."""
    return UCXAddress.from_buffer(buffer)


async def flush() -> None:
    if _here.ctx is not None:
        await _here.ctx.flush()


def fence() -> None:
    if _here.ctx is not None:
        _here.ctx.fence()


for _name in ("create_listener", "create_endpoint", "create_endpoint_from_worker_address",
              "continuous_ucx_progress", "register_am_allocator", "recv", "get_ucp_worker",
              "get_active_transports", "get_worker_address", "flush", "fence"):
    globals()[_name].__doc__ = getattr(ApplicationContext, _name).__doc__
get_ucp_context_info.__doc__ = ApplicationContext.ucp_context_info.__doc__
get_ucp_worker_info.__doc__ = ApplicationContext.ucp_worker_info.__doc__
