"""Resource files and data in Azure storage, as inputs and outputs of tasks."""

from __future__ import annotations

import dataclasses
import glob
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from tarmac.formats.shipyard.mapping.patterns import after
from tarmac.formats.shipyard.report import Path, Report
from tarmac.jobs import escape

# Replacement of the Azure Batch directory that a node's tasks share, below a task's directory.
NODE_SHARED = "node-shared"

_SCHEMES = ("http", "https", "az", "s3", "gs")
_MODE = re.compile(r"0?[0-7]{3,4}")
_TASK_DIRECTORY = re.compile(
    r"\$\{?AZ_BATCH_TASK_(WORKING_DIR\}?|DIR\}?/wd)(?P<rest>/.*)?|\$\{?AZ_BATCH_TASK_DIR\}?/?"
)
_WHOLE_DIRECTORY = re.compile(r"\$\{?AZ_BATCH_TASK_DIR\}?/?")
_NODE_DIRECTORY = re.compile(r"\$\{?AZ_BATCH_NODE_SHARED_DIR\}?(?P<rest>/.*)?")
# The task's files below its directory in Azure Batch, and the logs beside them.
_WORKING = "wd/"
_LOGS = ("stdout.txt", "stderr.txt")
_STRIP = re.compile(r"--strip-components[= ]+(\d{1,4})")
_WHEN = {"taskcompletion": "always", "taskfailure": "failure", "tasksuccess": "success"}


@dataclasses.dataclass(frozen=True)
class Transfer:
    """The files that a task takes from another task's directory.

    Attributes:
        job: ID of the job that the files come from.
        task: ID of the task that the files come from.
        to: Destination below the directory of the task that takes the files.
        include: Patterns of files to take from the other task's directory. Empty: all files.
        exclude: Patterns of files to leave out.
        path: Keys that lead to the transfer in the configuration.
    """

    job: str
    task: str
    to: str
    include: Sequence[str]
    exclude: Sequence[str]
    path: Path


def inside(text: str) -> str | None:
    """Return a path relative to a task's directory, or None for a path outside it."""
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
    """Yield the inputs for ``resource_files``."""
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
        entry = {"from": escape(source), "to": escape(target or "")}
        mode = file.get("file_mode")
        if mode and not _MODE.fullmatch(mode):
            report.wrong((*where, "file_mode"), f"{mode!r}: expected an octal mode such as '0755'")
        elif mode:
            entry["mode"] = mode
        yield entry


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme in _SCHEMES and bool(parts.netloc)


def split_remote(
    part: Mapping[str, Any], path: Path, report: Report
) -> tuple[str, str, str] | None:
    """Return the account's alias, the container and the path in it, or None if one is invalid."""
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
    """Return the inputs for ``input_data``, and the transfers from other tasks.

    Args:
        data: Value of ``input_data`` in the file.
        path: Keys that lead to ``input_data`` in the configuration.
        report: Receives problems and differences from Batch Shipyard.
        accounts: Receives the aliases of the storage accounts.
    """
    inputs: list[dict[str, Any]] = []
    transfers: list[Transfer] = []
    for stored in _stored(data, "destination", path, report, accounts):
        part, where, base = stored.part, stored.where, stored.base
        _note_blobxfer(part, where, report)
        match = _STRIP.search(part.get("blobxfer_extra_options") or "")
        below = PurePosixPath(*PurePosixPath(stored.prefix).parts[int(match[1]) if match else 0 :])
        entry: dict[str, Any] = {
            "from": escape(stored.uri),
            "to": escape(str(PurePosixPath(base) / below)),
        }
        for name in ("include", "exclude"):
            patterns = [p for p in part.get(name) or () if p is not None]
            if patterns:
                above = f"{stored.prefix}/" if stored.prefix else ""
                # A pattern that matches nothing above the prefix matches nothing below it.
                entry[name] = [part for p in patterns for part in after(p, above) or [p]]
        inputs.append(entry)
    for number, part in enumerate((data or {}).get("azure_batch") or ()):
        transfer = _transfer(part or {}, (*path, "azure_batch", number), report)
        transfers += [transfer] if transfer is not None else []
    return inputs, transfers


def _transfer(part: Mapping[str, Any], path: Path, report: Report) -> Transfer | None:
    job, task = part.get("job_id"), part.get("task_id")
    if job is None or task is None:
        return None
    to = inside(part.get("destination") or ".")
    if to is None:
        shown = part.get("destination")
        report.refuse((*path, "destination"), f"{shown!r} is outside of the task's directory")
        return None
    if set(part.get("include") or ()) & {*_LOGS}:
        report.refuse(
            (*path, "include"),
            "a task's logs are in the run's directory, and not among its files: let it write what "
            "others need to a file",
        )
        return None
    patterns = {
        name: _in_working_directory([p for p in part.get(name) or () if p is not None])
        for name in ("include", "exclude")
    }
    for name, globs in patterns.items():
        for pattern in globs:
            if not _is_inside_pattern(pattern):
                report.wrong((*path, name), f"{pattern!r}: leads out of the task's directory")
                return None
    return Transfer(job, task, to, patterns["include"], patterns["exclude"], path)


def _in_working_directory(patterns: Sequence[str]) -> list[str]:
    """Return patterns for a task's directory as patterns for its working directory.

    A pattern that matches nothing below ``wd/`` stays unchanged: it can only mean files there.
    """
    return [rest for p in patterns for rest in after(p, _WORKING) or [p]]


def _is_inside_pattern(pattern: str) -> bool:
    parts = PurePosixPath(pattern).parts
    return bool(parts) and not pattern.startswith("/") and ".." not in parts


@dataclasses.dataclass(frozen=True)
class _Stored:
    """A directory in a storage account, with its path below a task's directory.

    Attributes:
        part: Element of ``azure_storage``, as in the file.
        where: Keys that lead to the element in the configuration.
        is_whole: Whether it is the whole task directory of Azure Batch, including the logs.
        base: Path relative to the task's directory, ``.`` for the directory itself.
        container: Name of the container in the storage account.
        prefix: Path below the container, without slashes around it; empty for the whole container.
    """

    part: Mapping[str, Any]
    where: Path
    is_whole: bool
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
    """Yield the elements of ``azure_storage``; ``older_name`` is ``local_path`` before 3.0."""
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
        is_whole = local is None or _WHOLE_DIRECTORY.fullmatch(local) is not None
        yield _Stored(part, where, is_whole, base, container, prefix)


def read_outputs(
    data: Mapping[str, Any] | None, path: Path, report: Report, accounts: dict[str, None]
) -> Iterator[dict[str, Any]]:
    """Yield the outputs for ``output_data``; see `read_inputs`."""
    for stored in _stored(data, "source", path, report, accounts):
        part, where = stored.part, stored.where
        if stored.is_whole:
            report.note(
                where,
                "of the task's directory, what is below wd/ is kept, and the logs are in the run",
            )
        _note_blobxfer(part, where, report)
        yield from _output(stored, report)


def _output(stored: _Stored, report: Report) -> Iterator[dict[str, Any]]:
    part, base = stored.part, stored.base
    output: dict[str, Any] = {
        "path": escape("*" if base == "." else base),
        "to": escape(stored.uri.rstrip("/")),
        "when": _WHEN[part.get("condition") or "taskcompletion"],
    }
    if base != ".":
        output["root"] = escape(base)
    for name in ("include", "exclude"):
        patterns = [pattern for pattern in part.get(name) or () if pattern is not None]
        for pattern in patterns:
            if not _is_inside_pattern(pattern):
                where = (*stored.where, name)
                report.wrong(where, f"{pattern!r}: leads out of the task's directory")
                return
        files = [pattern for pattern in patterns if pattern not in _LOGS or not stored.is_whole]
        if name == "include" and patterns and not files:
            # Only logs are included, which the run keeps anyway.
            return
        if stored.is_whole and name == "exclude":
            files = [rest for pattern in files for rest in after(pattern, _WORKING)]
        elif stored.is_whole:
            files = _in_working_directory(files)
        if files:
            above = "" if base == "." else f"{glob.escape(base)}/"
            output[name] = [above + pattern for pattern in files]
    yield output


def _note_blobxfer(part: Mapping[str, Any], path: Path, report: Report) -> None:
    rest = _STRIP.sub("", part.get("blobxfer_extra_options") or "").split()
    if rest:
        shown = " ".join(word.partition("=")[0] for word in rest if word.startswith("-"))
        report.note(
            (*path, "blobxfer_extra_options"),
            f"{shown or 'it'} is without effect here, and kept: blobxfer is not used",
        )
