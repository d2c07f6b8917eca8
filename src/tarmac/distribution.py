"""The distribution that Tarmac is installed from: its name, its extras, and what brings one.

The core checks machines and runs jobs without PyTorch; what needs more is an extra. The name is
said here alone: ``tarmac`` on the package index is somebody else's.

Example:
    >>> install_hint("objects")
    "pip install 'tarmac-gpu[objects]'"
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
from typing import TYPE_CHECKING

from tarmac.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "DISTRIBUTION",
    "SCRIPTS",
    "MissingExtraError",
    "explained_imports",
    "install_hint",
    "installed_version",
    "require",
    "upgrade_hint",
]

DISTRIBUTION = "tarmac-gpu"
# What the command line is started by: pyproject.toml's scripts, and `python -m tarmac`. The second
# script lets `uvx tarmac-gpu check` find one of the distribution's name.
SCRIPTS = ("tarmac", "tarmac-gpu", "__main__.py")


class MissingExtraError(RequestError, ImportError):
    """A package is not installed that an extra brings; also an ImportError, as Python has it."""


@dataclasses.dataclass(frozen=True)
class _Package:
    """A package that an extra brings: its name, that extra, and what needs it."""

    name: str
    extra: str
    purpose: str


_TORCH = _Package("PyTorch", "train", "training needs")
_PACKAGES = {
    "torch": _TORCH,
    "safetensors": _Package("safetensors", "train", "training needs"),
    "optuna": _Package("Optuna", "search", "a search needs"),
    "cmaes": _Package("cmaes", "search", "method cmaes needs"),
    "plotly": _Package("plotly", "search", "plots need"),
    "optuna_dashboard": _Package("optuna-dashboard", "search", "the dashboard needs"),
    "obstore": _Package("obstore", "objects", "object stores need"),
}
# PyTorch in each: the build that a package index gives need not be the one for a machine's driver.
_CHOOSE_BUILD = "For the PyTorch that fits your CUDA: https://pytorch.org/get-started/locally/"
_WITH_TORCH = ("train", "search")


def install_hint(extra: str) -> str:
    """Return what brings an extra, such as ``train``."""
    command = f"pip install '{DISTRIBUTION}[{extra}]'"
    return f"{command}\n{_CHOOSE_BUILD}" if extra in _WITH_TORCH else command


def upgrade_hint() -> str:
    """Return what brings a newer Tarmac."""
    return f"Upgrade: pip install --upgrade {DISTRIBUTION}"


def installed_version() -> str:
    """Return Tarmac's version; ``0+source`` where its code is on the path but is not installed."""
    # Imported here, as it costs --help a tenth of its time.
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415

    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "0+source"


def require(module: str, subject: str = "") -> None:
    """Refuse to go on without a package that an extra brings.

    Args:
        module: What would be imported: ``obstore``.
        subject: What the message begins with, such as a file or a URI.

    Raises:
        MissingExtraError: It is not installed.
    """
    if importlib.util.find_spec(module) is None:
        raise _missing(_PACKAGES[module], _PACKAGES[module].extra, subject)


@contextlib.contextmanager
def explained_imports(extra: str | None = None) -> Iterator[None]:
    """Name the extra that brings what an import within does not find.

    Args:
        extra: The one to name; by default the smallest that brings it.

    Raises:
        MissingExtraError: A package of an extra is missing.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = _PACKAGES.get((error.name or "").partition(".")[0])
        if package is None:
            raise
        raise _missing(package, extra or package.extra) from error


def _missing(package: _Package, extra: str, subject: str = "") -> MissingExtraError:
    before = f"{subject}: " if subject else ""
    return MissingExtraError(
        f"{before}{package.purpose} {package.name}, which is not installed",
        hint=install_hint(extra),
    )
