"""A cluster for each test."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from emulator import Emulator
from emulator.real import VARIABLE, RealCluster


@pytest.fixture
def start_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Emulator]]:
    """Return a function that starts a cluster, as ``Emulator`` does; all end with the test."""
    started: list[Emulator] = []

    def start(**options: Any) -> Emulator:
        if VARIABLE in os.environ:
            pytest.skip(f"this is a test of the emulator, and {VARIABLE} names a real cluster")
        if options.get("nodes", 1):
            _need_namespaces()
        started.append(Emulator(tmp_path_factory.mktemp("cluster"), **options))
        return started[-1]

    yield start
    for cluster in started:
        cluster.stop()
        assert not cluster.control.failures


@pytest.fixture
def cluster(
    start_cluster: Callable[..., Emulator], tmp_path: Path
) -> Iterator[Emulator | RealCluster]:
    """Yield a cluster of one node with two GPUs, whose pods are processes, or a real one."""
    if given := os.environ.get(VARIABLE):
        real = RealCluster(Path(given), tmp_path)
        yield real
        real.stop()
    else:
        yield start_cluster(capacity={"nvidia.com/gpu": "2", "cpu": "8", "memory": "8Gi"})


@pytest.fixture
def verdict(
    start_cluster: Callable[..., Emulator], tmp_path: Path
) -> Iterator[Callable[[dict[str, Any]], httpx.Response]]:
    """Yield a function that gives a server's answer to a Job that it is asked to make, dry."""
    given = os.environ.get(VARIABLE)
    asked = RealCluster(Path(given), tmp_path) if given else start_cluster(nodes=0)
    path = f"/apis/batch/v1/namespaces/{asked.namespace}/jobs"
    query = {"fieldValidation": "Strict", "dryRun": "All"}
    yield lambda manifest: asked.admin.post(path, json=manifest, params=query)
    if isinstance(asked, RealCluster):
        asked.stop()


def _need_namespaces() -> None:
    if os.geteuid() != 0 or not shutil.which("unshare"):
        pytest.skip("pods run as root in namespaces of their own; run: sudo make test")
    command = ["unshare", "-mpfu", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("no namespaces can be made here; in a container, run it with --privileged")
