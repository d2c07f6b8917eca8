"""The problems of a document with their places, as one error."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable, Sequence
from typing import Any, get_args, get_origin

from pydantic import BaseModel, RootModel, ValidationError

from tarmac.documents.document import Document, Path, Place, show_path
from tarmac.errors import RequestError

# More problems of the same file would help nobody.
_MAX_SHOWN = 20
_MAX_TEXT = 80

_EXPECTED = "expected "


@dataclasses.dataclass(frozen=True)
class Problem:
    """A problem in a document.

    Attributes:
        place: Line and column of the value, or of its nearest container if the value is missing.
        path: Path of the value in the document, such as ``tasks[1].resources.gpus``.
        message: Description of the problem, for the user.
        hint: The nearest valid name, or all valid names. Default: none.
    """

    place: Place
    path: str
    message: str
    hint: str = ""


def refuse(document: Document, problems: Sequence[Problem]) -> RequestError:
    """Return one error for all problems in the order of the file; it lists at most 20 of them."""
    lines = []
    for problem in sorted(problems, key=lambda problem: problem.place)[:_MAX_SHOWN]:
        # Values that are from no file have no lines.
        at = f":{problem.place.line}:{problem.place.column}" if document.places else ""
        where = f"{document.name}{at}"
        path = f" {problem.path}:" if problem.path else ""
        lines.append(f"{where}:{path} {problem.message}")
        if problem.hint:
            lines.append(problem.hint)
    if len(problems) > _MAX_SHOWN:
        lines.append(f"and {len(problems) - _MAX_SHOWN:,} more")
    return RequestError(lines[0], hint="\n".join(lines[1:]) or None)


def problems_of(
    error: ValidationError, document: Document, model: type[BaseModel], path: Path = ()
) -> list[Problem]:
    """Return Pydantic's errors as problems with places, in the order of the file.

    Args:
        error: Pydantic's error from validating ``document.value`` or the part at ``path``.
        document: Document that was validated; supplies the place of each value.
        model: Model that the value was validated against. Its keys are the hints for unknown keys.
        path: Path of the validated part in the document. Default: the whole document.
    """
    errors = []
    for detail in error.errors(include_url=False):
        # Pydantic inserts the branch of a union between the keys.
        is_missing = detail["type"] == "missing"
        location = _real_path((*path, *detail["loc"]), document.value, is_missing=is_missing)
        errors.append((document.place_of(location), location, detail))
    errors.sort(key=lambda entry: entry[0])
    # The search for the nearest name is slow, and only the first problems are shown.
    return _joined(
        _problem(place, location, detail, model if number < _MAX_SHOWN else None, len(path))
        for number, (place, location, detail) in enumerate(errors)
    )


def _joined(problems: Iterable[Problem]) -> list[Problem]:
    """Join the problems of a value that fits no branch of a union."""
    joined: list[Problem] = []
    for problem in problems:
        before, _, wanted = problem.message.rpartition(_EXPECTED)
        last = joined[-1] if joined else None
        is_other_branch = (
            last is not None
            and (last.place, last.path) == (problem.place, problem.path)
            and last.message.startswith(f"{before}{_EXPECTED}")
        )
        if last is not None and is_other_branch and wanted:
            message = f"{last.message} or {wanted}"
            joined[-1] = dataclasses.replace(last, message=message)
        else:
            joined.append(problem)
    return joined


def _problem(
    place: Place,
    location: Sequence[str | int],
    detail: Any,
    model: type[BaseModel] | None,
    start: int,
) -> Problem:
    path = show_path(location)
    if detail["type"] == "extra_forbidden":
        name = str(location[-1]) if location else ""
        valid = _fields_at(model, location[start:-1], detail["loc"]) if model is not None else []
        near = difflib.get_close_matches(name, valid, n=1) if len(name) <= _MAX_TEXT else []
        hint = f"  did you mean {near[0]!r}?" if near else f"  valid: {', '.join(valid)}"
        return Problem(place, path, "unknown key", hint if valid else "")
    if detail["type"] == "missing":
        return Problem(place, path, "is missing")
    template = _WORDS.get(detail["type"])
    # A message of Tarmac's own is no template: it may have braces.
    message = detail["msg"].removeprefix("Value error, ")
    if template is not None:
        message = template.format(**detail.get("ctx", {}))
    value = detail.get("input")
    shown = _shown(value) if isinstance(value, (str, int, float, bool)) else ""
    return Problem(place, path, f"{shown}: {message}" if shown else message)


# Messages for Pydantic's error types, without names of Python's types.
_WORDS = {
    **dict.fromkeys(("string_type", "string_sub_type"), "expected a text"),
    **dict.fromkeys(
        ("int_type", "int_parsing", "int_parsing_size", "int_from_float"), "expected a whole number"
    ),
    **dict.fromkeys(("float_type", "float_parsing"), "expected a number"),
    "finite_number": "expected a finite number",
    **dict.fromkeys(("bool_type", "bool_parsing"), "expected true or false"),
    **dict.fromkeys(("list_type", "tuple_type"), "expected a list"),
    **dict.fromkeys(
        ("dict_type", "model_type", "model_attributes_type", "dataclass_type"),
        "expected keys and their values",
    ),
    **dict.fromkeys(("literal_error", "enum"), "expected {expected}"),
    "union_tag_invalid": "{tag!r} is not known, expected {expected_tags}",
    "union_tag_not_found": "{discriminator} is missing",
    "string_pattern_mismatch": "expected a text of the form {pattern}",
    "string_too_short": "is empty",
    "too_short": "expected at least {min_length} of them",
    "greater_than": "expected more than {gt:g}",
    "greater_than_equal": "expected at least {ge:g}",
    "less_than": "expected less than {lt:g}",
    "less_than_equal": "expected at most {le:g}",
}


def _shown(value: Any) -> str:
    """Return a value for a message; only the beginning of a long value."""
    # As written in files.
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}..."


def _real_path(
    location: Sequence[str | int], value: Any, *, is_missing: bool
) -> tuple[str | int, ...]:
    """Return Pydantic's location without the branches of unions, which are not in the document.

    The key of a missing value stays.
    """
    path: list[str | int] = []
    for number, part in enumerate(location):
        is_last = number == len(location) - 1
        if isinstance(value, dict):
            if part in value:
                value = value[part]
            elif not (is_last and is_missing):
                continue
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            value = value[part]
        else:
            continue
        path.append(part)
    return tuple(path)


def _fields_at(
    model: type[BaseModel], path: Sequence[str | int], tags: Sequence[str | int]
) -> list[str]:
    """Return the keys of the model at a path, or none if the path leads to no model.

    Args:
        model: Model of the value that ``path`` starts from.
        path: Keys and indices from that value to the mapping that holds the unknown key.
        tags: Pydantic's location, including the branches of unions.
    """
    current: Any = model
    if issubclass(model, RootModel):
        current = model.model_fields["root"].annotation
    for part in path:
        if isinstance(part, int):
            continue
        if get_origin(current) is dict:
            # A dictionary takes any key.
            current = _model_in(get_args(current)[1], tags)
            continue
        fields = getattr(current, "model_fields", {})
        field = next((f for n, f in fields.items() if (f.alias or n) == part), None)
        annotation = field.annotation if field is not None else None
        current = annotation if get_origin(annotation) is dict else _model_in(annotation, tags)
    fields = getattr(current, "model_fields", {})
    return [field.alias or name for name, field in fields.items()]


def _model_in(annotation: Any, tags: Sequence[str | int]) -> Any:
    """Return the model of an annotation; for a union, the model whose kind is among the tags."""
    if hasattr(annotation, "model_fields"):
        return annotation
    parts = (_model_in(part, tags) for part in getattr(annotation, "__args__", ()))
    models = [model for model in parts if model is not None]
    tagged = (m for m in models if any(f.default in tags for f in m.model_fields.values()))
    return next(tagged, models[0] if models else None)
