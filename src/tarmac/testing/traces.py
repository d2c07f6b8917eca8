"""Traces of a model's tensors before each step, to find the first difference of two trainings."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

if TYPE_CHECKING:
    from tarmac.workloads import Workload


@dataclasses.dataclass(frozen=True)
class Trace:
    """Digests of a model's parameters and buffers at each call in training.

    Attributes:
        states: For each call, the digest of each tensor by its name.
    """

    states: list[dict[str, str]] = dataclasses.field(default_factory=list)

    def newest(self, count: int) -> Sequence[dict[str, str]]:
        """Return the states of the last ``count`` calls."""
        return self.states[-count:]

    def difference(self, other: Trace, count: int, *, done: int = 0) -> str | None:
        """Return the first difference of two trainings in words, or None without a difference.

        Args:
            other: Trace of the other training.
            count: Number of calls to compare, from the end of each trace.
            done: Number of steps before these calls. Default 0.
        """
        ours, theirs = self.newest(count), other.newest(count)
        for step, (digests, others) in enumerate(zip(ours, theirs, strict=False), start=done + 1):
            for name, digest in digests.items():
                if others.get(name) != digest:
                    when = "before the first step" if step == 1 else f"after step {step - 1}"
                    return f"{name} differs {when}"
        return None


def traced(workload: Workload) -> tuple[Workload, Trace]:
    """Return a workload whose models record each call in training, and their trace."""
    trace = Trace()

    def look(module: nn.Module, args: Any, kwargs: Any) -> None:  # noqa: ARG001 - PyTorch's hook
        if module.training:
            trace.states.append(
                {name: _digest(value) for name, value in module.state_dict().items()}
            )

    @functools.wraps(workload.model)
    def model(*args: Any, **kwargs: Any) -> nn.Module:
        network = workload.model(*args, **kwargs)
        network.register_forward_pre_hook(look, with_kwargs=True)
        return network

    return dataclasses.replace(workload, model=model), trace


def _digest(value: torch.Tensor) -> str:
    raw = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    return hashlib.blake2b(raw.numpy().data, digest_size=8).hexdigest()
