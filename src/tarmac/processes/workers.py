"""Processes that are started, spoken to in lines of JSON, and ended with all they started."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from typing import IO, TYPE_CHECKING, Any

from tarmac.files import masked_end
from tarmac.processes.children import spawn
from tarmac.processes.output import last_line
from tarmac.processes.python import python_command

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

# How often whoever waits for a worker looks whether to give up.
LOOK_EVERY_S = 0.2
_LOG_TAIL_BYTES = 4096
# How long a worker may take to end once its input is closed, in seconds.
_END_WITHIN_S = 5.0


class Worker:
    """A process that runs a Python module and is spoken to in lines of JSON.

    Its other end is `tarmac.processes.serve`. It leads a session of its own, so it is ended with
    all that it has started and has not left that session.

    Args:
        program: Name of the module to run, as for ``python -m``.
        arguments: What its ``sys.argv`` has after its name.
        log: A file to which it appends what it prints.
        environment: Its environment variables, all of them.

    Attributes:
        process: Process of the worker, a `subprocess.Popen`.
        output: Becomes readable when it has sent something or has ended.

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
        """Send it a message; one to a process that has ended is lost."""
        with contextlib.suppress(BrokenPipeError):
            self._to.write(json.dumps(message).encode() + b"\n")
            self._to.flush()

    def receive(self) -> list[dict[str, Any]] | None:
        """Return the messages that have come, whole lines only; None once it has ended.

        Waits while there is neither.
        """
        received = os.read(self.output.fileno(), 65536)
        if not received:
            return None
        *lines, self._rest = (self._rest + received).split(b"\n")
        return [json.loads(line) for line in lines]

    def messages(self) -> Iterator[dict[str, Any]]:
        """Yield its messages until it ends."""
        while (received := self.receive()) is not None:
            yield from received

    def kill(self) -> None:
        """Kill it and all processes of its session, and wait for its end."""
        self._finish()
        with contextlib.suppress(BrokenPipeError):
            self._to.close()
        self.output.close()

    def close(self) -> None:
        """Close its input, upon which it ends by itself; kill it where it does not."""
        with contextlib.suppress(BrokenPipeError):
            self._to.close()
        self._child.wait(_END_WITHIN_S)
        self._finish()
        self.output.close()

    @property
    def has_ended(self) -> bool:
        """Whether its end has been seen."""
        return self._code is not None

    def exit_code(self) -> int:
        """Wait for its end; return its exit code, negative for a signal."""
        return self._finish(wait=True)

    def why_ended(self) -> str:
        """Wait for its end; return how it ended, and the last line that it printed."""
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
        """End its session, at once or when it ends by itself, and return its exit code."""
        if self._code is None:
            while wait and not self._child.wait(_END_WITHIN_S):
                pass
            self._code = self._child.finish()
        return self._code
