"""Whether samples have tokens beyond a model's vocabulary."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from tarmac.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def tokens_checked(model: nn.Module, where: str, first: int) -> Iterator[None]:
    """Look at what a model's embeddings are given within.

    Of a token beyond, PyTorch says only that an index is out of range, and a GPU ends the process.

    Args:
        model: The model, with its preprocessing.
        where: What the message begins with.
        first: The number of the first sample that it is given.

    Raises:
        RequestError: A token is beyond: which, in which sample.
    """

    def look(layer: nn.Module, arguments: tuple[Any, ...]) -> None:
        assert isinstance(layer, nn.Embedding)
        tokens, size = arguments[0], layer.num_embeddings
        is_beyond = (tokens < 0) | (tokens >= size)
        if is_beyond.any():
            index = torch.nonzero(is_beyond)[0].tolist()
            sample = f"sample {first + index[0]} (from 0) has" if index else "there is"
            raise RequestError(
                f"{where}: {sample} token {tokens[is_beyond].flatten()[0]}, and the model's "
                f"embedding has {size}: 0 to {size - 1}"
            )

    layers = [layer for layer in model.modules() if isinstance(layer, nn.Embedding)]
    hooks = [layer.register_forward_pre_hook(look) for layer in layers]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
