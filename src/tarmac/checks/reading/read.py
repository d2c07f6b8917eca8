"""Reads a log of any program, and reports the failures of the catalogue that it shows."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from tarmac.checks.reading.chunks import read_chunks
from tarmac.checks.reading.manner import Manner
from tarmac.checks.reading.model import LogFinding, LogReport
from tarmac.checks.reading.secrets import without_secrets
from tarmac.checks.report.anonymous import text_cleaner
from tarmac.checks.rules.catalogue import LEVELS, Failure, Level, read_catalogue, tells_reason
from tarmac.errors import RequestError, quoted, short_reason

if TYPE_CHECKING:
    from tarmac.checks.reading.scan import Scanner, Seen


def read_log(
    log: str | Path | BinaryIO, *, names: bool = False, tail_bytes: int | None = None
) -> LogReport:
    r"""Look for every failure of the catalogue in a log.

    A log of any size is read in bounded memory. The search ignores colours, progress bars, UTF-16,
    Docker's lines of JSON, and prefixes of ranks, containers and times. Ctrl-C ends the reading;
    the report then has the findings up to that point.

    Args:
        log: A file's path, ``-`` for the standard input, or a binary file that is open.
        names: Keep secrets, user names and home directories in the shown lines. Default: redact
            them.
        tail_bytes: Number of bytes to read from a file's end. Default: the whole file.

    Returns:
        The report; its ``ok`` is True where lines were read and no failure or warning was found.

    Raises:
        RequestError: The file does not exist, is a directory, or is not text.

    Example:
        >>> import io
        >>> report = read_log(io.BytesIO(b"epoch 1\\nRuntimeError: CUDA out of memory.\\n"))
        >>> [(finding.code, finding.first_line) for finding in report.findings]
        [('oom', 2)]
    """
    from tarmac.checks.reading import scan  # noqa: PLC0415 - a check needs no NumPy

    scanner, is_whole = scan.Scanner(), True
    with _opened(log) as (file, name):
        if tail_bytes is not None:
            file.seek(max(0, file.seek(0, os.SEEK_END) - tail_bytes))
        try:
            for piece in read_chunks(file, name):
                scanner.feed(piece)
        except KeyboardInterrupt:
            is_whole = False
    scanner.finish()
    return LogReport(
        name=name,
        num_lines=scanner.num_lines,
        is_whole=is_whole,
        findings=_conclude(scanner, names=names),
    )


@contextlib.contextmanager
def _opened(log: str | Path | BinaryIO) -> Iterator[tuple[BinaryIO, str]]:
    if not isinstance(log, str | Path):
        yield log, str(getattr(log, "name", "the log"))
        return
    if str(log) == "-":
        yield sys.stdin.buffer, "the standard input"
        return
    path = Path(log)
    if path.is_dir():
        raise RequestError(
            f"{log} is a directory",
            hint=f"Name a file in it: tarmac check --read {quoted(log)}/FILE",
        )
    try:
        with path.open("rb") as file:
            yield file, str(log)
    except OSError as error:
        raise RequestError(f"{log} cannot be read: {short_reason(error)}") from None


def _conclude(scanner: Scanner, *, names: bool) -> tuple[LogFinding, ...]:
    """Return one finding for each cause, in the catalogue's order, failures first."""
    catalogue = read_catalogue()
    seen = {
        code: sight
        for code, sight in scanner.seen.items()
        if scanner.ended.get(code, 0) <= sight.last
        # A raised error has ended its program, so it is not harmless, whatever its text.
        and not (catalogue[code].harmless and sight.manner is Manner.RAISED)
    }
    hidden = _hidden(seen)
    without_names = text_cleaner(os.environ)

    def clean(text: str) -> str:
        return text if names else without_secrets(without_names(text))

    findings = [
        LogFinding(
            code=code,
            level=_level(code, seen),
            title=failure.title,
            first_line=sight.first,
            last_line=sight.last,
            count=sight.count,
            text=sight.shown(clean),
            said=sight.words,
            cause=failure.general_cause,
            fix=failure.general_fix,
            source=failure.source,
        )
        for code, failure in catalogue.items()
        if code not in hidden and (sight := seen.get(code)) is not None
    ]
    return tuple(sorted(findings, key=lambda finding: LEVELS.index(finding.level)))


def _hidden(seen: Mapping[str, Seen]) -> set[str]:
    """Return the codes to leave out: consequences of causes that were seen, and stray reasons.

    A reason is stray where the failure that it explains was not seen or has another cause.
    """
    catalogue = read_catalogue()
    followed = {code for cause in seen for code in catalogue[cause].hides}
    if any(_is_cause(catalogue[code], sight) for code, sight in seen.items()):
        followed |= {code for code in seen if catalogue[code].consequence}
    return {code for code in seen if code in followed or not tells_reason(catalogue[code], seen)}


def _is_cause(failure: Failure, seen: Seen) -> bool:
    """Return whether a failure may be the cause of a process's end that another failure reports."""
    return not failure.consequence and _own_level(failure, seen.manner) == "failure"


def _level(code: str, seen: Mapping[str, Seen]) -> Level:
    """Return a failure's level, or that of its worst consequence that was seen too."""
    catalogue = read_catalogue()
    follows = [other for other in catalogue[code].hides if other in seen]
    levels = [_own_level(catalogue[sought], seen[sought].manner) for sought in (code, *follows)]
    return min(levels, key=LEVELS.index)


def _own_level(failure: Failure, manner: Manner) -> Level:
    # An exception ended its program, even where a check of the machine only warns of the cause.
    if failure.ended or (manner is Manner.RAISED and failure.level == "warning"):
        return "failure"
    # A program that warns continues. And it is unknown whether the log's machine has a GPU: some
    # texts only miss a GPU, and are harmless where no exception is raised.
    is_sure = manner is Manner.RAISED or (manner > Manner.WARNED and not failure.needs_gpu)
    return failure.level if is_sure or failure.level != "failure" else "note"
