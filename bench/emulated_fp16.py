"""Tarmac on a CPU with the products of fp16 as a GPU's matrix units compute them.

    python bench/emulated_fp16.py train mnist-cnn --precision fp16 --device cpu

A CPU without fp16 units needs minutes for an epoch of convolutions in fp16. Matrix units multiply
fp16 operands, add up in fp32 and round the result to fp16 (NVIDIA, "Train With Mixed Precision",
section 3). This does the same by fp32 products of operands that are fp16 already. All other
operations are PyTorch's own in fp16.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from tarmac.cli import main

_PRODUCTS = frozenset(
    {
        torch.ops.aten.convolution.default,
        torch.ops.aten.convolution_backward.default,
        torch.ops.aten.mm.default,
        torch.ops.aten.addmm.default,
        torch.ops.aten.bmm.default,
        torch.ops.aten.baddbmm.default,
    }
)


class _MatrixUnits(TorchDispatchMode):
    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        options = kwargs or {}
        if func not in _PRODUCTS or args[0].dtype != torch.float16:
            return func(*args, **options)
        return tree_map(_in_fp16, func(*(_in_fp32(argument) for argument in args), **options))


def _in_fp32(value: Any) -> Any:
    return value.float() if isinstance(value, torch.Tensor) else value


def _in_fp16(value: Any) -> Any:
    return value.half() if isinstance(value, torch.Tensor) else value


if __name__ == "__main__":
    with _MatrixUnits():
        main()
