"""Rules on the kernel's log.

`read_event` returns the failure's code for each line, so the same rule is made for each code.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from tarmac.checks.kernel_log import KernelEvent, read_event
from tarmac.checks.kernel_time import age_in_words, read_age

if TYPE_CHECKING:
    from tarmac.checks.evidence import Evidence, Inventory
    from tarmac.checks.rules.rule import Hits, Rule

# Failures that ask for a reset of the GPU, which ends them.
_ASK_FOR_RESET = frozenset({"xid-reset", "xid-reset-soon"})


def lines_without_event(evidence: Evidence) -> list[str]:
    """Return the lines of the log without an event, which only patterns can judge."""
    return [line for line in evidence.inventory.kernel_log if read_event(line) is None]


def logged(code: str) -> Rule:
    """Return a rule that finds a failure in the kernel's log, by GPU."""

    def rule(evidence: Evidence) -> Hits:
        seen: dict[str, list[str]] = {}
        for event, number, age_s in _latest(evidence):
            where = _place(event, evidence.inventory)
            if event.code == code and not _is_over(event, where, evidence.inventory):
                seen.setdefault(where, []).append(_words(event, where, number, age_s))
        for where, words in seen.items():
            yield where, "; ".join(words)

    return rule


def _latest(evidence: Evidence) -> Iterator[tuple[KernelEvent, int, float | None]]:
    """Yield each error's last event, the number of its lines, and the last line's age.

    The last line decides where the lines of a number differ: in the action that the driver asks for
    (Xid 154), and in the severity of an NVLink's error.
    """
    clock = evidence.inventory.kernel.clock
    groups: dict[tuple[object, ...], list[tuple[KernelEvent, str]]] = {}
    for line in evidence.inventory.kernel_log:
        event = read_event(line)
        if event is not None:
            # The kernel logs two lines for a program that it kills.
            kind = event.number or (event.code, event.pid)
            groups.setdefault((event.address, kind), []).append((event, line))
    for lines in groups.values():
        event, line = lines[-1]
        yield event, len(lines), None if clock is None else read_age(line, clock)


def _is_over(event: KernelEvent, where: str, inventory: Inventory) -> bool:
    """Return whether an error that asks for a reset is over, by the driver's recovery action.

    A reset by nvidia-smi may leave no line in the log.
    """
    wants = {gpu.label: gpu.recovery_action for gpu in inventory.gpus}
    return event.is_reset and event.code in _ASK_FOR_RESET and wants.get(where) == "none"


def _place(event: KernelEvent, inventory: Inventory) -> str:
    if event.address is not None:
        for gpu in inventory.gpus:
            if (gpu.address or "").startswith(event.address):
                return gpu.label
        for card in inventory.cards:
            if card.address.startswith(event.address):
                return f"card {card.address}"
    return "machine"


def _words(event: KernelEvent, where: str, number: int, age_s: float | None) -> str:
    name = where if where.startswith("GPU") else ""
    if event.address is not None:
        name = f"{name} ({event.address})".strip() if name else event.address
    parts = [event.words]
    if number > 1 and event.number is not None:
        parts.append(f"{number} times")
    if age_s is not None:
        parts.append(age_in_words(age_s))
    if event.pid is not None:
        parts.append(f"pid {event.pid} {event.process or ''}".strip())
    text = ", ".join(parts)
    if event.action:
        text += f" ({event.action})"
    return f"{name}: {text}" if name else text


def _of_cards(code: str) -> Rule:
    """Return a rule that finds a failure of graphics cards in the log, and of no other devices."""
    find = logged(code)

    def rule(evidence: Evidence) -> Hits:
        for where, words in find(evidence):
            if where != "machine":
                yield where, words

    return rule


def _oom_killed(evidence: Evidence) -> Hits:
    inventory = evidence.inventory
    # On machines without a GPU, killed programs are out of scope.
    if inventory.gpus or inventory.nvidia_cards or inventory.amd.gpus:
        yield from logged("oom-killed")(evidence)


def _unreadable(evidence: Evidence) -> Hits:
    inventory = evidence.inventory
    if inventory.kernel.problem is not None and (inventory.gpus or inventory.nvidia_cards):
        yield "machine", inventory.kernel.problem


def _secure_boot(evidence: Evidence) -> Hits:
    inventory = evidence.inventory
    driver = inventory.driver
    is_missing = driver.nvml_error is not None and "nvidia" not in driver.modules
    if not is_missing or not inventory.nvidia_cards or inventory.is_confined:
        return
    refused = dict(logged("secure-boot")(evidence))
    if refused:
        yield from refused.items()
    elif inventory.kernel.secure_boot and driver.library is not None:
        yield "machine", "Secure Boot is on, and the installed driver's module is not loaded"


def _while_unused(code: str) -> Rule:
    """Return a rule that finds why the driver does not run a card, unless it does by now."""
    find = logged(code)

    def rule(evidence: Evidence) -> Hits:
        known = {gpu.label for gpu in evidence.inventory.gpus if gpu.error is None}
        is_short = len(evidence.inventory.nvidia_cards) > len(known)
        for where, words in find(evidence):
            if where not in known and (is_short or not known):
                yield where, words

    return rule


_LOGGED = (
    "xid-restart-program",
    "xid-watch",
    "xid-contained",
    "xid-reset",
    "xid-reset-soon",
    "xid-reboot",
    "xid-cables",
    "xid-support",
    "xid-update",
    "xid-nvlink",
    "xid-nvlink-fatal",
    "xid-unknown",
    "sxid",
    "sxid-fatal",
)

RULES: Mapping[str, Rule] = {
    **{code: logged(code) for code in _LOGGED},
    **{code: _of_cards(code) for code in ("pcie-corrected", "pcie-uncorrected")},
    **{
        code: _while_unused(code)
        for code in ("adapter-init-failed", "open-module-needed", "driver-too-new")
    },
    "oom-killed": _oom_killed,
    "secure-boot": _secure_boot,
    "kernel-log-unreadable": _unreadable,
}
