"""A pool of instances on this machine: which task gets an instance, and when instances end.

All code runs in one loop and one thread. A task goes to an idle instance of its algorithm, or to a
new instance if there is room. Without room, idle instances of other algorithms end for the first
task in line. No task overtakes a task that lacks cores or memory, or that task might wait forever.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

from tarmac.errors import RequestError
from tarmac.hkube.hosting.algorithms import Hosted
from tarmac.hkube.hosting.instance_table import InstanceTable
from tarmac.hkube.hosting.interface import Calls, Ending, Watcher, Why, Work
from tarmac.hkube.hosting.lifecycle import InstanceLifecycle
from tarmac.hkube.hosting.needs import beside_callers
from tarmac.hkube.hosting.processes import Processes
from tarmac.hkube.hosting.timers import Timers
from tarmac.hkube.hosting.waiting import Entry
from tarmac.jobs import RunRequest, Secret, missing_secrets, plan_tasks, prepare, read_machine

if TYPE_CHECKING:
    from tarmac.formats import Algorithm

# Interval of the checks for GPUs that other programs lease and for deadlocks.
_DISPATCH_EVERY_S = 0.5

_FOLDER = "instances"


def refuse(
    algorithms: Mapping[str, Algorithm],
    base: Path,
    request: RunRequest,
) -> None:
    """Refuse algorithms that this machine can never run, before anything starts.

    Args:
        algorithms: Algorithms that the run will need, by name.
        base: Directory that relative paths in the jobs start from.
        request: Options of the run, such as its secrets and pretended GPUs.

    Raises:
        RequestError: An algorithm needs more than this machine has, a missing secret, or a
            container engine that does not answer.
    """
    for algorithm in algorithms.values():
        prepare(algorithm.job, base, request)


class Pool:
    """A `Host` that runs tasks on this machine.

    Example::

        async with Pool(algorithms, run, base=base, watcher=watcher, calls=calls) as pool:
            ending = await pool.submit(work)

    Leaving the block stops running tasks, and ends all instances.

    Args:
        algorithms: Algorithms, by the name that tasks use.
        run: Directory of the run; its ``instances`` has the instances' directories.
        base: Directory that relative paths in the jobs start from.
        watcher: Receives each event of a task.
        calls: Runs the algorithms and pipelines that algorithms start.
        concurrency: Most tasks at once. Default: as many as fit.
        fake_gpus: Number of GPUs to pretend on this machine. Default 0: use the real ones.
        secrets: Sources of the secrets on this machine, by secret name.
        timers: Timeouts of the host. Default: those of `Timers`.

    Raises:
        RequestError: An algorithm's job cannot be planned.
    """

    def __init__(
        self,
        algorithms: Mapping[str, Algorithm],
        run: Path,
        *,
        base: Path,
        watcher: Watcher,
        calls: Calls,
        concurrency: int | None = None,
        fake_gpus: int = 0,
        secrets: Mapping[str, Secret] | None = None,
        timers: Timers | None = None,
    ) -> None:
        self._run = run.resolve()
        self._base = base
        self._watcher = watcher
        self._calls = calls
        self._secrets = secrets or {}
        self._timers = timers or Timers()
        hosted = {
            name: Hosted(algorithm, next(iter(plan_tasks(algorithm.job, base))))
            for name, algorithm in algorithms.items()
        }
        self._templates = {name: algorithm.template for name, algorithm in hosted.items()}
        self._machine = read_machine(fake_gpus=fake_gpus)
        self._roster = InstanceTable(hosted, self._machine, concurrency)
        self._arrivals = itertools.count()
        self._deadlocked_since: float | None = None
        self._dispatched_at = 0.0
        self._is_due = False
        self._is_closing = False
        self._opened = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Start to accept tasks."""
        self._loop = asyncio.get_running_loop()
        processes = await self._opened.enter_async_context(
            Processes(
                self._machine,
                [*self._templates.values()],
                self._run,
                base=self._base,
                secrets=self._secrets,
                grace_s=self._timers.kill_s,
                looked=self._dispatch_now_and_then,
                failed=self._fail,
            )
        )
        self._lives = InstanceLifecycle(
            self._run / _FOLDER,
            self._roster,
            processes,
            watcher=self._watcher,
            calls=self._calls,
            timers=self._timers,
            changed=self._dispatch_soon,
        )
        self._opened.push_async_callback(self._lives.close)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop running tasks, and end all instances."""
        self._is_closing = True
        await self._opened.aclose()

    def submit(self, work: Work) -> asyncio.Future[Ending]:
        """Queue a task; see `Host`."""
        entry = Entry.of(work, self._loop.create_future(), next(self._arrivals))
        hosted = self._roster.hosted.get(work.algorithm)
        problem = self._problem(hosted, work)
        if hosted is None or problem is not None:
            why, message = problem or ("refused", "")
            entry.future.set_result(Ending(work=work, why=why, message=message))
            return entry.future
        hosted.waiting.push(entry)
        entry.future.add_done_callback(lambda _: _forget(hosted, entry))
        self._dispatch_soon()
        return entry.future

    def _problem(self, hosted: Hosted | None, work: Work) -> tuple[Why, str] | None:
        """Return why a task can never run here; None if it can."""
        if hosted is None:
            return (
                "refused",
                f"Algorithm named '{work.algorithm}' does not exist; give its definition",
            )
        try:
            if not hosted.is_checked:
                missing_secrets([hosted.template], os.environ, self._secrets, self._base)
                self._machine.refuse_what_never_fits([hosted.template])
                hosted.is_checked = True
            if hosted.problem is None and work.caller is not None:
                self._machine.refuse_what_never_fits([beside_callers(work, self._templates)])
        except RequestError as error:
            return "refused", str(error)
        return hosted.problem

    def _dispatch_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._dispatch)

    def _dispatch_now_and_then(self) -> None:
        is_time = self._loop.time() - self._dispatched_at >= _DISPATCH_EVERY_S
        if is_time and self._roster.is_waited():
            self._dispatch_soon()

    def _dispatch(self) -> None:
        """Give tasks to idle instances, and start instances while there is room."""
        self._is_due = False
        self._dispatched_at = self._loop.time()
        if self._is_closing:
            return
        try:
            for hosted in self._roster.hosted.values():
                self._wake_idle(hosted)
            self._start_in_line()
            self._detect_deadlock()
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self._lives.fail(error)

    def _wake_idle(self, hosted: Hosted) -> None:
        if not hosted.waiting:
            return
        for instance in hosted.instances:
            if instance.state == "idle" and not instance.call.done():
                entry = self._roster.take(hosted, instance)
                if entry is None:
                    return
                instance.state = "busy"
                instance.call.set_result(entry)

    def _start_in_line(self) -> None:
        self._roster.kept = None
        without_gpus = False
        for hosted in self._roster.in_line():
            needs = hosted.template.resources
            if without_gpus and needs.gpus:
                continue
            answer = self._start_wanted(hosted)
            if answer == "later":
                # Its place opens soon, and no other algorithm may overtake it meanwhile.
                return
            if answer == "full":
                self._roster.kept = self._roster.kept or hosted
                self._tell(hosted, self._machine.why_full(needs))
                for instance in self._roster.giving_way_to(hosted):
                    instance.state = "ending"
                    instance.let_go()
                short = self._machine.shortage(needs)
                if short.cpus or short.memory:
                    return
                without_gpus = True

    def _start_wanted(self, hosted: Hosted) -> Literal["waits", "later", "full"]:
        """Start the instances that an algorithm can use and that fit; return why no more start."""
        if hosted.state == "new":
            self._lives.prepare(hosted)
        while hosted.state == "ready" and hosted.num_wanted:
            most = hosted.algorithm.max_workers
            if most and len(hosted.instances) >= most:
                self._tell(hosted, f"{most} of {most} instances are at work (maxWorkers)")
                return "waits"
            may_begin = self._roster.may_begin(hosted.waiting.first())
            if not may_begin or self._roster.is_starting_enough():
                return "waits"
            if self._machine.shortage(hosted.template.resources):
                return "full"
            if hosted.place is None:
                self._lives.open_place(hosted)
                return "later"
            if not self._lives.start(hosted, hosted.place):
                return "full"
        return "waits"

    def _tell(self, hosted: Hosted, reason: str) -> None:
        """Report why an algorithm's first task waits, once for each reason."""
        first = hosted.waiting.first()
        # A starting instance will soon take the first task.
        if first is not None and reason != hosted.reported_reason and not hosted.count("starting"):
            hosted.reported_reason = reason
            self._watcher.waiting(first.work, reason)

    def _detect_deadlock(self) -> None:
        """Resolve a deadlock of tasks that wait for each other: refuse a waiting task."""
        deadlock = self._roster.waiting_for_each_other()
        if deadlock is None:
            self._deadlocked_since = None
            return
        entry, names = deadlock
        now = self._loop.time()
        self._deadlocked_since = self._deadlocked_since or now
        if now - self._deadlocked_since < self._timers.stalled_s:
            return
        self._deadlocked_since = None
        hosted = self._roster.hosted[entry.work.algorithm]
        message = (
            f"{hosted.reported_reason or 'it cannot start'}, all used by tasks that wait for tasks "
            f"they have started: {', '.join(names)}. Give their algorithms fewer instances "
            "(maxWorkers), or less cpu, mem and gpu"
        )
        ending = Ending(work=entry.work, why="refused", message=message)
        self._lives.conclude(hosted, entry, ending)


def _forget(hosted: Hosted, entry: Entry) -> None:
    """Remove a cancelled task from its queue."""
    if entry.is_queued:
        hosted.waiting.remove(entry)
