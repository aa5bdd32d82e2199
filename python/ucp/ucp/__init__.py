# SPDX-License-Identifier: BSD-3-Clause
"""The module of UCX-Py 0.45, on top of Wherry: programs that import ``ucp`` run as they are.

What differs is in Wherry's documentation, docs/howto/from-ucx-py.md.
"""
from ucp import _libs, core, exceptions, utils  # noqa: F401
from ucp._talk import (  # noqa: F401
    destroy_ep, fin, get_endpoint, get_obj_from_msg, start_listener, stop_listener,
)
from ucp.core import *  # noqa: F401,F403
from ucp.core import get_ucx_version
from ucp.exceptions import (  # noqa: F401
    UCXBaseException, UCXCanceled, UCXCloseError, UCXConfigError, UCXConnectionReset, UCXError,
    UCXMsgTruncated, UCXNotConnected, UCXUnreachable, UCXWarning,
)
from ucp.utils import get_address, get_ucxpy_logger  # noqa: F401

logger = get_ucxpy_logger()

__version__ = "0.45.0+wherry"
__git_commit__ = ""
__ucx_min_version__ = "1.13.0"
__ucx_version__ = ".".join(str(part) for part in get_ucx_version())
