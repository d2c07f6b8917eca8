"""Read the file of a conda environment: ``environment.yml``, an explicit list, or a lock."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
)

from tarmac.documents import (
    Document,
    Place,
    Problem,
    parse_document,
    problems_of,
    read_text,
    refuse,
)
from tarmac.environments.requirements import Requirements, read_requirements
from tarmac.errors import RequestError

_EXPLICIT = re.compile(r"^@EXPLICIT\s*$", re.MULTILINE)
# Keys in the locks of conda-lock, pixi and rattler; see
# https://rattler.prefix.dev/py-rattler/lock-file.
_LOCKS = ("package", "packages")

# The categories that conda-lock installs by default. Its older files name one per package.
_CATEGORIES = ("main", "dev")

# The platform selectors of conda-lock in a line's comment, and the platforms that they match:
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

# The channel if a file names none, as in micromamba and pixi; conda's own default needs a licence.
_DEFAULT_CHANNEL = "conda-forge"


@dataclasses.dataclass(frozen=True, kw_only=True)
class CondaFile:
    """The content of a conda environment's file.

    Attributes:
        path: Path of the file. Relative paths in it start from its directory.
        form: Form of the file: ``yml``, with packages to solve; ``explicit``, with URLs; or
            ``lock``.
        text: Content of the whole file, before platform selectors apply.
        platform: Platform for which the file was read, such as ``linux-64``.
        channels: Channels to search for packages, in order of priority.
        specs: Packages to install in conda's syntax, such as ``numpy >=2``. Empty for URLs and
            locks.
        places: Line and column of each spec in the file.
        pip: Requirements that pip installs afterwards. None: none.
        variables: Environment variables to set when the environment is active.
        optional: Packages of a lock that only extras of the project need.
        name: Name of the environment in the file. Empty: no name.
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
        """Whether the file may contain paths relative to its directory."""
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
    """The form of ``environment.yml``; see "Managing environments" in conda's documentation."""

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
    """Read the file of a conda environment.

    Args:
        path: File to read: ``environment.yml``, an explicit list, or a lock.
        platform: Platform in conda's notation, such as ``linux-64``, for selectors such as
            ``# [win]``. Default: selectors match nothing, and any ``platforms`` are accepted.

    Raises:
        RequestError: The file cannot be read, has an unknown form, or is for other platforms. The
            message names line and column.
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
    """Return the packages that conda-lock installs only on request."""
    categories: dict[str, set[object]] = {}
    for package in packages if isinstance(packages, list) else ():
        if isinstance(package, dict) and isinstance(name := package.get("name"), str):
            categories.setdefault(name, set()).add(package.get("category", "main"))
    return {name for name, within in categories.items() if within.isdisjoint(_CATEGORIES)}


def _selected(text: str, platform: str) -> str:
    """Return the text with empty lines in place of lines for other platforms."""
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
        raise RequestError(f"{path} is not a conda environment, expected channels and dependencies")
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
    """Return the content with name and variables as written: ``1.10``, not the number 1.1."""
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
