"""From evidence to findings, by rules and by the catalogue's patterns.

A rule is a pure function, one for each code of the catalogue that needs one; it yields where it
applies and what shows it. `find` adds what the patterns find in texts, and leaves out consequences
whose cause was found.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

from tarmac.check import _rules_cluster, _rules_driver, _rules_framework  # noqa: F401 - they register
from tarmac.check._catalogue import Failure, Level, read_catalogue
from tarmac.check._registry import RULES, Hits, gpu_name

if TYPE_CHECKING:
    from tarmac.check._evidence import Evidence

__all__ = ["RULES", "Finding", "find"]

_ORDER: dict[str, int] = {"failure": 0, "warning": 1, "note": 2}

# What is said of a framework where nothing better is known.
_FALLBACKS = frozenset({"probe-failed", "import-failed", "probe-no-result", "probe-crashed"})


class Finding(BaseModel):
    """What a check concludes.

    Attributes:
        code: Of the catalogue.
        level: ``failure``, ``warning`` or ``note``.
        title: In a few words.
        where: The device or framework, or ``machine``.
        evidence: What was seen.
        cause: In one sentence.
        mend: What to type.
        source: Who says so.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    code: str
    level: Level
    title: str
    where: str
    evidence: str
    cause: str
    mend: tuple[str, ...]
    source: str


def find(evidence: Evidence) -> tuple[Finding, ...]:
    """Return what the evidence says, failures first, each cause without its consequences."""
    found = []
    for code, failure in read_catalogue().items():
        hits = [*_in_texts(failure, evidence)]
        if failure.rule:
            hits += RULES[code](evidence)
        found += [_finding(failure, where, seen, evidence) for where, seen in dict(hits).items()]
    hidden = {code for finding in found for code in read_catalogue()[finding.code].hides}
    explained = {finding.where for finding in found if finding.code not in _FALLBACKS | hidden}
    kept = [
        finding
        for finding in found
        if finding.code not in hidden
        and not (finding.code in _FALLBACKS and finding.where in explained)
    ]
    return tuple(sorted(kept, key=lambda finding: _ORDER[finding.level]))


def _in_texts(failure: Failure, evidence: Evidence) -> Hits:
    texts = [("machine", text) for text in (evidence.inventory.driver.nvml_error, *evidence.texts)]
    texts += [("machine", "\n".join(evidence.inventory.kernel_log))]
    texts += [(gpu_name(gpu), gpu.error) for gpu in evidence.inventory.gpus]
    texts += [(probe.framework, probe.text) for probe in evidence.probes]
    for where, text in texts:
        line = failure.find_in(text) if text else None
        if line is not None:
            yield where, line


def _finding(failure: Failure, where: str, seen: str, evidence: Evidence) -> Finding:
    values = {"evidence": seen, **_packages(evidence)}

    def fill(text: str) -> str:
        return re.sub(r"\{(\w+)\}", lambda match: values.get(match[1], match[0]), text)

    return Finding(
        code=failure.code,
        level=failure.level,
        title=failure.title,
        where=where,
        evidence=seen,
        cause=fill(failure.cause),
        mend=tuple(fill(line) for line in failure.mend),
        source=failure.source,
    )


def _packages(evidence: Evidence) -> dict[str, str]:
    """Name the indices and extras that suit the driver and the chips.

    PyTorch 2.9 and later offer cu126, cu128 and cu130; cu126 alone has code for chips before
    Turing, and CUDA 13 needs compute capability 7.5 (https://pytorch.org/get-started/locally/).
    """
    version = evidence.inventory.driver.cuda
    cuda = tuple(map(int, version.split("."))) if version else (13, 0)
    lowest = min(
        (gpu.capability for gpu in evidence.inventory.gpus if gpu.capability), default=(9, 0)
    )
    index = "cu130" if cuda >= (13, 0) else "cu128" if cuda >= (12, 8) else "cu126"
    if lowest < (7, 5):
        index = "cu126"
    return {
        "cuda_index": index,
        "arch_index": index,
        "jax_extra": "cuda13" if index == "cu130" else "cuda12",
    }
