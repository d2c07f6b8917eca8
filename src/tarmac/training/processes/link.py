"""The link from workers to their launcher: progress and errors, as lines of JSON.

The connection is a Unix socket, which closes when either process ends for any reason. So a worker
also notices the end of its launcher.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class Failure:
    """A worker's report of why it failed.

    Attributes:
        rank: Global rank of the worker, from 0.
        kind: ``request`` or ``failed`` for a designed error, ``exception`` for any other,
            ``hang`` if the worker found a hung rank.
        message: What went wrong, as an error message.
        hint: Advice on what to do next; None for none.
        hung: Global ranks that hang.
    """

    rank: int
    kind: str
    message: str
    hint: str | None = None
    hung: Sequence[int] = ()


class Link:
    """A worker's end of the connection.

    When the launcher's end closes, the worker exits at once. Nothing else would stop it, and
    another process may resume the run.

    Args:
        address: Path of the launcher's Unix socket.
        rank: Global rank of this worker, from 0.
    """

    def __init__(self, address: str, rank: int) -> None:
        self._rank = rank
        self._lock = threading.Lock()
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(address)
        self.send("connected", pid=os.getpid())
        threading.Thread(target=self._outlive_nobody, name="tarmac-link", daemon=True).start()

    def send(self, event: str, **values: Any) -> None:
        """Send an event; do nothing if the launcher has ended."""
        line = json.dumps({"event": event, "rank": self._rank, **values}) + "\n"
        with self._lock, contextlib.suppress(OSError):
            self._socket.sendall(line.encode())

    def fail(
        self, kind: str, message: str, hint: str | None = None, hung: Sequence[int] = ()
    ) -> None:
        """Report why this worker fails; see `Failure`."""
        self.send("failure", kind=kind, message=message, hint=hint, hung=list(hung))

    def done(self) -> None:
        """Report that this worker has completed its work."""
        self.send("done")

    def _outlive_nobody(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.recv(1)
        os._exit(1)


@contextlib.contextmanager
def listen(address: Path, receive: Callable[[dict[str, Any]], None]) -> Iterator[None]:
    """Receive the workers' events, in threads of its own, one event at a time.

    The last event of each worker is "closed": its process has ended. An error of ``receive`` closes
    the connection, which ends the worker. The error is raised at the end.

    Args:
        address: Path of the Unix socket to create.
        receive: Called with each event.
    """
    lock = threading.Lock()
    errors: list[Exception] = []
    readers: list[threading.Thread] = []
    connections: list[socket.socket] = []

    def tell(event: dict[str, Any]) -> bool:
        with lock:
            try:
                receive(event)
            except Exception as error:
                errors.append(error)
                return False
        return True

    def read(connection: socket.socket) -> None:
        rank = None
        with (
            connection,
            connection.makefile("r", encoding="utf-8") as lines,
            contextlib.suppress(OSError),
        ):
            for line in lines:
                # A worker that is killed while it sends leaves an incomplete line.
                if not line.endswith("\n"):
                    break
                event = json.loads(line)
                rank = event["rank"]
                if not tell(event):
                    return
        if rank is not None:
            tell({"event": "closed", "rank": rank})

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = server.accept()
                connections.append(connection)
                readers.append(threading.Thread(target=read, args=[connection], daemon=True))
                readers[-1].start()

    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(address))
        server.listen(1024)
        acceptor = threading.Thread(target=accept, daemon=True)
        acceptor.start()
        try:
            yield
        finally:
            server.shutdown(socket.SHUT_RDWR)
            acceptor.join()
            for reader in readers:
                reader.join(timeout=1)
    if errors:
        raise errors[0]
