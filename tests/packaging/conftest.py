"""An environment that has Tarmac's core and nothing else."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import tarmac
from tarmac.distribution import DISTRIBUTION


def core_distributions() -> dict[str, importlib.metadata.Distribution]:
    """Return what the core needs, and what that needs, by name."""
    found: dict[str, importlib.metadata.Distribution] = {}
    waiting = [DISTRIBUTION]
    while waiting:
        distribution = importlib.metadata.distribution(waiting.pop())
        if distribution.name in found:
            continue
        found[distribution.name] = distribution
        for text in distribution.requires or ():
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                waiting.append(requirement.name)
    return found


def make_environment(root: Path, distributions: dict[str, importlib.metadata.Distribution]) -> Path:
    """Make a virtual environment that has Tarmac's code and links to packages installed here."""
    venv.create(root, with_pip=False, symlinks=True)
    packages = next(root.glob("lib/python3*/site-packages"))
    for distribution in distributions.values():
        parts = {path.parts[0] for path in distribution.files or ()}
        for part in parts - {"..", "__pycache__"}:
            target = Path(str(distribution.locate_file(part)))
            if not (packages / part).exists():
                (packages / part).symlink_to(target)
    if not (packages / "tarmac").exists():
        (packages / "tarmac").symlink_to(Path(tarmac.__file__).parent)
    return root


@pytest.fixture(scope="session")
def core_environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a virtual environment of the core, linked to the packages that are installed here."""
    return make_environment(tmp_path_factory.mktemp("core"), core_distributions())


Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def in_core(core_environment: Path, tmp_path: Path) -> Run:
    """Run Python in that environment, in an empty directory and with an empty cache."""
    return runner_of(core_environment, tmp_path)


@pytest.fixture
def from_source(tmp_path: Path) -> Run:
    """Run Python where Tarmac's code is on the path, and only what it needs is installed."""
    needed = core_distributions()
    del needed[DISTRIBUTION]
    return runner_of(make_environment(tmp_path / "environment", needed), tmp_path)


def runner_of(environment: Path, tmp_path: Path) -> Run:
    """Return what runs Python in an environment, in an empty directory and with an empty cache."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [environment / "bin" / "python", *arguments],
            cwd=tmp_path,
            env=kept | {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")},
            capture_output=True,
            text=True,
            check=False,
        )

    assert sys.prefix != str(environment)
    return run
