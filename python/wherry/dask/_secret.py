# SPDX-License-Identifier: BSD-3-Clause
"""The secret that a cluster makes for itself where none is configured.

It travels in the cluster's Security, as certificates do: distributed hands that to the scheduler, through a pipe to
each worker, and to the clients of the cluster, and has it say what every connection and listener gets.  So it is
of this cluster only, and others in the process do not hear of it.  A client that is made from an address asks
`security_of`, which distributed calls by its name in the configuration.
"""
import os
import secrets
import weakref
from typing import Any, Dict, Optional

import dask.config
import distributed
from distributed.comm import resolve_address
from distributed.security import Security
from wherry.dask._config import secret

ARGUMENT = "wherry_secret"  # of connections and listeners
_BYTES = 32
_LOADER = "distributed.client.security-loader"

# Of the clusters of this process, by the addresses of their schedulers.
_made: "weakref.WeakValueDictionary[str, Secured]" = weakref.WeakValueDictionary()


class Secured(Security):
    """Another Security with a secret in addition, which its repr does not show."""

    # No __slots__: distributed takes those for all that there is to show.

    def __init__(self, other: Optional[Security] = None) -> None:
        other = Security() if other is None else other
        for name in Security.__slots__:
            setattr(self, name, getattr(other, name))
        self._secret = secrets.token_hex(_BYTES)

    def get_connection_args(self, role: str) -> Dict[str, Any]:
        return {**super().get_connection_args(role), ARGUMENT: self._secret}

    def get_listen_args(self, role: str) -> Dict[str, Any]:
        return {**super().get_listen_args(role), ARGUMENT: self._secret}


def is_configured() -> bool:
    return bool(secret() or os.environ.get("WHERRY_SECRET") or os.environ.get("WHERRY_SECRET_FILE"))


def remember(address: str, security: Any) -> None:
    """Has clients of this process find what a cluster has made by its scheduler's address."""
    if not isinstance(security, Secured):
        return
    _made[address] = security
    if dask.config.get(_LOADER, None) is None:
        dask.config.set({_LOADER: f"{__name__}.{security_of.__name__}"})


def forget(security: Any) -> None:
    for address, known in list(_made.items()):
        if known is security:
            del _made[address]


def security_of(info: Dict[str, Any]) -> Optional[Security]:
    """Of distributed, which calls it for a client that has no more than an address; None: nothing is known."""
    address = resolve_address(info["address"])
    if address in _made:
        return _made[address]
    try:
        worker = distributed.get_worker()
    except ValueError:  # this process is none
        return None
    return worker.security if worker.scheduler.address == address else None
