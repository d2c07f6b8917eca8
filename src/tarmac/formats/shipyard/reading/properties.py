"""Every property of Batch Shipyard's files, from ``properties.yaml``, and the check of files."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import importlib.resources
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from tarmac.formats.shipyard.reading.dates import Date
from tarmac.formats.shipyard.report import Path, Report

_KINDS = ("str", "text", "int", "float", "bool", "any", "secret")
_LEAF = re.compile(
    r"(?P<kind>\S+)(?: (?P<low>\d*)\.\.(?P<high>\d*))?(?P<old> old)?(?: -- (?P<reason>\w+))?"
)
_NAMES = {
    "str": "a text",
    "secret": "a text",
    "text": "a text or a number",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
}
# Hints for a value of the wrong kind, by key.
_TIME = "write it as [d.]HH:mm:ss, such as 01:00:00"
_HINTS = {
    "gpus": "write all, disable, a number, or device=0,1",
    "max_wall_time": _TIME,
    "retention_time": _TIME,
}
_HONOURED = "honoured"
# Required names, each with the names before 3.0 that replace it.
_STAND_INS = {
    "remote_path": ("container", "file_share"),
    "local_path": ("destination",),
    "vm_configuration": ("publisher",),
    "arm_image_id": ("image_uris",),
}
_MAX_GUESSES = 500
_NOT_MERGED = ("depends_on", "depends_on_range", "multi_instance", "task_factory")


@dataclasses.dataclass(frozen=True)
class Property:
    """A property of Batch Shipyard's files.

    Attributes:
        kind: ``map``, ``list``, or a kind of scalar.
        required: Whether the mapping above must have the property.
        is_old: Whether Batch Shipyard 3.9.1 no longer accepts it.
        reason: Why it has no effect here. Empty if Tarmac honours it.
        choices: Valid texts. Empty if any text is valid.
        low: Smallest number allowed. Default: no bound.
        high: Largest number allowed. Default: no bound.
        children: Properties of a mapping's known keys, by key.
        wildcard: Property of all other keys of a mapping. None if it has known keys only.
        instead: Property of a value that may replace the mapping. None if only a mapping is
            allowed.
        items: Properties for the elements of a list, chosen by the element's kind.
    """

    kind: str
    required: bool = False
    is_old: bool = False
    reason: str = ""
    choices: Sequence[str] = ()
    low: float = -math.inf
    high: float = math.inf
    children: Mapping[str, Property] = dataclasses.field(default_factory=dict)
    wildcard: Property | None = None
    instead: Property | None = None
    items: Sequence[Property] = ()


@functools.cache
def all_properties() -> Mapping[str, Property]:
    """Return the top-level properties of each file: jobs, pool, config, credentials."""
    text = importlib.resources.files(__package__).joinpath("properties.yaml").read_text("utf-8")
    data = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506
    reasons = data.pop("reasons")
    del data["fragments"]
    return {name: _property(part, reasons, "") for name, part in data.items()}


def _property(data: Any, reasons: Mapping[str, str], inherited: str) -> Property:
    if isinstance(data, list):
        items = tuple(_property(part, reasons, inherited) for part in data)
        # A list has the reason of its items.
        return Property("list", reason=items[0].reason, items=items, is_old=items[0].is_old)
    if isinstance(data, dict):
        return _mapping(data, reasons, inherited)
    match = _LEAF.fullmatch(data)
    assert match is not None, data
    kind, choices = match["kind"], tuple[str, ...]()
    if kind not in _KINDS:
        kind, choices = "str", tuple(part for part in match["kind"].split("|") if part)
    return Property(
        kind,
        is_old=match["old"] is not None,
        reason=_reason(match["reason"], reasons, inherited),
        choices=choices,
        low=float(match["low"] or -math.inf),
        high=float(match["high"] or math.inf),
    )


def _mapping(data: Mapping[str, Any], reasons: Mapping[str, str], inherited: str) -> Property:
    reason = _reason(data.get("--"), reasons, inherited)
    children: dict[str, Property] = {}
    wildcard = instead = None
    for key, part in data.items():
        if key == "--":
            continue
        child = _property(part, reasons, reason)
        if key == "|":
            instead = child
        elif key.startswith("<"):
            wildcard = child
        else:
            children[key.rstrip("*")] = dataclasses.replace(child, required=key.endswith("*"))
    return Property("map", reason=reason, children=children, wildcard=wildcard, instead=instead)


def _reason(name: str | None, reasons: Mapping[str, str], inherited: str) -> str:
    if name is None:
        return inherited
    return "" if name == _HONOURED else reasons[name]


@functools.cache
def secret_names() -> Sequence[str]:
    """Return the names of all secret properties."""
    return sorted({name for part in all_properties().values() for name in _secrets_in(part)})


def _secrets_in(part: Property) -> Iterator[str]:
    for name, child in part.children.items():
        if child.kind == "secret":
            yield name
        yield from _secrets_in(child)
    for child in (*part.items, *((part.wildcard,) if part.wildcard is not None else ())):
        yield from _secrets_in(child)


def _is_old_dialect(value: Mapping[str, Any], report: Report) -> bool:
    """Return whether a configuration predates 3.0: JSON, unchecked names, tasks with ``image``."""
    jobs = value.get("job_specifications")
    tasks = [
        task
        for job in (jobs if isinstance(jobs, list) else ())
        if isinstance(job, dict) and isinstance(job.get("tasks"), list)
        for task in job["tasks"]
    ]
    is_old = any(isinstance(task, dict) and "image" in task for task in tasks)
    return is_old and report.is_json(("job_specifications",))


def check(value: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """Check a configuration against the properties.

    Args:
        value: Merged configuration of all files, as plain values.
        report: Receives the problems, and the properties without effect here.

    Returns:
        Only the valid parts: an invalid value is None, an empty element is left out of its list.
    """
    tops = {
        name: part for file in all_properties().values() for name, part in file.children.items()
    }
    checker = _Checker(report, is_old=_is_old_dialect(value, report))
    configuration = checker.mapping(value, Property("map", children=tops), ())
    assert isinstance(configuration, dict)
    return configuration


class _Checker:
    def __init__(self, report: Report, *, is_old: bool) -> None:
        self._report = report
        self._is_old = is_old
        self._num_unknown = 0

    def value(self, value: Any, wanted: Property, path: Path, reported: str = "") -> Any:
        """Return a valid value, or None for an invalid one.

        Args:
            value: Plain value from the file.
            wanted: Property that the value must match.
            path: Keys that lead to the value in the configuration.
            reported: Reason already reported for a value above. Default: none.
        """
        if value is None:
            return None
        if wanted.reason and wanted.reason != reported and _has_one_reason(wanted, wanted.reason):
            self._report.idle(path, wanted.reason)
            reported = wanted.reason
        if wanted.kind == "map":
            if wanted.instead is not None and not isinstance(value, dict):
                return self.value(value, wanted.instead, path, reported)
            return self.mapping(value, wanted, path, reported)
        if wanted.kind == "list":
            return self._list(value, wanted, path, reported)
        return self._scalar(value, wanted, path)

    def mapping(self, value: Any, wanted: Property, path: Path, reported: str = "") -> Any:
        """Return the valid parts of a mapping."""
        if not isinstance(value, dict):
            self._report.wrong(path, f"{_show(value, path)}expected names and their values")
            return None
        parts = {}
        for key, part in value.items():
            child = wanted.children.get(key, wanted.wildcard)
            if child is None:
                self._unknown(key, wanted, path)
            else:
                parts[key] = self.value(part, child, (*path, key), reported)
        for name, child in wanted.children.items():
            if child.required and value.get(name) is None:
                self._missing(name, value, path)
        return parts

    def _missing(self, name: str, value: Mapping[str, Any], path: Path) -> None:
        if not any(value.get(other) is not None for other in _STAND_INS.get(name, ())):
            where = (*path, name) if name in value else path
            self._report.wrong(where, f"{name} is missing", rests_on=())

    def _unknown(self, key: str, wanted: Property, path: Path) -> None:
        self._num_unknown += 1
        if self._num_unknown > _MAX_GUESSES:
            # The search for the nearest name would take longer than the rest of the check.
            self._say_unknown(key, path, "", "")
            return
        valid = [name for name, child in wanted.children.items() if not child.is_old]
        near = difflib.get_close_matches(key, valid, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"valid: {', '.join(sorted(valid))}"
        if path[-1:] == ("merge_task",) and key in _NOT_MERGED:
            hint = "a merge task is one task, which needs all others by itself"
        self._say_unknown(key, path, hint, f"; {hint}" if near else "")

    def _say_unknown(self, key: str, path: Path, hint: str, guess: str) -> None:
        if self._is_old:
            self._report.note((*path, key), f"is no property, and is kept{guess}")
        else:
            self._report.wrong((*path, key), "unknown property", hint)

    def _list(self, value: Any, wanted: Property, path: Path, reported: str) -> Any:
        if self._is_old and isinstance(value, str):
            # Batch Shipyard before 3.1 checked nothing and iterated over a text's characters.
            value = [*value]
        if not isinstance(value, list):
            self._report.wrong(path, f"{_show(value, path)}expected a list")
            return None
        parts = []
        for number, part in enumerate(value):
            kind = "list" if isinstance(part, list) else "map" if isinstance(part, dict) else ""
            item = next((item for item in wanted.items if item.kind == kind), wanted.items[0])
            if part is None:
                self._report.wrong((*path, number), "is empty")
            # An invalid part stays as None: later messages name parts by their number.
            parts.append(self.value(part, item, (*path, number), reported))
        return parts

    def _scalar(self, value: Any, wanted: Property, path: Path) -> Any:
        kind = wanted.kind
        if kind == "any":
            return value
        if kind == "float" and isinstance(value, str) and _number(value) is not None:
            # YAML 1.1 reads 1e-3 as text.
            value = _number(value)
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        is_text = isinstance(value, str) and not isinstance(value, Date)
        fits = {
            "str": is_text,
            "secret": is_text or is_number,
            "text": is_text or is_number,
            "int": isinstance(value, int) and is_number,
            "float": is_number,
            "bool": isinstance(value, bool),
        }[kind]
        shown = "" if kind == "secret" else _show(value, path)
        if not fits:
            is_plain = isinstance(value, (bool, int, float, Date))
            hint = _HINTS.get(str(path[-1]), "")
            if not hint and kind in ("str", "text") and is_plain and shown and not wanted.choices:
                text = str(value).lower() if isinstance(value, bool) else value
                hint = f"quote it: '{text}'"
            self._report.wrong(path, f"{shown}expected {_NAMES[kind]}", hint)
            return None
        if wanted.choices and value not in wanted.choices:
            near = difflib.get_close_matches(value, wanted.choices, n=1)
            hint = f"did you mean {near[0]!r}?" if near else ""
            self._report.wrong(path, f"{shown}expected one of {', '.join(wanted.choices)}", hint)
            return None
        if is_number and kind != "text" and not wanted.low <= value <= wanted.high:
            limit = (
                f"{wanted.low:g}" if math.isinf(wanted.high) else f"{wanted.low:g}..{wanted.high:g}"
            )
            bound = f"at least {limit}" if math.isinf(wanted.high) else limit
            if math.isinf(wanted.low):
                bound = "a number"
            self._report.wrong(path, f"{shown}expected {bound}")
            return None
        return value


def _has_one_reason(wanted: Property, reason: str) -> bool:
    """Return whether a property and all below it have no effect for the same reason."""
    parts = [*wanted.children.values(), *wanted.items]
    parts += [wanted.wildcard] if wanted.wildcard is not None else []
    return wanted.reason == reason and all(_has_one_reason(part, reason) for part in parts)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _show(value: Any, path: Path) -> str:
    """Return a value for a message; empty for a possible secret."""
    if path[:1] == ("credentials",) or not isinstance(value, (str, int, float, bool)):
        return ""
    text = repr(value).lower() if isinstance(value, bool) else repr(value)
    return f"{text if len(text) <= 80 else text[:77] + '...'}: "


def without_secrets(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration without credentials and other secrets."""
    tops = {
        name: part for file in all_properties().values() for name, part in file.children.items()
    }
    configuration = _pruned(value, Property("map", children=tops))
    assert isinstance(configuration, dict)
    configuration.pop("credentials", None)
    return configuration


def _pruned(value: Any, wanted: Property | None) -> Any:
    wanted = wanted or Property("any")
    if isinstance(value, dict):
        children = {key: wanted.children.get(key, wanted.wildcard) for key in value}
        return {
            key: _pruned(part, children[key])
            for key, part in value.items()
            if (child := children[key]) is None or child.kind != "secret"
        }
    if isinstance(value, Date):
        return str(value)
    if isinstance(value, list):
        item = next((item for item in wanted.items if item.kind == "map"), None)
        return [_pruned(part, item) for part in value]
    return value
