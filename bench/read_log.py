"""Reading a log of 100 MB: ``tarmac check --read`` against ``grep -E`` with the same patterns.

    python bench/read_log.py [--megabytes 100] [--rounds 5]

The logs are those of real runs in `tests/checks/logs/clean`, repeated, with one failure at the end:
as they are, in colours, and as one progress bar without the end of a line. Each reader is a process
of its own, from its start to its end, and they alternate. `grep` is given the patterns with what it
spells otherwise: digits, and what spans lines, which it finds within a line alone. It says the
lines; it joins no broken ones, and knows neither causes nor what hides what.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from _harness import TARMAC, Spread, table, write_results

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

from tarmac.checks import read_catalogue

CLEAN = Path(__file__).parents[1] / "tests" / "checks" / "logs" / "clean"
FAILURE = b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"


def write_logs(directory: Path, size: int) -> list[Path]:
    """Write the logs, and return where they are."""
    once = b"".join(log.read_bytes() for log in sorted(CLEAN.glob("*.log")))
    lines = once.splitlines()
    kinds = {
        "plain": once,
        "in colours": b"".join(b"\x1b[32m%b\x1b[0m\n" % line for line in lines),
        "progress bar": b"".join(b"\r%b" % line for line in lines),
    }
    paths = []
    for name, part in kinds.items():
        path = directory / name
        with path.open("wb") as file:
            for _ in range(size // len(part)):
                file.write(part)
            file.write(b"\n" + FAILURE)
        paths.append(path)
    return paths


def write_patterns(directory: Path) -> Path:
    """Write the catalogue's patterns as `grep` spells them."""
    path = directory / "patterns"
    patterns = [text for failure in read_catalogue().values() for text in failure.text]
    spelled = [text.replace(r"[\s\S]*", ".*").replace(r"\d", "[0-9]") for text in patterns]
    path.write_text("\n".join(text.replace("[[0-9].]", "[0-9.]") for text in spelled))
    return path


def run(command: Sequence[str], environment: Mapping[str, str]) -> tuple[float, int, bytes]:
    """Return a program's seconds, its peak memory in bytes, and what it prints."""
    with tempfile.TemporaryFile() as output:
        started = time.perf_counter()
        process = subprocess.Popen(command, stdout=output, env={**os.environ, **environment})
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        return seconds, usage.ru_maxrss * 1024, output.read()


def main() -> None:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    seconds: dict[str, list[float]] = {}
    memory: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        logs = write_logs(directory, asked.megabytes * 10**6)
        patterns = write_patterns(directory)
        for _ in range(asked.rounds):
            for log in logs:
                readers: dict[str, Sequence[str]] = {
                    "tarmac": (*TARMAC, "check", "--read", str(log)),
                    "grep -E": ("grep", "-anE", "-f", str(patterns), str(log)),
                }
                for reader, command in readers.items():
                    taken, peak, printed = run(command, {"LC_ALL": "C.UTF-8"})
                    if b"out of memory" not in printed.lower():
                        raise RuntimeError(f"{reader} has not found the failure in {log.name}")
                    key = f"{log.name}: {reader}"
                    seconds.setdefault(key, []).append(taken)
                    memory[key] = max(memory.get(key, 0), peak)
    rows = [
        [name, Spread.of(taken).show(), f"{memory[name] / 2**20:.0f}"]
        for name, taken in seconds.items()
    ]
    text = (
        f"{asked.megabytes} MB, {asked.rounds} alternating rounds; whole processes.\n\n"
        f"{table(['log and reader', 's: median (lowest to highest)', 'peak MiB'], rows)}"
    )
    facts = {"megabytes": asked.megabytes, "seconds": seconds, "peak_bytes": memory}
    write_results("read-log", facts, text)


if __name__ == "__main__":
    main()
