"""Muon over flat groups: momentum, orthogonalised for all matrices at once.

All matrices are copied into one stack, padded with zeros to one shape. So an iteration is three
batched products whatever the number of layers. The padding stays zero. Nothing here waits for a
device, and all shapes are fixed, so a CUDA graph can hold an update.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from tarmac.errors import RequestError
from tarmac.training.engine.parameters import Group
from tarmac.workloads import Muon

# Coefficients of the quintic polynomial that moves singular values to about 1, from 0.7 to 1.2
# (kellerjordan.github.io/posts/muon), chosen for the steepest slope at zero.
_COEFFICIENTS = (3.4445, -4.7750, 2.0315)

# Avoids a division by zero for a gradient of zeros. The value of cifar10-airbench.
_EPS = 1e-7


def orthogonalise(stack: torch.Tensor, iterations: int) -> torch.Tensor:
    """Move the singular values of every matrix near 1, and keep its singular vectors.

    Args:
        stack: ``[num_matrices, rows, columns]`` with ``rows <= columns``, so that the smaller
            product is iterated. Padding with zeros changes nothing.
        iterations: Number of iterations. Each multiplies small singular values by at most 3.4445.

    Returns:
        A stack of the same shape and type.
    """
    first, third, fifth = _COEFFICIENTS
    result: torch.Tensor = stack / (
        torch.linalg.vector_norm(stack, dim=(1, 2), keepdim=True) + _EPS
    )
    for _ in range(iterations):
        gram = torch.bmm(result, result.mT)
        polynomial = torch.baddbmm(gram, gram, gram, beta=third, alpha=fifth)
        result = torch.baddbmm(result, polynomial, result, beta=first)
    return result


class MuonOptimizer:
    """An optimizer that updates flat groups of matrices in place, and overwrites their gradients.

    Args:
        spec: Muon's hyperparameters, such as momentum and learning rate.
        groups: Flat groups to update, with the shapes of their parameters.

    Raises:
        RequestError: A parameter is no matrix, or has weight decay.
    """

    def __init__(self, spec: Muon, groups: Sequence[Group]) -> None:
        _check(groups)
        self._spec = spec
        self._values = [group.values for group in groups]
        self._gradients = [group.gradients for group in groups]
        self._momentum = [values.new_zeros(values.shape) for values in self._values]
        self._matrices = [m for group in groups for m in _matrices(group.values, group.shapes)]
        self._updates = [m for group in groups for m in _matrices(group.gradients, group.shapes)]
        sizes = [sorted(matrix.shape) for matrix in self._matrices]
        reference = self._values[0]
        self._stack = torch.zeros(
            len(sizes),
            max(short for short, _ in sizes),
            max(long for _, long in sizes),
            dtype=torch.bfloat16 if groups[0].bf16 else reference.dtype,
            device=reference.device,
        )
        self._roots = [len(matrix) ** 0.5 for matrix in self._matrices]
        self._factors = [-(max(1.0, len(m) / m.shape[1]) ** 0.5) for m in self._matrices]
        # A CUDA graph reads the rate from a fixed address, as in `FlatOptimizer`.
        self._rate: float | torch.Tensor = spec.learning_rate
        if reference.is_cuda:
            self._rate = torch.tensor(
                spec.learning_rate, dtype=reference.dtype, device=reference.device
            )

    @property
    def takes_rate_tensors(self) -> bool:
        """Whether a CUDA graph of `step` reads the latest rate."""
        return isinstance(self._rate, torch.Tensor)

    def set_learning_rate(self, rate: float) -> None:
        """Set the learning rate from the next step on."""
        if isinstance(self._rate, torch.Tensor):
            self._rate.fill_(rate)
        else:
            self._rate = rate

    @torch.no_grad()
    def step(self) -> None:
        """Update every group's values."""
        spec = self._spec
        torch._foreach_mul_(self._momentum, spec.momentum)
        torch._foreach_add_(self._momentum, self._gradients)
        if spec.nesterov:
            torch._foreach_add_(self._gradients, self._momentum, alpha=spec.momentum)
        else:
            torch._foreach_copy_(self._gradients, self._momentum)
        torch._foreach_copy_(_parts(self._stack, self._updates), self._updates)
        result = orthogonalise(self._stack, spec.iterations)
        torch._foreach_copy_(self._updates, _parts(result, self._updates))
        if spec.fixed_norm:
            scales = torch._foreach_norm(self._matrices)
            torch._foreach_reciprocal_(scales)
            torch._foreach_mul_(scales, self._roots)
            torch._foreach_mul_(self._matrices, scales)
        torch._foreach_mul_(self._updates, self._factors)
        torch._foreach_mul_(self._gradients, self._rate)
        torch._foreach_add_(self._values, self._gradients)

    def state(self) -> dict[str, torch.Tensor]:
        """Return the state's tensors by name, without copies."""
        return {
            f"{index}.momentum_buffer": momentum for index, momentum in enumerate(self._momentum)
        }

    def load_state(self, saved: Mapping[str, torch.Tensor]) -> None:
        """Set every tensor of `state`."""
        for name, value in self.state().items():
            value.copy_(saved[name])


def _matrices(flat: torch.Tensor, shapes: Mapping[str, torch.Size]) -> list[torch.Tensor]:
    """View the parameters of a flat tensor as ``[outputs, all else]``, in their memory's order."""
    sizes = [shape.numel() for shape in shapes.values()]
    parts = torch.split(flat, sizes)
    return [part.view(shape[0], -1) for part, shape in zip(parts, shapes.values(), strict=True)]


def _parts(stack: torch.Tensor, like: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """View the filled part of each padded matrix, transposed if its matrix is tall."""
    return [
        padded[: len(m), : m.shape[1]]
        if len(m) <= m.shape[1]
        else padded.mT[: len(m), : m.shape[1]]
        for padded, m in zip(stack, like, strict=True)
    ]


def _check(groups: Sequence[Group]) -> None:
    for group in groups:
        for name, shape in group.shapes.items():
            if len(shape) < 2:
                raise RequestError(
                    f"Muon cannot train {name} of shape {list(shape)}, expected at least two "
                    "dimensions",
                    hint="Give it another optimizer in the recipe's parameter_groups.",
                )
            if group.weight_decay:
                raise RequestError(
                    f"{name} has weight decay {group.weight_decay:g}, which Muon does not support"
                )
