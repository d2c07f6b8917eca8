"""The evaluator that trains candidates as stacks."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

import torch

from tarmac.data import Dataset, hold_out
from tarmac.errors import RequestError, TarmacError
from tarmac.kernels import UnfitNetworkError
from tarmac.machine import Device, find_devices
from tarmac.studies.evaluation.interface import Candidate, EpochReporter, Progress, Result
from tarmac.studies.evaluation.stacked.grouping import Stack, by_shape, group
from tarmac.studies.evaluation.stacked.network import Network, Outlines, resolve
from tarmac.studies.evaluation.stacked.samples import Samples
from tarmac.studies.evaluation.stacked.stack import arranged, train_stack, train_together
from tarmac.training import Setting, choose_precision, denormals_flushed, threads_within_limits
from tarmac.workloads import Workload

Member = TypeVar("Member")

_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


class _ReportFailed(Exception):  # noqa: N818 - not an error of the stack, which fails its networks
    """An error that the `EpochReporter` raised."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class StackedEvaluator:
    """An evaluator that trains many candidates as one stacked model.

    On a CPU, a stack has candidates of one shape; on a GPU, of any widths and depths. A network's
    result does not depend on the other networks of its stack. Its initial weights and its order of
    samples are those of `tarmac.train` with its seed, and its dropout is drawn from its seed alone.
    All networks are scored on the same samples.

    Args:
        workload: Workload that the candidates' settings change.
        dataset: Dataset that the workload names.
        validation_size: Number of held-out samples, at least 1.
        train_size: Number of training samples. Default: all that are not held out.
        validation_split: How samples are held out, as for `tarmac.data.hold_out`. Default ``auto``.
        validation_seed: Seed that draws the held-out samples, the same for all networks. Default 0.
        settings: Settings of all candidates, as for ``tarmac train --set``; a candidate's own
            settings override them.
        device: A single device, as for `find_devices`. Default ``auto``.
        precision: ``auto``, ``fp32`` or ``bf16``. ``auto`` selects bf16 on devices with bf16 matrix
            units, even for networks that alone would be too small to profit.

    Attributes:
        device: Device that all stacks train on.
        precision: Precision of the matrix products, and its reason.

    Raises:
        RequestError: There are too few samples, or the device or precision is unknown.
    """

    def __init__(
        self,
        workload: Workload,
        dataset: Dataset,
        *,
        validation_size: int,
        train_size: int | None = None,
        validation_split: str = "auto",
        validation_seed: int = 0,
        settings: Mapping[str, Setting] | None = None,
        device: str | Device = "auto",
        precision: str = "auto",
    ) -> None:
        if validation_size < 1:
            raise RequestError(f"validation_size is {validation_size}, expected at least 1")
        self._held = hold_out(
            dataset,
            validation_size=validation_size,
            train_size=train_size,
            split=validation_split,
            seed=validation_seed,
        )
        self._workload = workload
        self._dataset = dataset
        self._settings = dict(settings or {})
        self.device = device if isinstance(device, Device) else find_devices(device)[0]
        # A stack has enough work for bf16 to pay, and results must not depend on the stack.
        name, reason = choose_precision(precision, self.device, step_flops=2**62)
        if name not in _DTYPES:
            raise RequestError(f"precision is {precision!r}, expected auto, fp32 or bf16")
        self.precision = (name, reason)
        self._dtype = _DTYPES[name]
        self._samples: Samples | None = None
        self._outlines: Outlines = {}

    def plan(
        self, candidates: Sequence[Candidate], at_once: int = 1, sharing: int | None = None
    ) -> tuple[list[Stack], list[Result]]:
        """Return the stacks of candidates, and results of candidates that cannot be trained.

        Args:
            candidates: Candidates to group, all with different numbers.
            at_once: Number of stacks that train at the same time. Default 1.
            sharing: Number of those stacks that share a device. Default: all of them.

        Raises:
            RequestError: Two candidates have the same number.
        """
        numbers = [candidate.number for candidate in candidates]
        if len(set(numbers)) < len(numbers):
            raise RequestError(f"candidates have equal numbers: {numbers}")
        networks: list[Network] = []
        failed: list[Result] = []
        settings, outlines = self._settings, self._outlines
        for candidate in candidates:
            try:
                networks.append(
                    resolve(candidate, self._workload, self._dataset, settings, outlines)
                )
            except UnfitNetworkError as error:
                failed.append(_failure(candidate, TarmacError(f"it cannot be stacked: {error}")))
            except TarmacError as error:
                failed.append(_failure(candidate, error))
        return group(networks, self.device, self._dtype, at_once, sharing or at_once), failed

    def evaluate(self, candidates: Sequence[Candidate], report: EpochReporter) -> Iterator[Result]:
        """Train all candidates, one stack after another; see `Evaluator.evaluate`."""
        stacks, failed = self.plan(candidates)
        return self._evaluate(deque(stack.networks for stack in stacks), failed, report)

    def _evaluate(
        self, waiting: deque[tuple[Network, ...]], failed: Sequence[Result], report: EpochReporter
    ) -> Iterator[Result]:
        yield from failed
        while waiting:
            members = waiting.popleft()
            device = torch.device(self.device.torch_name)
            if len({n.shape for n in members}) > 1 and not train_together(members, device):
                waiting.extendleft(reversed(by_shape(members)))
                continue
            done: set[int] = set()
            try:
                for result in self._train(members, report):
                    done.add(result.number)
                    yield result
            except _ReportFailed as failure:
                raise failure.error from None
            except Exception as error:
                left = [n for n in members if n.candidate.number not in done]
                if not _is_out_of_memory(error):
                    yield from (_failure(n.candidate, error) for n in left)
                elif len(members) == 1:
                    text = f"out of memory on {self.device.torch_name}, even alone"
                    yield _failure(members[0].candidate, TarmacError(text))
                else:
                    warnings.warn(
                        f"out of memory on {self.device.torch_name} with {len(left)} networks at "
                        "once: they train in two stacks",
                        stacklevel=2,
                    )
                    waiting.extendleft(filter(None, split_in_two(left)))

    def _train(self, members: tuple[Network, ...], report: EpochReporter) -> Iterator[Result]:
        device = torch.device(self.device.torch_name)
        if self._samples is None:
            self._samples = Samples(self._held, device)
        ordered = arranged(members, device)

        def report_epoch(progress: Progress) -> bool:
            try:
                return report(progress)
            except Exception as error:
                raise _ReportFailed(error) from error

        with denormals_flushed(), threads_within_limits():
            yield from train_stack(
                ordered, self._samples, report_epoch, device=device, dtype=self._dtype
            )


def split_in_two(members: Sequence[Member]) -> tuple[tuple[Member, ...], tuple[Member, ...]]:
    """Split a failed stack in two, the second half first, as ``extendleft`` needs."""
    middle = len(members) // 2
    return tuple(members[middle:]), tuple(members[:middle])


def _failure(candidate: Candidate, error: Exception) -> Result:
    text = str(error) if isinstance(error, TarmacError) else f"{type(error).__name__}: {error}"
    return Result(number=candidate.number, error=text)


def _is_out_of_memory(error: Exception) -> bool:
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return "can't allocate memory" in str(error)
