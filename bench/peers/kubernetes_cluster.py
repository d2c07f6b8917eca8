"""The tests' own emulator of Kubernetes, as a process of its own, for `bench/kubernetes.py`.

    python bench/peers/kubernetes_cluster.py KUBECONFIG COUNTS [--hollow]

It ends when its standard input does, and writes how often a client asked for what into COUNTS. The
pods of hollow nodes end at once, without a process; the one node of the other kind runs them.
"""

from __future__ import annotations

import functools
import json
import shutil
import sys
import tempfile
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "kubernetes"))

from emulator import Emulator, succeed
from emulator.kinds import JOB, POD

from tarmac.executors.kubernetes.manifests import NONCE
from tarmac.node import RECORD, AttemptRecord

NUM_HOLLOW_NODES = 10


class Kubelet(BaseHTTPRequestHandler):
    """Has the logs of hollow pods: what Tarmac's agent says of a task that did nothing."""

    protocol_version = "HTTP/1.1"

    def __init__(self, cluster: Emulator, *args: object) -> None:
        self._cluster = cluster
        super().__init__(*args)  # type: ignore[arg-type]  # as the server gives them

    def do_GET(self) -> None:
        """Answer with a log."""
        _, _, namespace, name, _ = self.path.partition("?")[0].split("/")
        pod = self._cluster.objects.read(POD, namespace, name)
        job = self._cluster.objects.read(JOB, namespace, pod["metadata"]["labels"]["job-name"])
        record = AttemptRecord(
            nonce=job["metadata"]["annotations"][NONCE],
            state="ended",
            host=pod["spec"]["nodeName"],
            outcome="succeeded",
            exit_code=0,
            seconds=0.001,
        )
        log = RECORD + b" " + record.to_bytes()
        self.send_response(200)
        self.send_header("Content-Length", str(len(log)))
        self.end_headers()
        self.wfile.write(log)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def main() -> None:
    """Run until the standard input ends."""
    kubeconfig, counts = map(Path, sys.argv[1:3])
    is_hollow = sys.argv[3:] == ["--hollow"]
    directory = Path(tempfile.mkdtemp(prefix="emulator-"))
    capacity = {"cpu": "64", "memory": "64Gi"}
    with Emulator(directory, nodes=0 if is_hollow else 1, capacity=capacity) as cluster:
        kubelet = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Kubelet, cluster))
        threading.Thread(target=kubelet.serve_forever, daemon=True).start()
        for number in range(NUM_HOLLOW_NODES if is_hollow else 0):
            cluster.hollow.add(f"h{number}", {}, succeed, kubelet_port=kubelet.server_port)
        shutil.copy(cluster.kubeconfig, kubeconfig)
        print("ready", flush=True)
        sys.stdin.read()
        asked = Counter(f"{entry.verb} {entry.resource}" for entry in cluster.requests.entries)
        counts.write_text(json.dumps(asked))
    shutil.rmtree(directory, ignore_errors=True)


main()
