"""The failures that the ends of logs show, to explain why a program has failed."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterable
from pathlib import Path
from typing import IO, BinaryIO, cast

from tarmac.checks.reading.model import LogFinding
from tarmac.checks.reading.read import read_log
from tarmac.files import open_regular

# Bytes read of each log: enough for the error at its end, without the output of a long run.
_TAIL_BYTES = 2**18


def read_tails(
    paths: Iterable[Path], text: str = "", *, within: Path | None = None
) -> list[LogFinding]:
    """Return the failures and warnings that the ends of logs show, each code once; notes left out.

    Args:
        paths: Paths of the logs; missing and unreadable files are skipped.
        text: Text to read before the logs.
        within: Directory that the logs must lie in once links are resolved. Default: any.
    """
    findings: dict[str, LogFinding] = {}

    def add(log: BinaryIO | IO[bytes]) -> None:
        for finding in read_log(cast("BinaryIO", log), tail_bytes=_TAIL_BYTES).findings:
            if finding.level != "note":
                findings.setdefault(finding.code, finding)

    # An error in reading a log must not replace the failure that is to be explained.
    with contextlib.suppress(Exception):
        add(io.BytesIO(text.encode(errors="replace")))
    for path in paths:
        with contextlib.suppress(Exception), open_regular(path, within=within) as log:
            add(log)
    return [*findings.values()]
