"""Ends the processes of a runner that is gone: ``python guardian.py MARK GROUPS [ENGINE ...]``.

Standard input is a pipe that the runner holds open; it ends with the runner. MARK is an environment
variable with its value, ``NAME=VALUE``; containers have the value as a label. GROUPS is the
directory in which the runner makes control groups, or empty. The file imports nothing from Tarmac,
so that it starts fast.
"""

import contextlib
import errno
import os
import signal
import subprocess
import sys
import time

# Seconds to wait for the environment of a process that is still executing a new program.
_STARTS_WITHIN_S = 5.0


def process_ids() -> "list[int]":
    """Return the IDs of all processes except this one."""
    numbers = (int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit())
    return [number for number in numbers if number != os.getpid()]


def is_marked(pid: int, mark: bytes) -> bool:
    """Return whether a process's environment has the mark, ``NAME=VALUE``."""
    end = time.monotonic() + _STARTS_WITHIN_S
    with contextlib.suppress(OSError):
        while True:
            with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123 - pathlib starts slowly
                variables = file.read()
            if variables or not _is_becoming(pid) or time.monotonic() > end:
                return mark in variables.split(b"\0")
            time.sleep(0.001)
    return False


def _is_becoming(pid: int) -> bool:
    """Return whether a process with an empty environment is just executing a new program."""
    with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - as above
        return has_hidden_variables(file.read())


def has_hidden_variables(stat: bytes) -> bool:
    """Return whether a process that was just read without an environment may still have one.

    While a process executes a new program, the kernel first shows no environment. Then it shows the
    start of one, with its end at the same place. The end of the program's code (``endcode``) comes
    last. The new environment may have appeared since the read.

    Args:
        stat: Content of the process's ``/proc/PID/stat``, see proc_pid_stat(5).
    """
    state, *fields = stat.rpartition(b")")[2].split()
    size, code_end, env_start, env_end = (int(fields[number - 4]) for number in (23, 27, 50, 51))
    return state != b"Z" and size > 0 and (code_end == 0 or env_end > env_start)


def is_member(pid: int, groups: "list[str]") -> bool:
    """Return whether a process is in one of some control groups."""
    for group in groups:
        with contextlib.suppress(OSError), open(f"{group}/cgroup.procs", encoding="ascii") as file:  # noqa: PTH123 - as above
            if str(pid) in file.read().split():
                return True
    return False


def open_process(pid: int) -> "int | None":
    """Return a descriptor of exactly this process, even if its ID is reused later.

    Return None on Linux before 5.3, and in a Python built for it: they cannot open processes.
    """
    try:
        return os.pidfd_open(pid)
    except AttributeError:
        return None
    except OSError as error:
        if error.errno == errno.ENOSYS:
            return None
        raise


def signal_all(number: int, mark: bytes, groups: "list[str]") -> bool:
    """Send a signal to all processes of the run; return whether there were any."""
    has_found = False
    for pid in process_ids():
        try:
            # Opened before the check, so that the signal goes to the process that was checked.
            descriptor = open_process(pid)
        except OSError:
            continue
        try:
            if is_marked(pid, mark) or is_member(pid, groups):
                has_found = True
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    if descriptor is None:
                        os.kill(pid, number)
                    else:
                        signal.pidfd_send_signal(descriptor, number)
        finally:
            if descriptor is not None:
                os.close(descriptor)
    return has_found


def end_containers(engine: str, mark: str) -> None:
    """Remove the containers with a mark, which do not end with their clients.

    Containers that were created but not started are removed too, as their client is gone.
    """
    listing = [engine, "ps", "--all", "--quiet", "--filter", f"label=tarmac.run={mark}"]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        result = subprocess.run(listing, capture_output=True, text=True, timeout=30, check=True)
        names = result.stdout.split()
        if names:
            remove = [engine, "rm", "--force", *names]
            subprocess.run(remove, capture_output=True, timeout=30, check=False)


def find_groups(directory: str, value: str) -> "list[str]":
    """Return the paths of the control groups that the runner has made in a directory."""
    if not directory:
        return []
    with contextlib.suppress(OSError):
        entries = [*os.scandir(directory)]
        return [entry.path for entry in entries if entry.name.startswith(f"tarmac-{value}-")]
    return []


def end_processes(mark: bytes, groups: "list[str]") -> None:
    """Send SIGTERM to all processes of the run, and SIGKILL to those left after 5 s."""
    for number, patience_s in ((signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0)):
        end = time.monotonic() + patience_s
        if not signal_all(number, mark, groups):
            return
        while time.monotonic() < end:
            time.sleep(0.05)
            # Signal 0 sends nothing, and only finds the processes that are left.
            if not signal_all(0, mark, groups):
                return


def watch(mark: str, directory: str, engines: "list[str]") -> None:
    """Wait for the runner's end, then end its remaining processes and containers."""
    # Schedulers send signals to all processes of a job; the guardian must outlive its runner.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)
    while os.read(0, 1):
        pass
    value = mark.partition("=")[2]
    for engine in engines:
        end_containers(engine, value)
    groups = find_groups(directory, value)
    end_processes(mark.encode(), groups)
    for engine in engines:
        end_containers(engine, value)
    for group in groups:
        with contextlib.suppress(OSError):
            os.rmdir(group)  # noqa: PTH106 - as above


if __name__ == "__main__":
    watch(sys.argv[1], sys.argv[2], sys.argv[3:])
