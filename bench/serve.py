"""How long `tarmac serve` takes with many runs: to its first page, each page, a change, its end.

Example:
    python bench/serve.py --runs 1000
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import psutil

from _harness import table, write_results
from runs_list import make_runs


class Server:
    """`tarmac serve` as a process."""

    def __init__(self, output: Path, cache: Path) -> None:
        began = time.perf_counter()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tarmac", "serve", "--json", "--output", str(output)],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"XDG_CACHE_HOME": str(cache)},
        )
        assert self._process.stdout is not None
        url = json.loads(self._process.stdout.readline())["url"]
        self.start_s = time.perf_counter() - began
        self._base, self._token = url.split("/?token=")
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def open(self, address: str) -> urllib.request.addinfourl:
        """Return the answer to a request."""
        headers = {"Authorization": f"Bearer {self._token}"}
        request = urllib.request.Request(self._base + address, headers=headers)
        return self._opener.open(request, timeout=600)

    def seconds_of(self, address: str) -> float:
        """Return how long a page takes, whole."""
        began = time.perf_counter()
        self.open(address).read()
        return time.perf_counter() - began

    def cpu_s(self) -> float:
        """Return its CPU time until now."""
        times = psutil.Process(self._process.pid).cpu_times()
        return times.user + times.system

    def memory_mib(self) -> float:
        """Return what it has in memory."""
        return psutil.Process(self._process.pid).memory_info().rss / 2**20

    def end(self) -> float:
        """Interrupt it; return how long it takes to end."""
        began = time.perf_counter()
        self._process.send_signal(signal.SIGINT)
        self._process.wait()
        return time.perf_counter() - began


def seconds_to_change(server: Server, record: Path) -> float:
    """Return how long after a run's record changed a browser that shows it in a list is told."""
    # Of a thousand runs, others may be on the first page.
    with server.open(f"/events/?q={record.parent.name}&version=") as stream:
        wait_for_list(stream)
        content = json.loads(record.read_text()) | {"metrics": {"test_accuracy": time.time() % 1}}
        began = time.perf_counter()
        temporary = record.with_name(".new")
        temporary.write_text(json.dumps(content))
        temporary.replace(record)
        wait_for_list(stream)
        return time.perf_counter() - began


def wait_for_list(stream: urllib.request.addinfourl) -> None:
    """Read until the list is told anew."""
    while b'"id": "runs"' not in (line := stream.readline()):
        if not line:
            raise SystemExit("the stream has ended")


def main() -> None:
    """Measure, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=15)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        output, cache = Path(directory) / "runs", Path(directory) / "cache"
        output.mkdir()
        make_runs(output, arguments.runs)
        server = Server(output, cache)
        first = server.seconds_of("/")
        pages = {"list": "/", "page 5 of it": "/?page=5", "found": "/?q=run-0005"}
        pages["one run"] = "/runs/run-00007/"
        pages["compared"] = "/compare?run=run-00001&run=run-00002"
        medians: dict[str, float] = {}
        for name, address in pages.items():
            found = [server.seconds_of(address) for _ in range(arguments.repeats)]
            medians[name] = round(statistics.median(found) * 1000, 1)
        changes = [
            seconds_to_change(server, output / "run-00000" / "run.json")
            for _ in range(arguments.repeats)
        ]
        with server.open("/events/?version="):
            time.sleep(2)
            before = server.cpu_s()
            time.sleep(20)
            share = (server.cpu_s() - before) / 20
        memory = server.memory_mib()
        figures = {
            "runs": arguments.runs,
            "start_s": round(server.start_s, 3),
            "first_list_ms": round(first * 1000, 1),
            **{f"{name}_median_ms": value for name, value in medians.items()},
            "told_of_a_change_median_s": round(statistics.median(changes), 3),
            "share_of_a_core_with_the_list_open": round(share, 4),
            "memory_mib": round(memory, 1),
            "end_s": round(server.end(), 3),
            "n": arguments.repeats,
        }
    rows = [[name.replace("_", " "), str(value)] for name, value in figures.items()]
    write_results("serve", figures, table(["what", "value"], rows))


if __name__ == "__main__":
    main()
