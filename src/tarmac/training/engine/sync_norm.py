"""Batch normalisation with the statistics of the whole global batch."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from tarmac.errors import RequestError
from tarmac.training.engine.team import Team


def synchronise_norms(model: nn.Module, device: torch.device, team: Team) -> nn.Module:
    """Make a model's batch normalisations compute their statistics over all ranks.

    On GPUs this uses PyTorch's `torch.nn.SyncBatchNorm`. That class refuses CPUs, where
    `_SyncBatchNorm` computes the same sums.

    Returns:
        The model; its normalisations may be other objects, with the same parameters.

    Raises:
        RequestError: A normalisation has no momentum, and so keeps a cumulative average.
    """
    norms = [layer for layer in model.modules() if isinstance(layer, _BatchNorm)]
    for layer in norms:
        if layer.momentum is None:
            raise RequestError("sync_batchnorm needs batch normalisations with a momentum")
    if device.type == "cuda":
        converted = nn.SyncBatchNorm.convert_sync_batchnorm(model)  # type: ignore[no-untyped-call]
        assert isinstance(converted, nn.Module)
        return converted
    for layer in norms:
        layer.__class__ = _SyncBatchNorm
        assert isinstance(layer, _SyncBatchNorm)
        layer.team = team
    return model


class _SyncBatchNorm(_BatchNorm):
    """`torch.nn.BatchNorm1d` to ``3d`` in evaluation; statistics of all ranks in training."""

    team: Team

    def _check_input_dim(self, input: torch.Tensor) -> None:  # noqa: A002 - nn.Module's own name
        if input.dim() < 2:
            raise ValueError(f"expected at least 2 dimensions, got {input.dim()}")

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002 - nn.Module's own name
        """Return ``input`` normalised, of the same shape and type."""
        if not self.training:
            return super().forward(input)
        self._check_input_dim(input)
        shape = (1, -1, *(1,) * (input.dim() - 2))
        wide = input.to(torch.promote_types(input.dtype, torch.float32))
        results = _Normalise.apply(wide, self.eps, self.team)  # type: ignore[no-untyped-call]
        normalised: torch.Tensor = results[0]
        mean, variance, count = results[1:]
        if self.track_running_stats:
            assert self.running_mean is not None
            assert self.running_var is not None
            assert self.num_batches_tracked is not None
            assert self.momentum is not None
            unbiased = variance * (count / (count - 1).clamp_min(1))
            self.running_mean.lerp_(mean.to(self.running_mean.dtype), self.momentum)
            self.running_var.lerp_(unbiased.to(self.running_var.dtype), self.momentum)
            self.num_batches_tracked.add_(1)
        if self.affine:
            normalised = normalised * self.weight.view(shape) + self.bias.view(shape)
        return normalised.to(input.dtype)


class _Normalise(torch.autograd.Function):
    """``(x - mean) / sqrt(var + eps)`` with mean and variance over all ranks.

    The gradient is ``(dy - mean(dy) - y * mean(dy * y)) / sqrt(var + eps)``, with means over all
    ranks too (Ioffe and Szegedy, 2015, section 3).
    """

    @staticmethod
    def forward(
        ctx: Any, inputs: torch.Tensor, eps: float, team: Team
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        dims = [dim for dim in range(inputs.dim()) if dim != 1]
        shape = (1, -1, *(1,) * (inputs.dim() - 2))
        count = inputs.new_tensor([inputs.numel() // inputs.shape[1]])
        sums = torch.cat([inputs.sum(dims), count])
        team.all_reduce(sums)
        total = sums[-1]
        mean = sums[:-1] / total
        # Sum the squared deviations in a second message, as squares of raw values lose digits.
        centred = inputs - mean.view(shape)
        squares = (centred * centred).sum(dims)
        team.all_reduce(squares)
        variance = squares / total
        scale = (variance + eps).rsqrt().view(shape)
        outputs = centred * scale
        ctx.save_for_backward(outputs, scale, total)
        ctx.team = team
        ctx.mark_non_differentiable(mean, variance, total)
        return outputs, mean, variance, total

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        outputs, scale, total = ctx.saved_tensors
        gradient = gradients[0]
        dims = [dim for dim in range(gradient.dim()) if dim != 1]
        shape = scale.shape
        sums = torch.stack([gradient.sum(dims), (gradient * outputs).sum(dims)])
        ctx.team.all_reduce(sums)
        mean, projection = (sums / total).unbind()
        return (
            (gradient - mean.view(shape) - outputs * projection.view(shape)) * scale,
            None,
            None,
        )
