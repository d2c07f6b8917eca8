"""Which of the processes that a launcher has started with the same line speaks for all."""

from __future__ import annotations

import os

__all__ = ["speaks_for_all"]


def speaks_for_all() -> bool:
    """Whether this process prints: it is rank 0, or the only one."""
    return "WORLD_SIZE" not in os.environ or os.environ.get("RANK", "0") == "0"
