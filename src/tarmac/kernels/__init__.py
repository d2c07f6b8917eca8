"""Kernels of our own, in Triton: a training step of many small networks in a few launches.

`FusedStack` trains multilayer perceptrons of equal widths, one or a thousand, each with its
own activations, dropout, optimizer and seed. `why_not` says what is missing where it
cannot be used. Nothing of Triton is loaded before a stack is made.
"""

from __future__ import annotations

from tarmac.kernels.architecture import Architecture, read_architecture
from tarmac.kernels.network import MAX_CLASSES, FusedNetwork, UnfitNetworkError
from tarmac.kernels.requirements import why_not
from tarmac.kernels.rules import momentum_product
from tarmac.kernels.stack import FusedStack

__all__ = [
    "MAX_CLASSES",
    "Architecture",
    "FusedNetwork",
    "FusedStack",
    "UnfitNetworkError",
    "momentum_product",
    "read_architecture",
    "why_not",
]
