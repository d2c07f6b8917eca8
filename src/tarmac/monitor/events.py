"""Events in snapshots: idle, finding, finished, stalled. Pure.

A condition is reported once, when it begins. If it ends and begins again, it is reported again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from tarmac.monitor.sinks import OUTLET
from tarmac.monitor.snapshot import HostSnapshot, Snapshot, Work

EVENTS = ("idle", "finding", "finished", "stalled")

# Statuses of runs that have not ended.
_UNDER_WAY = frozenset(
    {"running", "queued", "waiting", "starting", "detached", "pending", "unreadable"}
)

# Each finding of these codes is a new event. A check's finding with other figures is not.
_HAPPENED = frozenset({"xid", "ecc", "row-remap"})


@dataclasses.dataclass(frozen=True)
class Event:
    """A condition that has begun, or work that has ended.

    Attributes:
        event: Kind of event, a name of `EVENTS`.
        host: Name of the host that the event is on.
        subject: Name of a run, UUID of a GPU, or code of a finding.
        text: Description of the event, in a sentence.
        facts: Facts about the subject, as in the JSON of a snapshot.
    """

    event: str
    host: str
    subject: str
    text: str
    facts: Mapping[str, object] = dataclasses.field(default_factory=dict)


def idle_ones(snapshot: Snapshot, idle_after_s: float) -> tuple[Event, ...]:
    """Return events for work that holds idle GPUs, and for other GPUs that are held but idle."""
    return tuple(
        event for host in snapshot.hosts if not host.problem for event in _idle(host, idle_after_s)
    )


class EventWatch:
    """A detector of new events from one snapshot to the next.

    Args:
        idle_after_s: Seconds after which a held GPU counts as idle.
    """

    def __init__(self, idle_after_s: float) -> None:
        self._idle_after_s = idle_after_s
        # By host: current conditions, and work that has not ended.
        self._known: dict[str, frozenset[tuple[str, ...]]] = {}
        self._under_way: dict[str, dict[str, Work]] = {}

    def new(self, snapshot: Snapshot) -> tuple[Event, ...]:
        """Return the events since the last snapshot; a host with a problem has none."""
        events: list[Event] = []
        for host in snapshot.hosts:
            if not host.problem:
                events += self._of_host(host)
        return tuple(events)

    def _of_host(self, host: HostSnapshot) -> Iterator[Event]:
        name = host.host.name
        holds = {
            (event.event, event.subject): event
            for event in (*_idle(host, self._idle_after_s), *_stalled(host))
        } | dict(_found(host))
        known = self._known.get(name, frozenset())
        self._known[name] = frozenset(holds)
        yield from (event for key, event in holds.items() if key not in known)
        before = self._under_way.get(name, {})
        here = {work.id: work for work in host.work}
        self._under_way[name] = {work.id: work for work in host.work if _is_under_way(work)}
        for work_id, work in before.items():
            waits = work_id in here and here[work_id].status in _UNDER_WAY
            if work_id not in self._under_way[name] and not waits:
                yield _finished(name, here.get(work_id, work), is_seen=work_id in here)


def _is_under_way(work: Work) -> bool:
    """Return whether the work's end is an event; snapshots list only the first waiting parts."""
    return work.status in _UNDER_WAY and not (work.parent is not None and work.state == "waiting")


def _idle(host: HostSnapshot, idle_after_s: float) -> Iterator[Event]:
    uuids: set[str] = set()
    for work in host.work:
        if work.state == "idle":
            uuids.update(work.gpu_uuids)
            for_s = "" if work.idle_s is None else f" for {work.idle_s:.0f} s"
            text = f"{work.kind} {work.id} holds {_count(work.gpu_uuids)} and does nothing{for_s}"
            yield _of_work("idle", host.host.name, work, text)
    for gpu in host.gpus:
        idle_s = host.gpu_idle_s.get(gpu.uuid)
        is_held = host.gpu_states.get(gpu.uuid) == "held"
        if is_held and gpu.uuid not in uuids and idle_s is not None and idle_s >= idle_after_s:
            users = sorted(
                {row.user for row in host.processes if row.gpu_uuid == gpu.uuid and row.user}
            )
            by = f" by {', '.join(users)}" if users else ""
            text = f"GPU {gpu.index} is held{by} and does nothing for {idle_s:.0f} s"
            facts = {"gpu_index": gpu.index, "idle_s": idle_s, "users": users}
            yield Event("idle", host.host.name, gpu.uuid, text, facts)


def _found(host: HostSnapshot) -> Iterator[tuple[tuple[str, ...], Event]]:
    """Yield the findings as events, each with its identity."""
    for finding in host.findings:
        if finding.code != OUTLET and finding.level != "note":
            facts = {
                "code": finding.code,
                "level": finding.level,
                "command": finding.command,
                "gpu_uuid": finding.gpu_uuid,
                "found_at": None if finding.at is None else finding.at.isoformat(),
            }
            subject = finding.gpu_uuid or finding.code
            key: tuple[str, ...] = ("finding", finding.code, subject)
            if finding.code in _HAPPENED:
                key = (*key, finding.text, str(finding.at))
            yield key, Event("finding", host.host.name, subject, finding.text, facts)


def _stalled(host: HostSnapshot) -> Iterator[Event]:
    for work in host.work:
        if work.state == "hung":
            for_s = "" if work.quiet_s is None else f" for {work.quiet_s:.0f} s"
            text = f"{work.kind} {work.id} gives no sign of life{for_s}"
            yield _of_work("stalled", host.host.name, work, text)


def _finished(host: str, work: Work, *, is_seen: bool) -> Event:
    """Return the event of work that has ended; its status is known only while it is listed."""
    status = work.status if is_seen else None
    text = f"{work.kind} {work.id} has ended" + (f": {status}" if status else "")
    return _of_work("finished", host, dataclasses.replace(work, status=status or "ended"), text)


def _of_work(event: str, host: str, work: Work, text: str) -> Event:
    facts: dict[str, object] = {
        name: getattr(work, name)
        for name in (
            *("id", "kind", "path", "status", "state", "user", "epoch", "epochs", "loss"),
            *("metric_name", "metric", "idle_s", "quiet_s", "note"),
        )
    }
    return Event(event, host, work.id, text, {**facts, "gpu_uuids": list(work.gpu_uuids)})


def _count(gpus: tuple[str, ...]) -> str:
    return "a GPU" if len(gpus) == 1 else f"{len(gpus)} GPUs"
