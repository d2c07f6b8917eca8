"""Cut a stream of tokens into samples of equal length."""

from __future__ import annotations

from typing import Any

from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from tarmac.data.base import Split
from tarmac.errors import RequestError


def windows(tokens: NDArray[Any], length: int, *, stride: int | None = None) -> Split:
    """Cut a stream of tokens into samples; targets are shifted by one token.

    Inputs and targets are views of ``tokens``, which may be memory-mapped. The split is a series:
    held-out samples are the last ones, because randomly drawn samples would share their text with
    training samples.

    Args:
        tokens: Integer array ``[num_tokens]``, at least ``length + 1`` tokens long.
        length: Tokens per sample, at least 1.
        stride: Tokens from the start of a sample to the start of the next, at least 1. Default
            ``length``: no overlap.

    Returns:
        A split with inputs and targets ``[num_samples, length]``.

    Raises:
        RequestError: The tokens are no one-dimensional integers, or too few.
    """
    if tokens.ndim != 1 or tokens.dtype.kind not in "iu":
        raise RequestError(
            f"tokens are {tokens.dtype} of {tokens.ndim} dimensions, expected integers of 1"
        )
    stride = length if stride is None else stride
    for name, value in (("length", length), ("stride", stride)):
        if value < 1:
            raise RequestError(f"{name} is {value}, expected at least 1")
    if len(tokens) < length + 1:
        raise RequestError(
            f"{len(tokens)} tokens are too few for a window of {length} and the one after it"
        )
    inputs = sliding_window_view(tokens[:-1], length)[::stride]
    return Split(inputs, sliding_window_view(tokens[1:], length)[::stride], is_series=True)
