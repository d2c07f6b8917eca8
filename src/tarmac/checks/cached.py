"""The quick check, cached for each combination of boot, driver and environment."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import platformdirs
from pydantic import ValidationError

from tarmac.checks.evidence import Evidence
from tarmac.checks.inventory import identify_machine, read_inventory
from tarmac.checks.probe_here import probe_here
from tarmac.checks.report.make import make_report
from tarmac.checks.report.model import Report
from tarmac.checks.verb import check
from tarmac.distribution import installed_version
from tarmac.errors import TarmacError
from tarmac.files import write_text

# Variables that may hide or choose GPUs, or their libraries.
_VARIABLES = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "CUDA_HOME")


def quick_check(
    cache: Path | None = None,
    environment: Mapping[str, str] | None = None,
    *,
    stop: threading.Event | None = None,
) -> Report:
    """Return the quick check's report, from the cache where no relevant fact has changed.

    The relevant facts are the boot ID, the driver's version, the interpreter's environment, the
    versions of PyTorch and Tarmac, and the variables that choose GPUs. Reports of failures are not
    cached, as the failures may be fixed at any time.

    Args:
        cache: Directory of earlier reports. Default: in the user's cache.
        environment: Environment variables to read. Default: this process's.
        stop: When set, the check is ended.
    """
    return _kept(cache, environment, (), lambda: check(depth="quick", stop=stop))


def check_here(
    devices: Sequence[str],
    cache: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Report:
    """Return the quick check's report on devices that this process is about to compute on.

    PyTorch computes on them in this process, which takes a tenth of a second. Reports are cached
    like those of `quick_check`.

    Args:
        devices: PyTorch's names of the devices, such as ``cuda:0`` or ``cpu``.
        cache: Directory of earlier reports. Default: in the user's cache.
        environment: Environment variables to read. Default: this process's.
    """

    def look() -> Report:
        started = time.perf_counter()
        evidence = Evidence(inventory=read_inventory(), probes=(probe_here(devices),))
        return make_report(evidence, seconds=time.perf_counter() - started)

    return _kept(cache, environment, devices, look)


def _kept(
    cache: Path | None,
    environment: Mapping[str, str] | None,
    devices: Sequence[str],
    look: Callable[[], Report],
) -> Report:
    directory = cache or Path(platformdirs.user_cache_dir("tarmac")) / "checks"
    key = _key(os.environ if environment is None else environment, devices)
    path = directory / f"{key}.json"
    try:
        return Report.model_validate_json(path.read_text(encoding="utf-8"))
    except (OSError, ValidationError):
        report = look()
    if report.ok:
        # A cache that cannot be written only costs time.
        with contextlib.suppress(OSError, TarmacError):
            directory.mkdir(parents=True, exist_ok=True)
            write_text(path, report.model_dump_json())
    return report


def _key(environment: Mapping[str, str], devices: Sequence[str]) -> str:
    try:
        torch = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        torch = ""
    facts = (
        *identify_machine(),
        sys.prefix,
        torch,
        installed_version(),
        *devices,
        *(environment.get(name) for name in _VARIABLES),
    )
    return hashlib.blake2b(repr(facts).encode(), digest_size=12).hexdigest()
