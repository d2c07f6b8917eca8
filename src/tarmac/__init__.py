"""Tarmac gets deep-learning jobs off the ground on GPUs, and proves that they fly.

Example:
    import tarmac

    run = tarmac.train("digits-mlp", epochs=20)
    print(run.metrics["test_accuracy"], run.path)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from tarmac.errors import RequestError, TarmacError

if TYPE_CHECKING:
    from tarmac.train import resume, train

__all__ = ["RequestError", "TarmacError", "resume", "train"]


def __getattr__(name: str) -> object:
    """Import a verb when it is first used: ``import tarmac`` alone loads no framework."""
    if name not in ("resume", "train"):
        raise AttributeError(f"module 'tarmac' has no attribute {name!r}")
    # The room stands for its verb: it is callable, and is what the name means once it is imported.
    room = importlib.import_module("tarmac.train")
    return room if name == "train" else getattr(room, name)


def __dir__() -> list[str]:
    return __all__
