"""What the benchmarks share: the machine's facts, a child's time and memory, results' files."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import re
import statistics
import subprocess
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

RESULTS = Path(__file__).parent / "results"


@dataclasses.dataclass(frozen=True)
class Child:
    """A process that has ended: its wall time, its peak memory, and the last line it printed."""

    seconds: float
    peak_rss_bytes: int
    result: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Spread:
    """Several measurements of one thing."""

    values: tuple[float, ...]

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Keep all values."""
        return cls(tuple(values))

    @property
    def median(self) -> float:
        """The middle value."""
        return statistics.median(self.values)

    def show(self, digits: int = 2) -> str:
        """Return ``median (lowest to highest)``."""
        low, high = min(self.values), max(self.values)
        return f"{self.median:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def run_child(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Child:
    """Run a program to its end and measure it from outside.

    Its standard output must end with a JSON object.

    Raises:
        RuntimeError: It failed; its own words are in the message.
    """
    # Files, because a child that fills one pipe while the other is read would wait for ever.
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as complaints:
        started = time.perf_counter()
        process = subprocess.Popen(
            command, stdout=output, stderr=complaints, env={**os.environ, **(environment or {})}
        )
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        complaints.seek(0)
        out, errors = output.read(), complaints.read()
    if process.returncode != 0:
        raise RuntimeError(
            f"{' '.join(command)} exited with {process.returncode}:\n{errors[-2000:]}"
        )
    return Child(seconds, usage.ru_maxrss * 1024, json.loads(out[out.index("{") :]))


def machine_facts() -> dict[str, Any]:
    """Describe the machine: what a figure means nothing without."""
    cpuinfo = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    name = re.search(r"model name\s*: (.*)", cpuinfo)
    flags = set(re.findall(r"\b(?:amx_bf16|avx512_bf16|avx512f|avx2)\b", cpuinfo))
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "cpu": name.group(1) if name else platform.machine(),
        "cores": os.cpu_count(),
        "features": sorted(flags),
        "python": platform.python_version(),
        "kernel": platform.release(),
    }


def machine_slug() -> str:
    """Return a short name of the machine for the results' files."""
    facts = machine_facts()
    words = re.sub(r"\(.*?\)|[^\w]+", "-", facts["cpu"]).strip("-").lower()
    unit = "-amx" if "amx_bf16" in facts["features"] else ""
    return f"{re.sub('-+', '-', words)}{unit}-{facts['cores']}-core"


def write_results(name: str, data: Mapping[str, Any], text: str) -> None:
    """Write a benchmark's figures as JSON and as a page, with the machine's facts."""
    RESULTS.mkdir(exist_ok=True)
    facts = machine_facts()
    stem = RESULTS / f"{name}-{machine_slug()}"
    stem.with_suffix(".json").write_text(json.dumps({"machine": facts, **data}, indent=2) + "\n")
    header = "\n".join(f"- {key}: {value}" for key, value in facts.items())
    page = f"# {name}\n\n{header}\n\n{text.rstrip()}\n"
    stem.with_suffix(".md").write_text(page)
    print(page)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
