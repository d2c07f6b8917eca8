"""The process that `forked` starts once: imports what takes long, then forks for each request.

Its arguments are the descriptor of a listening Unix socket, and the `sys.executable` of children. A
client sends, on a connection for each child, files and a line of JSON: the words, the environment,
the directory and so on. The server answers with the process id and, when the child has ended, with
the status of `os.waitpid`. It ends when its standard input reaches its end.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import fcntl
import gc
import importlib
import io
import json
import os
import pkgutil
import runpy
import selectors
import signal
import socket
import sys
import threading
import traceback
from pathlib import Path
from typing import Any, NoReturn

# Programs that stand alone, what needs a compiler, and clients that take 2 s to import.
_LEFT_OUT = (
    "tarmac.__main__",
    "tarmac.checks.probes",
    "tarmac.kernels",
    "tarmac.monitor.screen",
    "tarmac.trackers.mlflow_run",
    "tarmac.trackers.wandb_run",
)


# The kernel's SCM_MAX_FD.
MAX_FILES = 253
# From <linux/prctl.h>.
PR_SET_PDEATHSIG = 1


def preload() -> None:
    """Import Tarmac whole, and with it PyTorch, Optuna and what else is installed."""
    import tarmac

    for module in pkgutil.walk_packages(tarmac.__path__, "tarmac.", onerror=lambda _: None):
        if not module.name.startswith(_LEFT_OUT):
            # An extra that is not installed.
            with contextlib.suppress(ImportError):
                importlib.import_module(module.name)
    # Each rank with shards would import the first at its first step, each with metrics the other.
    for name in ("torch._dynamo", "torchmetrics"):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Return a request and its files."""
    text, files, _, _ = socket.recv_fds(connection, 65536, MAX_FILES)
    while not text.endswith(b"\n"):
        part = connection.recv(65536)
        if not part:
            break
        text += part
    return json.loads(text), files


def parent_of(pid: int) -> int:
    """Return the parent of a process; 1 where it has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 1
    return int(stat.rpartition(")")[2].split()[1])


def become(request: dict[str, Any], files: list[int]) -> None:
    """Give this child the files, variables and directory of the process that was requested."""
    if request["start_new_session"]:
        os.setsid()
    else:
        # Whoever ends its own group means neither the server nor other forks.
        os.setpgid(0, 0)
    # A server that is killed takes its forks along.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    # Out of the way first, for a number may be another file's.
    free = max([*files, *request["descriptors"]]) + 1
    moved = [fcntl.fcntl(file, fcntl.F_DUPFD, free) for file in files]
    os.closerange(3, free)
    for source, target in zip(moved, request["descriptors"], strict=True):
        os.dup2(source, target)
        os.close(source)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if client := request["client"]:
        os.getppid = lambda: parent_of(client)
        # How `forked.process_behind` knows it.
        with open("/proc/self/comm", "w", encoding="ascii") as name:  # noqa: PTH123
            name.write(f"for {client}")
    os.environ.clear()
    os.environ.update(request["env"])
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    os.chdir(request["cwd"])
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    is_unbuffered = "-u" in request["options"] or bool(os.environ.get("PYTHONUNBUFFERED"))
    sys.stdout = io.TextIOWrapper(
        open(1, "wb", buffering=0 if is_unbuffered else -1, closefd=False),  # noqa: SIM115
        encoding="utf-8",
        line_buffering=os.isatty(1),
        write_through=is_unbuffered,
    )
    sys.stderr = io.TextIOWrapper(
        open(2, "wb", buffering=0, closefd=False),  # noqa: SIM115
        encoding="utf-8",
        errors="backslashreplace",
        write_through=True,
    )
    if threads := os.environ.get("OMP_NUM_THREADS"):
        with contextlib.suppress(KeyError):
            sys.modules["torch"].set_num_threads(int(threads))


def run(words: list[str], cwd: str, *, is_safe_path: bool) -> None:
    """Do as `python WORDS` does, with `is_safe_path` as `python -P WORDS`."""
    kind, *words = words
    first = {"-m": cwd, "-c": ""}.get(kind, os.path.dirname(kind))  # noqa: PTH120
    sys.path[:1] = [] if is_safe_path else [first]
    if kind == "-m":
        sys.argv = words
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        sys.argv = ["-c", *words[1:]]
        exec(compile(words[0], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv = [kind, *words]
        runpy.run_path(kind, run_name="__main__")


def run_to_the_end(request: dict[str, Any], files: list[int]) -> NoReturn:
    """Become the process that was requested, run, and exit as Python does.

    All but taking the modules down, which takes half a second.
    """
    code: object = 0
    try:
        become(request, files)
        is_safe_path = "-P" in request["options"] or bool(os.environ.get("PYTHONSAFEPATH"))
        run(request["words"], request["cwd"], is_safe_path=is_safe_path)
    except SystemExit as error:
        code = error.code
    except KeyboardInterrupt:
        traceback.print_exc()
        code = None
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        traceback.print_exc()
        code = 1
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)  # noqa: T201
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    exit_code = (code or 0) & 0xFF
    try:
        sys.stdout.flush()
    except ValueError:
        pass  # Closed by the program.
    except OSError:
        exit_code = 120
    os._exit(exit_code)


class Server:
    """Forks a child for each connection, and tells each client how its child ended."""

    def __init__(self, listener: socket.socket) -> None:
        self.listener = listener
        self.children: dict[int, socket.socket] = {}
        self.selector = selectors.DefaultSelector()
        self.woken, self.wake = socket.socketpair()
        self.wake.setblocking(False)
        for ready in (listener, self.woken, 0):
            self.selector.register(ready, selectors.EVENT_READ)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self.wake.fileno(), warn_on_full_buffer=False)
        # Whoever presses Ctrl-C in the tests' terminal means the tests.
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def serve(self) -> None:
        """Serve until the other end of standard input is closed; what still runs then is killed."""
        while True:
            ready = {key.fileobj: key.data for key, _ in self.selector.select()}
            if 0 in ready:
                for pid in self.children:
                    os.kill(pid, signal.SIGKILL)
                return
            for connection, pid in ready.items():
                if pid in self.children:
                    self.selector.unregister(connection)
                    os.kill(pid, signal.SIGKILL)
            if self.woken in ready:
                self.woken.recv(4096)
                self.reap()
            if self.listener in ready:
                self.fork()

    def reap(self) -> None:
        """Tell clients of the children that have ended."""
        while self.children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            with self.children.pop(pid) as connection, contextlib.suppress(OSError):
                if connection in self.selector.get_map():
                    self.selector.unregister(connection)
                connection.sendall(f"{status}\n".encode())

    def fork(self) -> None:
        """Fork a child for the next connection."""
        connection, _ = self.listener.accept()
        try:
            request, files = receive(connection)
        except (OSError, ValueError):
            # A client that was killed before it had sent its request.
            connection.close()
            return
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self.selector.close()
            for held in (self.listener, self.wake, self.woken, connection, *self.children.values()):
                held.close()
            run_to_the_end(request, files)
        for file in files:
            os.close(file)
        self.children[pid] = connection
        with contextlib.suppress(OSError):
            connection.sendall(f"{pid}\n".encode())
        if request["client"]:
            self.selector.register(connection, selectors.EVENT_READ, pid)


if __name__ == "__main__":
    # Before modules read it: what children start is forked as well.
    sys.executable = sys.argv[2]
    preload()
    # The collector of a child has nothing to look for in what it shares with all others.
    gc.freeze()
    Server(socket.socket(fileno=int(sys.argv[1]))).serve()
