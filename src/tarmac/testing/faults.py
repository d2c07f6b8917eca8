"""A preprocessing that fails once, to see whether a training goes on from its checkpoint."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

    from tarmac.workloads import Preprocess

# In the environment, so that workers have it too: the file that says it has happened, and the call.
_FAULT = "TARMAC_TESTING_FAULT"


class Failing:
    """Preprocesses as another does, but raises a RuntimeError where `failing_once` says.

    Args:
        inner: Preprocessing to call where no fault is raised.
    """

    def __init__(self, inner: Preprocess) -> None:
        self._inner = inner
        self._fault: str | None = None
        self._num_calls = 0

    def __call__(self, inputs: Any, *, training: bool, dtype: torch.dtype) -> Any:
        """Return what the inner preprocessing does."""
        fault = os.environ.get(_FAULT)
        if fault is not None and training:
            self._num_calls = self._num_calls + 1 if fault == self._fault else 1
            self._fault = fault
            call, _, path = fault.partition(":")
            if self._num_calls == int(call):
                with contextlib.suppress(FileExistsError):
                    Path(path).touch(exist_ok=False)
                    raise RuntimeError("failed as the test wishes")
        return self._inner(inputs, training=training, dtype=dtype)


@contextlib.contextmanager
def failing_once(marker: Path, call: int) -> Iterator[None]:
    """Let `Failing` fail at a call in training, in the first process that gets there.

    Args:
        marker: A file that is made when it has failed; must not exist.
        call: Counts from 1, in each process and each `Failing`.
    """
    marker.parent.mkdir(parents=True, exist_ok=True)
    os.environ[_FAULT] = f"{call}:{marker}"
    try:
        yield
    finally:
        del os.environ[_FAULT]
