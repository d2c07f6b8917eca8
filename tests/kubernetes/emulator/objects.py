"""What may be done with objects: what a request asks for, without HTTP.

Controllers call this as well, so that the rules hold for them too.
"""

from __future__ import annotations

import copy
import secrets
from collections.abc import Callable, Mapping
from typing import Any

from . import patches
from .defaults import as_stored, with_defaults
from .errors import ApiError, already_exists, conflict, invalid, not_found
from .kinds import JOB, NAMESPACE, POD, Kind
from .store import Store, Thing, new_uid, now
from .validation import checked_new, checked_update

# As the real server's names.SimpleNameGenerator: no vowels, nothing that looks like another.
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_FINALIZERS = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}
_OVER = ("Succeeded", "Failed")

# Sees an object before it is stored, and may raise.
Admits = Callable[[Kind, Thing], None]


class Objects:
    """The objects of a cluster, and the rules of changing them.

    Attributes:
        store: Where they are.
        admission: What sees each new object before it is stored; may refuse.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.admission: list[Admits] = []

    def read(self, kind: Kind, namespace: str, name: str) -> Thing:
        """Return an object.

        Raises:
            ApiError: 404.
        """
        thing = self.store.get(kind, namespace, name)
        if thing is None:
            raise not_found(kind.qualified, name)
        return thing

    def create(
        self, kind: Kind, namespace: str, thing: Mapping[str, Any], *, dry_run: bool = False
    ) -> Thing:
        """Store a new object and return it as stored.

        Raises:
            ApiError: It is refused.
        """
        new = copy.deepcopy(dict(thing))
        metadata = new["metadata"] = dict(new.get("metadata") or {})
        if kind.is_namespaced:
            there = metadata.setdefault("namespace", namespace)
            if there != namespace:
                raise ApiError(
                    400,
                    "the namespace of the provided object does not match the namespace sent "
                    "on the request",
                )
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = metadata["generateName"] + _suffix()
        metadata |= {"uid": new_uid(), "creationTimestamp": now()}
        for key in (
            "resourceVersion",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "managedFields",
        ):
            metadata.pop(key, None)
        if "spec" in new:
            metadata["generation"] = 1
        with self.store.changed:
            if kind.is_namespaced and self.store.get(NAMESPACE, "", namespace) is None:
                raise not_found("namespaces", namespace)
            if metadata.get("name") and self.store.get(kind, namespace, metadata["name"]):
                raise already_exists(kind.qualified, metadata["name"])
            new = with_defaults(kind, new)
            if causes := checked_new(kind, new):
                raise invalid(kind.qualified_kind, metadata.get("name", ""), causes)
            new = as_stored(kind, new)
            for admits in self.admission:
                admits(kind, new)
            return new if dry_run else self.store.put(kind, new)

    def update(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        change: Callable[[Thing], Any],
        *,
        subresource: str = "",
        dry_run: bool = False,
    ) -> Thing:
        """Store what ``change`` makes of an object, and return it.

        Args:
            kind: Of the object.
            namespace: Of the object.
            name: Of the object.
            change: Takes a copy, and returns the new one.
            subresource: ``status`` for a change of the status alone; else the status stays.
            dry_run: Store nothing.
        """
        with self.store.changed:
            old = self.read(kind, namespace, name)
            new = change(copy.deepcopy(old))
            self._check_version(kind, old, new)
            if subresource == "status":
                metadata = old["metadata"]
                if new["metadata"].get("annotations"):
                    metadata = metadata | {"annotations": new["metadata"]["annotations"]}
                new = {**old, "status": new.get("status", {}), "metadata": metadata}
            else:
                new = self._whole(kind, old, new)
            if causes := checked_update(kind, old, new, subresource):
                raise invalid(kind.qualified_kind, name, causes)
            if dry_run:
                return new
            if self._is_done_with(new):
                self.store.remove(kind, new)
                return new
            return self.store.put(kind, new)

    def patch(
        self, kind: Kind, namespace: str, name: str, patch: Any, content_type: str, **options: Any
    ) -> Thing:
        """Patch an object, and return it."""
        return self.update(
            kind, namespace, name, lambda old: patches.patched(old, patch, content_type), **options
        )

    def set_status(self, kind: Kind, thing: Mapping[str, Any], status: Mapping[str, Any]) -> None:
        """Store a new status, if the object is still there."""
        metadata = thing["metadata"]
        with self.store.changed:
            at = self.store.get(kind, metadata.get("namespace", ""), metadata["name"])
            if at is not None and at["metadata"]["uid"] == metadata["uid"]:
                self.store.put(kind, {**at, "status": dict(status)})

    def delete(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        *,
        grace_s: int | None = None,
        propagation: str | None = None,
        preconditions: Mapping[str, str] | None = None,
        dry_run: bool = False,
    ) -> Thing:
        """Delete an object, or mark it for deletion, and return it as it was last."""
        with self.store.changed:
            old = self.read(kind, namespace, name)
            uid = (preconditions or {}).get("uid", old["metadata"]["uid"])
            if uid != old["metadata"]["uid"]:
                raise conflict(
                    kind.qualified_kind,
                    name,
                    f"the UID in the precondition ({uid}) does not match the UID in record "
                    f"({old['metadata']['uid']}). The object might have been deleted and then "
                    "recreated",
                )
            if dry_run:
                return old
            new = {**old, "metadata": dict(old["metadata"])}
            metadata = new["metadata"]
            # For jobs of batch/v1 the default has stayed Orphan (pkg/registry/batch/job).
            propagation = propagation or ("Orphan" if kind is JOB else "Background")
            finalizer = _FINALIZERS.get(propagation)
            finalizers = list(metadata.get("finalizers") or ())
            if finalizer and finalizer not in finalizers and _may_own(kind):
                metadata["finalizers"] = [*finalizers, finalizer]
            grace = _grace(kind, old, grace_s)
            known = metadata.get("deletionGracePeriodSeconds")
            if known is not None:
                grace = min(grace, known)
            if "deletionTimestamp" not in metadata or grace != known:
                metadata["deletionTimestamp"] = now(grace)
                metadata["deletionGracePeriodSeconds"] = grace
                if "generation" in metadata and known is None:
                    metadata["generation"] += 1
            if self._is_done_with(new):
                if kind is POD:
                    # Watchers see that its grace has ended before they see that it is gone.
                    self.store.put(kind, new)
                self.store.remove(kind, new)
                return new
            return self.store.put(kind, new)

    @staticmethod
    def _is_done_with(thing: Mapping[str, Any]) -> bool:
        metadata = thing["metadata"]
        return (
            "deletionTimestamp" in metadata
            and not metadata.get("finalizers")
            and not metadata.get("deletionGracePeriodSeconds")
        )

    @staticmethod
    def _check_version(kind: Kind, old: Thing, new: Thing) -> None:
        metadata = new.setdefault("metadata", {})
        name = old["metadata"]["name"]
        if metadata.get("uid", old["metadata"]["uid"]) != old["metadata"]["uid"]:
            where = "/".join(filter(None, (kind.plural, old["metadata"].get("namespace"), name)))
            why = (
                f"StorageError: invalid object, Code: 4, Key: /registry/{where}, "
                "ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in "
                f"precondition: {metadata['uid']}, UID in object meta: {old['metadata']['uid']}"
            )
            raise conflict(kind.qualified, name, why)
        version = metadata.get("resourceVersion")
        if version not in (None, "", "0", old["metadata"]["resourceVersion"]):
            raise conflict(kind.qualified, name)

    @staticmethod
    def _whole(kind: Kind, old: Thing, new: Thing) -> Thing:
        if kind.subresources and "status" in kind.subresources:
            new = {**new, "status": old.get("status", {})}
        kept = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
        metadata = dict(new["metadata"])
        for key in (*kept, "namespace", "name", "generation"):
            metadata.pop(key, None)
            if key in old["metadata"]:
                metadata[key] = old["metadata"][key]
        metadata.pop("managedFields", None)
        if new.get("spec") != old.get("spec") and "generation" in metadata:
            metadata["generation"] += 1
        return {**new, "metadata": metadata}


def _may_own(kind: Kind) -> bool:
    return kind.plural in ("jobs", "daemonsets", "configmaps", "secrets", "services", "pods")


def _grace(kind: Kind, thing: Mapping[str, Any], asked: int | None) -> int:
    """Return the seconds that an object has to end (podStrategy.CheckGracefulDelete)."""
    if kind is not POD:
        return 0
    is_over = thing.get("status", {}).get("phase") in _OVER
    if not thing["spec"].get("nodeName") or is_over:
        return 0
    return (
        asked if asked is not None else int(thing["spec"].get("terminationGracePeriodSeconds", 30))
    )


def _suffix() -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(5))
