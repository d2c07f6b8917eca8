"""One instance of an algorithm: its process, its socket and its resources."""

from __future__ import annotations

import asyncio
import dataclasses
import shutil
from typing import Any, Literal

from tarmac.hkube.hosting.environment import Folders
from tarmac.hkube.hosting.interface import Why
from tarmac.hkube.hosting.session import Session
from tarmac.hkube.hosting.waiting import Entry
from tarmac.jobs import Attempt, Container, Finished, Grant


@dataclasses.dataclass(frozen=True, eq=False)
class Place:
    """The number, directories and session of an instance before its start.

    Attributes:
        number: Number of the instance in the run, from 0.
        folders: Directories of this instance; deleted by `discard`.
        session: Listening session for HKube's protocol. None: a plain program.
    """

    number: int
    folders: Folders
    session: Session | None = None

    def discard(self) -> None:
        """Close the session and delete the directories, if no instance was started."""
        if self.session is not None:
            self.session.close()
        shutil.rmtree(self.folders.path, ignore_errors=True)


@dataclasses.dataclass(eq=False)
class Instance:
    """An instance that has been started.

    Attributes:
        place: Number, directories and session of the instance.
        attempt: Attempt as the executor identifies it.
        grant: Cores, memory and GPUs that the instance holds.
        ended: Resolves when the process has ended and its resources are free.
        call: Resolves with the next task while the instance starts or is idle; with None to end.
        state: Stage of the instance; ``busy`` while it works on ``entry``.
        entry: Task that the instance works on. None if it has no task.
        idle_since: Time at which the instance became idle, by the loop's clock in seconds.
    """

    place: Place
    attempt: Attempt
    grant: Grant
    ended: asyncio.Future[Finished]
    call: asyncio.Future[Entry | None]
    state: Literal["starting", "idle", "busy", "ending"] = "starting"
    entry: Entry | None = None
    idle_since: float = 0.0

    @property
    def session(self) -> Session:
        """The session of an instance that has one."""
        assert self.place.session is not None
        return self.place.session

    @property
    def is_usable(self) -> bool:
        """Whether the instance takes another task: it runs, and has not broken the protocol."""
        return self.session.is_usable and not self.ended.done()

    def let_go(self) -> None:
        """Ask a starting or idle instance to end."""
        if not self.call.done():
            self.call.set_result(None)


def explain_end(instance: Instance) -> tuple[Why, str, int | None]:
    """Return why a task failed whose instance ended by itself.

    Even with exit code 0 there is no result.

    Returns:
        The reason, a message and the exit code.
    """
    finished = instance.ended.result()
    log = instance.place.folders.path / "stderr"
    if finished.cause == "memory":
        # The message starts with HKube's own words.
        return (
            "memory",
            "the algorithm killed due to out of memory, please specify higher memory value: "
            f"{finished.reason} (mem)",
            finished.exit_code,
        )
    if finished.exit_code is None:
        environment = instance.attempt.task.environment
        is_image = isinstance(environment, Container) and environment.login is not None
        why: Why = "image" if is_image else "crash"
        return why, f"it could not be started: {finished.reason}", None
    reason = finished.reason or f"exit code {finished.exit_code}"
    return "crash", f"its process ended without a result: {reason}; see {log}", finished.exit_code


async def first_of(*futures: asyncio.Future[Any], timeout_s: float | None = None) -> None:
    """Wait until a future is done or the timeout in seconds is over."""
    await asyncio.wait(futures, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
