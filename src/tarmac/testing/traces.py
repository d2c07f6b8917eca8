"""What a model's tensors were before each step, to find the first that two trainings differ in."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import nn

    from tarmac.workloads import Workload


@dataclasses.dataclass(frozen=True)
class Trace:
    """The bits of a model's parameters and buffers, whenever it was called in training.

    Attributes:
        states: For each call a digest of each tensor, by its name.
    """

    states: list[dict[str, str]] = dataclasses.field(default_factory=list)

    def newest(self, count: int) -> Sequence[dict[str, str]]:
        """Return the states of the last ``count`` calls."""
        return self.states[-count:]

    def difference(self, other: Trace, count: int, *, done: int = 0) -> str | None:
        """Say in words where two trainings part first; None where no call shows it.

        Args:
            other: Trace of the other training.
            count: How many of the last calls are compared.
            done: Steps that were done before these calls.
        """
        ours, theirs = self.newest(count), other.newest(count)
        for step, (digests, others) in enumerate(zip(ours, theirs, strict=False), start=done + 1):
            for name, digest in digests.items():
                if others.get(name) != digest:
                    when = "before the first step" if step == 1 else f"after step {step - 1}"
                    return f"{name} differs {when}"
        return None


def traced(workload: Workload) -> tuple[Workload, Trace]:
    """Return a workload whose models tell a trace of each training call, and that trace."""
    trace = Trace()

    def look(module: nn.Module, args: Any, kwargs: Any) -> None:  # noqa: ARG001 - the hook's face
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
