"""The architectures that can be stacked, which are those of the fused kernels."""

from __future__ import annotations

from tarmac.kernels import Architecture, read_architecture
from tarmac.kernels import UnfitNetworkError as CannotStackError

__all__ = ["Architecture", "CannotStackError", "read_architecture"]
