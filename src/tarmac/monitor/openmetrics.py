"""Metrics for Prometheus, served at an IP address or by a Unix socket.

The page is made once for each snapshot, so that a scrape does not read the machine.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import http.server
import ipaddress
import os
import socket
import socketserver
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tarmac.distribution import explained_imports
from tarmac.errors import RequestError

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from tarmac.monitor.feed import Feed
    from tarmac.monitor.snapshot import Snapshot

_PATH = "/metrics"
_FORM = "expected ADDRESS:PORT, such as 127.0.0.1:9407, or unix:PATH"
# Maximum number of formats encoded in advance; clients may ask for any number of formats.
_MAX_FORMS = 4
# The server drops a client that sends nothing for this long.
_TIMEOUT_S = 10.0


@dataclasses.dataclass(frozen=True)
class MetricsAddress:
    """The address at which metrics are served.

    Attributes:
        host: An IP address; empty for a Unix socket. Default 127.0.0.1.
        port: Port number, or 0 for any free port. Default 0.
        path: Path of the Unix socket; None for an IP address.
    """

    host: str = "127.0.0.1"
    port: int = 0
    path: Path | None = None

    @classmethod
    def read(cls, text: str) -> MetricsAddress:
        """Read ``ADDRESS:PORT``, ``PORT`` for 127.0.0.1, or ``unix:PATH``.

        Raises:
            RequestError: The text has none of these forms.
        """
        if text.startswith("unix:"):
            path = Path(text.removeprefix("unix:"))
            if not path.name:
                raise RequestError(f"--serve {text!r} names no socket", hint=_FORM)
            return cls("", 0, path)
        host, _, port = text.rpartition(":")
        host = host.removeprefix("[").removesuffix("]") or "127.0.0.1"
        host = "127.0.0.1" if host == "localhost" else host
        try:
            ipaddress.ip_address(host)
            number = int(port)
        except ValueError:
            raise RequestError(f"--serve {text!r} is no address", hint=_FORM) from None
        if not 0 <= number < 2**16:
            raise RequestError(f"--serve {text!r}: there is no port {number}", hint=_FORM)
        return cls(host, number)

    @property
    def is_open(self) -> bool:
        """Whether other machines can reach the address."""
        return self.path is None and not ipaddress.ip_address(self.host).is_loopback


def serve_metrics(
    feed: Feed,
    address: MetricsAddress,
    *,
    with_dcgm_names: bool = False,
    tell: Callable[[str], None] = lambda _: None,
) -> None:
    """Serve a feed's snapshots until the feed ends or an exception is raised.

    Args:
        feed: Source of the snapshots. Each new snapshot replaces the page.
        address: IP address and port, or socket path, to listen on.
        with_dcgm_names: Whether to add GPU metrics with the names of NVIDIA's dcgm-exporter.
        tell: Callback that gets the address once it is served.

    Raises:
        RequestError: The address is in use or cannot be used.
        MissingExtraError: prometheus_client is not installed.
    """
    with explained_imports("watch"):
        page = _Page(with_dcgm_names=with_dcgm_names)
    with contextlib.suppress(StopIteration):
        page.show(feed.next())
        with _server(address, page) as server:
            thread = threading.Thread(target=server.serve_forever, daemon=True)
            thread.start()
            try:
                tell(_place(server))
                while True:
                    page.show(feed.next())
            finally:
                server.shutdown()
                thread.join()


class _Page:
    """The page of a scrape: the last snapshot, in the requested format."""

    def __init__(self, *, with_dcgm_names: bool) -> None:
        from prometheus_client.exposition import choose_encoder  # noqa: PLC0415 - an extra

        from tarmac.monitor.dcgm import dcgm_families  # noqa: PLC0415 - an extra
        from tarmac.monitor.metrics import XidCounts, families_of  # noqa: PLC0415 - an extra

        self._choose_encoder = choose_encoder
        self._families_of, self._dcgm_families = families_of, dcgm_families
        self._with_dcgm_names = with_dcgm_names
        self._xids = XidCounts()
        self._encoders: dict[str, Callable[[_Families], bytes]] = {}
        # In one tuple, so that a thread that answers meanwhile reads both of one snapshot.
        self._shown: tuple[_Families, dict[str, bytes]] = (_Families(()), {})

    def show(self, snapshot: Snapshot) -> None:
        """Serve a snapshot from now on, in all formats requested so far."""
        counts = self._xids.take(snapshot)
        metrics = list(self._families_of(snapshot, counts))
        if self._with_dcgm_names:
            metrics += self._dcgm_families(snapshot, self._xids.last)
        families = _Families(tuple(metrics))
        encoded = {kind: encode(families) for kind, encode in tuple(self._encoders.items())}
        self._shown = (families, encoded)

    def text(self, accepted: str) -> tuple[bytes, str]:
        """Return the page and its content type, in a format that the client accepts."""
        encode, kind = self._choose_encoder(accepted)
        families, encoded = self._shown
        text = encoded.get(kind)
        if text is None:
            # This is the first request for this format; `show` encodes later pages in advance.
            text = encode(families)
            if len(self._encoders) < _MAX_FORMS:
                self._encoders[kind] = encode
                encoded[kind] = text
        return text, kind


@dataclasses.dataclass(frozen=True)
class _Families:
    """Metric families, in the form that prometheus_client takes."""

    families: tuple[Metric, ...]

    def collect(self) -> Iterator[Metric]:
        """Return an iterator over the families."""
        return iter(self.families)


class _Handler(http.server.BaseHTTPRequestHandler):
    """A handler of scrapes that refuses requests from pages of other sites."""

    timeout = _TIMEOUT_S
    # Send each answer in one packet: a second would wait for the acknowledgement of the first.
    wbufsize = -1
    server: _Server

    def do_GET(self) -> None:
        if not self.server.is_welcome(self.headers.get("Host", "")):
            self.send_error(421, "This is served to this machine alone")
            return
        if self.path.partition("?")[0] not in ("/", _PATH):
            self.send_error(404, f"Metrics are at {_PATH}")
            return
        text, kind = self.server.page.text(self.headers.get("Accept", ""))
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Log nothing for a scrape."""

    def address_string(self) -> str:
        return "a client"


class _Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """A server of the page at an address or a socket."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(
        self, family: socket.AddressFamily, place: tuple[str, int] | str, page: _Page
    ) -> None:
        self.address_family = family
        self.page = page
        super().__init__(place, _Handler)  # type: ignore[arg-type]

    def is_welcome(self, host: str) -> bool:
        """Return whether a request names this machine; another name points to DNS rebinding."""
        if self.address_family == socket.AF_UNIX:
            return True
        if not ipaddress.ip_address(str(self.server_address[0])).is_loopback:
            return True
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        return name in ("127.0.0.1", "localhost", "[::1]", str(self.server_address[0]))

    def handle_error(self, request: object, client_address: object) -> None:
        """Log nothing for a client that has disconnected."""


@contextlib.contextmanager
def _server(address: MetricsAddress, page: _Page) -> Iterator[_Server]:
    """Bind an address; a socket is for this user alone, and is removed at the end."""
    try:
        if address.path is None:
            is_ipv6 = ":" in address.host
            family = socket.AF_INET6 if is_ipv6 else socket.AF_INET
            server = _Server(family, (address.host, address.port), page)
        else:
            server = _unix_server(address.path, page)
    except OSError as error:
        where = address.path or f"{address.host}:{address.port}"
        why = "it is taken" if error.errno == errno.EADDRINUSE else error.strerror or str(error)
        raise RequestError(f"cannot serve at {where}: {why}") from error
    with server:
        try:
            yield server
        finally:
            if address.path is not None:
                address.path.unlink(missing_ok=True)


def _unix_server(path: Path, page: _Page) -> _Server:
    """Bind a Unix socket; replace a socket that no server uses any more."""
    if path.exists():
        if not stat.S_ISSOCK(path.stat().st_mode):
            raise RequestError(f"cannot serve at {path}: it is no socket")
        with socket.socket(socket.AF_UNIX) as client:
            if client.connect_ex(str(path)) == 0:
                raise RequestError(f"cannot serve at {path}: it is taken")
        path.unlink()
    before = os.umask(0o177)
    try:
        return _Server(socket.AF_UNIX, str(path), page)
    finally:
        os.umask(before)


def _place(server: _Server) -> str:
    if server.address_family == socket.AF_UNIX:
        return f"unix:{server.server_address!s}"
    host, port = server.server_address[:2]
    host = f"[{host!s}]" if ":" in str(host) else str(host)
    return f"http://{host}:{port}{_PATH}"
