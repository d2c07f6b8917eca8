"""Values read without places, such as a program's input, which may be large."""

from __future__ import annotations

import contextlib
import json
import pathlib
import re
from collections.abc import Sequence
from typing import Any

from tarmac.documents.parsing import parse_document, read_text
from tarmac.errors import RequestError

# A quoted text, or an unquoted key and the character after its colon.
_TEXT_OR_KEY = re.compile(
    r"""(?P<text>"(?:\\.|[^"\\])*"|'(?:''|[^'])*')|(?<=[{,])\s*[A-Za-z_$][\w$]*\s*:(?=(?P<next>.?))"""
)


def read_plain(path: pathlib.Path) -> Any:
    """Read the values of a JSON file of any size, or of a YAML file of at most 16 MiB.

    JavaScript's form of an object, ``{size:2, name:'a'}``, is valid too. YAML alone would read
    ``size:2`` as a key.

    Raises:
        RequestError: The file cannot be read, or is neither JSON nor YAML. The message has the line
            and column.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise RequestError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        value = json.loads(content.decode("utf-8-sig"), parse_constant=_refuse_constant)
    except RecursionError as error:
        raise RequestError(f"{path}: nested too deeply") from error
    except ValueError as error:
        if path.suffix.lower() == ".json" and isinstance(error, json.JSONDecodeError):
            with contextlib.suppress(RequestError):
                text = read_text(path)
                if _has_bare_keys(text):
                    return parse_document(_relaxed(text), str(path)).value
            where = f"{path}:{error.lineno}:{error.colno}"
            raise RequestError(f"{where}: is not JSON: {error.msg}") from error
        # The file is YAML, or the YAML parser reports the problem.
        return parse_document(_relaxed(read_text(path)), str(path)).value
    if b"\\ud" in content or b"\\uD" in content:
        _check_texts(path, value)
    return value


def place_in(path: pathlib.Path, keys: Sequence[str | int]) -> str:
    """Return the place of a value in a file by its keys, as ``FILE:LINE:COLUMN``.

    Raises:
        RequestError: The file cannot be read again.
    """
    text = read_text(path)
    place = parse_document(_relaxed(text), str(path)).place_of(tuple(keys))
    before = _relaxed(text, space="\0").splitlines()[place.line - 1][: place.column - 1]
    return f"{path}:{place.line}:{place.column - before.count(chr(0))}"


def _relaxed(text: str, *, space: str = " ") -> str:
    """Return the text of an object or a list with a space after each unquoted key's colon."""

    def spaced(match: re.Match[str]) -> str:
        is_key = match["text"] is None and match["next"].strip()
        return match[0] + space if is_key else match[0]

    return _TEXT_OR_KEY.sub(spaced, text) if text.lstrip()[:1] in ("{", "[") else text


def _has_bare_keys(text: str) -> bool:
    return any(match["text"] is None for match in _TEXT_OR_KEY.finditer(text))


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _check_texts(path: pathlib.Path, value: Any) -> None:
    """Refuse lone surrogates, which UTF-8 cannot encode."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise RequestError(f"{path}: an unpaired surrogate, \\ud800 to \\udfff") from error
