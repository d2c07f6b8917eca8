"""A stream of tokens as samples of one length."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy.lib.stride_tricks import sliding_window_view

from tarmac.data.base import Split
from tarmac.errors import RequestError

if TYPE_CHECKING:
    from numpy.typing import NDArray


def windows(tokens: NDArray[Any], length: int, *, stride: int | None = None) -> Split:
    """Cut a stream of tokens into samples, each with the tokens that follow as its targets.

    Nothing is copied: both are views of ``tokens``, which may be memory-mapped. They are a series:
    held-out samples are the last ones, for those drawn from between would share their text with
    samples that are trained on.

    Args:
        tokens: Integer array ``[num_tokens]``, at least ``length + 1`` tokens long.
        length: Tokens of a sample.
        stride: From the beginning of a sample to that of the next; by default ``length``, so that
            none overlap.

    Returns:
        Inputs and targets ``[num_samples, length]``; targets are one token further on.

    Raises:
        RequestError: The tokens are no integers in one dimension, or too few.
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
