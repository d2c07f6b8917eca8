"""User-written overlays of a pod template: validation and merging.

The fields are those of Kubernetes 1.37 (``pod_fields.json``). Merging follows kubectl's strategic
merge: mappings key by key, lists with a merge key item by item, every other list as a whole.
"""

from __future__ import annotations

import difflib
import functools
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

_ROOT = "PodTemplateSpec"
_RELEASE = "1.37"
_LIST = re.compile(r"\[(.+?)(?: by (\w+))?\]")
_MAP = re.compile(r"\{(.+)\}")

# The Python types of each plain kind, and its description in messages.
_PLAIN: Mapping[str, tuple[tuple[type, ...], str]] = {
    "text": ((str,), "a text; a number or a switch needs quotes"),
    "integer": ((int,), "a whole number"),
    "number": ((int, float), "a number"),
    "switch": ((bool,), "true or false"),
    "quantity": ((str, int, float), "a number or a text"),
}

Place = tuple[str | int, ...]


class Fault(NamedTuple):
    """An error in an overlay.

    Attributes:
        path: Keys and indexes from the overlay's root.
        message: Description of the error and of the expected value.
    """

    path: Place
    message: str


def faults_of(overlay: Any) -> Iterator[Fault]:
    """Yield the errors in an overlay of a pod template.

    Args:
        overlay: Part of a pod template with ``metadata``, ``spec`` or both.
    """
    yield from _faults(overlay, _ROOT, ())


def merged(base: Mapping[str, Any], overlay: Mapping[str, Any]) -> dict[str, Any]:
    """Return a pod template merged with an overlay; both arguments stay unchanged.

    Args:
        base: Pod template to merge into, as the API has it.
        overlay: Overlay without errors. A value of None removes the field from the template.
    """
    result: dict[str, Any] = _merged(base, overlay, _ROOT)
    return result


@functools.cache
def _kinds() -> dict[str, dict[str, str]]:
    path = Path(__file__).with_name("pod_fields.json")
    kinds: dict[str, dict[str, str]] = json.loads(path.read_text(encoding="utf-8"))
    return kinds


def _faults(value: Any, kind: str, path: Place) -> Iterator[Fault]:
    if value is None:
        return
    if kind in _PLAIN:
        yield from _plain_faults(value, kind, path)
    elif match := _LIST.fullmatch(kind):
        if not isinstance(value, list):
            yield Fault(path, "expected a list")
            return
        for number, item in enumerate(value):
            yield from _item_faults(item, match[1], match[2], (*path, number))
    elif not isinstance(value, dict):
        yield Fault(path, "expected keys and their values")
    elif match := _MAP.fullmatch(kind):
        for key, part in value.items():
            yield from _faults(part, match[1], (*path, key))
    else:
        fields = _kinds()[kind]
        for key, part in value.items():
            if key in fields:
                yield from _faults(part, fields[key], (*path, key))
            else:
                yield Fault((*path, key), _unknown(str(key), kind, fields))


def _plain_faults(value: Any, kind: str, path: Place) -> Iterator[Fault]:
    types, expected = _PLAIN[kind]
    # In Python a bool is an int.
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        yield Fault(path, f"expected {expected}")


def _item_faults(item: Any, kind: str, key: str | None, path: Place) -> Iterator[Fault]:
    yield from _faults(item, kind, path)
    if item is None:
        yield Fault(path, "is empty")
    elif key and isinstance(item, dict) and item.get(key) is None:
        yield Fault(path, f"{key} is missing, which identifies the items of its list")


def _unknown(key: str, kind: str, fields: Mapping[str, str]) -> str:
    if key.startswith("$"):
        return "is a directive of kubectl's patches, which are not taken here"
    near = difflib.get_close_matches(key, fields, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"it takes {', '.join(fields)}"
    return f"is no field of {kind} in Kubernetes {_RELEASE}: {hint}"


def _merged(base: Any, overlay: Any, kind: str) -> Any:
    match = _LIST.fullmatch(kind)
    if match and match[2] and isinstance(base, list):
        return _merged_list(base, overlay, match[1], match[2])
    if isinstance(base, dict) and isinstance(overlay, dict):
        is_map = _MAP.fullmatch(kind)
        result = {**base}
        for key, part in overlay.items():
            inner = is_map[1] if is_map else _kinds()[kind][key]
            if part is None:
                result.pop(key, None)
            else:
                result[key] = _merged(result.get(key), part, inner)
        return result
    return overlay


def _merged_list(base: list[Any], overlay: list[Any], kind: str, key: str) -> list[Any]:
    result = [*base]
    places = {item[key]: number for number, item in enumerate(base)}
    for item in overlay:
        if item[key] in places:
            number = places[item[key]]
            result[number] = _merged(result[number], item, kind)
        else:
            places[item[key]] = len(result)
            result.append(item)
    return result
