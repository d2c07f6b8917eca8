"""What tests of the command line have in common."""

from __future__ import annotations

import sys

import pytest

from command_line import tarmac
from forked import forked_interpreter

__all__ = ["tarmac"]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TARMAC_RUNS", raising=False)


@pytest.fixture
def forked_workers(monkeypatch):
    """Let workers that this process starts be forks that have imported PyTorch."""
    monkeypatch.setattr(sys, "executable", forked_interpreter())


@pytest.fixture(autouse=True, scope="session")
def _needs_torch():
    pytest.importorskip("torch", reason="needs pip install 'tarmac-gpu[train]'")
