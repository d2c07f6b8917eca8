"""Train stacks in processes, one for each core or GPU.

On a CPU, a stack's step is many operations of some microseconds to some milliseconds. Splitting an
operation among cores costs more than it saves, and two stacks in threads of one Python process wait
for the GIL. On a 2-core Xeon with AMX, from 64 to 1,024 neurons, two threads did 0.9 to 1.2 times
the steps of one, and two processes 2.0 times.
"""

from __future__ import annotations

import dataclasses
import os
import selectors
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tarmac.processes import LOOK_EVERY_S, Worker
from tarmac.studies.evaluation.interface import Candidate, EpochReporter, Progress, Result
from tarmac.studies.evaluation.stacked.evaluator import StackedEvaluator, split_in_two
from tarmac.studies.evaluation.stacked.grouping import Stack
from tarmac.studies.evaluation.workers import start_worker, was_asked_to_end

if TYPE_CHECKING:
    from tarmac.studies.evaluation.slots import Slot

_PROGRAM = "tarmac.studies.evaluation.stacked.worker"

_Members = tuple["Candidate", ...]


class PooledEvaluator:
    """An evaluator that trains candidates of equal shape as stacks, in separate processes.

    A process is reused for the next stack. If a process dies, its stack is halved until the network
    that ends its process is alone.

    Args:
        planner: Evaluator that groups the candidates; it computes nothing here.
        setup: Arguments of the worker's evaluator, without the device.
        slots: Devices or shares of a CPU, one per process.
        logs: Directory for the output of processes.
        halted: Returns whether to stop running trainings; called several times a second.
    """

    def __init__(
        self,
        planner: StackedEvaluator,
        setup: Mapping[str, Any],
        slots: Sequence[Slot],
        logs: Path,
        halted: Callable[[], bool],
    ) -> None:
        self._planner = planner
        self._setup = setup
        self._slots = slots
        self._logs = logs
        self._halted = halted
        self._workers: dict[int, Worker] = {}

    def evaluate(self, candidates: Sequence[Candidate], report: EpochReporter) -> Iterator[Result]:
        """Train all candidates, as many stacks at a time as there are slots.

        After a halt, the remaining results are missing.
        """
        stacks, failed = self.plan(candidates)
        waiting = deque(tuple(n.candidate for n in stack.networks) for stack in stacks)
        return self._evaluate(waiting, failed, report)

    def plan(self, candidates: Sequence[Candidate]) -> tuple[list[Stack], list[Result]]:
        """Return the stacks of candidates; see `StackedEvaluator.plan`."""
        sharing = max(Counter(slot.device for slot in self._slots).values())
        return self._planner.plan(candidates, len(self._slots), sharing)

    def close(self) -> None:
        """Stop the processes."""
        for worker in self._workers.values():
            worker.close()
        self._workers.clear()

    def _evaluate(
        self, waiting: deque[_Members], failed: Sequence[Result], report: EpochReporter
    ) -> Iterator[Result]:
        yield from failed
        # Candidates without a result, by slot.
        busy: dict[int, dict[int, Candidate]] = {}
        selector = selectors.DefaultSelector()
        try:
            while (waiting or busy) and not self._halted():
                for index in range(len(self._slots)):
                    if waiting and index not in busy:
                        members = waiting.popleft()
                        busy[index] = {candidate.number: candidate for candidate in members}
                        worker = self._give(index, members)
                        selector.register(worker.output, selectors.EVENT_READ, index)
                for key, _ in selector.select(LOOK_EVERY_S):
                    index, left = key.data, busy[key.data]
                    messages = self._workers[index].receive()
                    for message in messages or ():
                        result = self._answer(index, message, report)
                        if result is not None:
                            del left[result.number]
                            yield result
                    if messages is None or {"idle": True} in messages:
                        selector.unregister(key.fileobj)
                        del busy[index]
                    if messages is None:
                        yield from self._lost(index, tuple(left.values()), waiting)
        finally:
            selector.close()
            for index in busy:
                self._workers.pop(index).kill()

    def _give(self, index: int, members: _Members) -> Worker:
        if index not in self._workers:
            log = self._logs / f"stacks-{os.getpid()}-{index}.log"
            self._workers[index] = start_worker(_PROGRAM, self._slots[index].num_threads, log)
        worker = self._workers[index]
        fields = [
            dataclasses.asdict(candidate) | {"settings": dict(candidate.settings)}
            for candidate in members
        ]
        device = self._slots[index].device
        worker.send(setup={**self._setup, "device": device}, candidates=fields)
        return worker

    def _answer(
        self, index: int, message: Mapping[str, Any], report: EpochReporter
    ) -> Result | None:
        if "epoch" in message:
            self._workers[index].send(stop=report(Progress(**message)))
        return Result(**message["result"]) if "result" in message else None

    def _lost(self, index: int, left: _Members, waiting: deque[_Members]) -> Iterator[Result]:
        worker = self._workers.pop(index)
        was_asked, why = was_asked_to_end(worker), worker.why_ended()
        worker.kill()
        if was_asked:
            yield from (Result(number=candidate.number, stopped=True) for candidate in left)
        elif len(left) == 1:
            yield Result(number=left[0].number, error=why)
        else:
            waiting.extendleft(filter(None, split_in_two(left)))
