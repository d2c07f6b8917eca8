"""Resource files, and data from and to Azure's stores, as inputs and outputs."""

from __future__ import annotations

import dataclasses
import re
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tarmac.jobs.documents import escape

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tarmac.formats.shipyard._report import Path, Report

__all__ = [
    "NODE_SHARED",
    "Transfer",
    "inside",
    "read_inputs",
    "read_outputs",
    "read_resource_files",
    "split_remote",
]

# Where below its directory a task finds what a node's tasks share in Azure Batch.
NODE_SHARED = "node-shared"

_SCHEMES = ("http", "https", "az", "s3", "gs")
_MODE = re.compile(r"0?[0-7]{3,4}")
_TASK_DIRECTORY = re.compile(
    r"\$\{?AZ_BATCH_TASK_(WORKING_DIR\}?|DIR\}?/wd)(?P<rest>/.*)?|\$\{?AZ_BATCH_TASK_DIR\}?/?"
)
_NODE_DIRECTORY = re.compile(r"\$\{?AZ_BATCH_NODE_SHARED_DIR\}?(?P<rest>/.*)?")
_STRIP = re.compile(r"--strip-components[= ]+(\d{1,4})")
_WHEN = {"taskcompletion": "always", "taskfailure": "failure", "tasksuccess": "success"}


@dataclasses.dataclass(frozen=True)
class Transfer:
    """Files that a task takes from another one's directory.

    Attributes:
        job: Whose job.
        task: Whose.
        to: Where to, below the directory of the task that takes them.
        include: Which, from the other's directory; all where there are none.
        exclude: Which not.
        path: Where it is asked for.
    """

    job: str
    task: str
    to: str
    include: Sequence[str]
    exclude: Sequence[str]
    path: Path


def inside(text: str) -> str | None:
    """Return a path below a task's directory, ``.`` for that itself; None for what is elsewhere."""
    match = _TASK_DIRECTORY.fullmatch(text)
    if match is not None:
        text = (match["rest"] or ".").lstrip("/") or "."
    shared = _NODE_DIRECTORY.fullmatch(text)
    if shared is not None:
        text = NODE_SHARED + (shared["rest"] or "")
    path = PurePosixPath(text)
    is_outside = path.is_absolute() or ".." in path.parts or "$" in text or not text.strip()
    return None if is_outside else str(path)


def read_resource_files(
    files: Sequence[Mapping[str, Any] | None] | None, path: Path, report: Report
) -> Iterator[dict[str, Any]]:
    """Yield the inputs that ``resource_files`` are."""
    for number, file in enumerate(files or ()):
        source, to = (file or {}).get("blob_source"), (file or {}).get("file_path")
        if file is None or source is None or to is None:
            continue
        where = (*path, number)
        if not _is_url(source):
            report.wrong((*where, "blob_source"), f"{source!r}: expected an HTTP or HTTPS URL")
            continue
        if re.search(r"[?&]sig=", source):
            report.note(
                (*where, "blob_source"),
                "its signature is a secret, and the run's directory will have it: az:// takes the "
                "key from the environment",
            )
        target = inside(to)
        if target in (None, "."):
            report.wrong((*where, "file_path"), f"{to!r}: leads out of the task's directory")
            continue
        found = {"from": escape(source), "to": escape(target or "")}
        mode = file.get("file_mode")
        if mode and not _MODE.fullmatch(mode):
            report.wrong((*where, "file_mode"), f"{mode!r}: expected an octal mode such as '0755'")
        elif mode:
            found["mode"] = mode
        yield found


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme in _SCHEMES and bool(parts.netloc)


def split_remote(
    part: Mapping[str, Any], path: Path, report: Report
) -> tuple[str, str, str] | None:
    """Return the account's alias, the container and the path in it; None where it cannot be had."""
    alias = part.get("storage_account_settings")
    remote = part.get("remote_path") or part.get("container") or part.get("file_share")
    if alias is None or remote is None:
        return None
    container, _, prefix = remote.strip("/").partition("/")
    if not re.fullmatch(r"\$?[A-Za-z0-9-]+", container) or ".." in prefix.split("/"):
        report.wrong((*path, "remote_path"), f"{remote!r}: expected CONTAINER/PATH")
        return None
    if part.get("is_file_share") or part.get("file_share"):
        report.refuse((*path, "remote_path"), "file shares of Azure are not reached; blobs are")
    return alias, container, prefix.strip("/")


def read_inputs(
    data: Mapping[str, Any] | None, path: Path, report: Report, accounts: dict[str, None]
) -> tuple[list[dict[str, Any]], list[Transfer]]:
    """Return the inputs that ``input_data`` is, and what comes from other tasks.

    Args:
        data: As in the file.
        path: Where it is.
        report: Takes what is wrong or otherwise.
        accounts: Takes the aliases of the storage accounts.
    """
    inputs: list[dict[str, Any]] = []
    transfers: list[Transfer] = []
    for stored in _stored(data, "destination", path, report, accounts):
        part, where, base = stored.part, stored.where, stored.base
        _note_blobxfer(part, where, report)
        match = _STRIP.search(part.get("blobxfer_extra_options") or "")
        below = PurePosixPath(*PurePosixPath(stored.prefix).parts[int(match[1]) if match else 0 :])
        found: dict[str, Any] = {
            "from": escape(stored.uri),
            "to": escape(str(PurePosixPath(base) / below)),
        }
        for name in ("include", "exclude"):
            patterns = [p for p in part.get(name) or () if p is not None]
            if patterns:
                found[name] = [_below(pattern, stored.prefix) for pattern in patterns]
        inputs.append(found)
    for number, part in enumerate((data or {}).get("azure_batch") or ()):
        transfer = _transfer(part or {}, (*path, "azure_batch", number), report)
        transfers += [transfer] if transfer is not None else []
    return inputs, transfers


def _below(pattern: str, prefix: str) -> str:
    """Return a pattern of whole names as one of what is below a prefix."""
    parts, above = pattern.split("/"), [part for part in prefix.split("/") if part]
    pairs = zip(above, parts, strict=False)
    if len(parts) > len(above) and all(fnmatchcase(name, part) for name, part in pairs):
        return "/".join(parts[len(above) :])
    return pattern


def _transfer(part: Mapping[str, Any], path: Path, report: Report) -> Transfer | None:
    job, task = part.get("job_id"), part.get("task_id")
    if job is None or task is None:
        return None
    to = inside(part.get("destination") or ".")
    if to is None:
        shown = part.get("destination")
        report.refuse((*path, "destination"), f"{shown!r} is outside of the task's directory")
        return None
    patterns = {
        name: [p.removeprefix("wd/") for p in part.get(name) or () if p is not None]
        for name in ("include", "exclude")
    }
    for name, given in patterns.items():
        for pattern in given:
            if not _is_inside_pattern(pattern):
                report.wrong((*path, name), f"{pattern!r}: leads out of the task's directory")
                return None
    return Transfer(job, task, to, patterns["include"], patterns["exclude"], path)


def _is_inside_pattern(pattern: str) -> bool:
    parts = PurePosixPath(pattern).parts
    return bool(parts) and not pattern.startswith("/") and ".." not in parts


@dataclasses.dataclass(frozen=True)
class _Stored:
    """A directory in a storage account, and where it is below a task's.

    Attributes:
        part: As in the file.
        where: It is in the file.
        has_local: Whether it says where below the task's directory.
        base: Below the task's directory.
        container: In the account.
        prefix: In the container.
    """

    part: Mapping[str, Any]
    where: Path
    has_local: bool
    base: str
    container: str
    prefix: str

    @property
    def uri(self) -> str:
        return f"az://{self.container}/{self.prefix}"


def _stored(
    data: Mapping[str, Any] | None,
    older_name: str,
    path: Path,
    report: Report,
    accounts: dict[str, None],
) -> Iterator[_Stored]:
    """Yield what ``azure_storage`` names; ``older_name`` is what ``local_path`` was before 3.0."""
    for number, part in enumerate((data or {}).get("azure_storage") or ()):
        where = (*path, "azure_storage", number)
        remote = split_remote(part or {}, where, report)
        if remote is None:
            continue
        alias, container, prefix = remote
        accounts[alias] = None
        local = part.get("local_path") or part.get(older_name)
        base = inside(local) if local is not None else "."
        if base is None:
            report.refuse((*where, "local_path"), f"{local!r} is outside of the task's directory")
            continue
        yield _Stored(part, where, local is not None, base, container, prefix)


def read_outputs(
    data: Mapping[str, Any] | None, path: Path, report: Report, accounts: dict[str, None]
) -> Iterator[dict[str, Any]]:
    """Yield the outputs that ``output_data`` is; see `read_inputs`."""
    for stored in _stored(data, "source", path, report, accounts):
        part, where = stored.part, stored.where
        if not stored.has_local:
            report.note(
                where, "without local_path: what is below wd/ is kept, and the logs are in the run"
            )
        _note_blobxfer(part, where, report)
        yield from _outputs(part, stored.base, stored.uri.rstrip("/"), where, report)


def _outputs(
    part: Mapping[str, Any], base: str, to: str, path: Path, report: Report
) -> Iterator[dict[str, Any]]:
    condition = part.get("condition") or "taskcompletion"
    includes = [pattern for pattern in part.get("include") or () if pattern is not None]
    excludes = [pattern for pattern in part.get("exclude") or () if pattern is not None]
    for pattern in includes or [""]:
        if pattern and not _is_inside_pattern(pattern):
            report.wrong((*path, "include"), f"{pattern!r}: leads out of the task's directory")
            continue
        # Batch Shipyard's * matches / too.
        deep = f"**/{pattern}" if pattern.startswith("*") and pattern.strip("*") else pattern
        whole = "*" if base == "." and not pattern else str(PurePosixPath(base) / deep)
        found: dict[str, Any] = {"path": escape(whole), "to": escape(to), "when": _WHEN[condition]}
        if base != ".":
            found["root"] = escape(base)
        if excludes:
            above = "" if base == "." else f"{base}/"
            found["exclude"] = [above + pattern for pattern in excludes]
        yield found


def _note_blobxfer(part: Mapping[str, Any], path: Path, report: Report) -> None:
    rest = _STRIP.sub("", part.get("blobxfer_extra_options") or "").split()
    if rest:
        shown = " ".join(word.partition("=")[0] for word in rest if word.startswith("-"))
        report.note(
            (*path, "blobxfer_extra_options"),
            f"{shown or 'it'} is without effect here, and kept: blobxfer is not used",
        )
