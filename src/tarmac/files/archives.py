"""Python's `tarfile`, whose filters refuse members that lead out of a directory (PEP 706).

Debian 12's Python 3.11.2 has none; `backports.tarfile` is the same module with them.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING or sys.version_info >= (3, 11, 4):
    import tarfile
else:
    from backports import tarfile

__all__ = ["tarfile"]
