"""Linear layers in fp32 that are fast on AVX-512 processors of other makers than Intel.

PyTorch computes fp32 products by Intel's MKL, which uses only AVX2 on other makers' processors (its
kernel is ``mkl_blas_def_sgemm_kernel_0_zen`` there). oneDNN, which comes with PyTorch for
convolutions and bf16, uses AVX-512. On one core of an AMD EPYC (Zen 5), with MKL 2024.2 and oneDNN
3.12, ``[128, 784]`` by ``[784, 512]`` takes 531 us instead of 1,050, and its weights' gradient 532
instead of 1,063. An epoch of mnist-mlp takes 1.25 s instead of 1.88 on two cores.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tarmac.machine import read_cpuinfo

# For fewer weights, the calls around a layer's three products cost what they save.
_LEAST_WEIGHTS = 2**16

# These variables select the libraries' instructions, or reproducible bits in MKL.
_VARIABLES = ("DNNL_MAX_CPU_ISA", "MKL_CBWR", "ONEDNN_MAX_CPU_ISA")


def mkl_is_held_back(
    cpuinfo: Mapping[str, str] | None = None,
    environ: Mapping[str, str] = os.environ,
    capability: str | None = None,
) -> bool:
    """Return whether MKL does not use AVX-512 here while oneDNN does.

    Args:
        cpuinfo: Facts about the processor; by default those of `tarmac.machine.read_cpuinfo`.
        environ: Environment variables; those that restrict MKL's or oneDNN's instructions count.
        capability: Name of the instructions that PyTorch uses; by default read from PyTorch.
    """
    known = read_cpuinfo() if cpuinfo is None else cpuinfo
    taken = torch.backends.cpu.get_cpu_capability() if capability is None else capability
    return (
        taken == "AVX512"
        and known.get("vendor_id", "GenuineIntel") != "GenuineIntel"
        and not any(environ.get(name) for name in _VARIABLES)
        and torch.backends.mkl.is_available()  # type: ignore[no-untyped-call]
        and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    )


def fast_linear(
    inputs: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """Return ``inputs @ weight.T + bias`` by oneDNN, for fp32 matrices on the CPU."""
    product = torch.ops.mkldnn._linear_pointwise(inputs, weight, bias, "none", [], "")
    assert isinstance(product, torch.Tensor)
    return product


class FastLinear(nn.Linear):
    """A `torch.nn.Linear` that computes fp32 matrices by oneDNN, forward and backward."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002 - nn.Module's own name
        """Return ``input @ weight.T + bias``."""
        if input.dim() != 2 or not input.dtype == self.weight.dtype == torch.float32:
            return super().forward(input)
        outputs = _Linear.apply(input, self.weight, self.bias)  # type: ignore[no-untyped-call]
        assert isinstance(outputs, torch.Tensor)
        return outputs


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, inputs: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
    ) -> torch.Tensor:
        ctx.save_for_backward(inputs, weight)
        return fast_linear(inputs, weight, bias)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        inputs, weight = ctx.saved_tensors
        (gradient,) = gradients
        of_inputs, of_weight, of_bias = ctx.needs_input_grad
        # oneDNN's product cannot be differentiated again, as a penalty on gradients needs.
        product = F.linear if torch.is_grad_enabled() else fast_linear
        return (
            product(gradient, weight.t()) if of_inputs else None,
            product(gradient.t(), inputs.t()) if of_weight else None,
            gradient.sum(0) if of_bias else None,
        )


def replace_linears(model: nn.Module) -> None:
    """Turn every large enough plain `torch.nn.Linear` into a `FastLinear`, in place."""
    for layer in model.modules():
        if type(layer) is nn.Linear and layer.weight.numel() >= _LEAST_WEIGHTS:
            layer.__class__ = FastLinear
