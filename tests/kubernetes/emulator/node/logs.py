"""The part of a kubelet that others ask: the logs of its containers."""

from __future__ import annotations

import contextlib
import http.server
import ssl
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple


class Log(NamedTuple):
    """A container's log.

    Attributes:
        path: Of the file with its lines.
        is_over: Says whether no more come.
    """

    path: Path
    is_over: Callable[[], bool]


# Takes namespace, pod and container; returns words where there is no log.
Finds = Callable[[str, str, str], "Log | str"]


class LogServer(http.server.ThreadingHTTPServer):
    """Serves ``/containerLogs/NAMESPACE/POD/CONTAINER`` on a port of 127.0.0.1."""

    daemon_threads = True

    def __init__(self, find: Finds, context: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        if context is not None:
            self.socket = context.wrap_socket(self.socket, server_side=True)
        self.find = find
        self.is_stopping = False
        threading.Thread(
            target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        ).start()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.server_address[1])

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that went away."""

    def stop(self) -> None:
        """Serve no more."""
        self.is_stopping = True
        self.shutdown()
        self.server_close()


class _Handler(http.server.BaseHTTPRequestHandler):
    server: LogServer

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        split = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(split.query))
        found = self.server.find(*split.path.split("/")[2:5])
        if isinstance(found, str):
            self.send_response(400)
            self.end_headers()
            self.wfile.write(found.encode())
            return
        self.send_response(200)
        self.end_headers()
        left = int(query["limitBytes"]) if "limitBytes" in query else None
        with contextlib.suppress(OSError):
            for line in self._lines(found, query):
                self.wfile.write(line if left is None else line[:left])
                self.wfile.flush()
                if left is not None:
                    left -= len(line)
                    if left <= 0:
                        return

    def _lines(self, log: Log, query: dict[str, str]) -> Iterator[bytes]:
        since = query.get("sinceTime", "").rstrip("Z").partition(".")
        stamped = query.get("timestamps") == "true"
        rest = b""
        with log.path.open("rb") as file:
            if "tailLines" in query:
                lines = file.read().splitlines(keepends=True)
                last = int(query["tailLines"])
                yield from (_plain(it, stamped) for it in lines[-last:] if last)
            while True:
                is_over = log.is_over()
                while line := file.readline():
                    rest += line
                    if not rest.endswith(b"\n"):
                        break
                    whole, rest = rest, b""
                    if not since[0] or _time(whole) >= (since[0], since[2]):
                        yield _plain(whole, stamped)
                if is_over or query.get("follow") != "true" or self.server.is_stopping:
                    return
                # The kubelet is told by inotify; a look now and then does as well here.
                time.sleep(0.02)


def _time(line: bytes) -> tuple[str, str]:
    second, _, fraction = line.split(b" ", 1)[0].decode().rstrip("Z").partition(".")
    return second, fraction


def _plain(line: bytes, stamped: bool) -> bytes:
    """Return a line as it was written, behind its time where that is asked for."""
    stamp, _, flag, text = line.split(b" ", 3)
    if flag == b"P":
        text = text.removesuffix(b"\n")
    return stamp + b" " + text if stamped else text
