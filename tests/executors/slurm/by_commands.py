"""The command line as users start it on a cluster, and what tests wait for."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from waiting import wait_until

TARMAC = [sys.executable, "-m", "tarmac"]

# A busy machine takes longer, and a passing test does not wait.
WITHIN_S = 90.0


def run_tarmac(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*TARMAC, *arguments], capture_output=True, text=True, check=False, timeout=WITHIN_S
    )


@contextlib.contextmanager
def start(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Have the command line run for as long as the block, at most."""
    with subprocess.Popen(
        [*TARMAC, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        try:
            yield running
        finally:
            running.kill()


def write_job(text: str) -> None:
    Path("job.yaml").write_text(text)


def write_gated(gate: Path, *, num: int = 1) -> None:
    """Write a job whose tasks add a line to a file, and wait until a file is there."""
    command = f"echo begun >> {gate}.begun; until test -e {gate}; do sleep 0.1; done"
    write_job(f"{{name: x, command: '{command}', sweep: {{repeat: {num}}}, timeout: 5m}}")


def wait_for(is_so, what: str, *, within_s: float = WITHIN_S, **options):
    return wait_until(is_so, what, seconds=within_s, **options)


def wait_for_lines(path: Path, num: int) -> None:
    wait_for(lambda: path.exists() and len(path.read_text().splitlines()) >= num, f"{num} lines")


def queued_names(cluster) -> list[str]:
    return cluster.run("squeue", "-h", "-r", "-o", "%j").split()


def the_run() -> Path:
    (run,) = Path("runs").resolve().iterdir()
    return run
