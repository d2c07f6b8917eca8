"""A cluster for each test."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from emulator import Emulator
from emulator.real import NODES, VARIABLE, RealCluster
from kubernetes_validate import utils as schemas

# It reads all schemas of a version for each manifest, which takes most of the time.
schemas.schema_contents = functools.cache(schemas.schema_contents)
schemas.all_versions = functools.cache(schemas.all_versions)


@pytest.fixture
def start_cluster(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[..., Emulator | RealCluster]]:
    """Return a function that starts a cluster, as ``Emulator`` does; all end with the test."""
    started: list[Emulator | RealCluster] = []

    def start(*, nodes: int = 1, tls: bool = False, **options: Any) -> Emulator | RealCluster:
        directory = tmp_path_factory.mktemp("cluster")
        if nodes:
            _need_namespaces()
        if given := os.environ.get(VARIABLE):
            if nodes and os.environ.get(NODES) != "here":
                pytest.skip(f"nodes are made for this test; with {VARIABLE}, set {NODES}=here")
            started.append(RealCluster(Path(given), directory, nodes=nodes, **options))
        else:
            started.append(Emulator(directory, nodes=nodes, tls=tls, **options))
        return started[-1]

    yield start
    for cluster in started:
        cluster.stop()
        assert isinstance(cluster, RealCluster) or not cluster.control.failures


@pytest.fixture
def cluster(
    start_cluster: Callable[..., Emulator | RealCluster], tmp_path: Path
) -> Iterator[Emulator | RealCluster]:
    """Yield a cluster of one node with two GPUs, whose pods are processes, or a real one."""
    if VARIABLE in os.environ and os.environ.get(NODES) != "here":
        real = RealCluster(Path(os.environ[VARIABLE]), tmp_path)
        yield real
        real.stop()
    else:
        yield start_cluster(capacity={"nvidia.com/gpu": "2", "cpu": "8", "memory": "8Gi"})


def _need_namespaces() -> None:
    if os.geteuid() != 0 or not shutil.which("unshare"):
        pytest.skip("pods run as root in namespaces of their own; run: sudo make test")
    command = ["unshare", "-mpfu", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("no namespaces can be made here; in a container, run it with --privileged")
