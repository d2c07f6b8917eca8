"""`tarmac serve` as a process, and requests to it byte by byte."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from pathlib import Path

from forked import start_python


class Served:
    """`tarmac serve` as a process.

    Attributes:
        url: What it has printed to be opened.
        port: Where it listens.
        file: Its socket's; None where it has none.
        token: Of its address.
    """

    def __init__(self, *words: str, output: Path, **environment: str) -> None:
        self.process = start_python(
            *("-m", "tarmac", "serve", "--json", "--output", output, *words),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | environment,
        )
        assert self.process.stdout is not None
        self.printed = self.process.stdout.readline()
        if not self.printed:
            raise AssertionError(self.process.communicate()[1])
        said = json.loads(self.printed)
        self.url, self.port, self.file = said["url"], said["port"], said["socket"]
        self.token = self.url.partition("token=")[2]

    @property
    def base(self) -> str:
        return self.url.partition("?")[0].rstrip("/")

    def connect(self) -> socket.socket:
        connection = socket.socket()
        connection.settimeout(200)
        connection.connect(("127.0.0.1", self.port))
        return connection

    def ask(self, address: str = "/", *, token: str | None = None, host: str = "localhost") -> str:
        """Return all that is answered to a request."""
        with self.connect() as connection:
            return ask(connection, address, token=token, host=host)

    def end(self, number: int = signal.SIGINT) -> tuple[int, str]:
        """Tell it to end; return its exit code and all that it has printed after the address."""
        self.process.send_signal(number)
        printed = "".join(self.process.communicate(timeout=200))
        return self.process.returncode, printed


def ask(
    connection: socket.socket,
    address: str = "/",
    *,
    token: str | None = None,
    host: str = "localhost",
) -> str:
    """Send a request and return the answer, whole."""
    connection.sendall(request(address, token=token, host=host))
    answer = b""
    while received := connection.recv(65536):
        answer += received
    return answer.decode()


def request(address: str, *, token: str | None = None, host: str = "localhost") -> bytes:
    lines = [f"GET {address} HTTP/1.1", f"Host: {host}", "Connection: close"]
    if token is not None:
        lines.append(f"Authorization: Bearer {token}")
    return "\r\n".join([*lines, "", ""]).encode()
