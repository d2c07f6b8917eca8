"""Read requirements files as pip does, and resolve all relative paths.

In pip, nested files are relative to the file that names them, but relative packages are relative to
the working directory. Here all paths are relative to the file's directory.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

from tarmac.errors import RequestError

# See https://pip.pypa.io/en/stable/reference/requirements-file-format/
_NESTED = re.compile(r"(?:-r|--requirement)(?:\s+|=|(?<=-r))(.+)")
_CONSTRAINT = re.compile(r"(?:-c|--constraint)(?:\s+|=|(?<=-c))(.+)")
_WITH_PATH = re.compile(r"(-e|--editable|-f|--find-links)(?:\s+|=)(.+)")
_COMMENT = re.compile(r"(?:^|\s)#.*$")
_REMOTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_EXTRAS = re.compile(r"(\[[^]]*\])?(\s*;.*)?$")


@dataclasses.dataclass(frozen=True)
class Requirements:
    """The lines of requirements files, independent of the working directory.

    Attributes:
        lines: Requirements in the syntax of pip, with nested files inlined and absolute paths.
        constraints: Lines that limit versions, in the same form.
        local: Paths of packages and directories of packages on this machine that the lines name.
    """

    lines: tuple[str, ...]
    constraints: tuple[str, ...] = ()
    local: tuple[Path, ...] = ()

    def content(self) -> str:
        """Return a text that differs whenever anything to be installed differs."""
        digests = [(str(path), _digest(path)) for path in self.local]
        return repr((self.lines, self.constraints, digests))


def read_requirements(lines: Sequence[str], base: Path) -> Requirements:
    """Read requirements and all files that they name.

    Args:
        lines: Requirements in the syntax of pip, including ``-r FILE`` and ``-c FILE``.
        base: Directory that relative paths start from.

    Raises:
        RequestError: A file cannot be read, files form a cycle, or a line is no requirement.
    """
    reader = _Reader()
    reader.read(lines, base, ())
    return Requirements(tuple(reader.lines), tuple(reader.constraints), tuple(reader.local))


class _Reader:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.constraints: list[str] = []
        self.local: list[Path] = []

    def read(
        self, lines: Sequence[str], base: Path, above: tuple[Path, ...], *, constrains: bool = False
    ) -> None:
        for line in lines:
            if match := _NESTED.fullmatch(line):
                self._read_file(match[1], base, above, constrains=constrains)
            elif match := _CONSTRAINT.fullmatch(line):
                self._read_file(match[1], base, above, constrains=True)
            else:
                taken = self._absolute(line, base)
                (self.constraints if constrains else self.lines).append(taken)

    def _read_file(
        self, name: str, base: Path, above: tuple[Path, ...], *, constrains: bool
    ) -> None:
        name = name.strip().strip("'\"")
        if _REMOTE.match(name):
            option = "-c" if constrains else "-r"
            self.lines.append(f"{option} {name}")
            return
        path = Path(os.path.normpath(base / name))
        if path in above:
            raise RequestError(f"environment: {above[-1]} and {path} include each other")
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "is not UTF-8"
            raise RequestError(f"environment: {path}: {reason}") from error
        self.read([*_lines(text)], path.parent, (*above, path), constrains=constrains)

    def _absolute(self, line: str, base: Path) -> str:
        """Return a line with its path, if any, made absolute."""
        option, rest = "", line
        if match := _WITH_PATH.fullmatch(line):
            option, rest = f"{match[1]} ", match[2]
        elif line.startswith("-"):
            return line
        extras = _EXTRAS.search(rest)
        tail = extras[0] if extras else ""
        name = rest.removesuffix(tail).strip()
        path = Path(os.path.normpath(base / name))
        is_path = option or name.startswith(".") or "/" in name or name.endswith((".whl", ".gz"))
        if not is_path or _REMOTE.match(name) or "@" in name or not os.path.exists(path):  # noqa: PTH110 - False where it cannot be
            if not is_path and not _REMOTE.match(name):
                _refuse_no_requirement(line)
            return line
        self.local.append(path)
        return f"{option}{path}{tail}"


def _refuse_no_requirement(line: str) -> None:
    """Refuse a line that pip cannot read; options after it and variables are left to pip."""
    if "${" in line:
        return
    try:
        Requirement(re.split(r"\s--", line)[0])
    except InvalidRequirement as error:
        reason = str(error).splitlines()[0]
        raise RequestError(
            f"environment: {line!r} is no requirement: {reason}",
            hint="For example: numpy, numpy==2.3.0, ./package or -r requirements.txt",
        ) from error


def _lines(text: str) -> Iterator[str]:
    """Yield the lines of a file without comments and empty lines, continuation lines joined."""
    for line in re.sub(r"\\\r?\n", "", text).splitlines():
        plain = _COMMENT.sub("", line).strip()
        if plain:
            yield plain


def _digest(path: Path) -> str:
    """Return a digest of a file, or of the names and contents of all files below a directory."""
    digest = hashlib.blake2b(digest_size=16)
    for root, directories, files in os.walk(path):
        # Build outputs and version control data do not change what is installed.
        kept = (d for d in directories if d not in (".git", "__pycache__", "build", "dist"))
        directories[:] = sorted(d for d in kept if not d.endswith(".egg-info"))
        for name in sorted(files):
            file = Path(root) / name
            if file.is_file():
                digest.update(repr((str(file.relative_to(path)), _digest(file))).encode())
    if path.is_file():
        with path.open("rb") as content:
            digest.update(hashlib.file_digest(content, "sha256").digest())
    return digest.hexdigest()
