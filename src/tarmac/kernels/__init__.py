"""Triton kernels that train many small networks with a few launches per step.

`FusedStack` trains one to thousands of multilayer perceptrons. Each network has its own widths,
layers, activations, dropout, optimizer and seed. `why_not` names what a machine lacks for the
kernels. Triton is imported only when a stack is created.
"""

from __future__ import annotations

from tarmac.kernels.architecture import Architecture, read_architecture
from tarmac.kernels.network import MAX_CLASSES, FusedNetwork, UnfitNetworkError
from tarmac.kernels.requirements import why_not
from tarmac.kernels.rules import momentum_product, rule_of
from tarmac.kernels.stack import FusedStack

__all__ = [
    "MAX_CLASSES",
    "Architecture",
    "FusedNetwork",
    "FusedStack",
    "UnfitNetworkError",
    "momentum_product",
    "read_architecture",
    "rule_of",
    "why_not",
]
