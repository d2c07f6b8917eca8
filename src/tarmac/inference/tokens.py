"""A check for tokens beyond a model's vocabulary."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from tarmac.errors import RequestError


@contextlib.contextmanager
def tokens_checked(model: nn.Module, where: str, first: int) -> Iterator[None]:
    """Check the tokens that a model's embeddings receive within the context.

    For a token beyond the vocabulary, PyTorch says only that an index is out of range, and a GPU
    ends the process.

    Args:
        model: The model, with its preprocessing.
        where: Beginning of the error message.
        first: Number of the first sample in the batch, from 0.

    Raises:
        RequestError: A token is beyond the vocabulary; the message names it and its sample.
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
