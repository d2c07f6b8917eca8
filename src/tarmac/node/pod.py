"""An attempt on nodes that share no files with the runner: all output goes to one stream.

``python3 agent.pyz --framed CHUNK UNIT ROOT``: CHUNK is a gzip file of elements as JSON lines. The
agent writes below ROOT, a private directory of this pod. The program's output is passed on at once,
each line behind the number of its stream. The attempt's record follows the output::

    1 a line of stdout
    2 a line of stderr
    1+a part of a line that was not ended, or is long
    = {"state": "ended", ...}

Lines of any other form are the agent's own messages.

An attempt on several nodes has such a pod on each node, and UNIT is 0. The first pod has the
record; the others run their parts (``TARMAC_RENDEZVOUS`` has the address of the first).
"""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO

from tarmac.node.engine import rank_of
from tarmac.node.records import PART, AttemptSpec, Chunk, attempt_file, log_file

STREAMS = {"stdout": b"1", "stderr": b"2"}
RECORD = b"="

# Container runtimes cut lines at 16 KiB, with a mark that the API does not show.
_LONGEST_LINE = 8192
_LOOK_EVERY_S = 0.1
_AT_ONCE_BYTES = 2**20


def packed_elements(elements: Iterable[AttemptSpec]) -> bytes:
    """Return elements in the format of CHUNK, with reproducible bytes."""
    lines = b"".join(json.dumps(element._asdict()).encode() + b"\n" for element in elements)
    return gzip.compress(lines, mtime=0)


def run_framed(arguments: Sequence[str]) -> int:
    """Run an attempt, pass on its output, and return the agent's exit code.

    Args:
        arguments: Command line arguments CHUNK, UNIT and ROOT.
    """
    agent: subprocess.Popen[bytes] | None = None
    early: list[int] = []

    def pass_on(number: int, _: object) -> None:
        if agent is None:
            early.append(number)
        else:
            agent.send_signal(number)

    # Handle signals first: the kernel drops signals that a container's pid 1 does not handle.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        signal.signal(number, pass_on)
    chunk, unit, root = Path(arguments[0]), int(arguments[1]), Path(arguments[2])
    line = gzip.decompress(chunk.read_bytes()).splitlines()[unit]
    element = AttemptSpec(**json.loads(line))
    spec = root / "0000.spec"
    Chunk(spec).write([element])
    directory = Path(element.directory)
    rank = rank_of(os.environ) if element.nodes > 1 else 0
    part = [PART] if rank else []
    directory.mkdir(parents=True, exist_ok=True)
    agent = subprocess.Popen([sys.executable, "-I", "-S", sys.argv[0], *part, str(spec), "0"])
    for missed in early:
        agent.send_signal(missed)
    out = sys.stdout.buffer
    streams = [_Stream(log_file(directory, name, rank), mark) for name, mark in STREAMS.items()]
    while agent.poll() is None:
        has_news = [stream.pass_on(out) for stream in streams]
        if True not in has_news:
            time.sleep(_LOOK_EVERY_S)
    for stream in streams:
        while stream.pass_on(out):
            pass
        stream.close(out)
    try:
        record = attempt_file(directory, element.number).read_bytes()
    except OSError:
        record = b""
    if record:
        out.write(RECORD + b" " + record.rstrip(b"\n") + b"\n")
    out.flush()
    return agent.returncode


class _Stream:
    """A growing file whose lines are passed on.

    Args:
        path: Path of the file, which may not exist yet.
        mark: Prefix of each line that is passed on, from `STREAMS`: ``1`` for the standard output.
    """

    def __init__(self, path: Path, mark: bytes) -> None:
        self._path = path
        self._mark = mark
        self._file: IO[bytes] | None = None
        self._rest = b""

    def pass_on(self, out: IO[bytes]) -> bool:
        """Pass on new content; return whether there was any."""
        if self._file is None:
            try:
                self._file = self._path.open("rb")
            except FileNotFoundError:
                return False
        content = self._file.read(_AT_ONCE_BYTES)
        if not content:
            if os.fstat(self._file.fileno()).st_nlink:
                return False
            # The agent removes an empty file after its program; its own lines go to a new file.
            self._file.close()
            self._file = None
            return self.pass_on(out)
        *lines, self._rest = (self._rest + content).split(b"\n")
        for line in lines:
            self._write(line, out, is_ended=True)
        while len(self._rest) >= _LONGEST_LINE:
            self._write(self._rest[:_LONGEST_LINE], out, is_ended=False)
            self._rest = self._rest[_LONGEST_LINE:]
        out.flush()
        return True

    def close(self, out: IO[bytes]) -> None:
        """Pass on a last line without a newline, and close the file."""
        if self._rest:
            self._write(self._rest, out, is_ended=False)
        if self._file is not None:
            self._file.close()

    def _write(self, line: bytes, out: IO[bytes], *, is_ended: bool) -> None:
        while len(line) > _LONGEST_LINE:
            out.write(self._mark + b"+" + line[:_LONGEST_LINE] + b"\n")
            line = line[_LONGEST_LINE:]
        out.write(self._mark + (b" " if is_ended else b"+") + line + b"\n")
