"""The evaluator that trains candidates of equal shape as stacks."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, TypeVar

import torch

from tarmac.data import hold_out
from tarmac.errors import RequestError, TarmacError
from tarmac.machine import Device, find_devices
from tarmac.studies.evaluation.interface import Result
from tarmac.studies.evaluation.stacked.architecture import CannotStackError
from tarmac.studies.evaluation.stacked.grouping import Stack, group
from tarmac.studies.evaluation.stacked.network import Network, Outlines, resolve
from tarmac.studies.evaluation.stacked.samples import Samples
from tarmac.studies.evaluation.stacked.stack import arranged, train_stack
from tarmac.training import choose_precision, denormals_flushed, threads_within_limits

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tarmac.data import Dataset
    from tarmac.studies.evaluation.interface import Candidate, EpochReporter, Progress
    from tarmac.training import Setting
    from tarmac.workloads import Workload

Member = TypeVar("Member")

_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


class _ReportFailed(Exception):  # noqa: N818 - no error of the stack's, which are its networks' ends
    """What the training reports to raised an error."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class StackedEvaluator:
    """Trains candidates of equal shape as one stacked model; see `Evaluator`.

    A network's result does not depend on the others of its stack: its initial weights and its order
    of samples are those of `tarmac.train` with its seed, its dropout is drawn from its seed alone.
    All networks are judged on the same samples.

    Args:
        workload: What the candidates' settings change.
        dataset: The data that it names.
        validation_size: How many samples are held out.
        train_size: How many to train on; all that are not held out by default.
        validation_split: How samples are held out, as `tarmac.data.hold_out` takes it. Default
            ``auto``.
        validation_seed: By which they are drawn, the same for networks of any seed.
        settings: Settings of all candidates, as ``tarmac train --set`` takes them; a candidate's
            own come first.
        device: As `find_devices` takes it; one.
        precision: ``auto``, ``fp32`` or ``bf16``. ``auto`` takes bf16 wherever there are matrix
            units for it, also for networks that alone would be too small for it to pay.

    Attributes:
        device: Device that all stacks train on.
        precision: What it computes matrix products in, and why.

    Raises:
        RequestError: Too few samples, or an unknown device or precision.
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
        # Stacks have work enough for bf16 to pay, and a network must not differ by its stack.
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
        """Return the stacks that candidates train in, and results of those that cannot be trained.

        Args:
            candidates: Candidates to group, all with different numbers.
            at_once: How many stacks train at the same time.
            sharing: How many of them train on the same device; all of them by default.

        Raises:
            RequestError: Two have one number.
        """
        numbers = [candidate.number for candidate in candidates]
        if len(set(numbers)) < len(numbers):
            raise RequestError(f"candidates have equal numbers: {numbers}")
        networks, failed = self._resolve(candidates)
        return group(networks, self.device, self._dtype, at_once, sharing or at_once), failed

    def evaluate(self, candidates: Sequence[Candidate], report: EpochReporter) -> Iterator[Result]:
        """Train all candidates, a stack after another; see `Evaluator.evaluate`."""
        stacks, failed = self.plan(candidates)
        return self._evaluate(deque(stack.networks for stack in stacks), failed, report)

    def _evaluate(
        self, waiting: deque[tuple[Network, ...]], failed: Sequence[Result], report: EpochReporter
    ) -> Iterator[Result]:
        yield from failed
        while waiting:
            members = waiting.popleft()
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
                    waiting.extendleft(filter(None, split_in_two(left)))

    def _train(self, members: tuple[Network, ...], report: EpochReporter) -> Iterator[Result]:
        device = torch.device(self.device.torch_name)
        if self._samples is None:
            self._samples = Samples(self._held, device)
        ordered = arranged(members, device)

        def asked(progress: Progress) -> bool:
            try:
                return report(progress)
            except Exception as error:
                raise _ReportFailed(error) from error

        with denormals_flushed(), threads_within_limits():
            yield from train_stack(ordered, self._samples, asked, device=device, dtype=self._dtype)

    def _resolve(self, candidates: Sequence[Candidate]) -> tuple[list[Network], list[Result]]:
        networks, failed = [], []
        for candidate in candidates:
            try:
                networks.append(
                    resolve(
                        candidate, self._workload, self._dataset, self._settings, self._outlines
                    )
                )
            except CannotStackError as error:
                failed.append(_failure(candidate, TarmacError(f"it cannot be stacked: {error}")))
            except TarmacError as error:
                failed.append(_failure(candidate, error))
        return networks, failed


def split_in_two(members: Sequence[Member]) -> tuple[tuple[Member, ...], tuple[Member, ...]]:
    """Cut a stack that could not be trained in two, the second half first: for ``extendleft``."""
    middle = len(members) // 2
    return tuple(members[middle:]), tuple(members[:middle])


def _failure(candidate: Candidate, error: Exception) -> Result:
    text = str(error) if isinstance(error, TarmacError) else f"{type(error).__name__}: {error}"
    return Result(number=candidate.number, error=text)


def _is_out_of_memory(error: Exception) -> bool:
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return "can't allocate memory" in str(error)
