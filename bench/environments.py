"""From `tarmac run` to a task's first line in an environment, against the installers alone.

    python bench/environments.py [--rounds 5] [--packages 30] [--files 50]

An environment of conda's, of a channel on this machine, beside rattler alone; a project with a
`uv.lock` of wheels on this machine, beside `uv sync` alone. Alternating, in one run; package caches
are empty where the environment is new. Then the disk that two environments of conda's take that
share all packages but one.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

from _harness import TARMAC, Spread, table, write_results

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from typing import TYPE_CHECKING

from conda_channel import index, make_package

if TYPE_CHECKING:
    from collections.abc import Mapping

RATTLER = """
import asyncio, rattler, sys
async def main(channel, prefix, *specs):
    records = await rattler.solve(
        [rattler.Channel(channel)], specs, virtual_packages=rattler.VirtualPackage.detect()
    )
    await rattler.install(records, target_prefix=prefix, show_progress=False)
asyncio.run(main(*sys.argv[1:]))
"""


def make_channel(root: Path, count: int, files: int) -> list[str]:
    """Make a channel of packages, and return their names."""
    names = [f"package-{number}" for number in range(count)]
    for name in names:
        held = {f"share/{name}/{number}.txt": f"{name} {number}\n" * 500 for number in range(files)}
        make_package(root, name, files=held)
    index(root)
    return names


def make_project(root: Path, count: int, files: int) -> None:
    """Make a project whose lock has wheels of this machine."""
    lines = []
    for number in range(count):
        name = f"package_{number}"
        wheel = root.parent / f"{name}-1.0-py3-none-any.whl"
        info = f"{name}-1.0.dist-info"
        with zipfile.ZipFile(wheel, "w") as packed:
            for file in range(files):
                packed.writestr(f"{name}/{file}.txt", f"{name} {file}\n" * 500)
            packed.writestr(
                f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
            )
            packed.writestr(
                f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            )
            packed.writestr(f"{info}/RECORD", "")
        lines.append(f'"{name} @ {wheel.as_uri()}"')
    root.mkdir()
    (root / "pyproject.toml").write_text(
        f'[project]\nname = "project"\nversion = "1"\nrequires-python = ">=3.9"\n'
        f"dependencies = [{', '.join(lines)}]\n"
    )
    subprocess.run(["uv", "lock", "--quiet", "--offline"], cwd=root, check=True)


def first_line_s(job: Path, variables: Mapping[str, str]) -> float:
    """Return the seconds from the start of `tarmac run` to the first line of its task."""
    with tempfile.TemporaryDirectory() as output:
        started = time.time()
        subprocess.run(
            [*TARMAC, "run", "--json", "--output", output, str(job)],
            check=True,
            stdout=subprocess.DEVNULL,
            env={**os.environ, **variables},
        )
        (stdout,) = Path(output).glob("*/tasks/*/stdout")
        return float(stdout.read_text()) - started


def alone_s(command: list[str], variables: Mapping[str, str], cwd: Path) -> float:
    """Return the seconds that an installer takes alone."""
    started = time.time()
    subprocess.run(
        command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, **variables}, cwd=cwd
    )
    return time.time() - started


def size(*directories: Path) -> int:
    """Return the bytes of files, those of several links once."""
    found = {
        (stat.st_dev, stat.st_ino): stat.st_size
        for directory in directories
        for path in directory.rglob("*")
        if path.is_file() and (stat := path.lstat())
    }
    return sum(found.values())


def main() -> None:
    """Run the rounds and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--packages", type=int, default=30)
    parser.add_argument("--files", type=int, default=50)
    given = parser.parse_args()
    names = (
        "no environment",
        "conda, new",
        "conda, cached",
        "rattler alone",
        "uv, new",
        "uv, cached",
        "uv sync alone",
    )
    found: dict[str, list[float]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        packages = make_channel(root / "channel", given.packages, given.files)
        make_project(root / "project", given.packages, given.files)
        for name, last in (("environment", None), ("other", -1)):
            (root / f"{name}.yml").write_text(
                f"channels: [{root}/channel]\ndependencies: [{', '.join(packages[:last])}]\n"
            )
        of_conda = "environment: {kind: conda, file: %s.yml}"
        for name, environment in (
            ("conda", of_conda % "environment"),
            ("other", of_conda % "other"),
            ("project", "environment: {path: project}"),
            ("none", "environment: system"),
        ):
            (root / f"{name}.yaml").write_text(f"name: x\n{environment}\ncommand: date +%s.%N\n")
        for number in range(given.rounds):
            own = root / f"round-{number}"
            ours, theirs = (
                {
                    "XDG_CACHE_HOME": str(own / who),
                    "RATTLER_CACHE_DIR": str(own / who / "packages"),
                    "UV_CACHE_DIR": str(own / who / "uv"),
                }
                for who in ("ours", "theirs")
            )
            own.mkdir()
            prefix, venv = str(own / "prefix"), str(own / "venv")
            rattler = [sys.executable, "-c", RATTLER, f"{root}/channel", prefix, *packages]
            sync = ["uv", "sync", "--quiet", "--frozen", "--python", sys.executable]
            found["no environment"].append(first_line_s(root / "none.yaml", ours))
            found["conda, new"].append(first_line_s(root / "conda.yaml", ours))
            found["rattler alone"].append(alone_s(rattler, theirs, root))
            found["conda, cached"].append(first_line_s(root / "conda.yaml", ours))
            found["uv, new"].append(first_line_s(root / "project.yaml", ours))
            uv = {**theirs, "UV_PROJECT_ENVIRONMENT": venv}
            found["uv sync alone"].append(alone_s(sync, uv, root / "project"))
            found["uv, cached"].append(first_line_s(root / "project.yaml", ours))
        built = root / "round-0/ours/tarmac/venvs"
        (first,) = (path for path in built.iterdir() if (path / "conda-meta").is_dir())
        variables = {"XDG_CACHE_HOME": str(root / "round-0/ours")}
        variables["RATTLER_CACHE_DIR"] = str(root / "round-0/ours/packages")
        first_line_s(root / "other.yaml", variables)
        both = [path for path in built.iterdir() if (path / "conda-meta").is_dir()]
        sizes = size(first), size(*both)
    rows = [[name, Spread.of(seconds).show()] for name, seconds in found.items()]
    text = (
        f"{given.packages} packages of {given.files} files, {given.rounds} rounds; seconds from "
        f"the start of `tarmac run` to the task's first line, and of the installers alone.\n\n"
        f"{table(['', 's'], rows)}\n\nOne environment of conda's takes {sizes[0] / 2**20:.1f} MiB, "
        f"two that differ by one package {sizes[1] / 2**20:.1f} MiB together."
    )
    kept = {"options": vars(given), "seconds": found, "bytes": sizes}
    write_results("environments", kept, text)


if __name__ == "__main__":
    main()
