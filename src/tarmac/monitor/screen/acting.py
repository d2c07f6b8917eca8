"""Stopping work from the screen: the affected processes, permissions and signals."""

from __future__ import annotations

import dataclasses
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from tarmac.errors import RequestError, TarmacError
from tarmac.monitor.screen.local import is_here
from tarmac.processes import ProcessIdentity, identify

if TYPE_CHECKING:
    from tarmac.monitor.snapshot import HostSnapshot, Snapshot, Work

# The kinds of work that end cleanly on one signal, with the effect.
_STOPS = {
    "training": "saves a checkpoint after the step it is at, and ends",
    "search": "ends its trainings and can be resumed",
    "job": "ends its tasks, and can be resumed",
}


@dataclasses.dataclass(frozen=True)
class Action:
    """The action of a key on processes.

    Attributes:
        verb: Beginning of the question to the user.
        number: Signal to send, such as SIGTERM.
        asks_lead: Whether the signal goes only to the lead process, which ends the others; else to
            each process.
    """

    verb: str
    number: signal.Signals
    asks_lead: bool = False


ACTIONS = {
    "stop": Action("Stop", signal.SIGTERM, asks_lead=True),
    "terminate": Action("Send SIGTERM to", signal.SIGTERM),
    "kill": Action("Kill, without a checkpoint,", signal.SIGKILL),
}


@dataclasses.dataclass(frozen=True)
class Plan:
    """Signals to send once the user agrees.

    Attributes:
        question: Question to ask the user.
        targets: Processes to signal, with identities that a reused pid does not match.
    """

    question: str
    number: signal.Signals
    targets: tuple[ProcessIdentity, ...]

    def carry_out(self) -> str:
        """Send the signals; return the outcome in a sentence."""
        reached = 0
        for target in self.targets:
            try:
                reached += target.send(self.number)
            except PermissionError:
                return f"process {target.pid} is not yours"
        noun = "process" if reached == 1 else "processes"
        return f"sent {self.number.name} to {reached} {noun}" if reached else "it had ended before"


def plan_action(action: Action, keys: Sequence[tuple[str, ...]], snapshot: Snapshot) -> Plan:
    """Return the plan of an action on some rows.

    Args:
        action: Action to plan, a value of `ACTIONS`.
        keys: Keys of the selected rows; see `Row.key`.
        snapshot: Newest snapshot, with the processes of each work.

    Raises:
        RequestError: A row is not this user's, not on this machine, or not fit for the action.
    """
    names, targets = [], []
    for key in keys:
        name, pids = _processes_of(action, key, snapshot)
        names.append(name)
        targets += [_own(pid, name) for pid in pids]
    return Plan(f"{action.verb} {', '.join(names)}?", action.number, tuple(targets))


def _processes_of(
    action: Action, key: tuple[str, ...], snapshot: Snapshot
) -> tuple[str, Sequence[int]]:
    host = next((host for host in snapshot.hosts if host.host.name == key[1]), None)
    if host is None or key[0] not in ("work", "process"):
        raise RequestError("choose a run, a task or a process first")
    if not is_here(key[1]) or host.problem:
        raise RequestError(f"it runs on {key[1]}, and only work of this machine is stopped here")
    if key[0] == "work":
        return _of_work(action, key[2], host)
    if action.asks_lead:
        raise RequestError("s stops runs of Tarmac; T sends SIGTERM to a process")
    if not key[2].isdecimal():
        raise RequestError("its process ID is not known here")
    return f"process {key[2]}", (int(key[2]),)


def _of_work(action: Action, name: str, host: HostSnapshot) -> tuple[str, Sequence[int]]:
    work = next((work for work in host.work if work.id == name), None)
    if work is None:
        raise RequestError(f"{name} is no longer active")
    if not work.is_own:
        raise RequestError(f"{name} is {work.user or 'somebody else'}'s, not yours")
    if not work.pids:
        raise RequestError(f"no process of {name} is known on this machine")
    if not action.asks_lead:
        return name, work.pids
    if work.kind not in _STOPS:
        raise RequestError(f"{name} is a task; stop its job, or end it with T")
    return f"{name}: it {_STOPS[work.kind]}", (_lead(work),)


def _lead(work: Work) -> int:
    """Return the pid in a training's record if that process is at work, else the first pid."""
    if work.kind == "training":
        from tarmac.runs import Run  # noqa: PLC0415 - a screen that stops nothing needs no records

        try:
            sessions = Run.open(Path(work.path)).record.sessions
        except TarmacError:
            sessions = ()
        if sessions and sessions[-1].pid in work.pids:
            return sessions[-1].pid
    return work.pids[0]


def _own(pid: int, name: str) -> ProcessIdentity:
    try:
        identity = identify(pid)
        owner = psutil.Process(pid).uids().real
    except (ProcessLookupError, psutil.Error) as error:
        raise RequestError(f"process {pid} of {name} has ended") from error
    # Root may signal any process, but a slip of the finger must not end another user's process.
    if owner != os.getuid():
        raise RequestError(f"process {pid} of {name} is not yours")
    if pid == os.getpid():
        raise RequestError("that is this screen itself; q closes it")
    return identity
