"""A worker as an algorithm sees it: a websocket that says what a test wants, and hears the rest."""

from __future__ import annotations

import contextlib
import queue
import threading
from typing import TYPE_CHECKING, Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.server import serve as listen

from tarmac.hkube.protocol import Message, decode, encode, read_link
from waiting import limit_s

if TYPE_CHECKING:
    from websockets.sync.server import ServerConnection

# Nothing that is waited for takes as long, on however busy a machine.
LONG_S = 120


class Worker:
    """Accepts one algorithm at a time on a port of its own.

    Attributes:
        port: Where it listens; stays the same after `close` and `open`.
        paths: What each connection asked for.
        seen: Every message that came, but for signs of life.
    """

    def __init__(self) -> None:
        self.port = 0
        self.paths: list[str] = []
        self.seen: list[Message] = []
        self._heard: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._sockets: queue.SimpleQueue[ServerConnection] = queue.SimpleQueue()
        self._socket: ServerConnection | None = None
        self.open()

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    def open(self) -> None:
        self._server = listen(self._serve, "127.0.0.1", self.port, ping_interval=None)
        self.port = self._server.socket.getsockname()[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()

    def connected(self) -> None:
        """Wait for the next connection."""
        self._socket = self._sockets.get(timeout=limit_s(LONG_S))

    def drop(self) -> None:
        """Close the connection, as a network does that breaks."""
        assert self._socket is not None
        self._socket.close(code=1011)

    def say(self, command: str, data: Any = None) -> None:
        assert self._socket is not None
        assert self._socket.request is not None
        encoding = read_link(self._socket.request.path).encoding
        self._socket.send(encode(Message(command, data), encoding))

    def say_raw(self, frame: str | bytes) -> None:
        assert self._socket is not None
        self._socket.send(frame)

    def hear(self, *commands: str) -> Message:
        """Return the next message, of those commands where any are named."""
        while True:
            message = self._heard.get(timeout=limit_s(LONG_S))
            if not commands or message.command in commands:
                return message

    def hear_next(self) -> Message:
        """Return the next message that is no sign of life and no progress."""
        while True:
            message = self._heard.get(timeout=limit_s(LONG_S))
            if message.command not in ("alive", "stopping", "progress"):
                return message

    def begin(self, task_id: str, *inputs: Any) -> None:
        """Start a task, and wait until it is."""
        self.say("initialize", {"input": list(inputs), "taskId": task_id, "jobId": "job"})
        assert self.hear_next() == Message("initialized")
        self.say("start", {"spanId": None})
        assert self.hear_next() == Message("started")

    def ask(self, task_id: str, *inputs: Any) -> Message:
        """Do a task, and return how it ended."""
        self.begin(task_id, *inputs)
        return self.hear_next()

    def _serve(self, socket: ServerConnection) -> None:
        assert socket.request is not None
        self.paths.append(socket.request.path)
        encoding = read_link(socket.request.path).encoding
        self._sockets.put(socket)
        with contextlib.suppress(ConnectionClosed):
            for frame in socket:
                message = decode(frame, encoding)
                if message.command != "alive":
                    self.seen.append(message)
                self._heard.put(message)
