"""Kernels of our own, in Triton: a training step of many small networks in a few launches.

`FusedStack` trains multilayer perceptrons of equal widths, one or a thousand, each with its
own activations, dropout, optimizer and seed. `why_not` says what is missing where it
cannot be used. Nothing of Triton is loaded before a stack is made.
"""

from __future__ import annotations

from tarmac.kernels.network import FusedNetwork, UnfitNetworkError
from tarmac.kernels.requirements import why_not
from tarmac.kernels.stack import FusedStack

__all__ = ["FusedNetwork", "FusedStack", "UnfitNetworkError", "why_not"]
