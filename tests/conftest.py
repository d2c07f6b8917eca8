"""Shared fixtures: small data, places to write, and the real MNIST where it is."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

_HAS_TORCH = importlib.util.find_spec("torch") is not None
# The folders whose every test needs an extra; .ci/core runs the others without.
_NEED_EXTRAS = ("cli", "devices", "docs", "examples", "search", "train", "workloads")
collect_ignore = [] if _HAS_TORCH else list(_NEED_EXTRAS)

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
    if not _HAS_TORCH:
        terminalreporter.line(
            f"not collected, for PyTorch is not installed: {', '.join(_NEED_EXTRAS)}"
        )
