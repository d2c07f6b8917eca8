"""Runs tests on the GPU and counts them."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

from gpu_stages._tarmac import ROOT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from gpu_stages._report import Report

# Each process has a context of its own on the GPU.
_NUM_PROCESSES = 4
# A test that hangs is not to cost the others.
_TEST_LIMIT_S = 60
_MAX_SHOWN = 20


def marked_files() -> list[str]:
    """Return the test files that hold the mark, below the repository.

    Only these are collected: others may import what is not installed here.
    """
    files = sorted((ROOT / "tests").rglob("*.py"))
    named = {path: path.read_text(encoding="utf-8") for path in files}
    return [
        path.relative_to(ROOT).as_posix()
        for path, text in named.items()
        if "pytest.mark.gpu" in text
    ]


def run_tests(report: Report, files: Sequence[str], junit: Path) -> None:
    """Run the marked tests of some files; keep how many there were and what failed.

    Raises:
        RuntimeError: Some failed, or none ran.
    """
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-m", "gpu", "-v"]
    command += ["--timeout", str(_TEST_LIMIT_S)]
    command += ["-n", str(_NUM_PROCESSES), "--junitxml", str(junit), "-rs", "--tb=short", *files]
    done = subprocess.run(command, cwd=ROOT, check=False, timeout=max(report.seconds_left - 5, 1))
    if not junit.exists():
        raise RuntimeError(f"pytest ended with {done.returncode} and wrote no results")
    cases = list(ET.parse(junit).iter("testcase"))
    failures = {
        f"{case.get('classname')}::{case.get('name')}": (found.get("message") or "")[:400]
        for case in cases
        for found in (*case.findall("failure"), *case.findall("error"))
    }
    skipped = [found.get("message") for case in cases for found in case.findall("skipped")]
    passed = len(cases) - len(failures) - len(skipped)
    report.keep("passed", passed)
    report.keep("skipped", skipped)
    report.keep("failed", dict(list(failures.items())[:_MAX_SHOWN]))
    if failures:
        raise RuntimeError(f"{len(failures)} of {len(cases)} tests failed: {next(iter(failures))}")
    if not passed:
        raise RuntimeError(f"no test ran; pytest ended with {done.returncode}")
