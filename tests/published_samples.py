"""Files that Batch Shipyard publishes, whose inputs come from this machine.

A sample is copied, and only the hosts of its addresses are changed: what they name is served from
127.0.0.1, as a small program in its place that says how it was started. What goes to an account of
Azure's stays where it is.
"""

from __future__ import annotations

import dataclasses
import http.server
import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SAMPLES = Path(__file__).parents[2] / "shared" / "samples"

_ADDRESS = re.compile(r"https://[^/\"'\s]+/")
_TO_AZURE = re.compile(r"^    output_data:\n(      .*\n)+", re.MULTILINE)

# In the place of the programs that the samples fetch, by the end of their address. What they write
# is what the samples' own programs write: BLAST's split makes a file of each sequence.
_STAND_INS = {
    "train_mnist.py": b"import sys\nprint('chainer', *sys.argv[1:])\n",
    "mnist/main.py": b"import sys\nprint('pytorch', *sys.argv[1:])\n",
    "sample.fa": b">a\nMKV\n>b\nMKL\n",
    "split.py": b"""\
parts = open("sample.fa").read().split(">")[1:]
for index, part in enumerate(parts):
    open(f"query-{index}.fa", "w").write(">" + part)
print("split into", len(parts))
""",
}


class _Server(http.server.ThreadingHTTPServer):
    """Serves the stand-ins.

    Attributes:
        asked: The paths that were asked for.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[str] = []


class _Handler(http.server.BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        ends = [end for end in _STAND_INS if self.path.endswith(f"/{end}")]
        body = _STAND_INS[ends[0]] if ends else b""
        self.send_response(200 if ends else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@dataclasses.dataclass(frozen=True)
class Stage:
    """Where the samples' addresses lead.

    Attributes:
        url: Of the server, without a slash at its end.
        asked: The paths that were asked for, in their order.
    """

    url: str
    asked: list[str]

    def copy(self, sample: str, place: Path) -> Path:
        """Copy a published file, or a recipe's directory, with its addresses led here.

        Args:
            sample: Below ``batch-shipyard``.
            place: A directory, in which the copy keeps its name.
        """
        origin = SAMPLES / "batch-shipyard" / sample
        copy = place / origin.name
        if origin.is_dir():
            shutil.copytree(origin, copy)
        else:
            shutil.copyfile(origin, copy)
        for file in [*copy.rglob("jobs*")] if origin.is_dir() else [copy]:
            file.chmod(0o644)
            text = _TO_AZURE.sub("", file.read_text("utf-8"))
            file.write_text(_ADDRESS.sub(f"{self.url}/", text), "utf-8")
        return copy


@contextmanager
def staged() -> Iterator[Stage]:
    """Serve what the samples fetch."""
    with _Server() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield Stage(f"http://127.0.0.1:{server.server_port}", server.asked)
        server.shutdown()
        thread.join()
