"""The quick check, done once for each start of the machine, driver and environment."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs
from pydantic import ValidationError

from tarmac.checks.inventory import identify_machine
from tarmac.checks.report.model import Report
from tarmac.checks.verb import check
from tarmac.distribution import installed_version
from tarmac.errors import TarmacError
from tarmac.files import write_text

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["quick_check"]

# What may hide or choose GPUs, or their libraries.
_VARIABLES = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "CUDA_HOME")


def quick_check(cache: Path | None = None, environment: Mapping[str, str] | None = None) -> Report:
    """Return the quick check's report, from the cache where nothing that matters has changed.

    Reports of failures are not kept: they may be fixed any time.

    Args:
        cache: The directory of earlier reports; by default in the user's cache.
        environment: By default this process's.

    What decides is the boot id, the driver's version, the interpreter's environment, PyTorch's
    version, and the variables that choose GPUs.
    """
    directory = cache or Path(platformdirs.user_cache_dir("tarmac")) / "checks"
    path = directory / f"{_key(os.environ if environment is None else environment)}.json"
    try:
        return Report.model_validate_json(path.read_text(encoding="utf-8"))
    except (OSError, ValidationError):
        report = check(depth="quick")
    if report.ok:
        # A cache that cannot be written costs time, and nothing else.
        with contextlib.suppress(OSError, TarmacError):
            directory.mkdir(parents=True, exist_ok=True)
            write_text(path, report.model_dump_json())
    return report


def _key(environment: Mapping[str, str]) -> str:
    try:
        torch = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        torch = ""
    facts = (
        *identify_machine(),
        sys.prefix,
        torch,
        installed_version(),
        *(environment.get(name) for name in _VARIABLES),
    )
    return hashlib.blake2b(repr(facts).encode(), digest_size=12).hexdigest()
