"""Check that tokens are within the vocabularies of the layers that take them.

For a token outside of the vocabulary, a GPU reports only a failed assertion and ends the process.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from tarmac.data import Column, Dataset, columns_of
from tarmac.errors import RequestError
from tarmac.training.engine.prediction import call_model

# Rows checked at a time. Overlapping windows would take many times their memory if checked at once.
_ROWS = 4096


def check_tokens(model: nn.Module, inputs: Any, dataset: Dataset) -> None:
    """Raise a RequestError if an input has tokens outside of its embedding's vocabulary.

    Args:
        model: Model on the CPU; its state stays unchanged.
        inputs: A preprocessed batch, or a dictionary of such batches. An embedding is checked only
            if it gets one of these tensors unchanged.
        dataset: Dataset whose samples are all checked.
    """
    tensors = inputs if isinstance(inputs, Mapping) else {"": inputs}
    if not any(value.dtype == torch.int64 for value in tensors.values()):
        return
    # Use zeros, as a token outside of the vocabulary would end the pass at the first embedding.
    tensors = {
        name: torch.zeros_like(value) if value.dtype == torch.int64 else value
        for name, value in tensors.items()
    }
    sizes: dict[str, int] = {}

    def see(layer: nn.Module, arguments: tuple[Any, ...]) -> None:
        for name, value in tensors.items():
            if isinstance(layer, nn.Embedding) and arguments and arguments[0] is value:
                sizes[name] = layer.num_embeddings

    layers = [layer for layer in model.modules() if isinstance(layer, nn.Embedding)]
    hooks = [layer.register_forward_pre_hook(see) for layer in layers]
    model.eval()
    try:
        with torch.no_grad():
            call_model(model, tensors if isinstance(inputs, Mapping) else tensors[""])
    except (RuntimeError, IndexError, TypeError):
        # The trial runs the model next, and reports the error.
        return
    finally:
        model.train()
        for hook in hooks:
            hook.remove()
    for part, split in dataset.parts().items():
        columns = columns_of(split.inputs)
        for name, size in sizes.items():
            _check(
                f"dataset {dataset.name!r}: {part}.inputs{'.' * bool(name)}{name}",
                columns[name],
                f"embedding has {size}",
                size,
            )


def check_next_tokens(dataset: Dataset, size: int, ignore_index: int) -> None:
    """Raise a RequestError if targets have tokens outside of the model's output vocabulary.

    Args:
        dataset: Dataset whose targets are all checked, unless they are no array of integers.
        size: Number of logits that the model returns for a token.
        ignore_index: Target value that the loss ignores.
    """
    for part, split in dataset.parts().items():
        targets = split.targets
        if isinstance(targets, np.ndarray) and targets.dtype.kind in "iu":
            what = f"dataset {dataset.name!r}: {part}.targets"
            _check(what, targets, f"output tells {size} apart", size, ignore_index)


def _check(what: str, column: Column, has: str, size: int, ignored: int | None = None) -> None:
    for start in range(0, len(column), _ROWS):
        rows = column[start : start + _ROWS]
        is_known = (rows >= 0) & (rows < size)
        if ignored is not None:
            is_known |= rows == ignored
        if not is_known.all():
            index = int(np.argmin(is_known.reshape(len(rows), -1).all(axis=1)))
            bad = rows[index][~is_known[index]]
            raise RequestError(
                f"{what} have token {bad.flat[0]} in sample {start + index} (from 0), and the "
                f"model's {has}: 0 to {size - 1}",
                hint="Use a model with a larger vocabulary, or other tokens.",
            )
