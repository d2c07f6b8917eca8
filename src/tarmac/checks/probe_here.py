"""Runs the PyTorch probe in this process, on the devices that it is about to compute on.

A separate process would import PyTorch again and make a second context on each GPU. That takes some
seconds, and an exclusive compute mode forbids it. The probe itself takes a tenth of a second. Where
the probe crashes or hangs, the work that follows would crash or hang too.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

from tarmac.checks.evidence import Probe
from tarmac.checks.frameworks import PROBES, find_framework
from tarmac.checks.targets import THIS_PYTHON
from tarmac.files import scratch_directory


def probe_here(devices: Sequence[str]) -> Probe:
    """Compute on devices with PyTorch, without measuring rates; keep the random number state.

    Args:
        devices: PyTorch's names of the devices, such as ``cuda:0`` or ``cpu``.

    Returns:
        The outcome and the result of the probe.
    """
    import torch  # noqa: PLC0415 - checks of other frameworks need no PyTorch

    framework = find_framework("torch")
    started = time.perf_counter()
    gpus = [int(name.split(":")[1]) for name in devices if name.startswith("cuda:")]
    # Without a GPU in PyTorch, name no device: naming the CPU would suppress the finding.
    wanted = devices if gpus or torch.cuda.device_count() else ()
    with (
        scratch_directory() as directory,
        _programs(framework.program) as (harness, program),
        torch.random.fork_rng(devices=gpus),
    ):
        path = str(directory / "result.json")
        probe = harness.Probe(framework.name, path, "quick", [*wanted])
        harness.attempt(probe, program.main)
    error = probe.result["error"]
    return Probe(
        framework=framework.name,
        where=THIS_PYTHON.name,
        outcome="done" if error is None else "failed",
        detail="" if error is None else f"{error['type']}: {error['message']}".strip(),
        seconds=time.perf_counter() - started,
        result=probe.result,
    )


@contextlib.contextmanager
def _programs(program: Path) -> Iterator[tuple[ModuleType, ModuleType]]:
    """Load the harness and a probe, and remove both from ``sys.modules`` afterwards."""
    # Probes are standalone programs, which import `harness` from their own folder.
    hidden = sys.modules.pop("harness", None)
    try:
        harness = sys.modules["harness"] = _load(PROBES / "harness.py")
        yield harness, _load(program)
    finally:
        del sys.modules["harness"]
        if hidden is not None:
            sys.modules["harness"] = hidden


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
