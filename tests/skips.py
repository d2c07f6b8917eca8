"""A plugin of pytest: skips modules without their extra, and ends with what was skipped and why.

A test module that imports PyTorch needs no `importorskip`: it is skipped where the extra of Tarmac
that brings PyTorch is not installed. So is a folder whose conftest.py imports it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any

import pytest

from tarmac.distribution import MissingExtraError, install_hint, what_brings

# A file that gets the counts of a run, for `.ci/steps`, which adds up those of several.
VARIABLE = "TARMAC_TEST_SKIPS"
# What only tests import; `tarmac.distribution` knows the others.
OF_TESTS = (
    *("boto3", "cryptography", "jsonschema", "junitparser", "kubernetes_validate", "moto"),
    *("playwright", "ray", "triton"),
)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    call = getattr(report, "call", None)
    error = call.excinfo.value if report.failed and call and call.excinfo else None
    if reason := missing_extra(error):
        report.outcome = "skipped"
        report.longrepr = (str(collector.path), 0, f"Skipped: {reason}")
    return report


def missing_extra(error: BaseException | None) -> str | None:
    """Return which package an import did not find, and what brings it; None for other errors."""
    while error is not None:
        name = (getattr(error, "name", None) or "").partition(".")[0]
        if isinstance(error, MissingExtraError):
            return ": ".join(str(error).splitlines()[:2])
        hint = install_hint("dev") if name in OF_TESTS else what_brings(name)
        if isinstance(error, ModuleNotFoundError) and hint:
            return f"{name} is not installed: {hint.splitlines()[0]}"
        # pytest keeps the error of a conftest.py in an attribute.
        error = getattr(error, "cause", None) or error.__cause__ or error.__context__
    return None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    counts = skip_counts(terminalreporter.stats.get("skipped", ()))
    if counts:
        terminalreporter.section("skipped here, with what would provide it")
        for reason, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])):
            terminalreporter.line(f"{count:5} {reason}")
    if path := os.environ.get(VARIABLE):
        with Path(path).open("a") as file:
            file.writelines(f"{count} {reason}\n" for reason, count in counts.items())


def skip_counts(reports: Iterable[Any]) -> Counter[str]:
    """Return how many tests each reason has skipped.

    A module that cannot be imported counts once, whichever number of workers reports it.

    Args:
        reports: Of pytest, whose `longrepr` is a path, a line and a reason.
    """
    counts: Counter[str] = Counter()
    modules = set()
    for report in reports:
        reason = str(report.longrepr[2]).removeprefix("Skipped: ").splitlines()[0]
        if report.when == "collect":
            if report.nodeid in modules:
                continue
            modules.add(report.nodeid)
            reason = f"{reason} (whole modules)"
        counts[reason] += 1
    return counts
