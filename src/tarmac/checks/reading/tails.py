"""What the ends of logs show of something that has failed."""

from __future__ import annotations

import contextlib
import io
from typing import TYPE_CHECKING

from tarmac.checks.reading.read import read_log

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tarmac.checks.reading.model import LogFinding

__all__ = ["read_tails"]

# Of each log: a failure's last words, and not what a long run has printed before.
_TAIL_BYTES = 2**18


def read_tails(paths: Iterable[Path], said: str = "") -> list[LogFinding]:
    """Return what the ends of logs show, each failure once; what is only worth knowing is left out.

    Args:
        paths: The logs; those that are missing or cannot be read are passed over.
        said: What is to be read before them.
    """
    found: dict[str, LogFinding] = {}
    logs: list[Path | io.BytesIO] = [io.BytesIO(said.encode(errors="replace")), *paths]
    for log in logs:
        # Whatever is wrong with a log or its reading: the failure itself is what matters.
        with contextlib.suppress(Exception):
            for finding in read_log(log, tail_bytes=_TAIL_BYTES).findings:
                if finding.level != "note":
                    found.setdefault(finding.code, finding)
    return [*found.values()]
