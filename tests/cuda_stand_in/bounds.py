"""What a step may ask of the GPU at most: measures it, and keeps it in ``bounds.json``.

    make gpu-bounds        measures, and writes what was measured to the file; see the diff

They are measured with PyTorch `bed.DEFAULT`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bed import HERE, Bed, build_bed

_FILE = HERE / "bounds.json"
_PROGRAM = HERE / "trials.py"
_LIMIT_S = 600
# Of the GPUs that are pretended for each group of cases.
GROUPS = {"one": 1, "two": 2, "ranks": 2, "launched": 2}

Figures = dict[str, float]


def measure(bed: Bed, group: str) -> dict[str, dict[str, Any]]:
    """Do a group's cases in processes of their own.

    Args:
        bed: Where.
        group: One of `GROUPS`.

    Returns:
        By case, its figures; or a text under ``error``.
    """
    num_gpus = GROUPS[group]
    command = [sys.executable]
    if group == "ranks":
        command += ["-m", "torch.distributed.run", "--standalone"]
        command += ["--nproc-per-node", str(num_gpus)]
    with tempfile.TemporaryDirectory() as directory:
        output = Path(directory) / "figures.json"
        done = subprocess.run(
            [*command, str(_PROGRAM), group, str(output)],
            env=bed.environment(num_gpus) | {"XDG_CACHE_HOME": str(Path(directory) / "cache")},
            capture_output=True,
            text=True,
            check=False,
            timeout=_LIMIT_S,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{group} ended with {done.returncode}:\n{done.stderr[-4000:]}")
        return json.loads(output.read_text())


def read_bounds() -> dict[str, dict[str, Figures]]:
    """Return the bounds by group and case."""
    return json.loads(_FILE.read_text())


def _write(bounds: Mapping[str, Mapping[str, Figures]]) -> None:
    # A line for each case, so that a diff shows what changed.
    lines = []
    for group, cases in bounds.items():
        of_cases = [f"    {json.dumps(n)}: {json.dumps(f)}" for n, f in sorted(cases.items())]
        lines.append(f"  {json.dumps(group)}: {{\n" + ",\n".join(of_cases) + "\n  }")
    _FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def main() -> None:
    """Measure all cases and write the file."""
    bed = build_bed()
    bounds = {group: measure(bed, group) for group in GROUPS}
    failed = {
        name: figures["error"]
        for cases in bounds.values()
        for name, figures in cases.items()
        if "error" in figures
    }
    if failed:
        for name, error in failed.items():
            sys.stderr.write(f"{name}:\n{error}\n")
        sys.exit(f"error: {len(failed)} cases failed; the bounds stay as they are")
    _write(bounds)


if __name__ == "__main__":
    main()
