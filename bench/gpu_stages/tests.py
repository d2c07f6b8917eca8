"""The tests that are marked gpu, but for the kernels', which are a stage of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_stages._pytest import marked_files, run_tests

if TYPE_CHECKING:
    from gpu_stages._report import Report


def run(report: Report) -> None:
    """Run them in four processes: each has a context, and memory, on the GPU."""
    files = [path for path in marked_files() if not path.startswith("tests/kernels/")]
    run_tests(report, files, report.artifact("junit.xml"))
