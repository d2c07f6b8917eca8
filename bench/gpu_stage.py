"""Runs one stage of `bench/gpu.py`: ``gpu_stage.py NAME DIRECTORY SECONDS``.

DIRECTORY gets ``answer.json`` and what else the stage leaves; SECONDS is the time that it has.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from gpu_stages._report import Report, Skip


def main() -> int:
    """Run the stage; return 0 where it passed or was skipped, 1 where a part of it failed."""
    name, directory, seconds = sys.argv[1:]
    report = Report(Path(directory), float(seconds))
    module = importlib.import_module(f"gpu_stages.{name.replace('-', '_')}")
    try:
        with report.part(name):
            module.run(report)
    except Skip as reason:
        report.skip(str(reason))
    return 1 if report.errors else 0


if __name__ == "__main__":
    sys.exit(main())
