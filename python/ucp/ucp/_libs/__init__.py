# SPDX-License-Identifier: BSD-3-Clause
"""What programs reach for below the public functions."""
from ucp._libs import arr, exceptions, ucx_api  # noqa: F401
