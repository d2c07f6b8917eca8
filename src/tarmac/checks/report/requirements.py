"""The required conditions of a check, and their answers.

``--require`` and files of expectations both become a `Condition`. Its answer is whether the
condition holds, and the actual value. An unknown value neither holds nor fails.
"""

from __future__ import annotations

import dataclasses
import operator
import re
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

from packaging.version import InvalidVersion, Version

from tarmac.checks.evidence import Evidence
from tarmac.checks.frameworks import ALL_REDUCE, framework_named, framework_names
from tarmac.checks.report.model import Requirement, Verdict
from tarmac.checks.report.rates import COPIES, PRODUCTS, rates_of
from tarmac.checks.report.unseen import is_silent
from tarmac.errors import RequestError

# Whether the condition holds, None where that is unknown; and the actual value.
_Answer: TypeAlias = tuple[bool | None, str]

# The wanted value where any will do, as long as all GPUs have the same.
EQUAL = "equal"


@dataclasses.dataclass(frozen=True)
class Condition:
    """A required condition.

    Attributes:
        text: Condition as the user wrote it, such as ``gpus>=1``.
        answer: Returns whether the condition holds, and the actual value, for evidence and the
            frameworks' verdicts.
        framework: Name of the framework to probe for it; None for none.
        needs_rates: Whether it needs a measured rate, which a quick check does not have.
        source: Name of the file that has the condition; empty for ``--require``.
        better: Returns whether the value is better than in the baseline.
    """

    text: str
    answer: Callable[[Evidence, Sequence[Verdict]], _Answer]
    framework: str | None = None
    needs_rates: bool = False
    source: str = ""
    better: Callable[[Evidence], bool] = lambda _: False

    def __call__(self, evidence: Evidence, frameworks: Sequence[Verdict]) -> Requirement:
        """Return the condition with its answer."""
        met, value = self.answer(evidence, frameworks)
        return Requirement(
            text=self.text,
            met=met,
            found=value,
            better=self.better(evidence),
            source=self.source,
        )


def parse_requirements(texts: Sequence[str]) -> list[Condition]:
    """Parse conditions such as ``gpus>=1``, ``pytorch``, ``torch.bf16>=600`` or ``driver>=570``.

    Raises:
        RequestError: A text is no known condition.
    """
    return [parse_requirement(text) for text in texts]


def parse_requirement(text: str) -> Condition:
    """Parse one condition, such as ``gpus>=1``.

    Raises:
        RequestError: The text is no known condition.
    """
    framework = framework_named(text)
    if framework is not None:
        name = framework.name
        return Condition(text, lambda _, verdicts: _works(name, verdicts), framework=name)
    match = re.fullmatch(r"\s*([\w.-]+?)\s*(?:(>=|==|>|<|<=)\s*(\S.*?))?\s*", text, re.ASCII)
    if match is not None and match[2] is None and match[1] == "gpu":
        return Condition(text, lambda evidence, _: _compare(_gpus(evidence), ">=", 1.0))
    condition = None
    if match is not None and match[2] is not None:
        condition = _of_machine(text, *match.groups()) or _of_rate(text, *match.groups())
    if condition is None:
        raise RequestError(
            f"--require {text!r} is not understood",
            hint=f"A framework ({', '.join(framework_names())}), or one of "
            f"{', '.join((*_QUANTITIES, *_VERSIONS))} with a number: gpus>=1, gpu_memory>=16 (GiB, "
            "of the smallest), driver>=570, cuda>=12.8; gpu_name or vbios with a text: "
            f"vbios=={EQUAL}; or a framework's rate: torch.bf16>=600 (TFLOP/s; "
            f"{', '.join(PRODUCTS)}), torch.to_device>=40 (GB/s; {', '.join(COPIES)})",
        )
    return condition


def env_condition(name: str, value: str | None) -> Condition:
    """Return the condition that an environment variable has a value, or is not set for None."""

    def answer(evidence: Evidence, _: Sequence[Verdict]) -> _Answer:
        current = evidence.inventory.environment.get(name)
        return current == value, "not set" if current is None else current

    text = f"{name} is not set" if value is None else f"{name}={value}"
    return Condition(text, answer)


def _of_machine(text: str, name: str, comparison: str, amount: str) -> Condition | None:
    if name in _VERSIONS:
        read_version, version = _VERSIONS[name], _version_asked(text, amount)
        return Condition(text, lambda e, _: _compare(read_version(e), comparison, version))
    if name in _QUANTITIES:
        read_number, number = _QUANTITIES[name], _number_asked(text, amount)
        return Condition(text, lambda e, _: _compare(read_number(e), comparison, number))
    if name in _TEXTS and comparison == "==":
        return Condition(text, lambda e, _: _same(e, _TEXTS[name], amount))
    return None


def _of_rate(text: str, name: str, comparison: str, amount: str) -> Condition | None:
    """Return the condition that a framework's slowest device has a rate; None for other names."""
    prefix, _, kind = name.rpartition(".")
    # The all-reduce is no framework that users can name alone, so `framework_named` lacks it.
    known = framework_named(prefix)
    framework = prefix if prefix == ALL_REDUCE.name else known.name if known else None
    if framework is None or kind not in (*PRODUCTS, *COPIES):
        return None
    number = _number_asked(text, amount)

    def answer(evidence: Evidence, _: Sequence[Verdict]) -> _Answer:
        probes = [probe for probe in evidence.probes if probe.framework == framework]
        rates = [rate for rate in rates_of(probes) if rate.kind == kind]
        if not rates:
            is_unknown = any(probe.outcome == "not started" for probe in probes)
            return (None if is_unknown else False), "not measured"
        slowest = min(rates, key=lambda rate: rate.per_second)
        met, value = _compare(slowest.value, comparison, number)
        return met, f"{float(value):.4g} {slowest.unit} on {slowest.device}"

    needed = None if framework == ALL_REDUCE.name else framework
    return Condition(text, answer, framework=needed, needs_rates=True)


def _version_asked(text: str, amount: str) -> Version:
    try:
        return Version(amount)
    except InvalidVersion as error:
        raise RequestError(
            f"--require {text!r}: {amount!r} is not a version",
            hint="For example: 570, 570.86.15 or 12.8",
        ) from error


def _number_asked(text: str, amount: str) -> float:
    if not re.fullmatch(r"\d+(\.\d*)?|\.\d+", amount, re.ASCII):
        raise RequestError(
            f"--require {text!r}: {amount!r} is not a number", hint="For example: 1 or 0.5"
        )
    return float(amount)


# The value where the machine has nothing of this kind; no comparison holds for it.
_Absent = Literal["none"]
_NONE: _Absent = "none"


def _version(text: str | None, evidence: Evidence) -> Version | _Absent | None:
    # The name of a build may follow the version: 570.86.15-grid.
    match = re.match(r"\d+(\.\d+)*", text or "")
    if match is not None:
        return Version(match[0])
    return None if is_silent(evidence) else _NONE


def _gpus(evidence: Evidence) -> float:
    return sum(gpu.error is None for gpu in evidence.inventory.gpus)


def _smallest_gib(evidence: Evidence) -> float | _Absent | None:
    sizes = [gpu.memory_bytes for gpu in evidence.inventory.gpus if gpu.memory_bytes]
    if sizes:
        return min(sizes) / 2**30
    return None if evidence.inventory.gpus or is_silent(evidence) else _NONE


def _shm_gib(evidence: Evidence) -> float | None:
    size = evidence.inventory.limits.shm_bytes
    return None if size is None else size / 2**30


_QUANTITIES: dict[str, Callable[[Evidence], float | _Absent | None]] = {
    "gpus": _gpus,
    "gpu_memory": _smallest_gib,
    "cpus": lambda evidence: evidence.inventory.limits.cpus,
    "memory": lambda evidence: evidence.inventory.usable_memory_bytes / 2**30,
    "shm": _shm_gib,
}

_VERSIONS: dict[str, Callable[[Evidence], Version | _Absent | None]] = {
    "driver": lambda evidence: _version(evidence.inventory.driver.version, evidence),
    "cuda": lambda evidence: _version(evidence.inventory.driver.cuda, evidence),
}

# Attributes of `Gpu`, compared on each GPU.
_TEXTS = {"gpu_name": "name", "vbios": "vbios"}

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge,
    ">": operator.gt,
    "==": operator.eq,
    "<=": operator.le,
    "<": operator.lt,
}


def _compare(
    actual: float | Version | _Absent | None, comparison: str, wanted: float | Version
) -> _Answer:
    if actual is None or actual == _NONE:
        return (None, "unknown") if actual is None else (False, _NONE)
    shown = f"{actual:g}" if isinstance(actual, (int, float)) else str(actual)
    return _COMPARISONS[comparison](actual, wanted), shown


def _same(evidence: Evidence, field: str, wanted: str) -> _Answer:
    values = [getattr(gpu, field, None) for gpu in evidence.inventory.gpus]
    known = sorted({value for value in values if value is not None})
    if not values:
        return (None, "unknown") if is_silent(evidence) else (False, "no GPU")
    text = ", ".join(known) or "unknown"
    if len(known) > 1 or (known and wanted not in (EQUAL, known[0])):
        return False, text
    return (None if None in values else True), text


def _works(name: str, frameworks: Sequence[Verdict]) -> _Answer:
    verdicts = [verdict for verdict in frameworks if verdict.name.split()[0] == name]
    if not verdicts:
        return False, "not checked"
    # It has to work in every interpreter and image that was probed.
    bad = [v for v in verdicts if v.answer not in ("ok", "cpu only", "warning")]
    if bad and all(verdict.answer == "unknown" for verdict in bad):
        return None, bad[0].text
    return not bad, (bad or verdicts)[0].text
