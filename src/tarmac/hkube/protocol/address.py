"""The worker's URL, and the query with which an algorithm connects.

Source: kube-HPC/hkube at 261d3d06, core/worker/lib/algorithm-communication/ws.js, worker.js;
hkube_python_wrapper 2.4.2, wrapper/algorunner.py and config/config.py.
"""

from __future__ import annotations

import dataclasses
import urllib.parse
from collections.abc import Mapping
from typing import Literal

from tarmac.hkube.protocol.messages import ProtocolError
from tarmac.hkube.protocol.values import ENCODINGS, Encoding

Storage = Literal["v1", "v2", "v3"]
_STORAGES: tuple[Storage, ...] = ("v1", "v2", "v3")


@dataclasses.dataclass(frozen=True, slots=True)
class Link:
    """The options that an algorithm sets in the query of its URL.

    Attributes:
        storage: Destination of results: ``v1`` is the ``done`` message, ``v2`` and ``v3`` are the
            storage. Default ``v1``.
        encoding: Encoding of every frame: ``json`` (default), ``msgpack`` or ``bson``.
        has_query: Whether the URL has a query: clients before 2019 send none.
    """

    storage: Storage = "v1"
    encoding: Encoding = "json"
    has_query: bool = True

    @property
    def query(self) -> str:
        """The query to append to a worker's URL."""
        return "?" + urllib.parse.urlencode({"storage": self.storage, "encoding": self.encoding})


def read_link(target: str) -> Link:
    """Read the options in a client's path and query; the defaults are ``v1`` and ``json``.

    Raises:
        ProtocolError: The query has an unknown value, or cannot be read.
    """
    try:
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(target).query, max_num_fields=100)
    except ValueError as error:
        raise ProtocolError(f"its query cannot be read: {error}") from error
    storage = query.get("storage", ["v1"])[-1]
    encoding = query.get("encoding", ["json"])[-1]
    for name, value, valid in (
        ("storage", storage, _STORAGES),
        ("encoding", encoding, ENCODINGS),
    ):
        if value not in valid:
            raise ProtocolError(f"{name} is {value[:40]!r}, expected one of {', '.join(valid)}")
    return Link(
        next(name for name in _STORAGES if name == storage),
        next(name for name in ENCODINGS if name == encoding),
        bool(query),
    )


def worker_url(environ: Mapping[str, str]) -> str:
    """Return the worker's URL without a query, from environment variables.

    The variables are ``WORKER_SOCKET_URL``, or ``WORKER_SOCKET_PROTOCOL``, ``_HOST`` and ``_PORT``.
    The default is ``ws://127.0.0.1:3000``.
    """
    url = environ.get("WORKER_SOCKET_URL")
    if url:
        return url
    protocol = environ.get("WORKER_SOCKET_PROTOCOL") or "ws"
    host = environ.get("WORKER_SOCKET_HOST") or "127.0.0.1"
    port = environ.get("WORKER_SOCKET_PORT") or "3000"
    return f"{protocol}://{host}:{port}"
