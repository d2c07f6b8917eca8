"""The rules of HKube's API server beyond the schema, for names, units, labels and more.

Each function returns the value as HKube reads it, or raises a ValueError with the expected form.
Sources, of kube-HPC/hkube at 261d3d06: lib/validation/{algorithms,custom-formats}.js and
lib/consts/regex.js of core/api-server; units from kube-HPC/units-converter.hkube 1.0.17,
lib/converter.js.
"""

from __future__ import annotations

import difflib
import re
from typing import Any

from pydantic import BeforeValidator

from tarmac.formats.hkube.coercion import mapping_or_none, number, text_of_scalar

_NAME = re.compile(r"[a-z0-9][-a-z0-9\\.]*[a-z0-9]")
_PIPELINE = re.compile(r"[:\-_.A-Za-z0-9]+")
_LABEL = re.compile(r"[a-z0-9][-_.a-z0-9\\]*[a-z0-9]")
_LONGEST_LABEL = 63
_URL = re.compile(r"(f|ht)tps?://.*", re.IGNORECASE | re.DOTALL)

_UNITS = {
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40,
    "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "m": 1e-3,
}  # fmt: skip
_MEMORY = re.compile(r"\+?(\d+\.?\d*|\.\d+)\s*([A-Za-z]*)", re.ASCII)
_LEAST_MEMORY = 4 * 2**20

# Patterns of npm's cron 1.8, which HKube uses.
_CRON_PART = re.compile(r"(\*|[a-z]{3}|[0-9]{1,2})(?:-([a-z]{3}|[0-9]{1,2}))?(?:/([0-9]{1,4}))?")
_CRON_WORDS = {
    f"@{word}"
    for word in ("yearly", "monthly", "weekly", "daily", "hourly", "minutely", "secondly")
} | {"@weekdays", "@weekends"}
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_CRON_LIMITS: tuple[tuple[int, int, tuple[str, ...]], ...] = (
    (0, 59, ()), (0, 59, ()), (0, 23, ()), (1, 31, ()), (0, 11, _MONTHS), (0, 7, _DAYS),
)  # fmt: skip

_REFERENCES = ("fieldRef", "configMapKeyRef", "resourceFieldRef", "secretKeyRef")


def algorithm_name(value: Any) -> str:
    """Return an algorithm's name."""
    text = text_of_scalar(value)
    if not _NAME.fullmatch(text) or len(text) > 32:
        raise ValueError(
            "algorithm name must contain only lower-case alphanumeric, dash or dot, "
            "2 to 32 characters, alphanumeric at both ends"
        )
    return text


def pipeline_name(value: Any) -> str:
    """Return a pipeline's name."""
    return _long_name(value, "pipeline")


def experiment_name(value: Any) -> str:
    """Return an experiment's name."""
    return short_text(_long_name(value, "experiment"), 32)


def _long_name(value: Any, kind: str) -> str:
    text = text_of_scalar(value)
    if not _PIPELINE.fullmatch(text):
        raise ValueError(
            f"{kind} name must contain only alphanumeric, dash, dot or underscore, or a colon"
        )
    return text


def short_text(value: Any, most: int | None = None) -> str:
    """Return a text that is not empty and has at most ``most`` characters."""
    text = text_of_scalar(value)
    if not text:
        raise ValueError("is empty")
    if most is not None and len(text) > most:
        raise ValueError(f"expected at most {most} characters")
    return text


def cron_pattern(value: Any) -> str:
    """Return a cron pattern: five or six fields, or a word such as ``@daily``."""
    text = text_of_scalar(value)
    fields = text.split()
    limits = _CRON_LIMITS[-len(fields) :]
    is_whole = len(fields) in (5, 6) and all(map(_is_cron_field, fields, limits))
    if not is_whole and text.strip().lower() not in _CRON_WORDS:
        raise ValueError('should match format "cron": five or six fields, such as 0 * * * *')
    return text


def _is_cron_field(field: str, limits: tuple[int, int, tuple[str, ...]]) -> bool:
    least, most, names = limits
    numbers = {name: number for number, name in enumerate(names, least)}
    for part in field.lower().split(","):
        match = _CRON_PART.fullmatch(part)
        if match is None:
            return False
        ends = [numbers.get(end, end) for end in (match[1], match[2]) if end not in (None, "*")]
        if not all(str(end).isdecimal() and least <= int(end) <= most for end in ends):
            return False
        if match[3] == "0":
            return False
    return True


def image(value: Any) -> str:
    """Return a container image's name."""
    text = text_of_scalar(value)
    if re.search(r"\s", text):
        raise ValueError("an image's name has no blanks")
    return text


def memory(value: Any) -> float | None:
    """Return a memory size in bytes, or None for an empty text."""
    text = text_of_scalar(value)
    if not text:
        return None
    match = _MEMORY.fullmatch(text)
    if match is None or match[2] not in _UNITS:
        raise ValueError(f"memory unit must be one of {', '.join(_UNITS)}")
    return float(match[1]) * _UNITS[match[2]]


def own_memory(value: Any) -> float:
    """Return an algorithm's memory in bytes; a bare number is in Mi."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0:
        # HKube stored it in Mi in 2019.
        size: float | None = number(value) * 2**20
    else:
        size = memory(value)
    if size is None or size < _LEAST_MEMORY:
        raise ValueError("memory must be at least 4 Mi")
    return size


def claim(value: Any) -> str:
    """Return the name of a volume claim."""
    text = text_of_scalar(value)
    if not _NAME.fullmatch(text) or len(text) > 63:
        raise ValueError("expected the name of a volume claim, 2 to 63 characters")
    return text


def directory(value: Any) -> str:
    """Return a path in a container."""
    text = text_of_scalar(value)
    if not text or re.search(r"\s", text):
        raise ValueError("expected a path without blanks")
    return text


def url(value: Any) -> str:
    """Return an address of a repository."""
    text = text_of_scalar(value)
    if not _URL.fullmatch(text):
        raise ValueError("expected a URL of http, https or ftp")
    return text


def variable(value: Any) -> Any:
    """Return a variable's value: a scalar, or a mapping with a reference as its first key."""
    if isinstance(value, list):
        raise ValueError("a list cannot be the value of a variable")  # noqa: TRY004 - Pydantic wants it
    if isinstance(value, dict):
        kind = str(next(iter(value), None))
        if kind not in _REFERENCES:
            near = difflib.get_close_matches(kind, _REFERENCES, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"expected one of {', '.join(_REFERENCES)} as the first key{hint}")
    return value


def labels(value: Any) -> dict[str, Any] | None:
    """Return Kubernetes labels or annotations, or None for an empty value."""
    labels = mapping_or_none(value)
    for key, text in (labels or {}).items():
        prefix, slash, rest = key.partition("/")
        name = rest.partition("/")[0] if slash else key
        if slash and not _LABEL.fullmatch(prefix):
            raise ValueError(f"{key!r}: what is before / must be a lower-case name of a domain")
        _check_label(key, name)
        if text != "":
            _check_label(key, text)
    return labels


def _check_label(key: str, text: Any) -> None:
    if not isinstance(text, str):
        raise ValueError(f"{key!r}: the value must be a text")  # noqa: TRY004 - Pydantic wants it
    if not _LABEL.fullmatch(text) or len(text) > _LONGEST_LABEL:
        raise ValueError(
            f"{key!r}: {text!r} must have 2 to {_LONGEST_LABEL} lower-case letters, digits, "
            "'-', '_' and '.', alphanumeric at both ends"
        )


def one_of(*names: str) -> BeforeValidator:
    """Return a validator that takes one of these texts."""

    def choose(value: Any) -> str:
        text = text_of_scalar(value)
        if text not in names:
            raise ValueError(f"expected one of {', '.join(names)}")
        return text

    return BeforeValidator(choose)
