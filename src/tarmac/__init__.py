"""Tarmac checks GPUs, trains models, searches hyperparameters and runs jobs.

Example::
    import tarmac

    run = tarmac.train("digits-mlp", epochs=20)
    print(run.metrics["test_accuracy"], run.path)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from tarmac.distribution import explained_imports, installed_version
from tarmac.errors import RequestError, TarmacError

if TYPE_CHECKING:
    from tarmac.checks import check, read_log
    from tarmac.inference import evaluate, export, load_model, predict
    from tarmac.jobs import attach
    from tarmac.studies import search
    from tarmac.training import extend, resume, train
    from tarmac.verbs import run, submit

__all__ = [
    "RequestError",
    "TarmacError",
    "attach",
    "check",
    "evaluate",
    "export",
    "extend",
    "load_model",
    "predict",
    "read_log",
    "resume",
    "run",
    "search",
    "submit",
    "train",
]

# The module that defines each public name.
_ROOMS = {
    "attach": "tarmac.jobs",
    "check": "tarmac.checks",
    "evaluate": "tarmac.inference",
    "export": "tarmac.inference",
    "extend": "tarmac.training",
    "load_model": "tarmac.inference",
    "predict": "tarmac.inference",
    "read_log": "tarmac.checks",
    "resume": "tarmac.training",
    "run": "tarmac.verbs",
    "search": "tarmac.studies",
    "submit": "tarmac.verbs",
    "train": "tarmac.training",
}


# Subpackages that documentation pages use as attributes, such as tarmac.data.
_MODULES = ("data", "runs", "workloads")


def __getattr__(name: str) -> object:
    """Import a public name on first use, so that ``import tarmac`` loads no framework."""
    if name == "__version__":
        return installed_version()
    if name in _MODULES:
        return importlib.import_module(f"tarmac.{name}")
    if name not in _ROOMS:
        raise AttributeError(f"module 'tarmac' has no attribute {name!r}")
    with explained_imports():
        return getattr(importlib.import_module(_ROOMS[name]), name)


def __dir__() -> list[str]:
    return __all__
