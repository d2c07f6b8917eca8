"""The garbage collector: what an object owns goes when the object does."""

from __future__ import annotations

from collections.abc import Iterator

from .kinds import KINDS, Kind
from .objects import Objects
from .store import Change, Thing


class GarbageCollector:
    """Deletes what was owned, or lets it go, as the owner's deletion asked."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._gone: dict[str, Thing] = {}
        self._marked: dict[str, tuple[Kind, Thing]] = {}

    def concerns(self, change: Change) -> list[tuple[str, str]]:
        """Return the owner that is gone or is marked, and what lost its owner."""
        thing = change.after or change.before or {}
        uid = thing["metadata"]["uid"]
        if change.after is None:
            self._gone[uid] = thing
            owners = thing["metadata"].get("ownerReferences") or ()
            return [("gone", uid), *(("marked", it["uid"]) for it in owners)]
        finalizers = thing["metadata"].get("finalizers") or ()
        if "deletionTimestamp" in thing["metadata"] and {"foregroundDeletion", "orphan"} & set(
            finalizers
        ):
            self._marked[uid] = (change.kind, thing)
            return [("marked", uid)]
        return []

    def look(self, token: tuple[str, str]) -> float | None:
        """Do what the deletion of an owner asks for."""
        what, uid = token
        with self._objects.store.changed:
            if what == "gone":
                self._gone.pop(uid, None)
                for kind, thing in self._owned(uid):
                    self._delete(kind, thing)
                return None
            found = self._marked.get(uid)
            if found is None:
                return None
            kind, owner = found
            metadata = owner["metadata"]
            there = self._objects.store.get(kind, metadata.get("namespace", ""), metadata["name"])
            if there is None or there["metadata"]["uid"] != uid:
                self._marked.pop(uid, None)
                return None
            owned = list(self._owned(uid))
            if "orphan" in (there["metadata"].get("finalizers") or ()):
                for other, thing in owned:
                    self._disown(other, thing, uid)
                self._drop(kind, there, "orphan")
                return None
            for other, thing in owned:
                self._delete(other, thing)
            if not list(self._owned(uid)):
                self._drop(kind, there, "foregroundDeletion")
        return None

    def _owned(self, uid: str) -> Iterator[tuple[Kind, Thing]]:
        for kind in KINDS:
            if not kind.is_stored or kind.plural == "events":
                continue
            for thing in self._objects.store.list(kind):
                owners = thing["metadata"].get("ownerReferences") or ()
                if any(it["uid"] == uid for it in owners):
                    yield kind, thing

    def _delete(self, kind: Kind, thing: Thing) -> None:
        metadata = thing["metadata"]
        if "deletionTimestamp" in metadata:
            return
        self._objects.delete(
            kind, metadata.get("namespace", ""), metadata["name"], propagation="Background"
        )

    def _disown(self, kind: Kind, thing: Thing, uid: str) -> None:
        owners = [it for it in thing["metadata"]["ownerReferences"] if it["uid"] != uid]
        self._objects.store.put(
            kind, {**thing, "metadata": thing["metadata"] | {"ownerReferences": owners}}
        )

    def _drop(self, kind: Kind, thing: Thing, finalizer: str) -> None:
        def without(old: Thing) -> Thing:
            old["metadata"]["finalizers"].remove(finalizer)
            return old

        metadata = thing["metadata"]
        self._objects.update(kind, metadata.get("namespace", ""), metadata["name"], without)
