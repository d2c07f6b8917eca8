"""Processes of a search: started, spoken to in lines of JSON, and ended with all they started."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from typing import IO, TYPE_CHECKING, Any

from tarmac.files import storage_errors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["LOOK_EVERY_S", "Worker"]

# How often whoever waits for a worker looks whether to give up.
LOOK_EVERY_S = 0.2
_LOG_TAIL_BYTES = 4096
# A process of a search is no rank of a training, whatever started the search.
_RANK_VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


class Worker:
    """A process that is spoken to in lines of JSON; `tarmac.processes.serving` is its other end.

    Args:
        program: The module that it runs.
        num_threads: Its threads on a CPU; 0 for PyTorch's default.
        log: What it prints goes there.

    Raises:
        StorageError: The log cannot be written.
    """

    def __init__(self, program: str, num_threads: int, log: Path) -> None:
        self._log = log
        environment = {
            key: value for key, value in os.environ.items() if key not in _RANK_VARIABLES
        }
        if num_threads:
            environment["OMP_NUM_THREADS"] = str(num_threads)
        with storage_errors(log):
            log.parent.mkdir(parents=True, exist_ok=True)
            with log.open("ab") as errors:
                self._log_start = errors.tell()
                self.process = subprocess.Popen(
                    [sys.executable, "-m", program, str(num_threads)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    env=environment,
                    # Ctrl-C is for the search, which decides what becomes of its processes.
                    start_new_session=True,
                )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._to: IO[bytes] = self.process.stdin
        self.output: IO[bytes] = self.process.stdout
        self._rest = b""

    def send(self, **message: Any) -> None:
        """Tell it something; a process that has ended hears nothing."""
        with contextlib.suppress(BrokenPipeError):
            self._to.write(json.dumps(message).encode() + b"\n")
            self._to.flush()

    def receive(self) -> list[dict[str, Any]] | None:
        """Return what it has said, whole lines only; None once it has ended."""
        said = os.read(self.output.fileno(), 65536)
        if not said:
            return None
        *lines, self._rest = (self._rest + said).split(b"\n")
        return [json.loads(line) for line in lines]

    def messages(self) -> Iterator[dict[str, Any]]:
        """Yield what it says until it ends."""
        while (said := self.receive()) is not None:
            yield from said

    def kill(self) -> None:
        """End it and whatever it has started, at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        with contextlib.suppress(BrokenPipeError):
            self._to.close()
        self.output.close()

    def close(self) -> None:
        """Let it end."""
        with contextlib.suppress(BrokenPipeError):
            self._to.close()
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.kill()
        self.output.close()

    def why_ended(self) -> str:
        """Say how it ended, and its last words."""
        code = self.process.wait()
        how = f"exited with {code}"
        if code < 0:
            name = signal.Signals(-code).name
            how = f"was ended by {name}"
            if name == "SIGKILL":
                how += ", as Linux does when memory runs out"
        with self._log.open("rb") as file:
            file.seek(max(self._log_start, file.seek(0, os.SEEK_END) - _LOG_TAIL_BYTES))
            lines = file.read().decode(errors="replace").strip().splitlines()
        return f"its process {how}" + (f": {lines[-1]}" if lines else "")
