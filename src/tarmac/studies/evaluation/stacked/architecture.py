"""Which networks can be stacked: those that the fused kernels read as well."""

from __future__ import annotations

from tarmac.kernels import Architecture, read_architecture
from tarmac.kernels import UnfitNetworkError as CannotStackError

__all__ = ["Architecture", "CannotStackError", "read_architecture"]
