"""The API over HTTP: routes, watches, logs, and what goes wrong on purpose."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import json
import socket
import ssl
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .access import Access
from .decoding import check_kind, decoded
from .errors import ApiError, NoSuchPageError, no_such_path, too_large
from .kinds import POD, Kind, discovery
from .objects import Objects
from .paths import Target, target
from .selection import selector
from .subresources import evict, log_location, review
from .traffic import Fault, Faults, Request, Requests

_VERSION = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.2-emulator",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "python",
    "platform": "linux/amd64",
}
# The real server sends one a minute; tests need not wait so long.
_BOOKMARK_S = 1.0
# How long a watch without timeoutSeconds lasts: the real server's is 30 to 60 minutes.
_WATCH_S = 1800
_BODY_BYTES = 3 * 2**20


class Api:
    """What a server answers with."""

    def __init__(self, objects: Objects, access: Access) -> None:
        self.objects = objects
        self.access = access
        self.faults = Faults()
        self.requests = Requests()
        self.is_stopping = False
        self.warnings: Callable[[Kind, dict[str, Any]], list[str]] = lambda _kind, _thing: []
        self.bookmark_s = _BOOKMARK_S


class Server(http.server.ThreadingHTTPServer):
    """The API on a port of 127.0.0.1."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, api: Api, tls: ssl.SSLContext | None = None, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.api = api
        self._tls = tls
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.server_address[1]}"
        self._thread = threading.Thread(
            target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        self._thread.start()

    def get_request(self) -> tuple[Any, Any]:
        """Return a connection; its handshake is left to the thread that serves it."""
        connection, address = super().get_request()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._tls:
            connection = self._tls.wrap_socket(
                connection, server_side=True, do_handshake_on_connect=False
            )
        return connection, address

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that went away."""

    def stop(self) -> None:
        """Take no more requests, and end the watches."""
        self.api.is_stopping = True
        self.api.faults.clear()
        with self.api.objects.store.changed:
            self.api.objects.store.changed.notify_all()
        self.shutdown()
        self.server_close()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    timeout = None
    _warnings: Sequence[str] = ()

    def setup(self) -> None:
        """Shake hands in this thread, not in the one that takes connections."""
        if isinstance(self.request, ssl.SSLSocket):
            self.request.do_handshake()
        super().setup()

    def log_message(self, *_: object) -> None:
        pass

    def _serve(self) -> None:  # noqa: PLR0911 -- one for each form of answer
        api = self.server.api
        split = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(split.query, keep_blank_values=True))
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            user = api.access.who(self.headers.get("Authorization", ""))
            if (answer := self._about(split.path)) is not None:
                return self._send(200, answer)
            asked = target(split.path)
            is_watch = query.get("watch") in ("true", "1")
            verb = asked.verb(self.command, is_watch)
            fault = None
            if user == api.access.user:
                api.requests.entries.append(Request(verb, asked.resource, self.path, user))
                fault = api.faults.next(verb, asked.resource)
            if fault is not None and not self._fails(fault):
                return None
            api.access.check(
                user,
                verb,
                asked.resource,
                asked.kind.group,
                namespace=asked.namespace,
                name=asked.name,
            )
            if verb == "watch":
                return self._watch(asked, query, user)
            if asked.subresource == "log":
                return self._log(asked, query)
            answer = self._answer(asked, verb, query, body)
            if fault is not None:
                return self._hang_up()
            return self._send(201 if verb == "create" else 200, answer)
        except NoSuchPageError:
            return self._send_text(404, "404 page not found\n")
        except ApiError as error:
            return self._send(error.code, error.status(), error.retry_after_s)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815 -- http.server's names

    def _about(self, path: str) -> Any:
        if path == "/version":
            return _VERSION
        if path in ("/healthz", "/readyz", "/livez"):
            return "ok"
        return discovery(path.rstrip("/"))

    def _fails(self, fault: Fault) -> bool:
        """Do what goes wrong; return whether the request is done all the same."""
        if fault.kind == "drop-after":
            return True
        if fault.kind == "answer":
            if fault.code == 429 and not fault.message:
                self._send_text(429, "Too many requests, please try again later.\n", 1)
                return False
            message = fault.message or _WORDS.get(fault.code, "an error on the server")
            raise ApiError(fault.code, message, retry_after_s=fault.retry_after_s)
        if fault.kind == "silence":
            self.server.api.faults.released.wait()
        self._hang_up()
        return False

    def _hang_up(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def _answer(  # noqa: PLR0911 -- one for each verb
        self, asked: Target, verb: str, query: dict[str, str], body: bytes
    ) -> Any:
        objects = self.server.api.objects
        kind, namespace, name = asked.kind, asked.namespace, asked.name
        dry_run = query.get("dryRun") == "All"
        content_type = (self.headers.get("Content-Type") or "").partition(";")[0]
        if verb == "list":
            return self._list(asked, query)
        if verb == "get":
            return objects.read(kind, namespace, name)
        if verb in ("delete", "deletecollection"):
            options = decoded(body, content_type) if body else {}
            grace = query.get("gracePeriodSeconds", options.get("gracePeriodSeconds"))
            how: dict[str, Any] = {
                "grace_s": None if grace is None else int(grace),
                "propagation": query.get("propagationPolicy", options.get("propagationPolicy")),
                "preconditions": options.get("preconditions"),
                "dry_run": dry_run or options.get("dryRun") == ["All"],
            }
            names = (
                [name]
                if name
                else [it["metadata"]["name"] for it in self._list(asked, query)["items"]]
            )
            gone = [objects.delete(kind, namespace, each, **how) for each in names]
            return gone[0] if name else {"kind": "Status", "apiVersion": "v1", "status": "Success"}
        if len(body) > _BODY_BYTES:
            raise too_large(_BODY_BYTES)
        given = decoded(body, content_type)
        if verb == "patch":
            return objects.patch(
                kind,
                namespace,
                name,
                given,
                content_type,
                subresource=asked.subresource,
                dry_run=dry_run,
            )
        if asked.subresource == "eviction":
            return evict(objects, namespace, name, given)
        if kind.plural == "selfsubjectaccessreviews":
            return review(self.server.api.access, given)
        strict = query.get("fieldValidation") == "Strict"
        thing = dict(check_kind(kind, given, strict))
        if verb == "update":
            return objects.update(
                kind,
                namespace,
                name,
                lambda _: thing,
                subresource=asked.subresource,
                dry_run=dry_run,
            )
        if verb == "create" and not name:
            self._warnings = self.server.api.warnings(kind, thing)
            return objects.create(kind, namespace, thing, dry_run=dry_run)
        raise no_such_path()

    def _list(self, asked: Target, query: dict[str, str]) -> dict[str, Any]:
        store = self.server.api.objects.store
        kind = asked.kind
        chosen = selector(
            query.get("labelSelector", ""), query.get("fieldSelector", ""), kind.plural
        )
        with store.changed:
            items = store.list(kind, asked.namespace, chosen)
            revision = store.revision
        return {
            "kind": f"{kind.name}List",
            "apiVersion": kind.api_version,
            "metadata": {"resourceVersion": str(revision)},
            "items": items,
        }

    def _watch(self, asked: Target, query: dict[str, str], user: str) -> None:
        api = self.server.api
        generation = api.faults.watch_generation
        self._begin("application/json")
        try:
            for event in self._events(asked, query, user):
                line = b"" if event is None else json.dumps(event).encode() + b"\n"
                if user == api.access.user and generation != api.faults.watch_generation:
                    how = api.faults.watches_end
                    if how == "ended":
                        break
                    if how == "inside" and not line:
                        continue
                    if how == "inside":
                        self._chunk(line[: len(line) // 2])
                    return self._hang_up()
                if line:
                    self._chunk(line)
            self._chunk(b"")
        except OSError:
            self.close_connection = True
        return None

    def _events(self, asked: Target, query: dict[str, str], user: str) -> Iterator[Any]:
        """Yield what a watch says; None when something else may have happened."""
        api = self.server.api
        store, kind = api.objects.store, asked.kind
        chosen = selector(
            query.get("labelSelector", ""), query.get("fieldSelector", ""), kind.plural
        )
        is_user = user == api.access.user
        ends = time.monotonic() + float(query.get("timeoutSeconds") or _WATCH_S)
        bookmarks = query.get("allowWatchBookmarks") in ("true", "1")
        next_bookmark = time.monotonic() + api.bookmark_s
        revision = int(query.get("resourceVersion") or 0)
        if revision == 0:
            with store.changed:
                first, revision = store.list(kind, asked.namespace, chosen), store.revision
            yield from ({"type": "ADDED", "object": it} for it in first)
        while time.monotonic() < ends and not api.is_stopping:
            with store.changed:
                frozen = is_user and api.faults.is_frozen
                try:
                    new = [] if frozen else store.since(kind, revision)
                except ApiError as error:
                    yield {"type": "ERROR", "object": error.status()}
                    return
                if not new:
                    until = min(ends, next_bookmark if bookmarks and not frozen else ends)
                    store.changed.wait(max(0.0, min(until - time.monotonic(), 1.0)))
                here = store.revision
            yield None
            for change in new:
                revision = change.revision
                thing = change.after or change.before or {}
                if asked.namespace in ("", thing["metadata"].get("namespace", "")):
                    if asked.name and thing["metadata"]["name"] != asked.name:
                        continue
                    if (event := change.as_event(chosen)) is not None:
                        yield event
            if bookmarks and not frozen and not new and time.monotonic() >= next_bookmark:
                next_bookmark = time.monotonic() + api.bookmark_s
                with store.changed:
                    is_current = not store.since(kind, revision) if revision else True
                if is_current:
                    revision = max(revision, here)
                    yield _bookmark(asked, revision)

    def _log(self, asked: Target, query: dict[str, str]) -> None:
        objects = self.server.api.objects
        pod = objects.read(POD, asked.namespace, asked.name)
        where = log_location(objects, pod, query)
        if where is None:
            return self._send_text(200, "")
        host, port, path = where
        connection = http.client.HTTPConnection(host, port, timeout=600)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
        except OSError as error:
            raise ApiError(
                500, f'Get "https://{host}:{port}{path}": dial tcp {host}:{port}: connect: {error}'
            ) from None
        if answer.status != 200:
            raise ApiError(answer.status, answer.read().decode())
        self._begin("text/plain")
        try:
            while block := answer.read1(65536):
                self._chunk(block)
            self._chunk(b"")
        except OSError:
            self.close_connection = True
        finally:
            connection.close()
        return None

    def _begin(self, content_type: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def _send(self, code: int, answer: Any, retry_after_s: int | None = None) -> None:
        if isinstance(answer, str):
            return self._send_text(code, answer)
        return self._send_bytes(
            code, json.dumps(answer).encode(), "application/json", retry_after_s
        )

    def _send_text(self, code: int, text: str, retry_after_s: int | None = None) -> None:
        self._send_bytes(code, text.encode(), "text/plain; charset=utf-8", retry_after_s)

    def _send_bytes(
        self, code: int, data: bytes, content_type: str, retry_after_s: int | None
    ) -> None:
        self.send_response(code)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(data)))
        if retry_after_s is not None:
            self.send_header("Retry-After", str(retry_after_s))
        for text in self._warnings:
            quoted = text.replace("\\", "\\\\").replace('"', '\\"')
            self.send_header("Warning", f'299 - "{quoted}"')
        self._warnings = ()
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(data)
            self.wfile.flush()


_WORDS = {
    401: "Unauthorized",
    410: "The provided continue parameter is too old to display a consistent list result.",
    500: "Internal error occurred: etcdserver: request timed out",
    503: "the server is currently unable to handle the request",
    504: "Timeout: request did not complete within the allotted timeout",
}


def _bookmark(asked: Target, revision: int) -> dict[str, Any]:
    thing = {
        "kind": asked.kind.name,
        "apiVersion": asked.kind.api_version,
        "metadata": {"resourceVersion": str(revision), "creationTimestamp": None},
    }
    return {"type": "BOOKMARK", "object": thing}
