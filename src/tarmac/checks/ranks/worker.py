"""A rank's computing process: takes commands, sends answers, and is killed where it hangs."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from tarmac.checks.frameworks import PROBES
from tarmac.files import parse_json
from tarmac.processes import guarded, kill_tree, spawn

_PROGRAM = PROBES / "ranks_probe.py"
_MARK = "TARMAC_RANK"

# A worker sends a heartbeat twice a second. Without one for this time it hangs by itself, and does
# not merely wait for other ranks.
_SILENCE_S = 3.0


class RankWorker:
    """A running ``ranks_probe.py``.

    Args:
        command: Command of the Python interpreter that runs the program.
        environment: All environment variables of the process.
        local_rank: Rank among the processes of its host, which selects its GPU.
    """

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], local_rank: int
    ) -> None:
        mark = uuid.uuid4().hex
        self._guard = contextlib.ExitStack()
        self._guard.enter_context(guarded(mark, variable=_MARK))
        # Probes import `harness` from their own folder.
        self._child = spawn(
            [*command, str(_PROGRAM), str(local_rank)],
            environment={**environment, "PYTHONSAFEPATH": ""},
            mark=f"{_MARK}={mark}",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._messages: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._step = "start"
        threading.Thread(target=self._listen, daemon=True).start()

    def tell(self, **command: Any) -> None:
        """Send a command; drop it where the process has ended."""
        assert self._child.popen.stdin is not None
        with contextlib.suppress(OSError):
            self._child.popen.stdin.write(json.dumps(command).encode() + b"\n")
            self._child.popen.stdin.flush()

    def hear(self, limit_s: float) -> dict[str, Any]:
        """Return the worker's answer, its facts, or an ``error``.

        ``own`` is True where the worker itself has ended, sends no heartbeat, or failed before its
        rendezvous. It is False where the error may be that of ranks that it waits for. After an
        error the process cannot be used any more.
        """
        end = last_sign = time.monotonic()
        end += limit_s
        while True:
            try:
                message = self._messages.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                silent = time.monotonic() - last_sign > _SILENCE_S
                how = "gives no sign" if silent else "waits"
                return {"error": f"{how} at: {self._step}, after {limit_s:g} s", "own": silent}
            if message is None:
                return {"error": f"{self._how_it_ended()} at: {self._step}", "own": True}
            last_sign = time.monotonic()
            self._step = message.get("step", self._step)
            if "error" in message:
                # PyTorch reports a lost peer as an error of the rank that waits for it.
                own = self._step in ("start", "import")
                return {"error": f"{message['error']} at: {self._step}", "own": own}
            if "facts" in message or "answer" in message:
                self._step = "ready"
                return message

    def close(self) -> None:
        """Kill the process and all its descendants."""
        kill_tree(self._child)
        self._child.finish()
        for stream in (self._child.popen.stdin, self._child.popen.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        self._guard.close()

    def _listen(self) -> None:
        assert self._child.popen.stdout is not None
        with contextlib.suppress(OSError, ValueError):
            for line in self._child.popen.stdout:
                self._messages.put(parse_json(line))
        self._messages.put(None)

    def _how_it_ended(self) -> str:
        self._child.wait(_SILENCE_S)
        # WNOWAIT leaves the process to be reaped by `Child.finish`.
        ended = os.waitid(os.P_PIDFD, self._child.pidfd, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is None:
            return "closed its output"
        if ended.si_code == os.CLD_EXITED:
            return f"ended with exit code {ended.si_status}"
        return f"ended by {signal.Signals(ended.si_status).name}"
