"""Installs what is missing beside PyTorch, out of carried wheels, without a network."""

from __future__ import annotations

import importlib.metadata
import json
import shutil
import subprocess
import sys
import zipfile
from email.parser import HeaderParser
from typing import TYPE_CHECKING

from gpu_driver import CannotRunError
from gpu_driver.closure import Closure, Package, close, normalized, roots_of

try:
    from packaging.markers import default_environment
    from packaging.tags import sys_tags
    from packaging.utils import parse_wheel_filename
except ImportError:
    from pip._vendor.packaging.markers import default_environment  # type: ignore[assignment]
    from pip._vendor.packaging.tags import sys_tags
    from pip._vendor.packaging.utils import parse_wheel_filename  # type: ignore[assignment]

if TYPE_CHECKING:
    from pathlib import Path


def installed(name: str) -> Package | None:
    """Return a package of this Python."""
    try:
        distribution = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return None
    return Package(name, distribution.version, tuple(distribution.requires or ()))


def carried(wheels: Path) -> dict[str, tuple[Package, Path]]:
    """Return the wheels of a directory that this Python can use, by normalized name."""
    usable = frozenset(sys_tags())
    found = {}
    for path in sorted(wheels.glob("*.whl")):
        name, version, _, tags = parse_wheel_filename(path.name)
        if not usable.isdisjoint(tags):
            found[normalized(name)] = (Package(name, str(version), _requires(path)), path)
    return found


def _requires(wheel: Path) -> tuple[str, ...]:
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        headers = HeaderParser().parsestr(archive.read(metadata).decode())
    return tuple(headers.get_all("Requires-Dist") or ())


def prepare(root: Path, wheels: Path, site: Path) -> Closure:
    """Have everything that the stages import, but for PyTorch and NumPy, here or in ``site``.

    Args:
        root: The repository.
        wheels: What `make wheels` has made; need not exist where nothing is missing.
        site: The directory to install into. One that holds the same already is left as it is.

    Raises:
        CannotRunError: Something is missing, or pip failed.
    """
    offered = carried(wheels)
    closure = close(
        roots_of(root / "pyproject.toml"),
        installed,
        lambda name: offered[name][0] if name in offered else None,
        default_environment(),
    )
    if closure.unmet:
        raise CannotRunError(
            f"Not installed for {sys.executable}, nor in {wheels}: {', '.join(closure.unmet)}\n"
            "Where there is a network: make wheels, then copy the directory wheels/ here."
        )
    files = sorted(str(offered[name][1]) for name in closure.brought)
    kept, mark = json.dumps([sys.version, files]), site / "installed.json"
    if not mark.exists() or mark.read_text(encoding="utf-8") != kept:
        _install(files, site)
        mark.write_text(kept, encoding="utf-8")
    return closure


def _install(files: list[str], site: Path) -> None:
    unfinished = site.with_name(f"{site.name}.new")
    for path in (unfinished, site):
        if path.exists():
            shutil.rmtree(path)
    unfinished.mkdir(parents=True)
    if files:
        command = [*(sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps")]
        command += ["--no-compile", "--no-cache-dir", "--disable-pip-version-check"]
        done = subprocess.run(
            [*command, "--target", str(unfinished), *files],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise CannotRunError(f"pip could not install wheels:\n{done.stderr.strip()}")
    unfinished.rename(site)
