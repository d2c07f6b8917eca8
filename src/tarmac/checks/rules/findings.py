"""Turns evidence into findings, by rules and by the catalogue's patterns.

A rule is a pure function for one code of the catalogue. It yields the failure's places and the text
that shows it. `find` adds the patterns' matches in texts, and leaves out consequences whose cause
was found.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

from pydantic import BaseModel, ConfigDict

from tarmac.checks.evidence import Evidence
from tarmac.checks.rules.catalogue import LEVELS, Failure, Level, read_catalogue, tells_reason
from tarmac.checks.rules.commands import commands_for
from tarmac.checks.rules.kernel import lines_without_event
from tarmac.checks.rules.patterns import find_in
from tarmac.checks.rules.rule import should_use_gpu
from tarmac.checks.rules.table import RULES

# A failure, its place, and the text that shows it.
_Hit: TypeAlias = tuple[Failure, str, str]

# Findings of a framework that stand only where no finding explains its failure better.
_FALLBACKS = frozenset({"probe-failed", "import-failed", "probe-no-result", "probe-crashed"})


class Finding(BaseModel):
    """A failure that a check has found.

    Attributes:
        code: Code of the failure in the catalogue.
        level: ``failure``, ``warning`` or ``note``.
        title: Name of the failure in a few words.
        where: Devices or frameworks at which it was seen, or ``machine``.
        evidence: Facts or printed text that show the failure.
        cause: Cause of the failure, in one sentence.
        fix: Command lines to type on this machine, in order.
        source: URL of the page that documents the failure.
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
    """Return one finding for each cause that the evidence shows, failures first.

    Consequences of a found cause are left out. Findings of one level are in the catalogue's order,
    from the machine to the programs on it.

    Args:
        evidence: Everything that the check saw: inventory, probes and readings.
        only: Codes of the only failures to look for; empty for all. Other codes hide nothing.
    """
    on_cpu = {
        probe.label
        for probe in evidence.probes
        if probe.outcome == "done" and not should_use_gpu(probe, evidence)
    }
    in_texts = _in_texts(evidence)
    hits = []
    for code, failure in read_catalogue().items():
        if failure.harmless or (only and code not in only):
            continue
        seen = dict(in_texts.get(code, {}))
        if failure.needs_gpu:
            seen = {where: words for where, words in seen.items() if where not in on_cpu}
        if failure.rule:
            seen |= dict(RULES[code](evidence))
        hits += [(failure, where, words) for where, words in seen.items()]
    labels = [probe.label for probe in evidence.probes]
    kept = [hit for hit in hits if not _is_explained(hit, hits, labels)]
    grouped: dict[str, dict[str, str]] = {}
    for failure, where, words in kept:
        grouped.setdefault(failure.code, {})[where] = words
    findings = [_finding(code, seen, evidence) for code, seen in grouped.items()]
    return tuple(sorted(findings, key=lambda finding: LEVELS.index(finding.level)))


def _is_explained(hit: _Hit, hits: Sequence[_Hit], labels: Sequence[str]) -> bool:
    failure, where, _ = hit
    framework = _framework(where, labels)
    if not tells_reason(failure, {other.code for other, _, _ in hits}):
        return True
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
        and (other[0].level == "failure" or other[0].is_printed)
    ]
    return any(not _is_explained(other, hits, labels) for other in better)


def _framework(where: str, labels: Sequence[str]) -> str | None:
    """Return the label of the framework that a place belongs to; None for a GPU or the machine."""
    owners = [name for name in labels if where == name or where.startswith(f"{name} on ")]
    return max(owners, key=len, default=None)


def _in_texts(evidence: Evidence) -> Mapping[str, Mapping[str, str]]:
    """Return the failures that texts show: code to place to the line that shows it."""
    inventory = evidence.inventory
    answers = [("machine", inventory.driver.nvml_error)]
    answers += [(gpu.label, gpu.error) for gpu in inventory.gpus]
    # A generic NVML error is left out, as the GPU is already listed as without an answer.
    hits = [
        (where, code, line)
        for where, text in answers
        for code, line in find_in(text or "").items()
        if not read_catalogue()[code].generic
    ]
    texts = [("machine", text) for text in evidence.texts]
    texts += [("machine", "\n".join(lines_without_event(evidence)))]
    texts += [(probe.label, probe.text) for probe in evidence.probes]
    hits += [(where, *hit) for where, text in texts for hit in find_in(text).items()]
    lines_by_code: dict[str, dict[str, str]] = {}
    for where, code, line in hits:
        lines_by_code.setdefault(code, {})[where] = line
    return lines_by_code


def _finding(code: str, seen: Mapping[str, str], evidence: Evidence) -> Finding:
    failure = read_catalogue()[code]
    words = _in_words(seen)
    is_confined = evidence.inventory.is_confined
    lines = failure.in_container if is_confined and failure.in_container else failure.fix
    return Finding(
        code=failure.code,
        level=failure.level,
        title=failure.title,
        where=tuple(seen),
        evidence=words,
        cause=failure.cause.replace("{evidence}", words),
        fix=commands_for(lines, tuple(seen), evidence),
        source=failure.source,
    )


def _in_words(seen: Mapping[str, str]) -> str:
    """Return the text that shows a failure, with the places where the texts differ."""
    places: dict[str, list[str]] = {}
    for where, words in seen.items():
        places.setdefault(words, []).append(where)
    if len(places) == 1:
        return next(iter(places))
    return "; ".join(
        # The text of a kernel's event already names its GPU, with its address.
        words if words.startswith(tuple(where)) else f"{', '.join(where)}: {words}"
        for words, where in places.items()
    )
