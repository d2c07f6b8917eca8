"""A client that behaves as the runner of HKube's first GPU example does.

It asks for nothing in its URL, speaks JSON in text frames, and computes in the thread that reads:
while a task is at work it answers neither pings nor ``stop``. What goes wrong when it sends is
passed over. It comes back five seconds after its socket was closed, and stays there at ``exit``.

Source: kube-HPC/gpu-algorithm at 5ef663a, algorunner.py and src/websocketClient/wc.py.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from typing import Any

from websockets.client import ClientProtocol
from websockets.exceptions import WebSocketException
from websockets.frames import Frame, Opcode
from websockets.uri import parse_uri

PAUSE_S = 5


class Connection:
    """A websocket that reads when it is asked to, and at no other time."""

    def __init__(self, url: str) -> None:
        uri = parse_uri(url)
        self._socket = socket.create_connection((uri.host, uri.port))
        self._protocol = ClientProtocol(uri, max_size=None)
        self._protocol.send_request(self._protocol.connect())
        self._flush()

    def texts(self) -> Iterator[str]:
        """Yield messages until the socket is closed."""
        parts = []
        while data := self._socket.recv(2**16):
            self._protocol.receive_data(data)
            # Answers to pings and to a close.
            self._flush()
            for event in self._protocol.events_received():
                if isinstance(event, Frame) and event.opcode in (Opcode.TEXT, Opcode.CONT):
                    parts.append(bytes(event.data))
                    if event.fin:
                        yield b"".join(parts).decode()
                        parts = []

    def send(self, message: dict[str, Any]) -> None:
        with contextlib.suppress(OSError, WebSocketException):
            self._protocol.send_text(json.dumps(message).encode())
            self._flush()

    def drop(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._socket.close()

    def _flush(self) -> None:
        for data in self._protocol.data_to_send():
            self._socket.sendall(data)


def start(connection: Connection, args: dict[str, Any]) -> Any:
    action, *rest = args["input"]
    if action == "fail":
        raise ValueError(*rest)
    if action == "crash":
        os.kill(os.getpid(), signal.SIGKILL)
    if action == "hang":
        while True:
            signal.pause()
    if action == "work":
        time.sleep(rest[0])
    if action == "drop":
        connection.drop()
    if action == "tell":
        return {"pid": os.getpid(), "taskId": args["taskId"]}
    if action == "make":
        return "x" * rest[0]
    return rest[0]


def serve(connection: Connection) -> None:
    args: dict[str, Any] = {}
    for text in connection.texts():
        message = json.loads(text)
        if message["command"] == "initialize":
            args = message["data"]
            connection.send({"command": "initialized"})
        elif message["command"] == "start":
            connection.send({"command": "started"})
            try:
                connection.send({"command": "done", "data": start(connection, args)})
            except Exception as error:
                shown = {"code": "Failed", "message": str(error)}
                connection.send({"command": "errorMessage", "error": shown})
        elif message["command"] == "stop":
            connection.send({"command": "stopped"})


def main() -> None:
    names = ("PROTOCOL", "HOST", "PORT")
    protocol, host, port = (os.environ[f"WORKER_SOCKET_{name}"] for name in names)
    url = os.environ.get("WORKER_SOCKET_URL") or f"{protocol}://{host}:{port}"
    while True:
        with contextlib.suppress(OSError), contextlib.closing(Connection(url)) as connection:
            serve(connection)
        time.sleep(PAUSE_S)


if __name__ == "__main__":
    main()
