"""An algorithm for tests: what it does is in the first value of its input."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from pathlib import Path

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect


def main() -> None:
    """Serve tasks until told to exit."""
    address = f"{os.environ['WORKER_SOCKET_HOST']}:{os.environ['WORKER_SOCKET_PORT']}"
    url = f"{os.environ['WORKER_SOCKET_PROTOCOL']}://{address}?storage=v1&encoding=json"
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    with connect(url, compression=None, max_size=None, open_timeout=60) as socket:
        work: dict = {}
        for frame in socket:
            message = json.loads(frame)
            command, data = message["command"], message.get("data")
            if command == "initialize":
                work = data
                say(socket, "initialized")
            elif command == "start":
                say(socket, "started")
                do(socket, work)
            elif command == "stop":
                say(socket, "stopped")
            elif command == "algorithmExecutionDone":
                say(socket, "done", {"child": data["response"]})
            elif command == "algorithmExecutionError":
                error(socket, data["error"])
            elif command == "exit":
                return


def say(socket, command, data=None):
    socket.send(json.dumps({"command": command, "data": data}))


def echo(socket, *rest):
    say(socket, "done", [*rest])


def who(socket, name):
    say(socket, "done", {"pid": os.getpid(), "name": name})


def environment(socket):
    say(socket, "done", dict(os.environ))


def error(socket, message):
    socket.send(
        json.dumps({"command": "errorMessage", "error": {"code": "Failed", "message": message}})
    )


def leave(_socket, code):
    sys.exit(code)


def die(_socket, name):
    os.kill(os.getpid(), signal.Signals[name])


def wait(_socket):
    """Leave it to a later message."""


def deaf(_socket):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.pause()


def babble(socket, asked, sign):
    """Send a frame that is no message after the task, once the pipe `asked` closes, and stay."""
    say(socket, "done")
    Path(asked).read_bytes()
    socket.send("{")
    with contextlib.suppress(ConnectionClosed):
        for _ in socket:
            pass
    os.close(os.open(sign, os.O_CREAT))
    signal.pause()


def eat(_socket, num_bytes):
    held = bytearray(num_bytes)
    held[::4096] = b"x" * len(held[::4096])
    signal.pause()


def call(socket, algorithm, inputs):
    asked = {"execId": "1", "algorithmName": algorithm, "input": inputs}
    say(socket, "startAlgorithmExecution", asked)


def call_together(socket, own, others, algorithm, inputs):
    """Call once the task at the other end of both pipes is about to do so as well."""
    # For both directions, so that neither opening nor writing waits for the other task.
    os.write(os.open(own, os.O_RDWR), b"!")
    os.read(os.open(others, os.O_RDWR), 1)
    call(socket, algorithm, inputs)


def fail_once(socket, sign, otherwise):
    # Its sign is there from the second time on.
    try:
        os.close(os.open(sign, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        say(socket, "done", "second")
    else:
        do(socket, {"input": otherwise})


def do(socket, work):
    what, *rest = work["input"]
    globals()[what](socket, *rest)


if __name__ == "__main__":
    main()
