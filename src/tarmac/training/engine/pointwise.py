"""Strided 1x1 convolutions on a CPU, computed by convolutions with stride 1.

In oneDNN 3.12 on AVX-512, the gradient of their weights writes beyond its memory if there are few
input channels. PyTorch 2.13 ends by SIGSEGV or ``double free`` for ``Conv2d(4, 8, 1, 2)`` of
``[4, 4, 56, 56]``, as in a ResNet of one channel. Slicing the input by the stride and convolving
with stride 1 gives the same values.
"""

from __future__ import annotations

import torch
from torch import nn

# Crashes occurred up to 9 channels, and none from 12. A vector of AVX-512 has 16 floats.
_LEAST_CHANNELS = 16


class SlicedConv2d(nn.Conv2d):
    """A `torch.nn.Conv2d` of kernel 1 without padding that slices its input by the stride."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002 - nn.Module's own name
        """Return the convolution ``[..., out_channels, height / stride, width / stride]``."""
        rows, columns = self.stride
        kept = input[..., ::rows, ::columns]
        return nn.functional.conv2d(kept, self.weight, self.bias, groups=self.groups)


def replace_strided(model: nn.Module) -> None:
    """Make every plain strided `torch.nn.Conv2d` of kernel 1 and few channels sliced, in place."""
    for layer in model.modules():
        if (
            type(layer) is nn.Conv2d
            and layer.kernel_size == (1, 1)
            and layer.stride != (1, 1)
            and layer.padding in ((0, 0), "valid")
            and layer.in_channels // layer.groups < _LEAST_CHANNELS
        ):
            layer.__class__ = SlicedConv2d
