"""Shared fixtures: small data, places to write, and the real MNIST where it is."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

# Tests run in parallel on few cores: how long a draw takes says nothing of it.
settings.register_profile("tests", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    # Tests run in parallel: threads of one test on the cores of another only make both slower.
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
        if item.get_closest_marker("gpu") and not torch.cuda.is_available():
            item.add_marker(pytest.mark.skip(reason="no CUDA device; run: pytest -m gpu on one"))
