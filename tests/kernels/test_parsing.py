"""Several threads parse Python at once, whatever garbage there is."""

from __future__ import annotations

import ast
import gc
import inspect
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from tarmac.kernels.parsing import parsing_in_threads


class _Node:
    """Runs Python when it is collected, which lets another thread go on."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        sum(range(50))


def _parse(source: str) -> None:
    for _ in range(40):
        _Node()
        ast.parse(source)


@pytest.fixture
def often_switched():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("often_switched")
def test_threads_parse_at_once_amid_garbage():
    # Without it some 20 of these 160 fail in Python 3.11.
    source = inspect.getsource(ast)
    with parsing_in_threads(), ThreadPoolExecutor(4) as threads:
        for parsed in [threads.submit(_parse, source) for _ in range(4)]:
            parsed.result()


@pytest.mark.parametrize("enabled", [True, False])
def test_garbage_is_collected_as_before_afterwards(enabled):
    was = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        with pytest.raises(KeyError), parsing_in_threads():
            raise KeyError
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if was else gc.disable)()
