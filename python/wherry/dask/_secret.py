# SPDX-License-Identifier: BSD-3-Clause
"""The secret that a cluster makes for itself where none is configured.

It stands in Dask's configuration of this process, where the scheduler and clients find it and from
where a nanny passes it on to its worker through a pipe.  All clusters that a process has at one time
share it.
"""
import os
import secrets
import threading
from typing import Callable, Optional

import dask.config
from wherry.dask._config import SECTION, secret

_BYTES = 32
_KEY = f"{SECTION}.secret"

_lock = threading.Lock()
_made: Optional[str] = None
_users = 0


def hold_secret() -> Callable[[], None]:
    """Makes one unless one is configured; what it returns lets go of it, once however often called."""
    global _made, _users
    with _lock:
        if _made is None and not _is_configured():
            _made = secrets.token_hex(_BYTES)
            dask.config.set({_KEY: _made})
        if _made is None or secret() != _made:
            return lambda: None
        _users += 1
    held = True

    def release() -> None:
        global _made, _users
        nonlocal held
        with _lock:
            if not held:
                return
            held = False
            _users -= 1
            if _users == 0:
                if secret() == _made:
                    dask.config.set({_KEY: None})
                _made = None
    return release


def _is_configured() -> bool:
    return bool(secret() or os.environ.get("WHERRY_SECRET") or os.environ.get("WHERRY_SECRET_FILE"))
