"""What workers tell the process that launched them: progress and errors, as lines of JSON.

The connection is a Unix socket that ends with either side's process, however it ends, so a worker
also learns from it that its launcher is gone.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import socket
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path


@dataclasses.dataclass(frozen=True, kw_only=True)
class Failure:
    """Why a worker failed, in its own words.

    Attributes:
        rank: Global rank of the worker, from 0.
        kind: ``request`` or ``failed`` for a designed error, ``exception`` for any other,
            ``hang`` where it found a rank that hangs.
        message: What went wrong, as an error message.
        hint: Advice on what to do next; None for none.
        hung: The ranks that hang.
    """

    rank: int
    kind: str
    message: str
    hint: str | None = None
    hung: Sequence[int] = ()


class Link:
    """A worker's end of the connection.

    When the launcher's end closes, the process ends at once: nobody would stop it otherwise, and
    its run is free to be resumed by others.

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
        """Send an event; nothing happens where the launcher is gone already."""
        line = json.dumps({"event": event, "rank": self._rank, **values}) + "\n"
        with self._lock, contextlib.suppress(OSError):
            self._socket.sendall(line.encode())

    def fail(
        self, kind: str, message: str, hint: str | None = None, hung: Sequence[int] = ()
    ) -> None:
        """Say why this worker fails; see `Failure`."""
        self.send("failure", kind=kind, message=message, hint=hint, hung=list(hung))

    def done(self) -> None:
        """Say that this worker ends because it has done its work."""
        self.send("done")

    def _outlive_nobody(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.recv(1)
        os._exit(1)


@contextlib.contextmanager
def listen(address: Path, receive: Callable[[dict[str, Any]], None]) -> Iterator[None]:
    """Receive what workers send, in threads of its own, one event at a time.

    The last of each worker is "closed": its process has ended. An error of ``receive`` ends the
    connection, and with it the worker, and is raised at the end.

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
                # A worker that was killed in the middle of one has left it without its end.
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
