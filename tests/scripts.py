"""The scripts of `.ci/`, as modules."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from pathlib import Path
from types import ModuleType


def import_script(name: str) -> ModuleType:
    """Import a script, which has no suffix, without leaving its bytecode beside it."""
    path = Path(__file__).parents[1] / ".ci" / name
    loader = importlib.machinery.SourceFileLoader(f"ci_{name}", str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    loader.exec_module(module)
    sys.dont_write_bytecode = before
    return module
