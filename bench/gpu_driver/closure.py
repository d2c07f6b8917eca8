"""Which packages a program needs: those that are here, and those that have to be brought.

`make wheels` asks it what to download, `make gpu` what of that to install: a package that is here
and new enough is left alone, with its own choice of versions for what it needs in turn.
"""

from __future__ import annotations

import dataclasses
import re
import tomllib
from typing import TYPE_CHECKING

try:
    from packaging.requirements import Requirement
except ImportError:  # a Python that has nothing but pip
    from pip._vendor.packaging.requirements import Requirement  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

# What the image of a machine with a GPU brings, in the build that fits its driver, and heavy
# packages that no stage imports: they are neither downloaded nor looked into.
LEFT_OUT = frozenset(
    {
        "jsonschema",
        "kubernetes-validate",
        "moto",
        "numpy",
        "optuna-dashboard",
        "playwright",
        "scikit-learn",
        "torch",
    }
)
# What of a checkout the stages run: trainings, searches, and the tests that are marked gpu.
EXTRAS = ("train", "search", "test")


@dataclasses.dataclass(frozen=True)
class Package:
    """A version of a package, and what it needs, each as ``Requires-Dist`` has it."""

    name: str
    version: str
    requires: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Closure:
    """All that roots need.

    Attributes:
        chosen: By name, without what is left out.
        brought: The names among them that are not here, or too old here.
        unmet: What is neither here nor carried, as requirements.
    """

    chosen: Mapping[str, Package]
    brought: frozenset[str]
    unmet: tuple[str, ...]


def normalized(name: str) -> str:
    """Return a distribution's name as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def roots_of(pyproject: Path, extras: Iterable[str] = EXTRAS) -> tuple[str, ...]:
    """Return what a project needs with some extras, its references to itself resolved."""
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    found = list(project["dependencies"])
    waiting = list(extras)
    while waiting:
        for text in project["optional-dependencies"][waiting.pop()]:
            requirement = Requirement(text)
            if normalized(requirement.name) == normalized(project["name"]):
                waiting += requirement.extras
            else:
                found.append(text)
    return tuple(found)


def close(
    roots: Iterable[str],
    installed: Callable[[str], Package | None],
    carried: Callable[[str], Package | None],
    environment: Mapping[str, str],
) -> Closure:
    """Choose a version for everything that roots need.

    Args:
        roots: Requirements.
        installed: Returns the version that is here, by normalized name.
        carried: Returns the version that could be installed.
        environment: For the markers of requirements, such as ``python_version``.
    """
    roots = tuple(roots)
    brought: set[str] = set()
    while True:
        closure, replaced = _walk(roots, installed, carried, environment, brought)
        # A package that is replaced may need other versions of what was looked at before it.
        if not replaced - brought:
            return closure
        brought |= replaced


def _walk(
    roots: tuple[str, ...],
    installed: Callable[[str], Package | None],
    carried: Callable[[str], Package | None],
    environment: Mapping[str, str],
    brought: set[str],
) -> tuple[Closure, set[str]]:
    chosen: dict[str, Package] = {}
    looked_at: set[str] = set()
    replaced, unmet = set(brought), []
    waiting = [(text, "") for text in roots]
    while waiting:
        text, extra = waiting.pop()
        requirement = Requirement(text)
        name = normalized(requirement.name)
        applies = requirement.marker is None or requirement.marker.evaluate(
            {**environment, "extra": extra}
        )
        if not applies or name in LEFT_OUT:
            continue
        package = carried(name) if name in replaced else installed(name)
        if package is None or not requirement.specifier.contains(package.version, prereleases=True):
            package = carried(name)
            if package is None or not requirement.specifier.contains(
                package.version, prereleases=True
            ):
                unmet.append(text)
                continue
            replaced.add(name)
        chosen[name] = package
        for wanted in ("", *requirement.extras):
            if f"{name}[{wanted}]" not in looked_at:
                looked_at.add(f"{name}[{wanted}]")
                waiting += [(needed, wanted) for needed in package.requires]
    return Closure(chosen, frozenset(replaced), tuple(dict.fromkeys(unmet))), replaced
