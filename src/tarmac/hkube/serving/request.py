"""The request of a task to a workload, read from the input of an ``initialize``.

Example:
    >>> data = {"input": [{"num_epochs": 2, "hidden": 64}], "taskId": "a1"}
    >>> request = read_request(data, Defaults(output="runs"))
    >>> request.options, request.settings
    ({'epochs': 2}, {'hidden': 64})
"""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tarmac.distribution import require
from tarmac.errors import RequestError
from tarmac.files import SCHEMES, Location, parse_json
from tarmac.formats import task_id_fault

Setting = bool | int | float | str

_OUTPUT = "output"

_MAX_WHOLE = 2**63 - 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Defaults:
    """The defaults for values that an input does not set.

    Attributes:
        output: Directory or object store URI below which each training's directory is made.
        values: Options and settings, by name, that override the workload's own defaults. Default:
            none.
    """

    output: str
    values: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Request:
    """The request of a task.

    Attributes:
        task_id: Name of the task and of its training.
        output: Absolute directory or object store URI below which the training's directory is made.
        options: Values for fields of `tarmac.training.Options`, by field name.
        settings: Settings of the workload, by name, as ``--set`` takes them.
    """

    task_id: str
    output: str
    options: Mapping[str, Any]
    settings: Mapping[str, Setting]

    @property
    def is_remote(self) -> bool:
        """Whether the output is in an object store."""
        return Location.parse(self.output).is_object

    @property
    def place(self) -> str:
        """The training's own directory or object store URI."""
        return f"{self.output.rstrip('/')}/{self.task_id}"


def read_settings(text: str, name: str) -> Mapping[str, Any]:
    """Read a variable that holds a JSON object.

    Args:
        text: Value of the variable. Empty means no settings.
        name: Name of the variable, for error messages.

    Raises:
        RequestError: The variable holds something else.
    """
    try:
        value = parse_json(text or "{}")
    except ValueError as error:
        raise RequestError(f"{name} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise RequestError(f"{name} is {_kind(value)}, expected an object")
    return value


def read_request(data: Any, defaults: Defaults) -> Request:
    """Read the request of a task.

    The first item of the input is the request. Further items may only set the order of a pipeline's
    nodes, and are ignored.

    Args:
        data: Payload of ``initialize``, with ``input`` and ``taskId``.
        defaults: Values for what the input does not set.

    Raises:
        RequestError: A value has the wrong type or is invalid.
    """
    if not isinstance(data, Mapping):
        raise RequestError(f"initialize carries {_kind(data)}, expected an object")
    fields = {**_by_field(defaults.values), **_by_field(_first(data.get("input")))}
    options: dict[str, Any] = {}
    settings: dict[str, Setting] = {}
    output = _output(_OUTPUT, defaults.output)
    for field, (name, value) in fields.items():
        if field == _OUTPUT:
            output = _output(name, value)
        elif field in OPTIONS:
            options[field] = OPTIONS[field](name, value)
        else:
            settings[field] = _setting(name, value)
    return Request(
        task_id=_task_id(data.get("taskId")), output=output, options=options, settings=settings
    )


def _first(inputs: Any) -> Mapping[Any, Any]:
    if inputs is None or inputs == []:
        return {}
    if not isinstance(inputs, list | tuple):
        raise RequestError(f"input is {_kind(inputs)}, expected an array")
    first = inputs[0]
    if not isinstance(first, Mapping):
        raise RequestError(
            f"input[0] is {_kind(first)}, expected an object",
            hint='For example: [{"num_epochs": 2, "train_size": 1000, "output": "/data"}]',
        )
    return first


def _by_field(values: Mapping[Any, Any]) -> dict[str, tuple[str, Any]]:
    """Return the input's names and values, by field."""
    fields: dict[str, tuple[str, Any]] = {}
    for key, value in values.items():
        name = str(key)
        field = _ALIASES.get(name, name)
        if field in fields:
            raise RequestError(f"{fields[field][0]} and {name} are both given, and mean the same")
        # Zipped batches of different lengths have null after the end of a shorter batch.
        if value is not None:
            fields[field] = (name, value)
    return fields


def _task_id(value: Any) -> str:
    if value is None:
        # A task without an ID is never resumed.
        return f"task-{secrets.token_hex(4)}"
    fault = task_id_fault(value)
    if fault is not None:
        raise RequestError(f"taskId {fault}")
    return str(value)


def _output(name: str, value: Any) -> str:
    text = _text(name, value)
    location = Location.parse(text)
    if location.is_object:
        require("obstore", name)
    elif not location.is_local:
        known = ", ".join(f"{scheme}://" for scheme in SCHEMES)
        raise RequestError(
            f"{name}: {location.scheme}:// is not known", hint=f"Use a path, or one of {known}"
        )
    if "\0" in text:
        raise RequestError(f"{name} is {text[:80]!r}, which is not a path: it has a zero byte")
    if not location.path and not location.host:
        raise RequestError(f"{name} is empty, expected a directory or s3://bucket/directory")
    # Absolute, because the reader of the result has another working directory.
    return str(Path(location.path).absolute()) if location.is_local else text


def _number(name: str, value: Any, expected: str = "a number") -> int | float:
    number = value
    if isinstance(value, str):
        # The items of a raw batch, "#[200,400]", are strings.
        whole = _parsed(int, value)
        number = _parsed(float, value) if whole is None else whole
    if isinstance(number, bool) or not isinstance(number, int | float) or number - number != 0:
        raise _mistyped(name, value, expected)
    return number


def _parsed(kind: type[int | float], text: str) -> int | float | None:
    try:
        return kind(text)
    except ValueError:
        return None


def _whole(name: str, value: Any) -> int:
    expected = "a whole number"
    number = _number(name, value, expected)
    if number != int(number):
        raise _mistyped(name, value, expected)
    return _bounded(name, int(number))


def _bounded(name: str, number: int) -> int:
    # The message omits the number, which may have hundreds of digits.
    if abs(number) > _MAX_WHOLE:
        raise RequestError(f"{name} is too large, expected a whole number below 2^63")
    return number


def _from(least: int) -> Callable[[str, Any], int]:
    def read(name: str, value: Any) -> int:
        number = _whole(name, value)
        if number < least:
            raise RequestError(f"{name} is {number}, expected at least {least}")
        return number

    return read


def _rate(name: str, value: Any) -> float:
    try:
        return float(_number(name, value))
    except OverflowError as error:
        raise _mistyped(name, value, "a number") from error


def _flag(name: str, value: Any) -> bool:
    flag = {"true": True, "false": False}.get(str(value).lower())
    if flag is None:
        raise _mistyped(name, value, "true or false")
    return flag


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise _mistyped(name, value, "a text")
    return value


def _devices(name: str, value: Any) -> str:
    return value if isinstance(value, str) else str(_whole(name, value))


def _setting(name: str, value: Any) -> Setting:
    if not isinstance(value, bool | int | float | str):
        raise _mistyped(name, value, "a number, a text, true or false")
    return _bounded(name, value) if isinstance(value, int) and value is not True else value


def _mistyped(name: str, value: Any, expected: str) -> RequestError:
    shown = repr(value) if isinstance(value, bool | int | float | str) else _kind(value)
    return RequestError(f"{name} is {shown[:80]}, expected {expected}")


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    kinds = ((Mapping, "an object"), (list | tuple, "an array"), (str, "a text"), (bytes, "bytes"))
    numbers = ((int | float, "a number"),)
    words = (word for kind, word in kinds + numbers if isinstance(value, kind))
    return next(words, f"a {type(value).__name__}")


# Field names of the GPU example, with Tarmac's names.
_ALIASES = {"num_epochs": "epochs"}

OPTIONS: Mapping[str, Callable[[str, Any], Any]] = {
    "epochs": _from(1),
    "batch_size": _from(1),
    "learning_rate": _rate,
    "train_size": _from(1),
    "validation_size": _from(0),
    "validation_split": _text,
    "patience": _from(1),
    "monitor": _text,
    "seed": _from(0),
    "devices": _devices,
    "precision": _text,
    "deterministic": _flag,
    "checkpoint_every": _from(1),
}
