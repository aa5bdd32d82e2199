# SPDX-License-Identifier: BSD-3-Clause
"""The exceptions, where programs have also found them."""
from ucp.exceptions import *  # noqa: F401,F403
