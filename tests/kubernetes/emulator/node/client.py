"""The API as a node asks it: the same HTTP as everybody's."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator
from typing import Any

import httpx

_STRATEGIC = {"Content-Type": "application/strategic-merge-patch+json"}


class Client:
    """Asks a server for what a node needs."""

    def __init__(self, url: str, token: str, verify: Any = True) -> None:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
        self._http = httpx.Client(
            base_url=url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=httpx.Timeout(30, read=None),
            limits=limits,
            trust_env=False,
            verify=verify,
        )
        self._watched: set[socket.socket] = set()
        self._is_over = False

    def get(self, path: str) -> dict[str, Any] | None:
        """Return an object; None where it is not there."""
        answer = self._http.get(path)
        return answer.json() if answer.status_code == 200 else None

    def post(self, path: str, thing: Any) -> dict[str, Any] | None:
        """Create an object; None where that is refused."""
        answer = self._http.post(path, json=thing)
        return answer.json() if answer.status_code < 300 else None

    def patch(self, path: str, patch: Any) -> dict[str, Any] | None:
        """Patch an object; None where it is gone."""
        answer = self._http.patch(path, content=json.dumps(patch), headers=_STRATEGIC)
        return answer.json() if answer.status_code < 300 else None

    def delete(self, path: str, uid: str) -> None:
        """Delete a pod at once, if it is still the one."""
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
        self._http.request("DELETE", path, json=body)

    def watch(self, path: str, query: dict[str, str]) -> Iterator[dict[str, Any]]:
        """List, as events, and watch until the server ends that."""
        listed = self._http.get(path, params=query).raise_for_status().json()
        names = [it["metadata"]["uid"] for it in listed["items"]]
        yield {"type": "LISTED", "uids": names}
        for thing in listed["items"]:
            yield {"type": "ADDED", "object": thing}
        more = {"watch": "true", "resourceVersion": listed["metadata"]["resourceVersion"]}
        with self._http.stream("GET", path, params=query | more) as answer:
            connection = answer.extensions["network_stream"].get_extra_info("socket")
            self._watched.add(connection)
            try:
                for line in () if self._is_over else answer.iter_lines():
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        return
                    yield event
            finally:
                self._watched.discard(connection)

    def end_watches(self) -> None:
        """Have those who watch hear no more."""
        self._is_over = True
        for connection in list(self._watched):
            # Not as one of TLS, which would take it apart amid what another thread reads.
            with contextlib.suppress(OSError):
                socket.socket.shutdown(connection, socket.SHUT_RDWR)

    def close(self) -> None:
        """Let go of all connections, which nobody may use now: others get their numbers."""
        self._http.close()
