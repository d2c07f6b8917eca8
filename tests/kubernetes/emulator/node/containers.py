"""One container as a process: started, watched, ended, with its log and what it last said."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from .groups import MemoryGroup

_LAUNCHER = Path(__file__).with_name("launcher.py")
# Of a termination message (the kubelet's MaxContainerTerminationMessageLength).
_MESSAGE_BYTES = 4096


class Mount(NamedTuple):
    """A volume, or a file, in a container."""

    source: Path
    at: str
    read_only: bool = False


class Program(NamedTuple):
    """What to run in a container."""

    arguments: Sequence[str]
    environment: Mapping[str, str]
    directory: str
    mounts: Sequence[Mount]
    hostname: str
    user: int | None = None
    group: int | None = None


class Ended(NamedTuple):
    """How a container ended.

    Attributes:
        code: Its exit code; 128+n for a signal.
        reason: As the runtime says it: Completed, Error, OOMKilled, StartError.
        message: What it left in its termination log, or the runtime's words.
        started: When, as the API writes it.
        finished: Likewise.
    """

    code: int
    reason: str
    message: str
    started: str
    finished: str


class Process:
    """A container that was started.

    Attributes:
        log: Its lines, each behind its time and stream, as container runtimes keep them.
        error: The runtime's words, where it could not be started; empty else.
        pid: Of the program, as this machine numbers it; None where it could not be started.
    """

    def __init__(self, directory: Path, program: Program, memory: MemoryGroup) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.log = directory / "log"
        self._message = directory / "termination-log"
        self._message.touch()
        self._message.chmod(0o666)
        self._memory = memory
        root = directory / "root"
        root.mkdir(exist_ok=True)
        # The tests' interpreter, and what it imports, are the image's: seen wherever they are.
        of_image = {Path(sys.prefix), Path(__file__).parents[4]}
        spec = {
            "root": str(root),
            "arguments": list(program.arguments),
            "environment": dict(program.environment),
            "directory": program.directory,
            "hostname": program.hostname[:63],
            "groups": [str(path) for path in memory.files],
            "shown": sorted(str(it) for it in of_image if it.is_relative_to("/tmp")),
            "mounts": [
                {"from": str(it.source), "at": it.at, "read_only": it.read_only}
                for it in program.mounts
            ],
            "user": program.user,
            "group": program.group,
        }
        for mount in spec["mounts"]:
            if mount["from"] == "termination-log":
                mount["from"] = str(self._message)
        wanted = directory / "spec.json"
        wanted.write_text(json.dumps(spec), encoding="utf-8")
        wanted.chmod(0o600)
        self.log.touch()
        self._done = threading.Event()
        self.ended: Ended | None = None
        self.started = _now()
        reader, writer = os.pipe()
        out, out_writer = os.pipe()
        err, err_writer = os.pipe()
        self._launcher = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _SHIFT, str(writer), str(_LAUNCHER), str(wanted)],
            stdin=subprocess.DEVNULL,
            stdout=out_writer,
            stderr=err_writer,
            pass_fds=(writer,),
            env={},
        )
        for number in (writer, out_writer, err_writer):
            os.close(number)
        lock = threading.Lock()
        self._pumps = [
            threading.Thread(target=self._pump, args=(number, name, lock), daemon=True)
            for number, name in ((out, "stdout"), (err, "stderr"))
        ]
        for pump in self._pumps:
            pump.start()
        with os.fdopen(reader) as file:
            said = json.loads(file.read() or '{"error": "the launcher said nothing"}')
        wanted.unlink()
        self.pid: int | None = said.get("pid")
        self.error: str = said.get("error", "")
        threading.Thread(target=self._wait, daemon=True).start()

    def is_over(self) -> bool:
        """Whether it has ended."""
        return self._done.is_set()

    def wait(self, timeout_s: float | None = None) -> Ended | None:
        """Return how it ended; None where it has not within a time."""
        self._done.wait(timeout_s)
        return self.ended

    def end(self, grace_s: float) -> None:
        """Ask it to end, and end it after a time."""
        if self._signal(signal.SIGTERM) and grace_s > 0:
            self._done.wait(grace_s)
        self.kill()

    def kill(self) -> None:
        """End it, and all it started: they are in one process namespace."""
        self._signal(signal.SIGKILL)
        self._done.wait(10)

    def _signal(self, number: int) -> bool:
        if self.pid is None or self._done.is_set():
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)
        return True

    def _pump(self, number: int, stream: str, lock: threading.Lock) -> None:
        with os.fdopen(number, "rb") as source, self.log.open("ab", buffering=0) as log:
            while line := source.readline(16384):
                flag = b"F" if line.endswith(b"\n") else b"P"
                with lock:
                    log.write(
                        b"%s %s %s %s\n"
                        % (_now(9).encode(), stream.encode(), flag, line.rstrip(b"\n"))
                    )

    def _wait(self) -> None:
        limited = threading.Thread(target=self._limit, daemon=True)
        if self._memory.is_polled:
            limited.start()
        code = self._launcher.wait()
        for pump in self._pumps:
            pump.join(5)
        message = self._message.read_bytes()[-_MESSAGE_BYTES:].decode(errors="replace")
        reason = "Completed" if code == 0 else "Error"
        if self.error:
            code, reason, message = 128, "StartError", self.error
        elif code != 0 and self._memory.has_killed():
            reason = "OOMKilled"
        started = "1970-01-01T00:00:00Z" if self.error else self.started
        self.ended = Ended(code, reason, message, started, _now())
        self._memory.remove()
        self._done.set()

    def _limit(self) -> None:
        while not self._done.wait(0.05):
            if self.pid is not None and self._memory.is_over(self.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.pid, signal.SIGKILL)
                return


# The launcher says what it has to say on descriptor 3, whatever number that has here.
_SHIFT = (
    "import os,sys,runpy; n=int(sys.argv[1]); n==3 or (os.dup2(n,3),os.close(n));"
    "os.set_inheritable(3,False); sys.argv=sys.argv[2:];"
    "runpy.run_path(sys.argv[0],run_name='__main__')"
)


def _now(digits: int = 0) -> str:
    there = time.time_ns()
    second = datetime.datetime.fromtimestamp(there // 10**9, datetime.UTC)
    fraction = f".{there % 10**9:09d}"[: digits + 1] if digits else ""
    return second.strftime("%Y-%m-%dT%H:%M:%S") + fraction + "Z"
