"""A report as one line of at most 80 characters, for a drain's reason or a node condition."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tarmac.checks.report.model import Report

# Characters that node-problem-detector keeps of a plugin's output (default of max_output_length).
_WIDTH = 80

# Characters that are special to shells and to Slurm.
_DROPPED = str.maketrans("", "", "\"'`$\\|")

_WORDS = {0: "ok", 1: "FAILED", 3: "UNKNOWN"}


def render_brief(report: Report) -> str:
    """Return the line: the answer, and the problems, most important first.

    The line is ASCII without quotes, so that shells and Slurm accept it inside quotes.
    """
    parts = [_plain(text) for text in say_problems(report)] or [_plain(_say_machine(report))]
    line = f"{_WORDS[report.exit_code]}: {parts[0]}"
    for number, part in enumerate(parts[1:], 1):
        rest = f" (+{len(parts) - number})"
        room = _WIDTH - (len(rest) if number < len(parts) - 1 else 0)
        if len(line) + len(part) + 2 > room:
            return f"{_cut(line, _WIDTH - len(rest))}{rest}"
        line = f"{line}; {part}"
    return _cut(line, _WIDTH)


def say_problems(report: Report) -> Iterator[str]:
    """Yield each problem that keeps the check from being ok, in short."""
    for finding in report.failing:
        yield f"{finding.code} at {', '.join(finding.where)}"
    for requirement in report.requirements:
        if requirement.met is False:
            yield f"not {requirement.text}, found {requirement.found}"
    for verdict in report.broken:
        yield f"{verdict.name} {verdict.text}"
    for requirement in report.requirements:
        if requirement.met is None:
            yield f"cannot tell {requirement.text}"
    for unseen in report.unanswered:
        yield f"{unseen.where}: {unseen.why}"


def _say_machine(report: Report) -> str:
    names: dict[str, int] = {}
    for gpu in report.inventory.gpus:
        name = gpu.name or "unknown GPU"
        names[name] = names.get(name, 0) + 1
    gpus = ", ".join(f"{number} x {name}" for name, number in names.items()) or "no NVIDIA GPU"
    return ", ".join((gpus, *(f"{v.name} {v.answer}" for v in report.frameworks)))


def _plain(text: str) -> str:
    return " ".join(text.split()).translate(_DROPPED).encode("ascii", "replace").decode()


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 3]}..."
