# SPDX-License-Identifier: BSD-3-Clause
"""Clusters on one machine whose workers each stay near to a GPU or in a NUMA node."""
import os
from typing import Any, Dict, List, Optional

import dask.config
import distributed
from distributed.comm import registry
from distributed.security import Security
from wherry.dask._comm import WherryBackend
from wherry.dask._config import module_names
from wherry.dask._place import Place, places
from wherry.dask._secret import Secured, forget, is_configured, remember
from wherry.topology import Topology, cpu_list, from_machine

_PIN = "wherry.dask._pin"
_EVERYWHERE = ("", "0.0.0.0", "::", "[::]")


class LocalCluster(distributed.LocalCluster):
    """distributed's LocalCluster over ``wherry://``, with each worker at a place of its own.

    ``per``: one worker per "gpu" or "numa" node, or "auto": per GPU where there are some, else per
    NUMA node where there are several, else as distributed does it.  ``topology``: of this machine,
    if not what ``wherry.topology.from_machine()`` says.  A worker is a process all of whose threads
    are pinned to the processors of its place; per GPU it sees its own GPU first.  Workers beyond the
    number of places share them.  Where no secret is configured the cluster makes one.

    All other keywords are those of distributed.  Raises ValueError where there is nothing of what
    ``per`` names, or workers that are no processes are to be placed.
    """

    worker_spec: Dict[Any, Dict[str, Any]]

    def __init__(self, name: Any = None, n_workers: Optional[int] = None,
                 threads_per_worker: Optional[int] = None, processes: Optional[bool] = None, *,
                 per: str = "auto", topology: Optional[Topology] = None,
                 protocol: Optional[str] = None, host: Optional[str] = None,
                 **options: Any) -> None:
        if protocol is None:
            protocol = host.split("://")[0] if host and "://" in host else "wherry"
        self._places = self._find(per, topology, processes, options.get("worker_class"))
        self._place_of: Dict[Any, int] = {}
        self._near_nics = _is_everywhere(host) and not options.get("interface")
        self._nthreads = threads_per_worker
        if self._places and n_workers is None:
            n_workers = len(self._places)
        self._sharing = -(-max(n_workers or 0, 1) // max(len(self._places), 1))
        given = options.get("security")
        if _is_ours(protocol) and isinstance(given, (Security, type(None))) and not is_configured():
            options["security"] = Secured(given)
        super().__init__(name, n_workers, threads_per_worker, processes, protocol=protocol,
                         host=host, **options)

    @staticmethod
    def _find(per: str, topology: Optional[Topology], processes: Optional[bool],
              worker_class: Optional[type]) -> List[Place]:
        nannies = worker_class is None or issubclass(worker_class, distributed.Nanny)
        if processes is False or not nannies:
            if per != "auto":
                raise ValueError(f"per={per!r} places processes: it needs processes=True and Nanny, "
                                 "or a class made from it, as worker_class")
            return []
        return places(topology or from_machine(), per, os.sched_getaffinity(0))

    async def _start(self) -> None:
        if not self._place_of:
            self.worker_spec = {name: self._placed(name, spec)
                                for name, spec in self.worker_spec.items()}
        await super()._start()
        remember(self.scheduler_address, self.security)

    async def _close(self) -> None:
        try:
            await super()._close()
        finally:
            forget(self.security)

    def new_worker_spec(self) -> Dict[Any, Dict[str, Any]]:
        """Of distributed, which asks for it when the cluster grows."""
        return {name: self._placed(name, spec) for name, spec in super().new_worker_spec().items()}

    def _placed(self, name: Any, spec: Dict[str, Any]) -> Dict[str, Any]:
        """The spec of a worker at the place that the fewest have."""
        if not self._places:
            return spec
        self._place_of = {other: at for other, at in self._place_of.items() if other in self.worker_spec}
        taken = list(self._place_of.values())
        at = self._place_of[name] = min(range(len(self._places)), key=taken.count)
        return {**spec, "options": self._options(self._places[at], spec["options"])}

    def _options(self, place: Place, given: Dict[str, Any]) -> Dict[str, Any]:
        """What Nanny is to be called with; what the caller has given stays."""
        options = {**given, **_preloads(given)}
        options["env"] = {**place.env, **(given.get("env") or {})}
        options["config"] = {**(given.get("config") or {}),
                             "distributed.comm.wherry.cpus": cpu_list(place.cpus)}
        if self._nthreads is None:
            options["nthreads"] = max(1, place.nthreads // self._sharing)
        if self._near_nics and place.netdev:
            options.update(host=None, interface=place.netdev)
        return options


class DGX(LocalCluster):
    """LocalCluster with one worker per GPU, for a machine that has some.

    Raises ValueError where this process may use none.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, per="gpu", **options)


def _preloads(given: Dict[str, Any]) -> Dict[str, Any]:
    """Pinning, then what the worker would preload anyway, each with its arguments."""
    modules = given.get("preload")
    if modules is None:
        modules = dask.config.get("distributed.worker.preload")
    argv = given.get("preload_argv")
    if argv is None:
        argv = dask.config.get("distributed.worker.preload-argv")
    modules, argv = module_names(modules), list(argv)
    if not argv or isinstance(argv[0], str):  # the same for all
        argv = [argv] * len(modules)
    return {"preload": [_PIN, *modules], "preload_argv": [[], *argv]}


def _is_everywhere(host: Optional[str]) -> bool:
    """Whether a host means all addresses of the machine, so that each worker may choose its own."""
    return host is not None and host.split("://")[-1] in _EVERYWHERE


def _is_ours(protocol: str) -> bool:
    return isinstance(registry.backends.get(protocol.split("://")[0]), WherryBackend)
