"""What a file says of a conda environment: ``environment.yml``, an explicit list, or a lock."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
)

from tarmac.documents import Problem, parse_document, problems_of, read_text, refuse
from tarmac.environments.requirements import read_requirements
from tarmac.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tarmac.documents import Document, Place
    from tarmac.environments.requirements import Requirements

_EXPLICIT = re.compile(r"^@EXPLICIT\s*$", re.MULTILINE)
# conda-lock's, pixi's and rattler's; see https://rattler.prefix.dev/py-rattler/lock-file.
_LOCKS = ("package", "packages")

# What conda-lock installs unless it is told otherwise; of its older files, which name one each.
_CATEGORIES = ("main", "dev")

# What a line's comment may say of the platforms that it is for, and which it names; conda-lock's:
# https://conda.github.io/conda-lock/src_environment_yml/#platform-selectors
_SELECTOR = re.compile(r"^(?P<line>.*\S)\s+#\s*\[\s*(?P<but>not\s+)?(?P<name>\w+)\s*\]\s*$")
_SELECTED = {
    "linux": r"linux-.*",
    "linux64": "linux-64",
    "aarch64": "linux-aarch64",
    "ppc64le": "linux-ppc64le",
    "osx": r"osx-.*",
    "osx64": "osx-64",
    "arm64": "osx-arm64",
    "unix": r"(linux|osx)-.*",
    "win": r"win-.*",
    "win64": "win-64",
}

# Where none is named, as micromamba and pixi have it; conda's own asks for a licence.
_DEFAULT_CHANNEL = "conda-forge"


@dataclasses.dataclass(frozen=True, kw_only=True)
class CondaFile:
    """What a file says.

    Attributes:
        path: Path of the file. Relative paths in it start from its directory.
        form: Whether its packages have to be solved (``yml``), are URLs (``explicit``) or locked.
        text: Content of the whole file, before platform selectors apply.
        platform: For which it was read: ``linux-64``.
        channels: Where packages are searched, the first first.
        specs: Packages to install in conda's syntax, such as ``numpy >=2``. Empty for URLs and
            locks.
        places: Where each of them is in the file.
        pip: What pip installs afterwards.
        variables: That are set where it is active.
        optional: Packages of a lock that only extras of the project need.
        name: That it gives the environment; empty for none.
    """

    path: Path
    form: Literal["yml", "explicit", "lock"]
    text: str
    platform: str
    channels: tuple[str, ...] = ()
    specs: tuple[str, ...] = ()
    places: tuple[Place, ...] = ()
    pip: Requirements | None = None
    variables: Mapping[str, str] = dataclasses.field(default_factory=dict)
    optional: frozenset[str] = frozenset()
    name: str = ""

    @property
    def has_paths(self) -> bool:
        """Whether it may name files by where it is itself."""
        return self.form != "yml" or any(name.startswith(".") for name in self.channels)


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def _list(value: Any) -> Any:
    return () if value is None else value


_Texts = Annotated[tuple[str, ...], BeforeValidator(_list)]


class _Pip(_Strict):
    pip: _Texts = ()


def _kind(value: Any) -> str:
    return "pip" if isinstance(value, (dict, _Pip)) else "text"


_Dependency = Annotated[
    Annotated[str, Tag("text")] | Annotated[_Pip, Tag("pip")], Discriminator(_kind)
]


class _Environment(_Strict):
    """The form of conda's own files; its documentation tells it, "Managing environments"."""

    name: str | None = None
    prefix: str | None = None
    channels: _Texts = ()
    platforms: _Texts = ()
    dependencies: Annotated[tuple[_Dependency, ...], BeforeValidator(_list)]
    variables: Annotated[
        dict[Annotated[str, Field(pattern=r"^[^=]+$")], str],
        BeforeValidator(lambda value: {} if value is None else value),
    ] = {}
    category: str | None = None


def read_conda_file(path: Path, platform: str = "") -> CondaFile:
    """Read a file that says what is in an environment.

    Args:
        path: File to read: ``environment.yml``, an explicit list, or a lock.
        platform: As conda names it, ``linux-64``: lines with a comment such as ``# [win]`` count
            on those that this names. By default none counts, and ``platforms`` may be any.

    Raises:
        RequestError: It cannot be read, is of no form, or is for other platforms; the message has
            its line and column.
    """
    text = read_text(path)
    if _EXPLICIT.search(text):
        return CondaFile(path=path, form="explicit", text=text, platform=platform)
    document = parse_document(_selected(text, platform), str(path))
    content = document.value
    keys = content if isinstance(content, dict) else {}
    if "version" in keys and any(name in keys for name in _LOCKS):
        optional = frozenset(_optional(keys.get("package")))
        return CondaFile(path=path, form="lock", text=text, platform=platform, optional=optional)
    return _read_environment(document, path, text, platform)


def _optional(packages: object) -> set[str]:
    """Return the packages of conda-lock's that it installs only for extras that are asked for."""
    categories: dict[str, set[object]] = {}
    for package in packages if isinstance(packages, list) else ():
        if isinstance(package, dict) and isinstance(name := package.get("name"), str):
            categories.setdefault(name, set()).add(package.get("category", "main"))
    return {name for name, within in categories.items() if within.isdisjoint(_CATEGORIES)}


def _selected(text: str, platform: str) -> str:
    """Return the lines that are for a platform, and empty ones in the place of others."""
    lines = []
    for line in text.split("\n"):
        match = _SELECTOR.match(line)
        named = _SELECTED.get(match["name"]) if match else None
        if match and named and bool(re.fullmatch(named, platform)) == bool(match["but"]):
            lines.append("")
        else:
            lines.append(line)
    return "\n".join(lines)


def _read_environment(document: Document, path: Path, text: str, platform: str) -> CondaFile:
    if not isinstance(document.value, dict):
        raise RequestError(
            f"{path} is no environment of conda's, expected channels and dependencies"
        )
    try:
        content = _Environment.model_validate(_written(document))
    except ValidationError as error:
        raise refuse(document, [*problems_of(error, document, _Environment)]) from error
    if platform and content.platforms and platform not in content.platforms:
        problem = f"is for {', '.join(content.platforms)}, and this machine is {platform}"
        place = document.place_of(("platforms",))
        raise refuse(document, [Problem(place, "platforms", problem)])
    lines = [
        line for entry in content.dependencies if isinstance(entry, _Pip) for line in entry.pip
    ]
    packages = {n: entry for n, entry in enumerate(content.dependencies) if isinstance(entry, str)}
    return CondaFile(
        path=path,
        form="yml",
        text=text,
        platform=platform,
        channels=tuple(_channels(content.channels)),
        specs=tuple(packages.values()),
        places=tuple(document.place_of(("dependencies", number)) for number in packages),
        pip=read_requirements(lines, path.parent) if lines else None,
        variables=content.variables,
        name=content.name or "",
    )


def _written(document: Document) -> dict[str, Any]:
    """Return what a file says, with the texts of what a program gets to see: ``1.10``."""
    content = dict(document.value)
    for path in filter(None, document.texts):
        if path == ("name",):
            content["name"] = document.texts[path]
        elif path[0] == "variables" and len(path) == 2 and isinstance(path[1], str):
            content["variables"] = content["variables"] | {path[1]: document.texts[path]}
    return content


def _channels(names: tuple[str, ...]) -> list[str]:
    wanted = [name for name in names if name != "nodefaults"] or [_DEFAULT_CHANNEL]
    main = [f"https://repo.anaconda.com/pkgs/{name}" for name in ("main", "r")]
    return [own for name in wanted for own in (main if name == "defaults" else [name])]
