"""Runs the kernels without a GPU: in Triton's interpreter, or by its compiler alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from typing import Any

import pytest
from kernel_processes import processes


@pytest.fixture(scope="module")
def interpreted() -> Iterator[Callable[..., Any]]:
    """Return a function that calls another one in a process where kernels are interpreted."""
    with processes(1, {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}) as pool:
        yield lambda function, *arguments: pool.submit(function, *arguments).result()


@pytest.fixture(scope="module")
def compilers(tmp_path_factory) -> Iterator[Executor]:
    """Return processes that compile kernels, with an empty cache."""
    cache = str(tmp_path_factory.mktemp("triton"))
    with processes(2, {"TRITON_CACHE_DIR": cache}) as pool:
        yield pool
