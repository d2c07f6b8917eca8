"""A stand-in for Kueue: what has a queue's label waits, suspended, until it is admitted.

It makes no Workload objects: what it does to a Job is all that it does.
"""

from __future__ import annotations

from .kinds import JOB, JOBSET, Kind
from .objects import Objects
from .store import Change, Thing

QUEUE = "kueue.x-k8s.io/queue-name"
_KINDS = (JOB, JOBSET)


class Kueue:
    """Holds the Jobs of queues.

    Attributes:
        is_open: Whether Jobs are admitted as they come; else only by ``admit``.
    """

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self.is_open = False

    def suspend_new(self, kind: Kind, thing: Thing) -> None:
        """Suspend a new Job of a queue, as Kueue's webhook does."""
        if kind in _KINDS and QUEUE in (thing["metadata"].get("labels") or {}):
            thing["spec"]["suspend"] = True

    def concerns(self, change: Change) -> list[tuple[str, str]]:
        """Return a new Job of a queue."""
        if change.kind not in _KINDS or change.before is not None or change.after is None:
            return []
        metadata = change.after["metadata"]
        is_queued = QUEUE in (metadata.get("labels") or {})
        return [(metadata["namespace"], metadata["name"])] if is_queued else []

    def look(self, token: tuple[str, str]) -> float | None:
        """Admit a Job where that needs nobody."""
        if self.is_open:
            self.admit(token[1], token[0])
        return None

    def admit(self, name: str, namespace: str = "default") -> None:
        """Let a Job begin."""
        self._set(namespace, name, is_suspended=False)

    def evict(self, name: str, namespace: str = "default") -> None:
        """Suspend a Job again: its pods go, and count for nothing."""
        self._set(namespace, name, is_suspended=True)

    def _set(self, namespace: str, name: str, *, is_suspended: bool) -> None:
        def change(job: Thing) -> Thing:
            job["spec"]["suspend"] = is_suspended
            return job

        there = self._objects.store.get(JOBSET, namespace, name)
        self._objects.update(JOB if there is None else JOBSET, namespace, name, change)
