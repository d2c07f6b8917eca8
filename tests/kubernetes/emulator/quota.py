"""Quotas on how many objects a namespace has, and on what its pods ask for."""

from __future__ import annotations

from decimal import Decimal

from .errors import forbidden
from .kinds import POD, QUOTA, Kind
from .objects import Objects
from .quantities import Amounts, amount, pod_requests, written
from .store import Change, Thing

_COUNTED = ("pods", "secrets", "configmaps", "services")


class Quotas:
    """Refuses what a quota has no room for, and keeps the quotas' status up to date."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def admit(self, kind: Kind, thing: Thing) -> None:
        """Refuse an object.

        Raises:
            ApiError: 403.
        """
        namespace = thing["metadata"].get("namespace", "")
        for quota in self._objects.store.list(QUOTA, namespace) if namespace else ():
            hard = {name: amount(text) for name, text in quota["spec"]["hard"].items()}
            team, name = quota["metadata"]["name"], thing["metadata"].get("name", "")
            if kind is POD and (unsaid := _unsaid(thing["spec"], hard)):
                raise forbidden(kind.qualified, name, f"failed quota: {team}: {unsaid}")
            wanted = {name: much for name, much in _asked(kind, thing).items() if name in hard}
            used = self._used(namespace)
            over = sorted(
                name for name, much in wanted.items() if used.get(name, 0) + much > hard[name]
            )
            if over:
                told = {
                    word: ",".join(
                        f"{name}={written(of.get(name, Decimal(0)), name.rpartition('.')[2])}"
                        for name in over
                    )
                    for word, of in (("requested", wanted), ("used", used), ("limited", hard))
                }
                words = ", ".join(f"{word}: {text}" for word, text in told.items())
                raise forbidden(kind.qualified, name, f"exceeded quota: {team}, {words}")

    def concerns(self, change: Change) -> list[tuple[str, str]]:
        """Return the quota that changed, or those of a namespace whose objects did."""
        thing = change.after or change.before or {}
        if change.kind is QUOTA or change.kind.plural in _COUNTED:
            namespace = thing["metadata"].get("namespace", "")
            return [(namespace, "")] if self._objects.store.list(QUOTA, namespace) else []
        return []

    def look(self, token: tuple[str, str]) -> float | None:
        """Say what is used."""
        store = self._objects.store
        with store.changed:
            used = self._used(token[0])
            for quota in store.list(QUOTA, token[0]):
                hard = quota["spec"]["hard"]
                said = {
                    name: written(used.get(name, Decimal(0)), name.rpartition(".")[2])
                    for name in hard
                }
                self._objects.set_status(QUOTA, quota, {"hard": hard, "used": said})
        return None

    def _used(self, namespace: str) -> Amounts:
        result: Amounts = {}
        for kind in (it for it in _kinds()):
            for thing in self._objects.store.list(kind, namespace):
                for name, much in _asked(kind, thing).items():
                    result[name] = result.get(name, Decimal(0)) + much
        return result


def _unsaid(spec: Thing, hard: Amounts) -> str:
    """Return what containers must say of themselves beside a quota (podEvaluator.Constraints)."""
    missing: dict[str, set[str]] = {}
    for name in sorted(hard):
        side, _, what = name.rpartition(".")
        if what in ("cpu", "memory") and side in ("", "requests", "limits"):
            for container in [*(spec.get("initContainers") or ()), *spec["containers"]]:
                resources = container.get("resources") or {}
                if what not in (resources.get(side or "requests") or {}):
                    missing.setdefault(name, set()).add(container["name"])
    told = "; ".join(f"{name} for: {','.join(sorted(of))}" for name, of in missing.items())
    return told and f"must specify {told}"


def _kinds() -> list[Kind]:
    from .kinds import KINDS

    return [kind for kind in KINDS if kind.plural in (*_COUNTED, "jobs")]


def _asked(kind: Kind, thing: Thing) -> Amounts:
    """Return what an object counts for, by the names that quotas have for it."""
    if kind is not POD:
        return {kind.plural: Decimal(1), f"count/{kind.qualified}": Decimal(1)}
    if thing["status"].get("phase") in ("Succeeded", "Failed"):
        return {"count/pods": Decimal(1)}
    result = {"pods": Decimal(1), "count/pods": Decimal(1)}
    for side in ("requests", "limits"):
        for name, much in pod_requests(thing["spec"], side).items():
            result[f"{side}.{name}"] = much
            if side == "requests":
                result[name] = much
    return result
