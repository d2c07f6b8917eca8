"""What the ends of logs show of something that has failed."""

from __future__ import annotations

import contextlib
import io
from typing import IO, TYPE_CHECKING, BinaryIO, cast

from tarmac.checks.reading.read import read_log
from tarmac.files import open_regular

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tarmac.checks.reading.model import LogFinding

# Of each log: a failure's last words, and not what a long run has printed before.
_TAIL_BYTES = 2**18


def read_tails(
    paths: Iterable[Path], said: str = "", *, within: Path | None = None
) -> list[LogFinding]:
    """Return what the ends of logs show, each failure once; what is only worth knowing is left out.

    Args:
        paths: The logs; those that are missing or cannot be read are passed over.
        said: What is to be read before them.
        within: The directory that they must lie in, wherever links lead. Default: any.
    """
    findings: dict[str, LogFinding] = {}

    def add(log: BinaryIO | IO[bytes]) -> None:
        for finding in read_log(cast("BinaryIO", log), tail_bytes=_TAIL_BYTES).findings:
            if finding.level != "note":
                findings.setdefault(finding.code, finding)

    # Whatever is wrong with a log or its reading: the failure itself is what matters.
    with contextlib.suppress(Exception):
        add(io.BytesIO(said.encode(errors="replace")))
    for path in paths:
        with contextlib.suppress(Exception), open_regular(path, within=within) as log:
            add(log)
    return [*findings.values()]
