"""From evidence to findings, by rules and by the catalogue's patterns.

A rule is a pure function, one for each code of the catalogue that needs one; it yields where it
applies and what shows it. `find` adds what the patterns find in texts, and leaves out consequences
whose cause was found.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeAlias

from pydantic import BaseModel, ConfigDict

from tarmac.checks.rules.catalogue import Failure, Level, read_catalogue
from tarmac.checks.rules.table import RULES
from tarmac.machine import wheel_index

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from tarmac.checks.evidence import Evidence
    from tarmac.checks.rules.rule import Hits

__all__ = ["Finding", "find"]

_ORDER: dict[str, int] = {"failure": 0, "warning": 1, "note": 2}

# A failure, where it is, and what shows it.
_Hit: TypeAlias = tuple[Failure, str, str]

# What is said of a framework where nothing better is known.
_FALLBACKS = frozenset({"probe-failed", "import-failed", "probe-no-result", "probe-crashed"})


class Finding(BaseModel):
    """What a check concludes.

    Attributes:
        code: The failure's, in the catalogue.
        level: ``failure``, ``warning`` or ``note``.
        title: In a few words.
        where: The devices or frameworks that it is seen at, or ``machine``.
        evidence: What was seen.
        cause: In one sentence.
        fix: What to type.
        source: Who says so.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    code: str
    level: Level
    title: str
    where: tuple[str, ...]
    evidence: str
    cause: str
    fix: tuple[str, ...]
    source: str


def find(evidence: Evidence, *, only: Collection[str] = ()) -> tuple[Finding, ...]:
    """Return what the evidence says: one finding for each cause, failures first.

    Causes stand without their consequences, and in the catalogue's order, which goes from the
    machine to what runs on it.

    Args:
        evidence: All of it.
        only: Codes to look for; by default all. One that is not looked for hides nothing.
    """
    hits = []
    for code, failure in read_catalogue().items():
        if only and code not in only:
            continue
        seen = dict(_in_texts(failure, evidence))
        if failure.rule:
            seen |= dict(RULES[code](evidence))
        hits += [(failure, where, words) for where, words in seen.items()]
    labels = [probe.label for probe in evidence.probes]
    kept = [hit for hit in hits if not _is_explained(hit, hits, labels)]
    grouped: dict[str, dict[str, str]] = {}
    for failure, where, words in kept:
        grouped.setdefault(failure.code, {})[where] = words
    findings = [_finding(code, seen, evidence) for code, seen in grouped.items()]
    return tuple(sorted(findings, key=lambda finding: _ORDER[finding.level]))


def _is_explained(hit: _Hit, hits: Sequence[_Hit], labels: Sequence[str]) -> bool:
    failure, where, _ = hit
    framework = _framework(where, labels)
    causes = [
        cause
        for cause, there, _ in hits
        if failure.code in cause.hides
        and not (cause.own and framework and _framework(there, labels) != framework)
    ]
    if causes or failure.code not in _FALLBACKS:
        return bool(causes)
    # A slow copy or a hint does not explain why a framework failed.
    better = [
        other
        for other in hits
        if other[1] == where
        and other[0].code not in _FALLBACKS
        and (other[0].level == "failure" or other[0].text)
    ]
    return any(not _is_explained(other, hits, labels) for other in better)


def _framework(where: str, labels: Sequence[str]) -> str | None:
    """Return the label of the framework that a place belongs to, None for a machine's or GPU's."""
    owners = [name for name in labels if where == name or where.startswith(f"{name} on ")]
    return max(owners, key=len, default=None)


def _in_texts(failure: Failure, evidence: Evidence) -> Hits:
    texts = [("machine", text) for text in (evidence.inventory.driver.nvml_error, *evidence.texts)]
    texts += [("machine", "\n".join(evidence.inventory.kernel_log))]
    texts += [(gpu.label, gpu.error) for gpu in evidence.inventory.gpus]
    texts += [(probe.label, probe.text) for probe in evidence.probes]
    for where, text in texts:
        line = failure.find_in(text) if text else None
        if line is not None:
            yield where, line


def _finding(code: str, seen: Mapping[str, str], evidence: Evidence) -> Finding:
    failure = read_catalogue()[code]
    words = _in_words(seen)
    values = {"evidence": words, "package": next(iter(seen)).split()[0], **_packages(evidence)}

    def fill(text: str) -> str:
        return re.sub(r"\{(\w+)\}", lambda match: values.get(match[1], match[0]), text)

    return Finding(
        code=failure.code,
        level=failure.level,
        title=failure.title,
        where=tuple(seen),
        evidence=words,
        cause=fill(failure.cause),
        fix=tuple(fill(line) for line in failure.fix),
        source=failure.source,
    )


def _in_words(seen: Mapping[str, str]) -> str:
    """Return what shows a failure, with where it is if that differs from place to place."""
    places: dict[str, list[str]] = {}
    for where, words in seen.items():
        places.setdefault(words, []).append(where)
    if len(places) == 1:
        return next(iter(places))
    return "; ".join(f"{', '.join(where)}: {words}" for words, where in places.items())


def _packages(evidence: Evidence) -> dict[str, str]:
    """Name the indices and extras that suit the driver and the chips."""
    capabilities = (gpu.capability for gpu in evidence.inventory.gpus if gpu.capability)
    index = wheel_index(evidence.inventory.driver.cuda, min(capabilities, default=None))
    return {
        "cuda_index": index,
        "arch_index": index,
        "jax_extra": "cuda13" if index == "cu130" else "cuda12",
    }
