"""Train the networks of one stack; finished networks leave the stack."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import torch

from tarmac.kernels import UnfitNetworkError
from tarmac.studies.evaluation.interface import EpochReporter, Progress, Result
from tarmac.studies.evaluation.stacked.draws import Draws
from tarmac.studies.evaluation.stacked.fused import FusedKernels, can_fuse, why_unusable
from tarmac.studies.evaluation.stacked.products import Products
from tarmac.training import Patience

if TYPE_CHECKING:
    from tarmac.studies.evaluation.stacked.computation import Computation
    from tarmac.studies.evaluation.stacked.network import Network
    from tarmac.studies.evaluation.stacked.samples import Samples

# Compute capability of the A100, whose tensor cores were the first with bf16; Triton is tested
# from there on.
_KERNELS_SINCE = (8, 0)


def arranged(networks: Sequence[Network], device: torch.device) -> list[Network]:
    """Order networks so that equal rules and equal activations are side by side.

    On a GPU, activations come first: each run of equal activations is a launch in every layer, but
    networks with an equal rule are updated at once, wherever they are.
    """
    rules: dict[object, int] = {}
    for network in networks:
        rules.setdefault(network.rule, len(rules))

    def key(network: Network) -> tuple[object, ...]:
        rule, activations = rules[network.rule], network.activations
        first = (activations, rule) if device.type == "cuda" else (rule, activations)
        return (*first, network.candidate.number)

    return sorted(networks, key=key)


def train_stack(
    networks: Sequence[Network],
    samples: Samples,
    report: EpochReporter,
    *,
    device: torch.device,
    dtype: torch.dtype,
) -> Iterator[Result]:
    """Train networks as one and yield each result when its network leaves.

    Args:
        networks: Networks of the stack, in the order of `arranged`; their shapes may differ where
            they `train_together`.
        samples: Training and validation samples, on ``device``.
        report: Called after every epoch of each network.
        device: The device that the samples are on.
        dtype: Type of the matrix products: ``torch.float32`` or ``torch.bfloat16``.
    """
    num_companions = len(networks) - 1
    with contextlib.closing(_Stack(networks, samples, device, dtype)) as stack:
        for epoch in range(max(network.candidate.epochs for network in networks)):
            with torch.no_grad():
                rows = stack.train_epoch(epoch)
            leaving: list[Result] = []
            kept: list[int] = []
            for index, (member, row) in enumerate(zip(stack.members, rows, strict=True)):
                result = member.judge(epoch + 1, row, report)
                if result is None:
                    kept.append(index)
                else:
                    leaving.append(dataclasses.replace(result, num_companions=num_companions))
            if leaving and kept:
                stack.keep(kept)
            yield from leaving
            if not kept:
                return


def train_together(networks: Sequence[Network], device: torch.device) -> bool:
    """Return whether networks of different shapes train in one stack here: by the fused kernels."""
    if not _has_kernels(device) or why_unusable(device) is not None:
        return False
    return all(map(can_fuse, networks))


def make_computation(
    networks: Sequence[Network], samples: Samples, device: torch.device, dtype: torch.dtype
) -> Computation:
    """Return the fastest computation of a stack here: our fused kernels, else PyTorch's products.

    Args:
        networks: Networks of the stack, in the order of `arranged`.
        samples: Training and validation samples, on ``device``.
        device: Device that trains the stack.
        dtype: Type of the matrix products: ``torch.float32`` or ``torch.bfloat16``.
    """
    if _has_kernels(device):
        unusable = why_unusable(device)
        if unusable is None:
            with contextlib.suppress(UnfitNetworkError):
                return FusedKernels(networks, samples, dtype)
        else:
            warnings.warn(
                f"networks train without the fused kernels, more slowly: {unusable}", stacklevel=2
            )
    return Products(networks, samples, device, dtype)


def _has_kernels(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= _KERNELS_SINCE


class _Member:
    """A network in its stack, and the decision when it leaves."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.seconds = 0.0
        name, _, end = network.candidate.monitor.partition(":")
        self._patience = Patience(
            network.candidate.patience, f"val_{name}", "max" if end == "max" else "min"
        )

    def judge(self, epoch: int, row: dict[str, float], report: EpochReporter) -> Result | None:
        """Return its result if it leaves after this epoch, else None."""
        candidate = self.network.candidate
        for name, split in (("loss", "training"), ("val_loss", "validation")):
            if not math.isfinite(row[name]):
                error = f"the {split} loss is {row[name]} in epoch {epoch}: the training diverged"
                return Result(number=candidate.number, error=error)
        self._patience.see_epoch(row)
        is_beaten = report(Progress(number=candidate.number, epoch=epoch, metrics=row))
        if epoch < candidate.epochs and not self._patience.is_over and not is_beaten:
            return None
        metrics = row | {
            "epochs": float(epoch),
            "num_parameters": float(self.network.num_parameters),
            "seconds": self.seconds,
        }
        return Result(number=candidate.number, metrics=metrics, stopped=is_beaten)


class _Stack:
    """The networks of a stack, their draws, and their computation."""

    def __init__(
        self,
        networks: Sequence[Network],
        samples: Samples,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        self.members = [_Member(network) for network in networks]
        self._num_train = samples.num_train
        self._device = device
        with self._current_device():
            self._computation = make_computation(networks, samples, device, dtype)
            self._draws = Draws(
                [network.candidate.seed for network in networks],
                samples.num_train,
                -(-samples.num_train // networks[0].shape.batch_size),
                self._computation.masks,
                num_epochs=max(network.candidate.epochs for network in networks),
                device=device,
            )
            try:
                self._computation.start()
            except BaseException:
                self.close()
                raise

    def keep(self, kept: Sequence[int]) -> None:
        """Drop all networks except ``kept``."""
        self.members = [self.members[index] for index in kept]
        with self._current_device():
            self._draws.keep(kept)
            self._computation.keep(kept)

    def close(self) -> None:
        """Stop the thread that draws."""
        self._draws.close()

    def train_epoch(self, epoch: int) -> list[dict[str, float]]:
        """Train for an epoch, from 0, and return each network's metrics."""
        started = time.perf_counter()
        with self._current_device():
            totals = self._computation.train_epoch(epoch, self._draws.take(epoch))
            validation = self._computation.validate()
            scores = torch.cat([totals / self._num_train, validation]).T.tolist()
        seconds = (time.perf_counter() - started) / len(self.members)
        for member in self.members:
            member.seconds += seconds
        names = ("loss", "accuracy", "val_loss", "val_accuracy")
        return [dict(zip(names, row, strict=True)) for row in scores]

    def _current_device(self) -> contextlib.AbstractContextManager[object]:
        """Make the stack's GPU the current device, which launches and recordings use."""
        if self._device.type == "cpu":
            return contextlib.nullcontext()
        return torch.cuda.device(self._device)
