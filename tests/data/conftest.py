"""A small dataset in MNIST's format, and a real HTTP server that can misbehave."""

from __future__ import annotations

import collections
import dataclasses
import gzip
import hashlib
import http.server
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tarmac.data import sources as _sources


class Mirror(http.server.ThreadingHTTPServer):
    """Serves `files`; `faults` maps a path to what goes wrong there, once each."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.faults: dict[str, list[str]] = collections.defaultdict(list)
        self.requests: list[tuple[str, str | None]] = []
        self.with_ranges = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Mirror

    def do_GET(self) -> None:
        name = self.path.lstrip("/")
        asked = self.headers.get("Range")
        self.server.requests.append((name, asked))
        content = self.server.files.get(name)
        fault = self.server.faults[name].pop(0) if self.server.faults[name] else None
        if content is None or fault == "503":
            self.send_error(404 if content is None else 503)
            return
        start = 0
        if asked and self.server.with_ranges:
            start = int(asked.removeprefix("bytes=").rstrip("-"))
            if start >= len(content):
                self.send_error(416)
                return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        rest = content[start:]
        self.wfile.write(rest[: len(rest) // 2] if fault == "break" else rest)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def mirror() -> Iterator[Mirror]:
    server = Mirror()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def contents() -> dict[str, bytes]:
    """Return a whole small dataset: four IDX files by name."""
    rng = np.random.default_rng(0)

    def idx(array: np.ndarray) -> bytes:
        header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
        return header + array.tobytes()

    files = {}
    for part, size in (("train", 200), ("t10k", 50)):
        files[f"{part}-images-idx3-ubyte"] = idx(rng.integers(0, 256, (size, 5, 5), np.uint8))
        files[f"{part}-labels-idx1-ubyte"] = idx(rng.integers(0, 10, size, np.uint8))
    return files


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, mirror: Mirror) -> dict[str, bytes]:
    """Put a dataset of 250 samples in MNIST's place, on one mirror, and return its files."""
    monkeypatch.delenv("TARMAC_MIRROR", raising=False)
    files = contents()
    source = dataclasses.replace(
        _sources.SOURCES["mnist"],
        layouts=(
            tuple(
                _sources.DataFile(name, md5=hashlib.md5(content).hexdigest())
                for name, content in files.items()
            ),
        ),
        mirrors=(mirror.url,),
    )
    monkeypatch.setitem(_sources.SOURCES, "mnist", source)
    mirror.files = {f"{name}.gz": gzip.compress(content) for name, content in files.items()}
    return files


@pytest.fixture
def origin(tmp_path: Path, small: dict[str, bytes]) -> Path:
    """Return a directory with the small dataset's uncompressed files."""
    directory = tmp_path / "origin"
    directory.mkdir()
    for name, content in small.items():
        (directory / name).write_bytes(content)
    return directory
