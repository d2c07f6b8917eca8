"""A report as the output of a Nagios plugin: status line, performance data, long text.

The format follows the Monitoring Plugins Development Guidelines; Icinga reads it too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tarmac.checks.report.brief import say_problems
from tarmac.checks.report.rates import rates_of

if TYPE_CHECKING:
    from tarmac.checks.report.model import Report

_STATES = ("OK", "WARNING", "CRITICAL", "UNKNOWN")
_OK, _WARNING, _CRITICAL, UNKNOWN = range(4)


def nagios_status(report: Report) -> int:
    """Return the plugin's exit code: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN."""
    if report.exit_code == 0:
        has_warnings = any(finding.level == "warning" for finding in report.findings)
        return _WARNING if has_warnings else _OK
    return _CRITICAL if report.exit_code == 1 else UNKNOWN


def render_nagios(report: Report) -> str:
    """Return the plugin's output, with a newline at the end."""
    warnings = [finding.title for finding in report.findings if finding.level == "warning"]
    messages = [*say_problems(report)] or warnings or ["all requirements hold"]
    first = f"TARMAC {_STATES[nagios_status(report)]} - {_plain('; '.join(messages))}"
    data = " ".join(_perfdata(report))
    lines = [f"{first} | {data}"]
    for finding in report.findings:
        places = ", ".join(finding.where)
        lines.append(_plain(f"{finding.level}: {finding.title} ({places}): {finding.evidence}"))
        lines += [_plain(f"  {line}") for line in finding.fix]
    lines += [_plain(f"skipped: {f.code} ({', '.join(f.where)})") for f in report.skipped]
    return "\n".join(lines) + "\n"


def render_nagios_error(message: str) -> str:
    """Return the plugin's output for a check that could not run."""
    return f"TARMAC UNKNOWN - {_plain(message)}\n"


def _perfdata(report: Report) -> Iterator[str]:
    yield f"time={report.seconds:.2f}s;;;0"
    for gpu in report.inventory.gpus:
        name = f"gpu{gpu.index}"
        if gpu.temperature_c is not None:
            yield f"{name}_temperature={gpu.temperature_c}"
        if "now" in gpu.power_watts:
            limit = gpu.power_watts.get("limit")
            yield f"{name}_power={gpu.power_watts['now']:g};;;0;{_number(limit)}"
        if gpu.used_bytes is not None:
            yield f"{name}_memory={gpu.used_bytes}B;;;0;{_number(gpu.memory_bytes)}"
    for rate in rates_of(report.probes):
        label = re.sub(r"[^\w.]+", "_", rate.name)
        # The guidelines have no unit for rates, so the unit is part of the label.
        unit = "tflops" if rate.unit == "TFLOP/s" else "gb_per_s"
        yield f"{label}_{unit}={rate.value:.4g};;;0"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.15g}"


def _plain(text: str) -> str:
    # A bar would start the performance data.
    return " ".join(text.replace("|", "/").splitlines())
