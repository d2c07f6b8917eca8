"""Every process that a test here starts is a fork of one that has imported PyTorch."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True, scope="module")
def _forked(forked_children) -> None:
    # Ranks of a training are forks.
    pass
