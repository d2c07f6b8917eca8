"""Worker processes that exchange messages in lines of JSON, and end with their descendants."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from tarmac.files import masked_end
from tarmac.processes.children import spawn
from tarmac.processes.output import last_line
from tarmac.processes.python import python_command

# Seconds between checks whether to give up waiting for a worker.
LOOK_EVERY_S = 0.2
_LOG_TAIL_BYTES = 4096
# Seconds that a worker may take to end once its input is closed.
_END_WITHIN_S = 5.0


class Worker:
    """A process that runs a Python module and exchanges messages in lines of JSON.

    The module calls `tarmac.processes.serve`. The worker leads a session of its own, so its
    descendants in that session end with it.

    Args:
        program: Name of the module to run, as for ``python -m``.
        arguments: Arguments of the module, ``sys.argv[1:]``.
        log: File to which the worker's standard error is appended.
        environment: All environment variables of the worker.

    Attributes:
        process: Process of the worker, a `subprocess.Popen`.
        output: Stream of messages; readable when the worker has sent one or has ended.

    Raises:
        OSError: The log cannot be written, or the module cannot be started.
    """

    def __init__(
        self, program: str, *arguments: str, log: Path, environment: Mapping[str, str]
    ) -> None:
        self._log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as errors:
            self._log_start = errors.tell()
            self._child = spawn(
                python_command(program, *arguments),
                environment=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        self.process = self._child.popen
        self._code: int | None = None
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._to: IO[bytes] = self.process.stdin
        self.output: IO[bytes] = self.process.stdout
        self._rest = b""

    def send(self, **message: Any) -> None:
        """Send the worker a message; drop it where the worker has ended."""
        with contextlib.suppress(BrokenPipeError):
            self._to.write(json.dumps(message).encode() + b"\n")
            self._to.flush()

    def receive(self) -> list[dict[str, Any]] | None:
        """Return the whole messages that have come, or None once the worker has ended.

        Block until the worker sends something or ends.
        """
        received = os.read(self.output.fileno(), 65536)
        if not received:
            return None
        *lines, self._rest = (self._rest + received).split(b"\n")
        return [json.loads(line) for line in lines]

    def messages(self) -> Iterator[dict[str, Any]]:
        """Yield the worker's messages until it ends."""
        while (received := self.receive()) is not None:
            yield from received

    def kill(self) -> None:
        """Kill all processes of the worker's session, and wait for the worker's end."""
        self._finish()
        with contextlib.suppress(BrokenPipeError):
            self._to.close()
        self.output.close()

    def close(self) -> None:
        """Close the worker's input, so that it ends; kill it where it has not ended after 5 s."""
        with contextlib.suppress(BrokenPipeError):
            self._to.close()
        self._child.wait(_END_WITHIN_S)
        self._finish()
        self.output.close()

    @property
    def has_ended(self) -> bool:
        """Whether the worker has been seen to end."""
        return self._code is not None

    def exit_code(self) -> int:
        """Wait for the worker's end, and return its exit code, negative for a signal."""
        return self._finish(wait=True)

    def why_ended(self) -> str:
        """Wait for the worker's end, and return in words how it ended, with its last line."""
        code = self._finish(wait=True)
        how = f"exited with {code}"
        if code < 0:
            name = signal.Signals(-code).name
            how = f"was ended by {name}"
            if name == "SIGKILL":
                how += ", as Linux does when memory runs out"
        printed, _ = masked_end(self._log, _LOG_TAIL_BYTES, since=self._log_start)
        reason = last_line(printed)
        return f"its process {how}" + (f": {reason}" if reason else "")

    def _finish(self, *, wait: bool = False) -> int:
        """Kill the session, at once or after the worker's own end, and return the exit code."""
        if self._code is None:
            while wait and not self._child.wait(_END_WITHIN_S):
                pass
            self._code = self._child.finish()
        return self._code
