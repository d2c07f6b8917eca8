"""Processes in which Triton finds other settings: it reads them when it is imported."""

from __future__ import annotations

import os
from concurrent.futures import Executor, ProcessPoolExecutor
from multiprocessing import get_context


def processes(number: int, environment: dict[str, str]) -> Executor:
    """Return so many processes with these variables."""
    return ProcessPoolExecutor(number, get_context("spawn"), _set, (environment,))


def _set(environment: dict[str, str]) -> None:
    os.environ.update(environment)
