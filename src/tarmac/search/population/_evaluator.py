"""The evaluator that trains candidates of equal shape as stacks."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import torch

from tarmac.devices import Device, find_devices
from tarmac.errors import RequestError, TarmacError
from tarmac.search._evaluator import Result
from tarmac.search.population._architecture import CannotStackError
from tarmac.search.population._crew import Job, work_off
from tarmac.search.population._grouping import Stack, group
from tarmac.search.population._network import Network, resolve
from tarmac.search.population._samples import Samples
from tarmac.search.population._stack import arranged, train_stack
from tarmac.train import choose_precision

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tarmac.data import Dataset
    from tarmac.search._evaluator import Candidate, Watch
    from tarmac.train import Setting
    from tarmac.workloads import Workload

__all__ = ["StackedEvaluator"]

# Python's lock is held for some microseconds of each operation, so more threads than this would
# wait for it; on larger CPUs each thread's operations use several cores instead.
_MOST_THREADS = 8

_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


class StackedEvaluator:
    """Trains candidates of equal shape as one stacked model; see `Evaluator`.

    A network's result does not depend on the others of its stack: its initial weights and its order
    of samples are those of `tarmac.train` with its seed, its dropout is drawn from its seed alone.

    Args:
        workload: What the candidates' settings change.
        dataset: The data that it names.
        validation_size: How many samples of the training set, from the last, are held out.
        train_size: How many to train on, from the first; all that are not held out by default.
        settings: Of all candidates, as ``tarmac train --set`` takes them.
        device: As `find_devices` takes it; one.
        precision: ``auto``, ``fp32`` or ``bf16``. ``auto`` takes bf16 wherever there are matrix
            units for it, also for networks that alone would be too small for it to pay.

    Attributes:
        device: Where it trains.
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
        settings: Mapping[str, Setting] | None = None,
        device: str | Device = "auto",
        precision: str = "auto",
    ) -> None:
        available = len(dataset.train) - validation_size
        size = available if train_size is None else train_size
        if validation_size < 1:
            raise RequestError(f"validation_size is {validation_size}, expected at least 1")
        if not 1 <= size <= available:
            raise RequestError(
                f"train_size is {size}, but {dataset.name} has {max(available, 0)} samples "
                f"({validation_size} more are held out)"
            )
        self._workload = workload
        self._dataset = dataset
        self._settings = dict(settings or {})
        self._train_size = size
        self._validation_size = validation_size
        self.device = device if isinstance(device, Device) else find_devices(device)[0]
        # Stacks have work enough for bf16 to pay, and a network must not differ by its stack.
        name, reason = choose_precision(precision, self.device, step_flops=2**62)
        if name not in _DTYPES:
            raise RequestError(f"precision is {precision!r}, expected auto, fp32 or bf16")
        self.precision = (name, reason)
        self._dtype = _DTYPES[name]
        self._samples: Samples | None = None
        self._num_cores = 0
        if self.device.type == "cpu":
            self._num_cores = min(torch.get_num_threads(), self.device.num_threads or 1)
        self._num_threads = max(1, min(self._num_cores, _MOST_THREADS))

    def plan(self, candidates: Sequence[Candidate]) -> list[Stack]:
        """Return the stacks that candidates would train in, those aside that cannot be trained."""
        networks, _ = self._resolve(candidates)
        return self._group(networks)

    def evaluate(self, candidates: Sequence[Candidate], watch: Watch) -> Iterator[Result]:
        """Train all candidates; see `Evaluator.evaluate`.

        On a CPU several stacks train at once, one for each core; ``watch`` is called, and results
        come, in the caller's thread alone, in an order that depends on timing.
        """
        numbers = [candidate.number for candidate in candidates]
        if len(set(numbers)) < len(numbers):
            raise RequestError(f"candidates have equal numbers: {numbers}")
        networks, failed = self._resolve(candidates)
        return self._evaluate(networks, failed, watch)

    def _evaluate(
        self, networks: Sequence[Network], failed: Sequence[Result], watch: Watch
    ) -> Iterator[Result]:
        yield from failed
        stacks = [stack.networks for stack in self._group(networks)]
        num_threads = max(1, min(self._num_threads, len(stacks)))
        operations = self._num_cores // num_threads or None
        events = work_off(
            stacks, self._prepare, watch, num_threads=num_threads, operations=operations
        )
        done: set[int] = set()
        with contextlib.closing(events):
            for event in events:
                if isinstance(event, Result):
                    done.add(event.number)
                    yield event
                    continue
                members, error, instead = event
                left = [n for n in members if n.candidate.number not in done]
                if not _is_out_of_memory(error):
                    yield from (_failure(n.candidate, error) for n in left)
                elif len(members) == 1:
                    text = f"out of memory on {self.device.torch_name}, even alone"
                    yield _failure(members[0].candidate, TarmacError(text))
                else:
                    for half in (left[len(left) // 2 :], left[: len(left) // 2]):
                        if half:
                            instead(tuple(half))

    def _prepare(self, members: tuple[Network, ...]) -> Job:
        device = torch.device(self.device.torch_name)
        if self._samples is None:
            self._samples = Samples(self._dataset, self._train_size, self._validation_size, device)
        ordered = arranged(members)
        # Built here, in one thread: weights are drawn from PyTorch's one generator.
        built = [network.build() for network in ordered]
        samples = self._samples
        return Job(
            members,
            lambda watch, stopped: train_stack(
                ordered, built, samples, watch, stopped, device=device, dtype=self._dtype
            ),
        )

    def _group(self, networks: Sequence[Network]) -> list[Stack]:
        return group(networks, self.device, self._dtype, self._num_threads)

    def _resolve(self, candidates: Sequence[Candidate]) -> tuple[list[Network], list[Result]]:
        networks, failed = [], []
        for candidate in candidates:
            try:
                networks.append(resolve(candidate, self._workload, self._dataset, self._settings))
            except CannotStackError as error:
                failed.append(_failure(candidate, TarmacError(f"it cannot be stacked: {error}")))
            except TarmacError as error:
                failed.append(_failure(candidate, error))
        return networks, failed


def _failure(candidate: Candidate, error: Exception) -> Result:
    text = str(error) if isinstance(error, TarmacError) else f"{type(error).__name__}: {error}"
    return Result(number=candidate.number, error=text)


def _is_out_of_memory(error: Exception) -> bool:
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return "can't allocate memory" in str(error)
