"""Requests to an API server, with bounded retries: an answer, a refusal or no answer.

Rate limits (429), server errors (5xx) and network errors are retried for a bounded time, with
exponential backoff or after the server's Retry-After. A request that the server may have carried
out is retried too: objects have unique names, so a second creation is a conflict (409) and never a
second object.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import random
import re
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

import httpx

from tarmac.errors import RequestError
from tarmac.files import parse_json
from tarmac.kubernetes.answers import NoAnswer, Refused
from tarmac.kubernetes.credentials import Credentials, read_credentials, tls_of
from tarmac.kubernetes.kubeconfig import Place, read_login
from tarmac.kubernetes.trouble import explain_trouble, login_words
from tarmac.masking import without_known
from tarmac.wording import in_one_line

# Bound on one request including all retries.
PATIENCE_S = 55.0
_CONNECT_S, _ANSWER_S = 10.0, 30.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.25, 8.0
# Least time between two reads of a rejected login: a plug-in may call an identity provider, which
# locks accounts after too many logins.
_LOGIN_PAUSE_S = 60.0
# A token is replaced this long before it expires.
_BEFORE_EXPIRY_S = 10.0
# Least time between two renewals: a plug-in that returns an expired token must not run for each
# request.
_RENEWAL_PAUSE_S = 10.0
# A Warning header by RFC 7234: a code, an agent, a quoted text.
_WARNING = re.compile(r'\b299 \S+ "((?:[^"\\]|\\.)*)"')
_LONGEST_WARNING = 1000
_BUSY = frozenset({408, 429, 500, 502, 503, 504})


class Connection:
    """A connection to an API server with one login. Threads may share it.

    Args:
        place: Cluster, namespace and login to use.
        environ: Environment variables for the plug-in.
        patience_s: Seconds that one request may take, including all retries.

    Raises:
        RequestError: The login or a certificate cannot be read.
    """

    def __init__(
        self, place: Place, environ: Mapping[str, str], patience_s: float = PATIENCE_S
    ) -> None:
        self.place = place
        self._environ = environ
        self._patience_s = patience_s
        self._lock = threading.Lock()
        self._silent_since: float | None = None
        self._login_at = self._renewed_at = float("-inf")
        self._credentials = read_credentials(place, environ, time.time())
        self._clients = [self._open(self._credentials)]

    def close(self) -> None:
        """Close all connections."""
        for client in self._clients:
            client.close()

    def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        patience_s: float | None = None,
    ) -> Mapping[str, Any] | Refused | NoAnswer:
        """Send a request, with retries, and return the JSON of the answer.

        Args:
            method: HTTP method, such as ``GET`` or ``DELETE``.
            path: URL path on the server, such as ``/version``.
            query: Query parameters of the URL, before encoding. Default: none.
            body: Value to send as JSON. None: no body.
            content_type: Media type of the body. Default ``application/json``.
            patience_s: Seconds for the request and its retries. 0: no retries. Default: the
                connection's.
        """
        patience_s = self._patience_s if patience_s is None else patience_s
        end, pause_s = time.monotonic() + patience_s, _FIRST_PAUSE_S
        content = None if body is None else json.dumps(body).encode()
        while True:
            left_s = min(_ANSWER_S, max(1.0, end - time.monotonic()))
            wait_s: float | None = None
            try:
                with self.send(
                    method, path, query or {}, content, content_type, answer_s=left_s
                ) as response:
                    response.read()
                    answer = self._understood(response)
                    if not isinstance(answer, NoAnswer):
                        self._silent_since = None
                        return answer
                    words, again = answer.words, response.status_code in _BUSY
                    wait_s = _retry_after(response)
            except RequestError as error:
                words, again = str(error), False
            except Exception as error:
                words, again = explain_trouble(error, self.place)
            if wait_s is None:
                # Jitter keeps many clients that failed at once from retrying at once.
                wait_s = pause_s * random.uniform(0.75, 1.25)  # noqa: S311 - nothing secret
            if not again or time.monotonic() + wait_s >= end:
                return self.silence(f"{method} {path}: {words}")
            time.sleep(wait_s)
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    @contextlib.contextmanager
    def send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        content: bytes | None = None,
        content_type: str = "application/json",
        *,
        answer_s: float | None = _ANSWER_S,
    ) -> Iterator[httpx.Response]:
        """Send a request and stream the answer; after a 401, read the login again and resend once.

        Raises:
            httpx.TransportError: The server does not answer.
            RequestError: The login cannot be read, or the connection was closed.
        """
        limits = httpx.Timeout(answer_s, connect=min(_CONNECT_S, answer_s or _CONNECT_S))
        for is_last in (False, True):
            client, credentials = self._client()
            headers = {"Accept": "application/json"}
            if content is not None:
                headers["Content-Type"] = content_type
            if credentials.header:
                headers["Authorization"] = credentials.header
            extensions = {}
            if name := self.place.cluster.get("tls-server-name"):
                extensions["sni_hostname"] = str(name)
            request = client.build_request(
                method,
                self.place.server + path,
                params=dict(query),
                content=content,
                headers=headers,
                timeout=limits,
                extensions={"timeout": limits.as_dict(), **extensions},
            )
            try:
                response = client.send(request, stream=True)
            except RuntimeError:
                # Another thread may have closed the connection: httpx then raises RuntimeError.
                if not client.is_closed:
                    raise
                raise RequestError("is no longer queried: its connections are closed") from None
            try:
                if response.status_code == 401 and not is_last and self._log_in_anew(credentials):
                    continue
                self._tell_warnings(response)
                yield response
            finally:
                response.close()
            return

    def _tell_warnings(self, response: httpx.Response) -> None:
        """Print the server's warnings to stderr, as kubectl does."""
        for header in response.headers.get_list("Warning"):
            for text in _WARNING.findall(header):
                plain = re.sub(r"\\(.)", r"\1", text)[:_LONGEST_WARNING]
                shown = "".join(c if c.isprintable() else "?" for c in plain)
                _warn(f"{self.place.title} warns: {shown}")

    def read(self, path: str, query: Mapping[str, str]) -> Iterator[bytes] | Refused | NoAnswer:
        """Return the body of an answer as an iterator of chunks; the body may be endless.

        The iterator raises ConnectionError if the connection breaks off.
        """
        stack = contextlib.ExitStack()
        try:
            # No read timeout: a followed log is silent while its program writes nothing.
            response = stack.enter_context(self.send("GET", path, query, answer_s=None))
            if response.status_code == 200:
                self.heard()
                return _pieces(response, stack)
            response.read()
            answer = self._understood(response)
            words = answer.words if isinstance(answer, NoAnswer) else ""
            stack.close()
            if isinstance(answer, Refused):
                return answer
        except RequestError as error:
            words = str(error)
        except Exception as error:
            words = explain_trouble(error, self.place).words
        return self.silence(f"GET {path}: {words}")

    def silence(self, words: str) -> NoAnswer:
        """Return a NoAnswer that began with the first request without an answer."""
        if self._silent_since is None:
            self._silent_since = time.time()
        return NoAnswer(f"{self.place.title} {words}", self._silent_since)

    def heard(self) -> None:
        """Note that the server answers."""
        self._silent_since = None

    def _understood(self, response: httpx.Response) -> Mapping[str, Any] | Refused | NoAnswer:
        status = response.status_code
        try:
            body = parse_json(response.content)
        except ValueError:
            body = None
        fields = body if isinstance(body, dict) else {}
        if words := self._no_answer(response, fields):
            return NoAnswer(words, 0)
        if 200 <= status < 300:
            return fields
        if not fields:
            return Refused(404, "NoSuchKind", "the cluster could not find the requested resource")
        message = str(fields.get("message") or f"HTTP {status}")
        return Refused(status, str(fields.get("reason") or ""), message)

    def _no_answer(self, response: httpx.Response, body: Mapping[str, Any]) -> str:
        """Return why a response is no answer of Kubernetes; empty if it is an answer."""
        status = response.status_code
        if status == 401:
            return (
                "does not accept this login any more (401 Unauthorized): the token or certificate "
                f"of {login_words(self.place)} has expired or was withdrawn; log in again"
            )
        if status in _BUSY:
            message = (
                body.get("message")
                or without_known(response.text.strip())[:300]
                or "and says nothing"
            )
            return f"fails with {status}: {message}"
        if 200 <= status < 300:
            return "" if body else "did not answer with JSON; is a proxy in between?"
        # The API server answers "404 page not found" for unknown kinds. A proxy's 404 does not say
        # whether an object exists.
        is_its_own = body.get("kind") == "Status" or response.text.strip() == "404 page not found"
        return (
            ""
            if is_its_own
            else f"answered {status} in no words of Kubernetes; is a proxy in between?"
        )

    def _client(self) -> tuple[httpx.Client, Credentials]:
        with self._lock:
            expires = self._credentials.expires
            is_old = expires is not None and time.time() > expires - _BEFORE_EXPIRY_S
            if is_old and time.monotonic() - self._renewed_at > _RENEWAL_PAUSE_S:
                self._renewed_at = time.monotonic()
                self._replace(read_credentials(self.place, self._environ, time.time()))
            return self._clients[-1], self._credentials

    def _log_in_anew(self, used: Credentials) -> bool:
        """Read the login again; return whether there are new credentials to try."""
        with self._lock:
            if self._credentials is not used:
                return True
            now = time.monotonic()
            if now - self._login_at < _LOGIN_PAUSE_S:
                return False
            self._login_at = now
            self.place = _read_again(self.place)
            self._replace(read_credentials(self.place, self._environ, time.time()))
            return True

    def _replace(self, credentials: Credentials) -> None:
        if credentials.certificate != self._credentials.certificate:
            # Other threads may still read with the old client: `close` closes all clients.
            self._clients.append(self._open(credentials))
        self._credentials = credentials

    def _open(self, credentials: Credentials) -> httpx.Client:
        proxy = self.place.cluster.get("proxy-url") or None
        try:
            return httpx.Client(
                verify=tls_of(self.place, credentials),
                proxy=str(proxy) if proxy else None,
                headers={"User-Agent": "tarmac"},
                limits=httpx.Limits(max_keepalive_connections=8),
            )
        except ImportError:
            raise RequestError(
                f"proxy-url of {self.place.file} is a SOCKS proxy",
                hint="Install SOCKS support: pip install 'httpx[socks]'",
            ) from None
        except ValueError as error:
            raise RequestError(f"proxy-url of {self.place.file} is no proxy: {error}") from None


@functools.cache
def _warn(text: str) -> None:
    """Write a warning once: each Job of a run causes the same warnings."""
    sys.stderr.write(f"warning: {in_one_line(text)}\n")


def _read_again(place: Place) -> Place:
    """Return the place with its login read again from the kubeconfig."""
    if place.login is None or "tokenFile" in place.login.fields:
        return place
    return dataclasses.replace(place, login=read_login(place.login))


def _retry_after(response: httpx.Response) -> float | None:
    """Return the seconds of the Retry-After header, or None."""
    try:
        return max(0.0, float(response.headers["Retry-After"]))
    except (KeyError, ValueError):
        return None


def _pieces(response: httpx.Response, stack: contextlib.ExitStack) -> Iterator[bytes]:
    with stack:
        try:
            yield from response.iter_bytes()
        except httpx.HTTPError as error:
            raise ConnectionError(f"the log broke off: {error}") from None
