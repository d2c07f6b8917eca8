"""The two facts that tell a process from any other with its ID: its start time, and its boot.

The module uses only the standard library, because the agent takes it to nodes.
"""

from __future__ import annotations

from pathlib import Path


def boot_id(root: Path = Path("/")) -> str:
    """Return the kernel's random ID of this start of the machine.

    Args:
        root: Directory that holds ``proc``; for tests.

    Raises:
        OSError: The kernel does not report it.
    """
    return (root / "proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def start_ticks(pid: int) -> int | None:
    """Return a process's start time in clock ticks since the boot; None once it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The program's name, in parentheses, may be any text; see proc_pid_stat(5) for the fields.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])
