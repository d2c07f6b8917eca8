"""What tests of this machine have in common."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True, scope="session")
def _needs_torch():
    pytest.importorskip("torch", reason="needs pip install 'tarmac-gpu[train]'")
