"""Shared fixtures: small data, places to write, and the real MNIST where it is."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Folders and files whose tests need a package that an extra brings.
_NEED = {
    "torch": (
        *("cli", "devices", "docs", "examples", "search", "train", "workloads"),
        *("check/test_check.py", "check/test_container.py", "check/test_probes.py"),
    ),
    "optuna": ("search", "cli/test_search.py"),
    "obstore": ("jobs/test_objects.py",),
}
_MISSING = [module for module in _NEED if importlib.util.find_spec(module) is None]
_HAS_TORCH = "torch" not in _MISSING
collect_ignore = [path for module in _MISSING for path in _NEED[module]]

# Tests run in parallel on few cores: how long a draw takes says nothing of it.
settings.register_profile("tests", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    # Tests run in parallel: threads of one test on the cores of another only make both slower.
    if _HAS_TORCH:
        import torch

        torch.set_num_threads(1)


@pytest.fixture
def mnist() -> None:
    """Skip where the real MNIST files are not under TARMAC_DATA."""
    root = os.environ.get("TARMAC_DATA")
    if root is None or not list(Path(root).glob("mnist/train-images*")):
        pytest.skip("MNIST is not here; provide it: tarmac data fetch mnist, and set TARMAC_DATA")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Return a function that mounts a file system of a size, such as ``1m``, and gives its path.

    Called again, it makes the same one larger or smaller.
    """
    disk = tmp_path / "disk"

    def mount(size: str) -> Path:
        options = "remount," if disk.exists() else ""
        disk.mkdir(exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", f"{options}size={size}", "tmpfs", str(disk)]
        if subprocess.run(command, capture_output=True, check=False).returncode != 0:
            disk.rmdir()
            pytest.skip("a small disk cannot be mounted here; try as root: sudo make test")
        return disk

    yield mount
    if disk.exists():
        subprocess.run(["umount", str(disk)], check=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("gpu") and not _has_cuda():
            item.add_marker(pytest.mark.skip(reason="no CUDA device; run: pytest -m gpu on one"))


def _has_cuda() -> bool:
    if not _HAS_TORCH:
        return False
    import torch

    return torch.cuda.is_available()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for module in _MISSING:
        terminalreporter.line(f"not collected without {module}: {', '.join(_NEED[module])}")
