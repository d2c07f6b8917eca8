"""A preprocessing that fails once, to check that a training resumes from its checkpoint."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from tarmac.workloads import Preprocess

# The call that fails and the marker file. An environment variable, so that workers inherit it.
_FAULT = "TARMAC_TESTING_FAULT"


class Failing:
    """A preprocessing that calls another one, and raises a RuntimeError within `failing_once`.

    Args:
        inner: Preprocessing to call if no fault is raised.
    """

    def __init__(self, inner: Preprocess) -> None:
        self._inner = inner
        self._fault: str | None = None
        self._num_calls = 0

    def __call__(self, inputs: Any, *, training: bool, dtype: torch.dtype) -> Any:
        """Return the result of the inner preprocessing."""
        fault = os.environ.get(_FAULT)
        if fault is not None and training:
            self._num_calls = self._num_calls + 1 if fault == self._fault else 1
            self._fault = fault
            call, _, path = fault.partition(":")
            if self._num_calls == int(call):
                with contextlib.suppress(FileExistsError):
                    Path(path).touch(exist_ok=False)
                    raise RuntimeError("failed on purpose")
        return self._inner(inputs, training=training, dtype=dtype)


@contextlib.contextmanager
def failing_once(marker: Path, call: int) -> Iterator[None]:
    """Make `Failing` fail at a call in training, in the first process that reaches the call.

    Args:
        marker: Path of a file that marks the failure, which must not exist.
        call: Number of the failing call, from 1, counted per process and per `Failing`.
    """
    marker.parent.mkdir(parents=True, exist_ok=True)
    os.environ[_FAULT] = f"{call}:{marker}"
    try:
        yield
    finally:
        del os.environ[_FAULT]
