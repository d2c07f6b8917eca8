"""Counts the matrix work of a model: what precision and compilation are chosen by."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tarmac.errors import RequestError
from tarmac.training.engine.prediction import call_model

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch import nn

# Where the matrices of a product are among its arguments.
_PRODUCTS = {"mm": 0, "bmm": 0, "addmm": 1, "baddbmm": 1}

_CONVOLUTIONS = ("convolution", "_convolution")

# Fused attention goes by several names, one for each kind of kernel.
_ATTENTION = "_scaled_dot_product"


def count_forward_flops(model: nn.Module, inputs: Any) -> tuple[int, Any]:
    """Count the floating-point operations of one forward pass in products of matrices.

    Those are linear layers, also by a weight that another layer has, convolutions and attention;
    recurrent layers' are not seen. A multiply-add is two operations. All of an attention counts,
    though a causal one needs but half (Chowdhery et al., "PaLM", 2022, appendix B, counts so, and
    those who compare themselves with it). The pass also shows whether the model fits its data.

    Args:
        model: Left in training mode, its state unchanged.
        inputs: A preprocessed batch ``[batch, ...]``, or a dictionary of such.

    Returns:
        The operations, and what the model returned.

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
    """Sees each operation as PyTorch computes it, below layers and functions."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.flops = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Compile nothing, so that PyTorch need not load its compiler, which takes seconds."""
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
        # A transposed one has a product for each position of its input.
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
    """Let PyTorch's own attention layers compute by operations that can be seen."""
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
