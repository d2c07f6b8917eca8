"""The process that `forked` starts once: imports what takes long, then forks for each request.

Its argument is the descriptor of a listening Unix socket. A client sends, on a connection for each
child, three files and a line of JSON with the words, the environment and the directory. Back go the
process id and, when the child has ended, the status of `os.waitpid`. The server ends when its
standard input is closed.
"""

from __future__ import annotations

import array
import atexit
import contextlib
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
from typing import Any, NoReturn

# Programs that stand alone, and what needs a compiler.
_LEFT_OUT = ("tarmac.checks.probes", "tarmac.kernels", "tarmac.__main__")


def preload() -> None:
    """Import Tarmac whole, and with it PyTorch, Optuna and what else is installed."""
    import tarmac

    for module in pkgutil.walk_packages(tarmac.__path__, "tarmac.", onerror=lambda _: None):
        if not module.name.startswith(_LEFT_OUT):
            # An extra that is not installed.
            with contextlib.suppress(ImportError):
                importlib.import_module(module.name)


def receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Return a request and its three files."""
    size = array.array("i").itemsize
    text, ancillary, _, _ = connection.recvmsg(65536, socket.CMSG_SPACE(3 * size))
    files = array.array("i")
    for _, _, data in ancillary:
        files.frombytes(data[: len(data) - len(data) % size])
    while not text.endswith(b"\n"):
        part = connection.recv(65536)
        if not part:
            break
        text += part
    return json.loads(text), list(files)


def become(request: dict[str, Any], files: list[int]) -> None:
    """Give this child the files, variables and directory of the process that was requested."""
    if request["start_new_session"]:
        os.setsid()
    for target, source in enumerate(files):
        os.dup2(source, target)
    os.closerange(3, max([*files, 3]) + 64)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = io.TextIOWrapper(
        open(1, "wb", closefd=False),  # noqa: SIM115
        encoding="utf-8",
        line_buffering=os.isatty(1),
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


def run(words: list[str], cwd: str) -> None:
    """Do as `python WORDS` does."""
    kind, *words = words
    if kind == "-m":
        sys.path[0] = cwd
        sys.argv = words
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        sys.path[0] = ""
        sys.argv = ["-c", *words[1:]]
        exec(compile(words[0], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.path[0] = os.path.dirname(kind)  # noqa: PTH120
        sys.argv = [kind, *words]
        runpy.run_path(kind, run_name="__main__")


def run_to_the_end(words: list[str], cwd: str) -> NoReturn:
    """Run and exit as Python does, but for the half second that taking all modules down takes."""
    code: object = 0
    try:
        run(words, cwd)
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


def serve(listener: socket.socket) -> None:
    """Fork children until the other end of standard input is closed."""
    wake, woken = socket.socketpair()
    for end in (wake, woken):
        end.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(woken.fileno(), warn_on_full_buffer=False)
    # Whoever presses Ctrl-C in the tests' terminal means the tests.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    children: dict[int, socket.socket] = {}
    with selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ)
        selector.register(wake, selectors.EVENT_READ)
        selector.register(0, selectors.EVENT_READ)
        while True:
            ready = {key.fileobj for key, _ in selector.select()}
            if wake in ready:
                wake.recv(4096)
                while children:
                    pid, status = os.waitpid(-1, os.WNOHANG)
                    if pid == 0:
                        break
                    with children.pop(pid) as connection, contextlib.suppress(OSError):
                        connection.sendall(f"{status}\n".encode())
            if listener in ready:
                connection, _ = listener.accept()
                request, files = receive(connection)
                pid = os.fork()
                if pid == 0:
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    selector.close()
                    for held in (listener, wake, woken, connection, *children.values()):
                        held.close()
                    become(request, files)
                    run_to_the_end(request["words"], request["cwd"])
                for file in files:
                    os.close(file)
                connection.sendall(f"{pid}\n".encode())
                children[pid] = connection
            if 0 in ready:
                return


if __name__ == "__main__":
    preload()
    # The collector of a child has nothing to look for in what it shares with all others.
    gc.freeze()
    serve(socket.socket(fileno=int(sys.argv[1])))
