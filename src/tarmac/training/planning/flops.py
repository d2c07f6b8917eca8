"""Count a model's matrix work, by which precision and compilation are chosen."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from tarmac.errors import RequestError
from tarmac.training.engine.prediction import call_model

# Index of the first matrix among a product's arguments.
_PRODUCTS = {"mm": 0, "bmm": 0, "addmm": 1, "baddbmm": 1}

_CONVOLUTIONS = ("convolution", "_convolution")

# Fused attention has several names, one for each kind of kernel.
_ATTENTION = "_scaled_dot_product"


def count_forward_flops(model: nn.Module, inputs: Any) -> tuple[int, Any]:
    """Count the floating-point operations of the matrix products in one forward pass.

    The count covers linear layers (also with a weight shared by another layer), convolutions and
    attention. It misses recurrent layers. A multiply-add is two operations. Attention counts in
    full, though causal attention needs only half. Chowdhery et al., "PaLM", 2022, appendix B, count
    in this way, as do the works that compare themselves with it. The pass also checks that the
    model accepts its data.

    Args:
        model: Model to run; it ends in training mode with its state unchanged.
        inputs: A preprocessed batch ``[batch, ...]``, or a dictionary of such batches.

    Returns:
        The number of operations, and the model's output.

    Raises:
        RequestError: The model refuses the batch.
    """
    try:
        model.eval()
        with torch.no_grad(), _in_parts(), _Counter() as counter:
            output = call_model(model, inputs)
    except (RuntimeError, IndexError, TypeError) as error:
        raise RequestError(
            f"the model refuses a batch of {_describe(inputs)}: {error}",
            hint="Its first layer must take what the dataset and the preprocessing give.",
        ) from error
    finally:
        model.train()
    return counter.flops, output


class _Counter(TorchDispatchMode):  # type: ignore[no-untyped-call]  # PyTorch's own
    """A counter of operations at PyTorch's dispatcher, below layers and functions."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.flops = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Do not load PyTorch's compiler, which takes seconds."""
        return False

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        output = func(*args, **(kwargs or {}))
        self.flops += _flops_of(func.overloadpacket.__name__, args, output)
        return output


def _flops_of(name: str, args: Sequence[Any], output: Any) -> int:
    if name in _PRODUCTS:
        return 2 * int(output.numel()) * int(args[_PRODUCTS[name]].shape[-1])
    if name in _CONVOLUTIONS:
        # A transposed convolution has one product for each position of its input.
        source, weight, is_transposed = args[0], args[1], args[6]
        positions = source if is_transposed else output
        return 2 * int(weight.numel()) * int(positions.numel() // positions.shape[1])
    if name.startswith(_ATTENTION):
        queries, keys, values = args[:3]
        weights = queries.numel() // queries.shape[-1] * keys.shape[-2]
        return 2 * int(weights) * int(queries.shape[-1] + values.shape[-1])
    return 0


@contextlib.contextmanager
def _in_parts() -> Iterator[None]:
    """Make PyTorch's attention layers use operations that the dispatcher can see."""
    backend: Any = torch.backends.mha  # PyTorch does not declare its switch
    before = backend.get_fastpath_enabled()
    backend.set_fastpath_enabled(False)
    try:
        yield
    finally:
        backend.set_fastpath_enabled(before)


def _describe(inputs: Any) -> str:
    if isinstance(inputs, Mapping):
        return ", ".join(f"{name} {list(value.shape)}" for name, value in inputs.items())
    return f"shape {list(inputs.shape)}"
