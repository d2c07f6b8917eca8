"""What a cluster holds: objects, the revision of each, and what became of them since.

Objects in the store are never changed in place: who wants another stores a new one.
"""

from __future__ import annotations

import datetime
import itertools
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from .errors import expired
from .kinds import KINDS, Kind
from .selection import Selects

Thing = dict[str, Any]
Key = tuple[str, str]

# Of one kind. The real server's watch cache starts with 100 and grows to 102,400.
_HISTORY = 100_000


class Change(NamedTuple):
    """What became of an object.

    Attributes:
        revision: Of the whole store, after it.
        kind: Of the object.
        before: None for a new one.
        after: None for one that is gone.
    """

    revision: int
    kind: Kind
    before: Thing | None
    after: Thing | None

    def as_event(self, selects: Selects | None) -> Thing | None:
        """Return what a watch with a selector says of it; None where it says nothing."""
        was = self.before is not None and (selects is None or selects(self.before))
        is_now = self.after is not None and (selects is None or selects(self.after))
        if is_now:
            return {"type": "MODIFIED" if was else "ADDED", "object": self.after}
        if not was:
            return None
        gone = dict(self.after or self.before or {})
        gone["metadata"] = gone["metadata"] | {"resourceVersion": str(self.revision)}
        return {"type": "DELETED", "object": gone}


class Store:
    """Objects by kind, namespace and name.

    Attributes:
        changed: Is held for everything, and told of every change.
        revision: Of the last change.
    """

    def __init__(self) -> None:
        self.changed = threading.Condition(threading.RLock())
        self.revision = 1
        self._things: dict[Kind, dict[Key, Thing]] = {}
        self._history: dict[Kind, deque[Change]] = {}
        self._compacted: dict[Kind, int] = {}
        self._listeners: list[Callable[[Change], None]] = []

    def listen(self, listener: Callable[[Change], None]) -> None:
        """Call ``listener`` with every change, while ``changed`` is held."""
        self._listeners.append(listener)

    def get(self, kind: Kind, namespace: str, name: str) -> Thing | None:
        """Return an object; None where there is none."""
        return self._things.get(kind, {}).get((namespace, name))

    def list(self, kind: Kind, namespace: str = "", selects: Selects | None = None) -> list[Thing]:
        """Return the objects of a namespace, or of all, in the order of their names."""
        with self.changed:
            found = [
                thing
                for (there, _), thing in self._things.get(kind, {}).items()
                if namespace in ("", there) and (selects is None or selects(thing))
            ]
        return sorted(
            found, key=lambda it: (it["metadata"].get("namespace", ""), it["metadata"]["name"])
        )

    def put(self, kind: Kind, thing: Mapping[str, Any]) -> Thing:
        """Store an object, new or not, and return it with its revision."""
        with self.changed:
            key = _key(kind, thing)
            things = self._things.setdefault(kind, {})
            before = things.get(key)
            if before is not None and _same(before, thing):
                return before
            self.revision += 1
            after = dict(thing)
            after["metadata"] = thing["metadata"] | {"resourceVersion": str(self.revision)}
            things[key] = after
            self._tell(Change(self.revision, kind, before, after))
            return after

    def remove(self, kind: Kind, thing: Mapping[str, Any]) -> None:
        """Take an object away."""
        with self.changed:
            before = self._things.get(kind, {}).pop(_key(kind, thing), None)
            if before is not None:
                self.revision += 1
                self._tell(Change(self.revision, kind, before, None))

    def compact(self) -> None:
        """Forget what became of objects so far: watches from before now are told 410."""
        with self.changed:
            self.revision += 1
            self._history.clear()
            self._compacted = dict.fromkeys(KINDS, self.revision)
            self.changed.notify_all()

    def since(self, kind: Kind, revision: int) -> list[Change]:
        """Return the changes after a revision.

        Raises:
            ApiError: 410, where some are forgotten.
        """
        with self.changed:
            oldest = self._compacted.get(kind, 0)
            if revision < oldest:
                raise expired(revision, oldest)
            new = itertools.takewhile(
                lambda change: change.revision > revision, reversed(self._history.get(kind, ()))
            )
            return list(new)[::-1]

    def _tell(self, change: Change) -> None:
        history = self._history.setdefault(change.kind, deque())
        history.append(change)
        if len(history) > _HISTORY:
            self._compacted[change.kind] = history.popleft().revision
        for listener in self._listeners:
            listener(change)
        self.changed.notify_all()


def _key(kind: Kind, thing: Mapping[str, Any]) -> Key:
    metadata = thing["metadata"]
    return (metadata.get("namespace", "") if kind.is_namespaced else "", metadata["name"])


def _same(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    def bare(thing: Mapping[str, Any]) -> Thing:
        metadata = {k: v for k, v in thing["metadata"].items() if k != "resourceVersion"}
        return {**thing, "metadata": metadata}

    return bare(before) == bare(after)


def now(shift_s: float = 0) -> str:
    """Return the time as the API writes it."""
    there = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=shift_s)
    return there.strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds_since(stamp: str) -> float:
    """Return how long ago a time of the API was."""
    there = datetime.datetime.fromisoformat(stamp)
    return time.time() - there.timestamp()


def new_uid() -> str:
    """Return an identity for an object."""
    return str(uuid.uuid4())


def conditions(thing: Mapping[str, Any]) -> Iterator[Thing]:
    """Yield the conditions of an object that are true."""
    for condition in thing.get("status", {}).get("conditions") or ():
        if condition["status"] == "True":
            yield condition
