"""Workers of a search that are copies of the test's process, which has imported PyTorch once."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import IO, Any

from tarmac.processes import children, workers


class _Forked:
    """What `Child` needs of `subprocess.Popen`."""

    def __init__(self, pid: int, stdin: IO[bytes], stdout: IO[bytes]) -> None:
        self.pid, self.stdin, self.stdout = pid, stdin, stdout

    def wait(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def spawn_forked(
    command: Sequence[str], *, environment: Mapping[str, str], stderr: IO[bytes], **pipes: Any
) -> children.Child:
    """Run ``python -m MODULE ARGUMENTS`` in a copy of this process, as `children.spawn` would."""
    assert command[1] == "-m"
    assert pipes == {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    read_in, write_in = os.pipe()
    read_out, write_out = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.setsid()
            for number, descriptor in enumerate((read_in, write_out, stderr.fileno())):
                os.dup2(descriptor, number)
            os.closerange(3, 1024)
            sys.stdin, sys.stdout, sys.stderr = (
                os.fdopen(number, mode) for number, mode in enumerate("rww")
            )
            os.environ.clear()
            os.environ.update(environment)
            sys.argv = list(command[2:])
            runpy.run_module(command[2], run_name="__main__")
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        finally:
            sys.stderr.flush()
            os._exit(code)
    os.close(read_in)
    os.close(write_out)
    popen = _Forked(pid, os.fdopen(write_in, "wb", 0), os.fdopen(read_out, "rb", 0))
    return children.Child(popen, children.end_descriptor(pid))  # type: ignore[arg-type]


def use_forked_workers(monkeypatch: Any) -> None:
    """Let workers of searches be forked until the test ends."""
    monkeypatch.setattr(workers, "spawn", spawn_forked)
