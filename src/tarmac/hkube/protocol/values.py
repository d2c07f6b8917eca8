"""Plain values as JSON, MessagePack or BSON, in the form of HKube's encodings.

Values are None, bool, int, float, str, bytes, lists, and dicts with text keys. Untrusted data is
decoded to these types or refused.

Example:
    >>> load_value(dump_value({"loss": 0.5}, "json"), "json")
    {'loss': 0.5}

Source: kube-HPC/encoding.hkube at 4ce0a2c; hkube_python_wrapper 2.4.2, util/encoding.py.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Callable, Iterator
from typing import Any, Literal

import bson
import msgpack

from tarmac.hkube.protocol.messages import ProtocolError

Encoding = Literal["json", "msgpack", "bson"]
ENCODINGS: tuple[Encoding, ...] = ("json", "msgpack", "bson")

# Above the nesting of real data, and well below the limits of Python's recursion and MessagePack's
# packer (511), so that storing or sending a value does not fail.
MAX_NESTING = 200

_CONTAINERS = {dict, list}
# Int64 is BSON's subclass of int.
_LEAVES = {type(None), bool, int, float, str, bytes, bson.Int64}
_INT64 = range(-(2**63), 2**63)

_TO_JSON = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
_TO_UNICODE_JSON = json.JSONEncoder(ensure_ascii=False)


def dump_value(value: Any, encoding: Encoding) -> str | bytes:
    """Encode a plain value.

    As in HKube, which is JavaScript: JSON has null for NaN and infinities, and the binary encodings
    have a float for an integer of more than 64 bits.

    Returns:
        Text for JSON, otherwise bytes.

    Raises:
        ProtocolError: The encoding cannot carry the value; the message names the part.
    """
    dump = _DUMPS[encoding]
    try:
        try:
            return dump(value)
        except (ValueError, OverflowError, bson.errors.BSONError):
            return dump(_as_javascript(value, encoding))
    except RecursionError as error:
        raise ProtocolError(_too_deep()) from error
    except (TypeError, ValueError, OverflowError, bson.errors.BSONError) as error:
        raise ProtocolError(_why_not(value, encoding, error)) from error


def load_value(data: str | bytes | memoryview, encoding: Encoding) -> Any:
    """Decode an untrusted value.

    Other values are converted as in HKube: dates become ISO 8601 text; BSON's identifiers, decimals
    and numeric keys become text. Lone surrogates, which no encoding can carry, become U+FFFD.

    Raises:
        ProtocolError: The data is invalid, or nested more than `MAX_NESTING` deep.
    """
    try:
        value = _load_json(data) if encoding == "json" else _load_binary(data, encoding)
        if not _is_plain(value):
            value = _as_plain(value)
    except ProtocolError:
        raise
    except RecursionError as error:
        raise ProtocolError(_too_deep()) from error
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        TypeError,
        ValueError,
        bson.errors.BSONError,
        msgpack.exceptions.UnpackException,
    ) as error:
        raise ProtocolError(f"it is not {_NAMES[encoding]}: {_first_line(error)}") from error
    return value


_NAMES: dict[Encoding, str] = {"json": "JSON", "msgpack": "MessagePack", "bson": "BSON"}


def _dump_msgpack(value: Any) -> bytes:
    packed: bytes = msgpack.packb(value, use_bin_type=True)
    return packed


def _dump_bson(value: Any) -> bytes:
    # A BSON document must be a mapping, so HKube wraps each value.
    return bson.encode({"data": value})


_DUMPS: dict[Encoding, Callable[[Any], str | bytes]] = {
    "json": _TO_JSON.encode,
    "msgpack": _dump_msgpack,
    "bson": _dump_bson,
}


def _load_json(data: str | bytes | memoryview) -> Any:
    text = data if isinstance(data, str) else str(data, "utf-8")
    value = json.loads(text)
    if "\\ud" in text or "\\uD" in text:
        return _without_halves(value)
    return value


def _load_binary(data: str | bytes | memoryview, encoding: Encoding) -> Any:
    if isinstance(data, str):
        raise TypeError("it is text")
    if encoding == "msgpack":
        return msgpack.unpackb(data, strict_map_key=False)
    return bson.decode(data).get("data")


def _is_plain(value: Any) -> bool:
    # Level by level and by sets of types: a list of a million numbers takes only a few ms this way.
    if type(value) not in _CONTAINERS:
        return type(value) in _LEAVES
    containers = [value]
    for _ in range(MAX_NESTING):
        inner: list[Any] = []
        for container in containers:
            if type(container) is dict:
                if not set(map(type, container)) <= {str}:
                    return False
                children = container.values()
            else:
                children = container
            types = set(map(type, children))
            if types <= _LEAVES:
                continue
            if not types <= _LEAVES | _CONTAINERS:
                return False
            inner.extend(child for child in children if type(child) in _CONTAINERS)
        if not inner:
            return True
        containers = inner
    raise ProtocolError(_too_deep())


def _as_plain(value: Any, depth: int = 0) -> Any:
    if depth > MAX_NESTING:
        raise ProtocolError(_too_deep())
    if type(value) in _LEAVES:
        return value
    if isinstance(value, dict):
        return {_key(key): _as_plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_as_plain(item, depth + 1) for item in value]
    return _plain_leaf(value)


def _plain_leaf(value: Any) -> Any:
    if isinstance(value, bytes):
        return bytes(value)
    if isinstance(value, msgpack.Timestamp):
        value = value.to_datetime()
    if isinstance(value, datetime.datetime):
        # The date format of JavaScript's JSON.stringify.
        return value.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
    if isinstance(value, bson.ObjectId | bson.Decimal128):
        return str(value)
    raise ProtocolError(
        f"it has a value of the type {type(value).__name__}, which JSON does not support"
    )


def _key(key: Any) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, bytes):
        return str(key, "utf-8", "replace")
    if key is None or isinstance(key, bool | int | float):
        # The form of such keys in json.dumps, and so in the Python wrapper's JSON.
        text: str = json.dumps(key)
        return text
    raise ProtocolError(f"it has a key of the type {type(key).__name__}")


def _without_halves(value: Any) -> Any:
    try:
        _TO_UNICODE_JSON.encode(value).encode()
    except UnicodeEncodeError:
        return _map_text(value, _repaired)
    return value


def _map_text(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(key): _map_text(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [_map_text(item, change) for item in value]
    return value


def _repaired(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _as_javascript(value: Any, encoding: Encoding) -> Any:
    if isinstance(value, dict):
        return {_key(key): _as_javascript(item, encoding) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_as_javascript(item, encoding) for item in value]
    if isinstance(value, float):
        return None if encoding == "json" and not math.isfinite(value) else value
    if isinstance(value, str):
        return _repaired(value)
    if encoding != "json" and isinstance(value, int) and value not in _INT64:
        return _number(value)
    return value


def _number(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _why_not(value: Any, encoding: Encoding, error: Exception) -> str:
    refused = {bytes, bytearray} if encoding == "json" else set()
    for where, part in _walk(value):
        if type(part) in refused:
            return (
                f"{where} is binary data, which JSON cannot carry: let the algorithm ask for "
                "msgpack or bson (WORKER_ALGORITHM_ENCODING)"
            )
        if type(part) not in _LEAVES | _CONTAINERS:
            return (
                f"{where} is of the type {type(part).__name__}, which {_NAMES[encoding]} does "
                "not support"
            )
    return f"{_NAMES[encoding]} cannot carry it: {_first_line(error)}"


def _walk(value: Any, where: str = "") -> Iterator[tuple[str, Any]]:
    yield where.lstrip(".") or "it", value
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _walk(item, f"{where}.{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _walk(item, f"{where}[{index}]")


def _too_deep() -> str:
    return f"it is nested more than {MAX_NESTING} deep"


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
