"""Kernels of our own, in Triton: a training step of many small networks in a few launches.

`FusedStack` trains multilayer perceptrons of equal widths, one or a thousand, each with its
own activations, dropout, optimizer and seed. `why_not` says what is missing where it
cannot be used. Nothing of Triton is loaded before a stack is made.
"""

from __future__ import annotations

from tarmac.kernels.architecture import Architecture as Architecture
from tarmac.kernels.architecture import read_architecture as read_architecture
from tarmac.kernels.network import MAX_CLASSES as MAX_CLASSES
from tarmac.kernels.network import FusedNetwork as FusedNetwork
from tarmac.kernels.network import UnfitNetworkError as UnfitNetworkError
from tarmac.kernels.requirements import why_not as why_not
from tarmac.kernels.rules import momentum_product as momentum_product
from tarmac.kernels.stack import FusedStack as FusedStack
