"""A list and a watch of a kind: a thread keeps all current objects up to date.

Watches end, break off, get "version too old" (410, as an answer or in the stream) or carry
bookmarks only. All of that is normal: the thread continues from the last version or lists again.
Only a failed list is no answer.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import httpx

from tarmac.errors import TarmacError
from tarmac.files import parse_json
from tarmac.kubernetes.answers import Listed, NoAnswer, Object, Refused, name_of

if TYPE_CHECKING:
    from tarmac.kubernetes.connection import Connection

T = TypeVar("T")

# The server sends a bookmark 60 to 61 s after the last event (bookmarkFrequency of apiserver's
# cacher.go): a longer silence means that the server is gone.
SILENCE_S = 75.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 15.0
# Least pause between two watches, so that reopening never becomes a busy loop.
_BETWEEN_S = 0.1


class _TooOld(Exception):  # noqa: N818 - no error, but a request to list
    """The server no longer has the version to continue from."""


class Watch(Generic[T]):
    """The current objects of a kind that match a label selector; use it as a context manager.

    Args:
        connection: Connection to the API server.
        path: URL path that lists all objects of the kind.
        labels: Label selector, such as ``app=x``. Empty: all objects.
        list_all: Function that lists the objects that the selector matches.
        keep: Function that returns the value to store for an object.
        silence_s: Seconds without an event or bookmark until all objects are listed again.
    """

    def __init__(
        self,
        connection: Connection,
        path: str,
        labels: str,
        *,
        list_all: Callable[[], Listed | Refused | NoAnswer],
        keep: Callable[[Object], T],
        silence_s: float = SILENCE_S,
    ) -> None:
        self._connection = connection
        self._path = path
        self._labels = labels
        self._list_all = list_all
        self._keep = keep
        self._silence_s = silence_s
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._world: dict[str, T] = {}
        self._seen: Mapping[str, T] | None = None
        self._count = 0
        self._told = 0
        self._silence: NoAnswer | None = _not_yet(path)
        self._socket: socket.socket | None = None
        self._thread = threading.Thread(target=self._run, name=f"watch {path}", daemon=True)

    def __enter__(self) -> Watch[T]:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the thread, even while it waits for the server."""
        self._stopping.set()
        with self._changed:
            if self._socket is not None:
                try:
                    # SSLSocket.shutdown would discard the TLS state that the thread still reads
                    # with.
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
                except OSError:
                    self._socket = None
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(timeout=5)

    def look(self) -> Mapping[str, T] | NoAnswer:
        """Return the current objects by name, or why they are not known."""
        with self._changed:
            if self._silence is not None:
                return self._silence
            if self._seen is None:
                self._seen = MappingProxyType(dict(self._world))
            return self._seen

    def wait_for_change(self, timeout_s: float) -> bool:
        """Wait until an object or the silence changes; return whether there was a change."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._count != self._told or self._stopping.is_set(), timeout_s
            )
            has_changed, self._told = self._count != self._told, self._count
            return has_changed

    def _run(self) -> None:
        version, pause_s = "", _FIRST_PAUSE_S
        while not self._stopping.is_set():
            if not version:
                listed = self._list_all()
                if isinstance(listed, (Refused, NoAnswer)):
                    self._fall_silent(listed)
                    pause_s = self._rest(pause_s)
                    continue
                try:
                    world = {name_of(item): self._keep(item) for item in listed.items}
                except TarmacError as error:
                    self._fall_silent(self._connection.silence(str(error)))
                    pause_s = self._rest(pause_s)
                    continue
                version = listed.resource_version
                self._replace(world)
            has_heard = False
            try:
                for stands_at in self._follow(version):
                    version, has_heard, pause_s = stands_at, True, _FIRST_PAUSE_S
            except _TooOld:
                version = ""
            if has_heard:
                self._stopping.wait(_BETWEEN_S)
            else:
                # A watch that ends without an event is reopened with backoff.
                pause_s = self._rest(pause_s)

    def _rest(self, pause_s: float) -> float:
        self._stopping.wait(pause_s)
        return min(pause_s * 2, _LONGEST_PAUSE_S)

    def _follow(self, version: str) -> Iterator[str]:
        """Apply the events of a watch; yield the version after each event.

        Raises:
            _TooOld: All objects must be listed again.
        """
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "labelSelector": self._labels,
        }
        has_begun = False
        try:
            with self._connection.send(
                "GET", self._path, query, answer_s=self._silence_s
            ) as response:
                if response.status_code != 200:
                    # The list that follows gives a better error.
                    raise _TooOld
                has_begun = True
                self._connection.heard()
                self._note_socket(response)
                for line in _lines(response):
                    yield self._take(parse_json(line))
        except (httpx.HTTPError, OSError, ValueError, KeyError, TypeError, TarmacError) as error:
            if has_begun and isinstance(error, (httpx.RemoteProtocolError, httpx.ReadError)):
                # The connection broke off: continue from the last version.
                return
            raise _TooOld from None
        finally:
            with self._changed:
                self._socket = None

    def _note_socket(self, response: httpx.Response) -> None:
        stream = response.extensions.get("network_stream")
        with self._changed:
            self._socket = stream.get_extra_info("socket") if stream is not None else None

    def _take(self, event: Mapping[str, Any]) -> str:
        what, item = event["type"], event["object"]
        if what == "ERROR":
            # Mostly 410, also for a version from before a restart of the server.
            raise _TooOld
        version = str(item["metadata"]["resourceVersion"])
        if what == "BOOKMARK":
            return version
        with self._changed:
            if what == "DELETED":
                self._world.pop(name_of(item), None)
            else:
                self._world[name_of(item)] = self._keep(item)
            self._note_change()
        return version

    def _replace(self, world: dict[str, T]) -> None:
        with self._changed:
            if world != self._world or self._silence is not None:
                self._world, self._silence = world, None
                self._note_change()

    def _fall_silent(self, answer: Refused | NoAnswer) -> None:
        if isinstance(answer, Refused):
            answer = self._connection.silence(f"does not let us look: {answer.message}")
        with self._changed:
            if answer != self._silence:
                self._silence = answer
                self._note_change()

    def _note_change(self) -> None:
        self._seen = None
        self._count += 1
        self._changed.notify_all()


def _not_yet(path: str) -> NoAnswer:
    """Return the NoAnswer that holds until the first list."""
    return NoAnswer(f"GET {path}: not listed yet", time.time())


def _lines(response: httpx.Response) -> Iterator[bytes]:
    r"""Yield lines that end in \n: httpx also splits at U+0085 and others, which JSON may hold."""
    rest = b""
    for chunk in response.iter_bytes():
        *lines, rest = (rest + chunk).split(b"\n")
        yield from filter(None, lines)
