"""Ends the processes of a runner that is gone: ``python guardian.py MARK GROUPS [ENGINE ...]``.

Its standard input is a pipe that the runner holds; the pipe ends with the runner. MARK is an
environment variable with its value, ``NAME=VALUE``; containers have the value as a label. GROUPS is
the directory where the runner makes control groups, or empty. Stands alone, so that it starts at
once.
"""

import contextlib
import glob
import os
import signal
import subprocess
import sys
import time


def process_ids() -> "list[int]":
    """Return the numbers of all processes but this one."""
    numbers = (int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit())
    return [number for number in numbers if number != os.getpid()]


def is_marked(pid: int, mark: bytes) -> bool:
    """Whether a process's environment has the mark, ``NAME=VALUE``."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123 - pathlib starts slowly
        return mark in file.read().split(b"\0")
    return False


def is_member(pid: int, groups: "list[str]") -> bool:
    """Whether a process is in one of some control groups."""
    for group in groups:
        with contextlib.suppress(OSError), open(f"{group}/cgroup.procs", encoding="ascii") as file:  # noqa: PTH123 - as above
            if str(pid) in file.read().split():
                return True
    return False


def signal_all(number: int, mark: bytes, groups: "list[str]") -> bool:
    """Send a signal to all that belongs to the run; return whether there was anything."""
    has_found = False
    for pid in process_ids():
        try:
            # Opened before it is looked at, so that the signal reaches what was looked at.
            descriptor = os.pidfd_open(pid)
        except OSError:
            continue
        try:
            if is_marked(pid, mark) or is_member(pid, groups):
                has_found = True
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    signal.pidfd_send_signal(descriptor, number)
        finally:
            os.close(descriptor)
    return has_found


def end_containers(engine: str, mark: str) -> None:
    """Kill the containers with a mark, which do not end with their clients."""
    listing = [engine, "ps", "--quiet", "--filter", f"label=tarmac.run={mark}"]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        running = subprocess.run(listing, capture_output=True, text=True, timeout=30, check=True)
        names = running.stdout.split()
        if names:
            subprocess.run([engine, "kill", *names], capture_output=True, timeout=30, check=False)


def end_processes(mark: bytes, groups: "list[str]") -> None:
    """Ask all that belongs to the run to end, and kill what does not."""
    for number, patience_s in ((signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0)):
        end = time.monotonic() + patience_s
        if not signal_all(number, mark, groups):
            return
        while time.monotonic() < end:
            time.sleep(0.05)
            # 0 sends nothing, and finds what is left.
            if not signal_all(0, mark, groups):
                return


def main() -> None:
    """Wait for the runner's end, then end what it left."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    mark, directory, *engines = sys.argv[1:]
    while os.read(0, 1):
        pass
    value = mark.partition("=")[2]
    for engine in engines:
        end_containers(engine, value)
    groups = glob.glob(f"{glob.escape(directory)}/tarmac-{value}-*") if directory else []  # noqa: PTH207 - as above
    end_processes(mark.encode(), groups)
    for group in groups:
        with contextlib.suppress(OSError):
            os.rmdir(group)  # noqa: PTH106 - as above


if __name__ == "__main__":
    main()
