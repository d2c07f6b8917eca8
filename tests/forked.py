"""Python processes for tests, forked from one that has imported Tarmac and PyTorch.

`python -m tarmac` imports for 0.7 s of CPU, and for 3 s where it trains; a fork is ready after
0.05 s. `run_python` and `start_python` take the words that follow `python`, and otherwise do as
`subprocess.run` and `subprocess.Popen` do:

    done = run_python("-m", "tarmac", "runs", "list", cwd=tmp_path)
    assert done.returncode == 0, done.stderr

The child is a process like any other, with some exceptions: `/proc/PID/environ` and
`/proc/PID/cmdline` are the server's, it is the server's child, in a process group of its own,
and all modules are imported already. Tests of these need `subprocess`. Only
`os.getppid` in a child of `forked_interpreter` is the process that has started this.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import pytest

import fork_server
import forked_client
from shared import lifeline, made_once
from waiting import wait_until

# What the dynamic linker, the interpreter and libraries of the server read once, at the start.
_READ_AT_START = ("LD_", "PYTHON", "MALLOC_", "GLIBC_", "ATEN_", "MKL_CBWR", "ONEDNN_", "TRITON_")

# These a fork heeds as well.
_HEEDED = ("PYTHONDONTWRITEBYTECODE", "PYTHONSAFEPATH", "PYTHONUNBUFFERED")

# What fails a test, as at its time limit. Its program is then killed: whoever waited for its end
# might wait for ever.
FAILURES = (AssertionError, pytest.fail.Exception)

# What the test under way has started; where it fails, `conftest.py` ends what still runs.
STARTED: list[ForkedProcess] = []


class ForkedProcess:
    """A child that `start_python` has started, with the methods of `subprocess.Popen`.

    Attributes:
        args: The words after `python`.
        pid: Its process id.
        returncode: Its exit code, minus the signal that ended it, or None while it runs.
        stdin: Its standard input, where `subprocess.PIPE` was given; likewise `stdout`, `stderr`.
    """

    def __init__(self, args: tuple[str, ...], connection: socket.socket) -> None:
        self.args = args
        self.returncode: int | None = None
        self.stdin: IO[Any] | None = None
        self.stdout: IO[Any] | None = None
        self.stderr: IO[Any] | None = None
        self._connection = connection
        self._answers = connection.makefile("r", encoding="ascii")
        self._lock = threading.Lock()
        self.pid = int(self._answers.readline())

    def __enter__(self) -> ForkedProcess:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and issubclass(kind, FAILURES):
            self.kill()
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream:
                stream.close()
        self.wait()

    def poll(self) -> int | None:
        """Return the exit code, or None while the child runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code.

        Raises:
            subprocess.TimeoutExpired: After `timeout` seconds. By default there is no limit.
        """
        # Without the lock: another thread may kill the child meanwhile.
        if self.returncode is None and not _is_readable(self._connection, timeout):
            raise subprocess.TimeoutExpired(list(self.args), timeout or 0.0)
        with self._lock:
            if self.returncode is None:
                status = self._answers.readline()
                # A server that has ended has taken its children along.
                self.returncode = os.waitstatus_to_exitcode(int(status)) if status else -9
                self._answers.close()
                self._connection.close()
        return self.returncode

    def communicate(
        self,
        input: Any = None,  # noqa: A002 - the name of subprocess
        timeout: float | None = None,
    ) -> tuple[Any, Any]:
        """Write `input`, read both streams to their ends and wait, as `subprocess.Popen` does."""
        read: dict[str, Any] = {}

        def drain(name: str, stream: IO[Any]) -> None:
            read[name] = stream.read()

        readers = [
            threading.Thread(target=drain, args=(name, stream), daemon=True)
            for name in ("stdout", "stderr")
            if (stream := getattr(self, name))
        ]
        for reader in readers:
            reader.start()
        if self.stdin:
            with contextlib.suppress(BrokenPipeError):
                if input:
                    self.stdin.write(input)
                self.stdin.close()
        self.wait(timeout)
        for reader in readers:
            reader.join()
        return read.get("stdout"), read.get("stderr")

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the child is known to have ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)


def start_python(
    *words: str | Path,
    env: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
    stdin: Any = None,
    stdout: Any = None,
    stderr: Any = None,
    text: bool = True,
    start_new_session: bool = False,
) -> ForkedProcess:
    """Start `python WORDS`: `-m MODULE`, `-c TEXT` or a file, each with arguments.

    Args:
        words: What follows `python`.
        env: The whole environment. Default: that of the tests.
        cwd: Its directory. Default: that of the tests.
        stdin: As `subprocess.Popen` takes it; likewise `stdout`, `stderr`.
        text: Whether pipes are of text. Default True.
        start_new_session: Whether it leads a session and a group of its own.
    """
    variables = dict(os.environ if env is None else env)
    variables.setdefault("OMP_NUM_THREADS", "1")
    args = tuple(str(word) for word in words)
    request = {
        "words": args,
        "env": variables,
        "cwd": str(Path.cwd() if cwd is None else cwd),
        "start_new_session": start_new_session,
        "descriptors": (0, 1, 2),
        "options": (),
        "client": None,
    }
    with contextlib.ExitStack() as ours:
        theirs, pipes = [], {}
        for name, wanted in {"stdin": stdin, "stdout": stdout, "stderr": stderr}.items():
            if wanted == subprocess.PIPE:
                reader, writer = os.pipe()
                theirs.append(reader if name == "stdin" else writer)
                ours.callback(os.close, theirs[-1])
                mine = writer if name == "stdin" else reader
                mode = ("w" if name == "stdin" else "r") + ("" if text else "b")
                pipes[name] = os.fdopen(mine, mode, encoding="utf-8" if text else None)
            elif wanted == subprocess.DEVNULL:
                theirs.append(os.open(os.devnull, os.O_RDWR))
                ours.callback(os.close, theirs[-1])
            elif wanted == subprocess.STDOUT:
                theirs.append(theirs[1])
            elif wanted is None:
                theirs.append(len(theirs))
            else:
                theirs.append(wanted if isinstance(wanted, int) else wanted.fileno())
        connection = _connect(_at_start(variables))
        socket.send_fds(connection, [b"{"], theirs)
        connection.sendall(json.dumps(request)[1:].encode() + b"\n")
    process = ForkedProcess(args, connection)
    STARTED.append(process)
    for name, pipe in pipes.items():
        setattr(process, name, pipe)
    return process


def forked_interpreter(env: Mapping[str, str] | None = None) -> str:
    """Return the path of a program that does as `python` does, by a fork.

    The process that is started stands for the one that works: it passes signals on, and ends as
    that one does, which is killed with it. With variables or options that only an interpreter heeds
    at its start, it becomes the real one. It is `sys.executable` in all forks, so that workers,
    ranks and probes are ready at once, too.

    Args:
        env: The environment with which it will be started. Default: that of the tests.
    """
    return str(_server(_at_start(os.environ if env is None else env)) / "python")


def process_behind(client: int) -> int:
    """Return the process that works for one which `forked_interpreter`'s program has started.

    Args:
        client: The process id of that program.
    """
    return wait_until(
        lambda: next(
            (
                int(path.parent.name)
                for path in Path("/proc").glob("[0-9]*/comm")
                if _read(path) == f"for {client}\n"
            ),
            None,
        ),
        f"the fork for process {client}",
    )


def run_python(
    *words: str | Path,
    input: str | None = None,  # noqa: A002 - the name of subprocess.run
    timeout: float | None = None,
    check: bool = False,
    capture_output: bool = True,
    **options: Any,
) -> subprocess.CompletedProcess[str]:
    """Run `python WORDS` to its end, as `subprocess.run` does; output is captured as text.

    Args:
        words: What follows `python`.
        input: Its standard input. Default: none.
        timeout: Seconds after which it is killed. By default there is no limit.
        check: Whether an exit code other than 0 raises `subprocess.CalledProcessError`.
        capture_output: Whether what it prints is returned. Default True.
        options: Of `start_python`.
    """
    if capture_output:
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
    if "stdin" not in options:
        options["stdin"] = subprocess.DEVNULL if input is None else subprocess.PIPE
    process = start_python(*words, **options)
    try:
        stdout, stderr = process.communicate(input, timeout)
    except BaseException:
        process.kill()
        raise
    assert process.returncode is not None
    done = subprocess.CompletedProcess(list(process.args), process.returncode, stdout, stderr)
    if check:
        done.check_returncode()
    return done


def _read(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text(encoding="utf-8", errors="replace")
    return ""


def _at_start(variables: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(
        (name, variables[name])
        for name in sorted(variables)
        if variables[name] and name.startswith(_READ_AT_START) and name not in _HEEDED
    )


def _is_readable(connection: socket.socket, timeout: float | None) -> bool:
    poll = select.poll()
    try:
        poll.register(connection, select.POLLIN)
    except ValueError:
        # Another thread has read it to its end.
        return True
    return bool(poll.poll(None if timeout is None else timeout * 1000))


@functools.cache
def _server(at_start: tuple[tuple[str, str], ...]) -> Path:
    """Return the directory of the server whose linker and interpreter saw these variables.

    The first worker of the run that asks for it starts it, for all of them.
    """
    digest = hashlib.sha256(repr(at_start).encode()).hexdigest()[:16]
    return made_once(f"forked-{digest}", lambda directory: _start_server(directory, at_start))


def _start_server(directory: Path, at_start: tuple[tuple[str, str], ...]) -> None:
    python = directory / "python"
    python.write_text(_client(str(directory / "socket"), at_start), encoding="utf-8")
    python.chmod(0o755)
    others = {
        name: value for name, value in os.environ.items() if not name.startswith(_READ_AT_START)
    }
    stdin = lifeline()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(directory / "socket"))
        listener.listen(64)
        process = subprocess.Popen(
            [sys.executable, fork_server.__file__, str(listener.fileno()), str(python)],
            stdin=stdin,
            pass_fds=[listener.fileno()],
            env=others | dict(at_start) | {"OMP_NUM_THREADS": "1"},
            cwd="/",
            start_new_session=True,
        )
    os.close(stdin)
    # It outlives this process, which is not to wait for it.
    process.returncode = 0


def _client(path: str, at_start: tuple[tuple[str, str], ...]) -> str:
    text = Path(forked_client.__file__).read_text(encoding="utf-8")
    constants = {
        "REAL": sys.executable,
        "SOCKET": path,
        "AT_START": dict(at_start),
        "READ_AT_START": _READ_AT_START,
        "HEEDED": _HEEDED,
    }
    for name, value in constants.items():
        text = text.replace(f"\n{name} = None\n", f"\n{name} = {value!r}\n")
    # By `env`, as the path may have a space.
    return f'#!/usr/bin/env -S "{sys.executable}" -IS\n{text}'


def _connect(at_start: tuple[tuple[str, str], ...]) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(_server(at_start) / "socket"))
    return connection
