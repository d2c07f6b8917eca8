"""What is asked to hold: ``--require``'s language, and whether it does."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from packaging.version import InvalidVersion, Version

from tarmac.checks.frameworks import framework_named, framework_names
from tarmac.checks.report.model import Requirement
from tarmac.errors import RequestError

if TYPE_CHECKING:
    from tarmac.checks.evidence import Evidence
    from tarmac.checks.report.model import Verdict

__all__ = ["Condition", "parse_requirements", "required_frameworks"]

# Says of evidence and the frameworks' verdicts whether it holds.
Condition: TypeAlias = Callable[["Evidence", Sequence["Verdict"]], Requirement]


def parse_requirements(texts: Sequence[str]) -> list[Condition]:
    """Read ``gpus>=1``, ``pytorch``, ``memory>=16``, ``driver>=570`` and their like.

    Raises:
        RequestError: A text is none of these.
    """
    return [_parse(text) for text in texts]


def required_frameworks(texts: Sequence[str]) -> list[str]:
    """Return the frameworks that requirements name."""
    frameworks = map(framework_named, texts)
    return [framework.name for framework in frameworks if framework is not None]


def _parse(text: str) -> Condition:
    framework = framework_named(text)
    if framework is not None:
        return lambda _, frameworks: _works(text, framework.name, frameworks)
    match = re.fullmatch(r"\s*([a-z_]+)\s*(?:(>=|==|>|<|<=)\s*(\S+))?\s*", text)
    if match is not None and match[2] is None and match[1] == "gpu":
        return lambda evidence, _: _compare(text, _QUANTITIES["gpus"](evidence), ">=", 1.0)
    if match is not None and match[2] is not None:
        name, comparison, amount = match.groups()
        if name in _VERSIONS:
            version = _version_asked(text, amount)
            return lambda evidence, _: _compare(
                text, _VERSIONS[name](evidence), comparison, version
            )
        if name in _QUANTITIES:
            number = _number_asked(text, amount)
            return lambda evidence, _: _compare(
                text, _QUANTITIES[name](evidence), comparison, number
            )
    raise RequestError(
        f"--require {text!r} is not understood",
        hint=f"A framework ({', '.join(framework_names())}), or one of "
        f"{', '.join((*_QUANTITIES, *_VERSIONS))} with a number: gpus>=1, gpu_memory>=16 (GiB, of "
        "the smallest), driver>=570, cuda>=12.8",
    )


def _version_asked(text: str, amount: str) -> Version:
    try:
        return Version(amount)
    except InvalidVersion as error:
        raise RequestError(
            f"--require {text!r}: {amount!r} is no version", hint="Such as 570, 570.86.15 or 12.8"
        ) from error


def _number_asked(text: str, amount: str) -> float:
    if not re.fullmatch(r"\d+(\.\d*)?|\.\d+", amount, re.ASCII):
        raise RequestError(f"--require {text!r}: {amount!r} is no number", hint="Such as 1 or 0.5")
    return float(amount)


def _version(text: str | None) -> Version | None:
    # A build's name may follow: 570.86.15-grid.
    match = re.match(r"\d+(\.\d+)*", text or "")
    return Version(match[0]) if match else None


def _smallest_gib(evidence: Evidence) -> float | None:
    sizes = [gpu.memory_bytes for gpu in evidence.inventory.gpus if gpu.memory_bytes]
    return min(sizes) / 2**30 if sizes else None


_QUANTITIES: dict[str, Callable[[Evidence], float | None]] = {
    "gpus": lambda evidence: sum(gpu.error is None for gpu in evidence.inventory.gpus),
    "gpu_memory": _smallest_gib,
    "cpus": lambda evidence: evidence.inventory.limits.cpus,
    "memory": lambda evidence: evidence.inventory.usable_memory_bytes / 2**30,
    "shm": lambda evidence: (evidence.inventory.limits.shm_bytes or 0) / 2**30,
}

_VERSIONS: dict[str, Callable[[Evidence], Version | None]] = {
    "driver": lambda evidence: _version(evidence.inventory.driver.version),
    "cuda": lambda evidence: _version(evidence.inventory.driver.cuda),
}

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge,
    ">": operator.gt,
    "==": operator.eq,
    "<=": operator.le,
    "<": operator.lt,
}


def _compare(
    text: str, actual: float | Version | None, comparison: str, wanted: float | Version
) -> Requirement:
    met = actual is not None and _COMPARISONS[comparison](actual, wanted)
    shown = f"{actual:g}" if isinstance(actual, (int, float)) else str(actual or "unknown")
    return Requirement(text=text, met=met, found=shown)


def _works(text: str, name: str, frameworks: Sequence[Verdict]) -> Requirement:
    verdicts = [verdict for verdict in frameworks if verdict.name.split()[0] == name]
    if not verdicts:
        return Requirement(text=text, met=False, found="not checked")
    # Wherever it was looked for.
    bad = [v for v in verdicts if v.answer not in ("ok", "cpu only", "warning")]
    return Requirement(text=text, met=not bad, found=(bad or verdicts)[0].text)
