"""One line of a kernel's log: what it says of GPUs."""

from __future__ import annotations

import dataclasses
import re

__all__ = ["MARKS", "KernelEvent", "read_event"]

# Each line that says something has one of these.
MARKS = ("NVRM: Xid",)

_XID = re.compile(r"NVRM: Xid \(PCI:([\da-fA-F:]+)\): (\d+),")


@dataclasses.dataclass(frozen=True)
class KernelEvent:
    """What a line says.

    Attributes:
        code: The failure's, in the catalogue.
        words: What happened.
        address: The card's on the bus.
        number: Of the Xid.
        pid: The process that it happened to.
        process: Its name.
    """

    code: str
    words: str
    address: str | None = None
    number: int | None = None
    pid: int | None = None
    process: str | None = None


def read_event(line: str) -> KernelEvent | None:
    """Return what a line of a log says; None where it says nothing that matters here."""
    match = _XID.search(line)
    if match is None:
        return None
    return KernelEvent("xid", f"Xid {match[2]}", address=match[1], number=int(match[2]))
