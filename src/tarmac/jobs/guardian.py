"""Ends the tasks of a runner that is gone: ``python guardian.py MARK [ENGINE ...]``.

Its standard input is a pipe that the runner holds; the pipe ends with the runner. Stands alone, so
that it starts at once.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time


def marked(mark: bytes) -> list[int]:
    """Return the processes whose environment has the mark."""
    found = []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                descriptor = os.open(f"/proc/{entry.name}/environ", os.O_RDONLY)
                with os.fdopen(descriptor, "rb") as file:
                    if mark in file.read().split(b"\0"):
                        found.append(int(entry.name))
    return found


def end_containers(engine: str, mark: str) -> None:
    """Kill the containers with a mark, which do not end with their clients."""
    listing = [engine, "ps", "--quiet", "--filter", f"label=tarmac.run={mark}"]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        found = subprocess.run(listing, capture_output=True, text=True, timeout=30, check=True)
        names = found.stdout.split()
        if names:
            subprocess.run([engine, "kill", *names], capture_output=True, timeout=30, check=False)


def main() -> None:
    """Wait for the runner's end, then ask what it left to end, and kill what does not."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    mark = f"TARMAC_RUN={sys.argv[1]}".encode()
    while os.read(0, 1):
        pass
    for engine in sys.argv[2:]:
        end_containers(engine, sys.argv[1])
    for number, patience_s in ((signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0)):
        end = time.monotonic() + patience_s
        left = marked(mark)
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        while left and time.monotonic() < end:
            time.sleep(0.05)
            left = marked(mark)
        if not left:
            return


if __name__ == "__main__":
    main()
