"""The lifecycle of instances: start, tasks and end."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from pathlib import Path

from tarmac.errors import TarmacError
from tarmac.files import StorageError
from tarmac.hkube.hosting.algorithms import Hosted
from tarmac.hkube.hosting.environment import Folders, hosted_task, plain_task
from tarmac.hkube.hosting.images import fetching_task, listening_host, ready_to_start
from tarmac.hkube.hosting.instance_table import InstanceTable
from tarmac.hkube.hosting.instances import Instance, Place, first_of
from tarmac.hkube.hosting.interface import Calls, Ending, Watcher, Why
from tarmac.hkube.hosting.logs import last_line
from tarmac.hkube.hosting.processes import Processes
from tarmac.hkube.hosting.retries import is_tried_again
from tarmac.hkube.hosting.session import open_session
from tarmac.hkube.hosting.tasks import (
    connect,
    do_by_program,
    do_by_session,
    end_instance,
    write_input,
)
from tarmac.hkube.hosting.timers import Timers
from tarmac.hkube.hosting.waiting import Entry
from tarmac.jobs import Attempt

_LOOK_EVERY_S = 0.5
_THE_END = "the run has ended"


class InstanceLifecycle:
    """The lifecycle of a run's instances.

    Args:
        folder: Parent of the instances' directories. A resumed run already has some.
        roster: Waiting tasks and instances of the run's algorithms.
        processes: Starts the instances' processes and reports their ends.
        watcher: Receives each event of a task.
        calls: Runs the algorithms and pipelines that algorithms start.
        timers: Timeouts of the host.
        changed: Function that is called when a waiting task may be able to start.
    """

    def __init__(
        self,
        folder: Path,
        roster: InstanceTable,
        processes: Processes,
        *,
        watcher: Watcher,
        calls: Calls,
        timers: Timers,
        changed: Callable[[], None],
    ) -> None:
        self._folder = folder
        self._roster = roster
        self._processes = processes
        self._watcher = watcher
        self._calls = calls
        self._timers = timers
        self._changed = changed
        self._loop = asyncio.get_running_loop()
        self._numbers = itertools.count(_next_number(folder))
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closing = False

    def prepare(self, hosted: Hosted) -> None:
        """Prepare an algorithm for its instances, in the background."""
        hosted.state = "preparing"
        self._spawn(self._prepare(hosted))

    def open_place(self, hosted: Hosted) -> None:
        """Open the place of an algorithm's next instance, in the background."""
        if not hosted.is_opening:
            hosted.is_opening = True
            self._spawn(self._open_place(hosted))

    def start(self, hosted: Hosted, place: Place) -> bool:
        """Start an instance; return whether there was room."""
        if hosted.is_plain:
            entry = hosted.waiting.first()
            return entry is None or self._start_program(hosted, place, entry)
        assert place.session is not None
        address = place.session.host, place.session.port
        task = hosted_task(hosted.algorithm, hosted.template, place.number, place.folders, address)
        instance = self._begin(hosted, place, Attempt(task, 1, place.folders.path))
        if instance is not None:
            self._spawn(self._live_by_session(hosted, instance))
        return instance is not None

    def conclude(self, hosted: Hosted, entry: Entry, ending: Ending) -> bool:
        """End a task, or retry it; return whether it was ended.

        A retry uses a fresh instance, as in HKube.
        """
        if entry.future.done():
            return True
        if is_tried_again(ending) and not self._is_closing:
            self._watcher.retrying(entry.work, ending.message, 0.0)
            hosted.waiting.push(entry)
            self._changed()
            return False
        if entry.is_queued:
            hosted.waiting.remove(entry)
        entry.future.set_result(ending)
        return True

    def fail(self, error: Exception) -> None:
        """Fail all pending tasks with an infrastructure error."""
        entries = [entry for hosted in self._roster.hosted.values() for entry in hosted.waiting]
        entries += [instance.entry for instance in self._roster.instances("busy") if instance.entry]
        for entry in entries:
            if not entry.future.done():
                entry.future.set_exception(error)

    async def close(self) -> None:
        """Stop all running tasks, and end all instances."""
        self._is_closing = True
        for hosted in self._roster.hosted.values():
            self._give_up(hosted, "stopped", _THE_END)
            for instance in hosted.instances:
                instance.let_go()
                if instance.entry is not None:
                    instance.entry.future.cancel()
        while self._tasks:
            await asyncio.wait(self._tasks)
        for hosted in self._roster.hosted.values():
            if hosted.place is not None:
                hosted.place.discard()

    def _spawn(self, life: Coroutine[None, None, None]) -> None:
        task = self._loop.create_task(life)
        self._tasks.add(task)
        task.add_done_callback(self._is_over)

    def _is_over(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self.fail(error)

    async def _prepare(self, hosted: Hosted) -> None:
        """Find the address at which instances reach this host, and fetch their image."""
        template = hosted.template
        why: Why = "refused"
        try:
            if not hosted.is_plain:
                hosted.host = await listening_host(template)
            task = fetching_task(template, self._numbers)
            why = "image"
            if task is not None:
                name = f"{task.index:06d}-image-of-{hosted.name}"
                await self._fetch(hosted, Attempt(task, 1, self._folder / name))
            hosted.template = ready_to_start(template, has_worker=not hosted.is_plain)
            hosted.state = "ready"
        except (OSError, TarmacError) as error:
            hosted.state = "new"
            self._give_up(hosted, why, str(error))
        self._changed()

    async def _fetch(self, hosted: Hosted, attempt: Attempt) -> None:
        image = attempt.task.command[-1]
        started = self._processes.start(attempt)
        assert started is not None, "it takes nothing"
        _, ended = started
        is_told = False
        while not ended.done() and not self._is_closing:
            await first_of(ended, timeout_s=_LOOK_EVERY_S)
            first = hosted.waiting.first()
            # Reported only after a poll: an image that is already here takes less time.
            if not ended.done() and not is_told and first is not None:
                is_told = True
                self._watcher.waiting(first.work, f"its image {image} is fetched")
        if not ended.done():
            self._processes.end(attempt, _THE_END, self._timers.kill_s)
        finished = await ended
        if finished.outcome != "succeeded":
            reason = last_line(attempt.directory / "stderr") or finished.reason
            raise TarmacError(f"image {image} cannot be pulled: {reason}")

    async def _open_place(self, hosted: Hosted) -> None:
        """Create the folders of the next instance, and listen for its connection."""
        number = next(self._numbers)
        folders = Folders(self._folder / f"{number:06d}-{hosted.name}")
        try:
            folders.make()
            place = Place(number, folders)
            if not hosted.is_plain:
                options = hosted.session_options
                session = await open_session(
                    hosted.host, storage_directory=folders.storage, **options
                )
                place = Place(number, folders, session)
            hosted.place = place
        except OSError as error:
            self._give_up(hosted, "refused", f"no instance can be started: {error}")
        finally:
            hosted.is_opening = False
            self._changed()

    def _give_up(self, hosted: Hosted, why: Why, message: str) -> None:
        """End all waiting and future tasks of an algorithm."""
        hosted.problem = why, message
        for entry in [*hosted.waiting]:
            self.conclude(hosted, entry, Ending(work=entry.work, why=why, message=message))

    def _begin(self, hosted: Hosted, place: Place, attempt: Attempt) -> Instance | None:
        """Start the process of an instance; return None if there is no room."""
        started = self._processes.start(attempt)
        if started is None:
            return None
        hosted.place, hosted.reported_reason = None, ""
        instance = Instance(place, attempt, *started, self._loop.create_future())
        hosted.instances.add(instance)
        return instance

    def _start_program(self, hosted: Hosted, place: Place, entry: Entry) -> bool:
        try:
            write_input(place.folders.input, entry.work)
        except StorageError:
            # A storage error fails the run, not the task: a resumed run tries the task again.
            raise
        except TarmacError as error:
            ending = Ending(work=entry.work, why="refused", message=error.message)
            self.conclude(hosted, entry, ending)
            return True
        task = plain_task(hosted.algorithm, hosted.template, place.number, place.folders)
        instance = self._begin(hosted, place, Attempt(task, 1, place.folders.path))
        if instance is None:
            return False
        hosted.waiting.pop()
        self._roster.num_busy += 1
        instance.state, instance.entry = "busy", entry
        self._spawn(self._live_by_program(hosted, instance, entry))
        return True

    async def _live_by_session(self, hosted: Hosted, instance: Instance) -> None:
        """Run the tasks of an instance that speaks HKube's protocol, and end it."""
        try:
            failure = await connect(instance, hosted.start_s or self._timers.start_s)
            if failure is not None:
                self._charge(hosted, instance, *failure)
                return
            while await self._go_on(hosted, instance):
                pass
        finally:
            await self._end(hosted, instance)

    async def _go_on(self, hosted: Hosted, instance: Instance) -> bool:
        """Run the next task of an instance; return whether it takes another."""
        entry = await self._next(hosted, instance)
        return entry is not None and await self._do(hosted, instance, entry)

    async def _next(self, hosted: Hosted, instance: Instance) -> Entry | None:
        """Wait for an instance's next task and return it; None if the instance must end."""
        is_let_go = instance.call.done() and instance.call.result() is None
        if is_let_go or not instance.is_usable or self._is_closing:
            return None
        entry = self._roster.take(hosted, instance)
        if entry is None:
            instance.call = self._loop.create_future()
            instance.state, instance.idle_since = "idle", self._loop.time()
            self._changed()
            await first_of(instance.call, instance.ended)
            entry = instance.call.result() if instance.call.done() else None
            if not instance.is_usable:
                hosted.is_warming = False
                if entry is not None:
                    # The instance became unusable before it started its task.
                    self._roster.num_busy -= 1
                    hosted.waiting.push(entry)
                return None
        instance.state = "busy" if entry is not None else "ending"
        return entry

    async def _do(self, hosted: Hosted, instance: Instance, entry: Entry) -> bool:
        """Run a task in an instance; return whether the instance takes another."""
        instance.entry = entry
        try:
            if self._is_closing:
                entry.future.cancel()
            if entry.future.done():
                return True
            self._begun(instance, entry)
            ending, is_usable = await do_by_session(
                instance,
                entry,
                watcher=self._watcher,
                calls=self._calls,
                processes=self._processes,
                timers=self._timers,
            )
            return self.conclude(hosted, entry, ending) and is_usable
        except Exception as error:
            _fail(entry, error)
            return False
        finally:
            instance.entry = None
            self._roster.num_busy -= 1

    async def _live_by_program(self, hosted: Hosted, instance: Instance, entry: Entry) -> None:
        """Run the only task of a plain program's instance, and end the instance."""
        try:
            self._begun(instance, entry)
            ending = await do_by_program(
                instance, entry, processes=self._processes, timers=self._timers
            )
            self.conclude(hosted, entry, ending)
        except Exception as error:
            _fail(entry, error)
        finally:
            instance.entry = None
            self._roster.num_busy -= 1
            await self._end(hosted, instance)

    def _begun(self, instance: Instance, entry: Entry) -> None:
        entry.attempts += 1
        path, gpus = instance.place.folders.path, instance.grant.gpus
        self._watcher.started(entry.work, entry.attempts, path, gpus)

    async def _end(self, hosted: Hosted, instance: Instance) -> None:
        instance.state = "ending"
        await end_instance(instance, self._processes, self._timers)
        hosted.instances.discard(instance)
        self._changed()

    def _charge(
        self, hosted: Hosted, instance: Instance, why: Why, message: str, code: int | None
    ) -> None:
        """Count an instance that never ran a task as an attempt of the first waiting task."""
        hosted.is_warming = False
        entry = hosted.waiting.pop()
        if entry is None:
            return
        try:
            self._begun(instance, entry)
            ending = Ending(
                work=entry.work,
                why=why,
                message=message,
                exit_code=code,
                attempts=entry.attempts,
            )
            self.conclude(hosted, entry, ending)
        except Exception as error:
            _fail(entry, error)


def _fail(entry: Entry, error: Exception) -> None:
    """Fail a pending task with an infrastructure error."""
    if not entry.future.done():
        entry.future.set_exception(error)


def _next_number(folder: Path) -> int:
    numbers = (path.name.partition("-")[0] for path in folder.glob("*-*"))
    return max((int(number) + 1 for number in numbers if number.isdigit()), default=0)
