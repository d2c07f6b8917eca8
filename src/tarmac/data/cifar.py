"""CIFAR-10 in its binary and its Python layout (cs.toronto.edu/~kriz/cifar.html)."""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tarmac.errors import TarmacError

_NUM_SAMPLES = 10_000
_SHAPE = (3, 32, 32)
_SAMPLE_BYTES = 3 * 32 * 32

Batch = tuple[NDArray[np.uint8], NDArray[np.int64]]


def parse_binary_batch(content: bytes, where: str) -> Batch:
    """Parse a file of records: one byte of class, 3,072 bytes of channels.

    Returns:
        Images as uint8 ``[10000, 3, 32, 32]``, and classes as int64 ``[10000]``.

    Raises:
        TarmacError: The file does not hold exactly 10,000 records.
    """
    expected = _NUM_SAMPLES * (1 + _SAMPLE_BYTES)
    if len(content) != expected:
        raise TarmacError(f"{where} has {len(content)} bytes, expected {expected}")
    records = np.frombuffer(content, np.uint8).reshape(_NUM_SAMPLES, 1 + _SAMPLE_BYTES)
    return records[:, 1:].reshape(-1, *_SHAPE).copy(), records[:, 0].astype(np.int64)


def parse_python_batch(content: bytes, where: str) -> Batch:
    """Parse a pickled batch; the unpickler never runs code from the file.

    Returns:
        Images and classes, as from `parse_binary_batch`.

    Raises:
        TarmacError: The file is no CIFAR-10 batch, or refers to forbidden objects.
    """
    try:
        batch = _BatchUnpickler(io.BytesIO(content), encoding="bytes").load()
        inputs = np.asarray(batch[b"data"])
        targets = np.asarray(batch[b"labels"], dtype=np.int64)
    # Damaged pickles raise almost anything.
    except Exception as error:
        raise TarmacError(f"{where} is not a CIFAR-10 batch: {error}") from error
    if inputs.dtype != np.uint8 or inputs.shape != (_NUM_SAMPLES, _SAMPLE_BYTES):
        raise TarmacError(
            f"{where} holds {inputs.dtype} of shape {list(inputs.shape)}, "
            f"expected uint8 of {[_NUM_SAMPLES, _SAMPLE_BYTES]}"
        )
    if targets.shape != (_NUM_SAMPLES,):
        raise TarmacError(f"{where} holds {len(targets)} labels, expected {_NUM_SAMPLES}")
    return inputs.reshape(-1, *_SHAPE).copy(), targets


class _BatchUnpickler(pickle.Unpickler):
    """An unpickler that allows only NumPy's array reconstruction, as the published files need."""

    def find_class(self, module: str, name: str) -> Any:
        if name == "_reconstruct" and module in (
            "numpy.core.multiarray",
            "numpy._core.multiarray",
        ):
            return super().find_class("numpy._core.multiarray", name)
        # Python 3 pickles bytes for Python 2 as a call of _codecs.encode.
        if (module, name) in (("numpy", "ndarray"), ("numpy", "dtype"), ("_codecs", "encode")):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"{module}.{name} is not allowed in a data file")
