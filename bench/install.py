"""What Tarmac's core costs a machine that has no framework: download, installation, first answers.

    python bench/install.py [--rounds 5]

Builds the wheel, downloads it with all that it needs, installs that into new environments without a
network, and runs commands there. Needs `build`, `uv` and the package index.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path
from typing import TYPE_CHECKING

from _harness import Spread, table, write_results

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ROOT = Path(__file__).parent.parent
COMMANDS = (["--version"], ["--help"], ["check", "--quick"], ["run", "job.yaml", "--dry-run"])


class Times:
    """Wall and CPU seconds of one thing, of all rounds."""

    def __init__(self) -> None:
        self.wall: list[float] = []
        self.cpu: list[float] = []

    def measure(self, work: Callable[[], object]) -> None:
        """Do it once; its processes' CPU time counts, also that of their children."""
        started, before = time.perf_counter(), os.times()
        work()
        after = os.times()
        self.wall.append(time.perf_counter() - started)
        self.cpu.append(
            after.children_user
            + after.children_system
            - before.children_user
            - before.children_system
        )

    def row(self, name: str) -> list[str]:
        """Return a table's row."""
        return [name, Spread.of(self.wall).show(), Spread.of(self.cpu).show()]


def run(command: Sequence[str | Path], directory: Path) -> None:
    """Run a command quietly; `check` may find that something is wrong with the machine."""
    done = subprocess.run(
        command,
        cwd=directory,
        env={"PATH": os.environ["PATH"], "HOME": str(directory)},
        capture_output=True,
        check=False,
        text=True,
    )
    if done.returncode not in ((0, 1) if "check" in command else (0,)):
        raise RuntimeError(f"{command} exited with {done.returncode}:\n{done.stderr}")


def size_of(directory: Path) -> int:
    """Return the bytes of all files below a directory."""
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def main() -> None:
    """Run the rounds and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        files = work / "files"
        python = [sys.executable, "-m"]
        subprocess.run([*python, "build", "--wheel", "--outdir", work, ROOT], check=True)
        (wheel,) = work.glob("*.whl")
        constraints = ["-c", ROOT / "constraints.txt"]
        subprocess.run(
            [*python, "pip", "download", "-q", *constraints, "-d", files, wheel], check=True
        )
        sizes = {re.split(r"-\d", path.name)[0]: path.stat().st_size for path in files.iterdir()}

        times = {"installation by pip": Times(), "installation by uv": Times()}
        times |= {f"tarmac {' '.join(command)}": Times() for command in COMMANDS}
        (work / "job.yaml").write_text("name: hello\ncommand: [echo, hello]\n")
        source = ["--no-index", "--find-links", files, wheel]
        for _ in range(rounds):
            environment = work / "environment"
            for installer in ("pip", "uv"):
                shutil.rmtree(environment, ignore_errors=True)
                venv.create(environment, with_pip=installer == "pip")
                new = environment / "bin" / "python"
                by_pip = [new, "-m", "pip", "install", "-q", "--no-cache-dir", *source]
                # Without byte code, which the first command then writes; pip writes it itself.
                by_uv = [*python, "uv", "pip", "install", "-q", "--no-cache", "--python", new]
                command = by_pip if installer == "pip" else [*by_uv, *source]
                times[f"installation by {installer}"].measure(lambda c=command: run(c, work))
                if installer == "pip":
                    before = size_of(environment)
            run([environment / "bin" / "tarmac", "check", "--quick"], work)
            for command in COMMANDS:
                whole = [environment / "bin" / "tarmac", *command]
                times[f"tarmac {' '.join(command)}"].measure(lambda c=whole: run(c, work))
        installed = before
        bare = work / "bare"
        venv.create(bare, with_pip=True)
        installed -= size_of(bare)

    largest = sorted(sizes.items(), key=lambda item: -item[1])
    data = {
        "rounds": rounds,
        "download_bytes": sizes,
        "installed_bytes": installed,
        "seconds": {key: {"wall": t.wall, "cpu": t.cpu} for key, t in times.items()},
    }
    rows = [measured.row(key) for key, measured in times.items()]
    text = (
        f"{len(sizes)} files, {sum(sizes.values()) / 1e6:.1f} MB to download, "
        f"{installed / 1e6:.0f} MB installed with byte code. The largest: "
        + ", ".join(f"{name} {size / 1e6:.1f} MB" for name, size in largest[:5])
        + f".\n\nNo framework is installed. {rounds} rounds; medians, with the lowest and highest "
        "in brackets. Installation is from files that are on the disk. CPU time is that of all "
        f"processes.\n\n{table(['', 'seconds', 'CPU seconds'], rows)}"
    )
    write_results("install", data, text)


if __name__ == "__main__":
    main()
