"""One line of a kernel's log as an event: errors of GPUs and links, and killed programs.

The functions are pure, so that logs of this machine and of any other are read in the same way.

Example:
    >>> line = "[12.1] NVRM: Xid (PCI:0000:9c:00): 94, pid=7194, name=python, Contained: SM (0x1)."
    >>> event = read_event(line)
    >>> event.number, event.address, event.pid, event.process, event.code
    (94, '0000:9c:00', 7194, 'python', 'xid-contained')
"""

from __future__ import annotations

import dataclasses
import functools
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict

# The address that `read_recovery` returns for a line about all GPUs.
ALL_GPUS = "all"

# Characters read of a line. The kernel's lines are shorter (PRINTK_MESSAGE_MAX is 2048), but the
# input may be any text.
_LONGEST = 4096


@dataclasses.dataclass(frozen=True)
class KernelEvent:
    """The event that a line of the kernel's log reports.

    Attributes:
        code: Code of the failure in the catalogue.
        words: Description of the event, such as ``Xid 94, contained memory error``.
        address: PCI address of the card, without its function, such as ``0000:9c:00``.
        number: Number of the Xid or SXid; None for other kinds of events.
        pid: ID of the affected process, as the machine numbers it.
        process: Name of the affected process; None where the line has none.
        action: Immediate action for this number; empty where the code alone tells what to do.
        passes: Whether the error is transient: over when it was logged, and less relevant with age.
        is_reset: Whether a reset of the GPU ends it, such as by loading the driver.
    """

    code: str
    words: str
    address: str | None = None
    number: int | None = None
    pid: int | None = None
    process: str | None = None
    action: str = ""
    passes: bool = True
    is_reset: bool = False


class Xid(BaseModel):
    """The meaning of an error number of NVIDIA's driver.

    Attributes:
        meaning: Meaning of the number in a few words.
        code: Code of its failure in the catalogue.
        action: Immediate action to take; empty where none is needed.
        says: Pairs of a pattern and the code that replaces ``code`` where the line matches. The
            text of the pattern's group is shown. The code ``none`` is no failure.
        survives: Whether the error still counts after a reset of the GPU.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    meaning: str
    code: str
    action: str = ""
    says: tuple[tuple[str, str], ...] = ()
    survives: bool = False


_UNKNOWN = Xid(meaning="unknown to us", code="xid-unknown", action="look up the number")


@functools.cache
def read_xids() -> Mapping[int, Xid]:
    """Return the known Xids by number."""
    text = Path(__file__).with_name("rules").joinpath("xids.toml").read_text(encoding="utf-8")
    xids: dict[int, Xid] = {}
    for entry in tomllib.loads(text)["xid"]:
        xids |= dict.fromkeys(entry.pop("numbers"), Xid(**entry))
    return xids


# A program's name may contain any text, so each pattern begins at the driver's name and a program's
# name comes last. The text required after a number shows that the number was not cut off.
_ADDRESS = r"(?:PCI:)?((?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2})(?:\.[0-7])?"
_XID = re.compile(rf"NVRM: Xid \({_ADDRESS}(?: GPU-I:(\w+))?\): (\d+),(.*)")
_PROCESS = re.compile(r"^ pid='?(\d+)'?,(?: name=([^,]*),)?")
_LOST = re.compile(rf"NVRM: (?:GPU {_ADDRESS}: GPU has )?fallen off the bus")
# A process that the driver ends because of an earlier Xid.
_CAUSED = re.compile(r" caused by previous Xid (\d+)(?!\d)")
_SXID = re.compile(rf"nvidia-nvswitch\w*: SXid \({_ADDRESS}\): (\d+), (.*)")
_INIT = re.compile(rf"NVRM: GPU {_ADDRESS}: (RmInitAdapter failed!(?: \([^)]*\))?)")
_BAR = re.compile(rf"NVRM: (BAR\d is 0M @ 0x0)(?: \({_ADDRESS}\))?")
_MISMATCH = re.compile(r"NVRM: API mismatch: the client '?([^']*?)'? \(pid (\d+)\)")
_KILLED = re.compile(r"Killed process (\d+)(?:, UID \d+,)? \(([^)]*)\)(?:.*?anon-rss:(\d+)kB)?")
_KILL_FACTS = re.compile(r"oom-kill:constraint=.*task=(.*),pid=(\d+),uid=")
_PCIE = re.compile(rf"\w+ {_ADDRESS}: (?:AER: )?PCIe Bus Error: severity=(\w+)")
_UNSIGNED = re.compile(
    r"Loading of unsigned module is rejected|Loading of module with unavailable key is rejected"
    r"|could not insert 'nvidia\w*': (?:Key was rejected by service|Required key not available)"
)
_OPEN = re.compile(r"requires use of the NVIDIA open kernel modules")
_TOO_NEW = re.compile(
    r"NVRM: +(?:NVIDIA [\d.]+ driver release\.|nvidia\.ko because it does not include the required"
    r"|supported through the NVIDIA [\dx.]+ Legacy drivers)"
    r"|is not supported by (?:the NVIDIA [\d.]+ driver release|open nvidia\.ko because)"
)
_RECOVERED = re.compile(rf"NVRM: Xid \({_ADDRESS}\): 154,.* to 0x\w+ \(None\)")
# The driver's first message when it is loaded, before it initializes any card.
_LOADED = "nvidia-nvlink: Nvlink Core is being initialized"


def read_event(line: str) -> KernelEvent | None:
    """Return the event that a line of a log reports; None where it reports no known event.

    Args:
        line: Line of the log, with or without time, host and level before the message.
    """
    line = line[:_LONGEST]
    for mark, read in _READERS:
        if mark in line:
            event = read(line)
            if event is not None:
                return event
    return None


def read_recovery(line: str) -> str | None:
    """Return the address of the GPU that a line shows to have recovered, or `ALL_GPUS`.

    After a reset, the driver logs the remaining recovery action "None" (Xid 154). It also logs when
    it is loaded, which initializes every GPU. Return None for all other lines.
    """
    if _LOADED in line:
        return ALL_GPUS
    recovered = _RECOVERED.search(line[:_LONGEST]) if "NVRM: Xid" in line else None
    return _address(recovered[1]) if recovered else None


def explain_xid(number: int, address: str | None) -> KernelEvent | None:
    """Return the event of a Xid number without its line; None where it is no failure.

    Args:
        number: Number of the Xid, such as 94.
        address: PCI address of the card, without its function.
    """
    return _xid_event(number, "", address=address)


def _address(text: str | None) -> str | None:
    """Return an address in the kernel's form: a domain of four digits, small letters."""
    if text is None:
        return None
    domain, bus, slot = ("0000:" + text.lower()).split(":")[-3:]
    return f"{int(domain, 16):04x}:{bus}:{slot}"


def _read_xid(line: str) -> KernelEvent | None:
    match = _XID.search(line)
    if match is None:
        return None
    address, instance, number, rest = match.groups()
    process, caused = _PROCESS.match(rest), _CAUSED.search(rest)
    return _xid_event(
        int(caused[1] if caused else number),
        rest,
        address=_address(address),
        instance=instance,
        pid=int(process[1]) if process else None,
        process=(process[2] or None) if process else None,
    )


def _xid_event(
    number: int,
    rest: str,
    *,
    address: str | None,
    instance: str | None = None,
    pid: int | None = None,
    process: str | None = None,
) -> KernelEvent | None:
    xid = read_xids().get(number, _UNKNOWN)
    code, shown = xid.code, ""
    for pattern, special in xid.says:
        match = re.search(pattern, rest)
        if match:
            code = special
            shown = f": {' '.join(match[1].split())}" if match.re.groups else ""
            break
    if code == "none":
        return None
    where = f" in MIG instance {int(instance)}" if instance and instance.isdecimal() else ""
    words = f"Xid {number}, {xid.meaning}{where}{shown}"
    return KernelEvent(
        code, words, address, number, pid, process, xid.action, is_reset=not xid.survives
    )


def _read_lost(line: str) -> KernelEvent | None:
    match = _LOST.search(line)
    return _xid_event(79, "", address=_address(match[1])) if match else None


def _read_sxid(line: str) -> KernelEvent | None:
    match = _SXID.search(line)
    # Lines with data and details follow the line with the severity.
    if match is None or match[3].startswith(("Data {", "Severity ")):
        return None
    number, text = int(match[2]), match[3].strip()
    code = "sxid-fatal" if re.match(r"Fatal\b", text) else "sxid"
    return KernelEvent(code, f"SXid {number}, {text}", _address(match[1]), number)


def _read_init(line: str) -> KernelEvent | None:
    match = _INIT.search(line)
    if match is None:
        return None
    return KernelEvent(
        "adapter-init-failed", match[2], _address(match[1]), passes=False, is_reset=True
    )


def _read_bar(line: str) -> KernelEvent | None:
    match = _BAR.search(line)
    if match is None:
        return None
    return KernelEvent(
        "adapter-init-failed", match[1], _address(match[2]), passes=False, is_reset=True
    )


def _read_mismatch(line: str) -> KernelEvent | None:
    match = _MISMATCH.search(line)
    if match is None:
        return None
    words = "the driver's module and library have different versions"
    return KernelEvent("driver-mismatch", words, pid=int(match[2]), process=match[1], is_reset=True)


def _read_kill(line: str) -> KernelEvent | None:
    killed = _KILLED.search(line)
    if killed and ("ut of memory" in line or "total-vm" in line):
        pid, process, held = killed.groups()
        words = "the kernel killed a program: out of memory"
        if held:
            words += f", with {int(held) / 2**20:.1f} GiB in use"
        return KernelEvent("oom-killed", words, pid=int(pid), process=process)
    facts = _KILL_FACTS.search(line)
    if facts is None:
        return None
    words = "the kernel killed a program: out of memory"
    return KernelEvent("oom-killed", words, pid=int(facts[2]), process=facts[1])


def _read_pcie(line: str) -> KernelEvent | None:
    match = _PCIE.search(line)
    if match is None:
        return None
    is_corrected = match[2].startswith("Correct")
    code = "pcie-corrected" if is_corrected else "pcie-uncorrected"
    return KernelEvent(code, line[match.start(0) :].strip(), _address(match[1]))


def _plain(pattern: re.Pattern[str], code: str) -> Callable[[str], KernelEvent | None]:
    """Return the reader of a message that has neither a card nor a process."""

    def read(line: str) -> KernelEvent | None:
        match = pattern.search(line)
        if match is None:
            return None
        words = line[match.start() :].strip()
        return KernelEvent(code, words, passes=False, is_reset=True)

    return read


# Marks are searched first, as most lines have none and need no pattern.
_READERS: tuple[tuple[str, Callable[[str], KernelEvent | None]], ...] = (
    ("NVRM: Xid", _read_xid),
    ("SXid", _read_sxid),
    ("fallen off the bus", _read_lost),
    ("RmInitAdapter", _read_init),
    ("is 0M @", _read_bar),
    ("API mismatch", _read_mismatch),
    ("Killed process", _read_kill),
    ("oom-kill:", _read_kill),
    ("PCIe Bus Error", _read_pcie),
    (" is rejected", _plain(_UNSIGNED, "secure-boot")),
    ("could not insert 'nvidia", _plain(_UNSIGNED, "secure-boot")),
    ("NVIDIA open kernel modules", _plain(_OPEN, "open-module-needed")),
    ("driver release", _plain(_TOO_NEW, "driver-too-new")),
    ("nvidia.ko because", _plain(_TOO_NEW, "driver-too-new")),
    ("Legacy drivers", _plain(_TOO_NEW, "driver-too-new")),
)

# Each line with an event contains one of these marks.
MARKS = tuple(mark for mark, _ in _READERS)
