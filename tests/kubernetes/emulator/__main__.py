"""A cluster by hand: ``python tests/kubernetes/emulator --kubeconfig FILE``, until Ctrl-C."""

from __future__ import annotations

# ruff: noqa: E402, T201
import contextlib
import sys
from pathlib import Path

# Run as a directory: its modules are a package all the same.
sys.path[0] = str(Path(__file__).resolve().parent.parent)

import argparse
import shutil
import signal
import tempfile

from emulator import Emulator


def main() -> None:
    """Run until a signal."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--kubeconfig", type=Path, required=True, help="the file to write")
    options.add_argument("--nodes", type=int, default=1, help="how many nodes (default: 1)")
    options.add_argument("--gpus", type=int, default=2, help="GPUs of each (default: 2)")
    chosen = options.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="emulator-"))
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    capacity = {"nvidia.com/gpu": str(chosen.gpus), "cpu": "16", "memory": "16Gi"}
    with Emulator(directory, nodes=chosen.nodes, capacity=capacity, tls=True) as cluster:
        shutil.copy(cluster.kubeconfig, chosen.kubeconfig)
        print(f"{cluster.url}: kubectl --kubeconfig {chosen.kubeconfig} get nodes", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()
    shutil.rmtree(directory)


main()
