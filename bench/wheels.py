"""Downloads what Tarmac needs beside PyTorch and NumPy, for a machine without a network.

    python bench/wheels.py [--python 3.11,3.12] [--machine x86_64] [--directory wheels]

`make wheels` runs it. What is needed is read from the metadata of the packages of this environment,
their versions from constraints.txt; PyTorch's own requirements come with PyTorch. `make gpu`
installs of it what is missing there.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from packaging.requirements import Requirement

from gpu_driver.closure import Package, close, normalized, roots_of

ROOT = Path(__file__).parents[1]
# The Pythons that Tarmac's tests run on.
PYTHONS = "3.11,3.12,3.13,3.14"
# pip compares these tags word by word. 2.28 is the oldest C library that PyTorch's wheels run on.
_GLIBC = range(28, 4, -1)
_OLDER_NAMES = ("manylinux2014", "manylinux2010", "manylinux1")


def pins() -> dict[str, str]:
    """Return the tested versions, by normalized name."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    requirements = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {normalized(r.name): str(r.specifier).removeprefix("==") for r in requirements}


def installed(name: str) -> Package | None:
    """Return a package of this environment."""
    try:
        distribution = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return None
    return Package(name, distribution.version, tuple(distribution.requires or ()))


def needed(python: str, machine: str) -> dict[str, str]:
    """Return the versions that a Python on Linux needs, by name.

    Raises:
        SystemExit: A package is not installed here, so that its own needs are not known.
    """
    environment = {
        "python_version": python,
        "python_full_version": f"{python}.0",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "sys_platform": "linux",
        "platform_system": "Linux",
        "os_name": "posix",
        "platform_machine": machine,
    }
    closure = close(roots_of(ROOT / "pyproject.toml"), installed, lambda _name: None, environment)
    tested = pins()
    # What only another Python needs is not here: it is downloaded by its pin, alone.
    others = {normalized(Requirement(text).name) for text in closure.unmet}
    if unknown := sorted(others - tested.keys()):
        raise SystemExit(f"Not installed here, nor in constraints.txt: {', '.join(unknown)}")
    names = {name: package.version for name, package in closure.chosen.items()}
    return {name: tested.get(name, names.get(name, "")) for name in sorted({*names, *others})}


def download(versions: dict[str, str], python: str, machine: str, directory: Path) -> None:
    """Fetch the wheels of some versions for one Python."""
    platforms = [f"manylinux_2_{minor}_{machine}" for minor in _GLIBC]
    platforms += [f"{name}_{machine}" for name in _OLDER_NAMES]
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"),
            *("--only-binary=:all:", "--no-deps", "--python-version", python),
            *("--implementation", "cp", "--dest", str(directory)),
            *(word for name in platforms for word in ("--platform", name)),
            *(f"{name}=={version}" for name, version in versions.items()),
        ],
        check=True,
    )


def main() -> None:
    """Download all, and put them in place of what was there before."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", default=PYTHONS, help="versions, separated by commas")
    parser.add_argument("--machine", default=platform.machine())
    parser.add_argument("--directory", type=Path, default=ROOT / "wheels")
    given = parser.parse_args()
    given.directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=given.directory.parent) as work:
        made = Path(work) / "wheels"
        made.mkdir()
        for python in given.python.split(","):
            download(needed(python, given.machine), python, given.machine, made)
        if given.directory.exists():
            shutil.rmtree(given.directory)
        made.rename(given.directory)
    files = sorted(given.directory.glob("*.whl"))
    size = sum(file.stat().st_size for file in files)
    print(f"{given.directory}: {len(files)} wheels for Python {given.python}, {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
