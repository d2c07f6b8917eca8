"""Writes the output and records of a pod's attempt to the run's directory, as an agent would.

A run's directory then has the same files, whether its nodes see the directory or not.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tarmac.files import parse_json, storage_errors, write_bytes
from tarmac.node import (
    RECORD,
    STREAMS,
    AttemptRecord,
    attempt_file,
    log_file,
    parse_attempt,
    read_attempt,
)

_STREAM_OF = {mark: name for name, mark in STREAMS.items()}


class Heard:
    """The content of a pod's log, beside its program's output.

    Attributes:
        record: Record that the attempt's agent printed; None while there is none.
        said: Last lines that the agent itself printed, at most five.
    """

    def __init__(self) -> None:
        self.record: AttemptRecord | None = None
        self.last_lines: list[str] = []


def mirror_log(
    pod: str, directory: Path, number: int, rank: int = 0, *, log: Iterable[bytes]
) -> Heard:
    """Append the output of a pod's program to the attempt's files.

    A log that broke off is read again from its beginning, after its earlier output is removed.

    Args:
        pod: Name of the pod whose log it is.
        directory: The task's directory in the run, which gets ``stdout`` and ``stderr``.
        number: Number of the attempt, from 1.
        rank: Rank of the pod's node, from 0, where several nodes run the attempt; else 0.
        log: Bytes of the pod's log, in pieces.

    Raises:
        StorageError: A file cannot be written.
        ConnectionError: The log broke off.
    """
    heard = Heard()
    with storage_errors(directory):
        directory.mkdir(parents=True, exist_ok=True)
        paths = {mark: log_file(directory, name, rank) for mark, name in _STREAM_OF.items()}
        note = directory / f".attempt-{number}.log{f'-{rank}' if rank else ''}"
        _begin(note, pod, [*paths.values()])
        files = {mark: path.open("ab", buffering=0) for mark, path in paths.items()}
        try:
            for line in _lines(log):
                mark, kind, rest = line[:1], line[1:2], line[2:]
                if mark in files and kind in (b" ", b"+"):
                    files[mark].write(rest + (b"\n" if kind == b" " else b""))
                elif mark == RECORD and kind == b" ":
                    heard.record = parse_attempt(rest)
                else:
                    heard.last_lines = [*heard.last_lines[-4:], line.decode(errors="replace")]
        finally:
            for file in files.values():
                file.close()
        for path in paths.values():
            if not path.stat().st_size:
                path.unlink()
    return heard


def write_began(directory: Path, number: int, record: AttemptRecord) -> bool:
    """Record an attempt's start; return False where the attempt is fenced.

    Args:
        directory: The task's directory in the run.
        number: Number of the attempt, from 1.
        record: Record of the attempt's start, which replaces an older restart's.

    Raises:
        StorageError: The record cannot be written.
    """
    with storage_errors(directory):
        existing = read_attempt(directory, number)
    if existing is not None and existing.nonce == record.nonce:
        if existing.state == "fenced":
            return False
        if existing.state == "ended" or existing.restart >= record.restart:
            return True
    write_bytes(attempt_file(directory, number), record.to_bytes())
    return True


def write_ended(directory: Path, number: int, record: AttemptRecord) -> None:
    """Record an attempt's end, unless an end is recorded already.

    Args:
        directory: The task's directory in the run.
        number: Number of the attempt, from 1.
        record: Record of the attempt's end.

    Raises:
        StorageError: The record cannot be written.
    """
    with storage_errors(directory):
        existing = read_attempt(directory, number)
    if existing is None or existing.nonce != record.nonce:
        write_bytes(attempt_file(directory, number), record.to_bytes())
    elif existing.state not in ("ended", "fenced"):
        # A pod does not know how many pods ran before it.
        record = record._replace(restart=max(existing.restart, record.restart))
        write_bytes(attempt_file(directory, number), record.to_bytes())


def _begin(note: Path, pod: str, paths: Sequence[Path]) -> None:
    """Restore the files to their sizes before this pod's output."""
    sizes: dict[str, Any] = {}
    if note.exists():
        sizes = parse_json(note.read_bytes())
    if sizes.get("pod") != pod:
        sizes = {"pod": pod}
        for path in paths:
            sizes[path.name] = path.stat().st_size if path.exists() else 0
        write_bytes(note, json.dumps(sizes).encode())
        return
    for path in paths:
        if path.exists():
            with path.open("r+b") as file:
                file.truncate(min(sizes[path.name], path.stat().st_size))


def _lines(log: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for piece in log:
        *lines, rest = (rest + piece).split(b"\n")
        yield from lines
    if rest:
        yield rest
