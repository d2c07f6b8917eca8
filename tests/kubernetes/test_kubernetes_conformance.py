"""The executor ``kubernetes`` keeps what all executors promise, where a volume has the run."""

from __future__ import annotations

import pytest

from tarmac.jobs import find_executor
from tarmac.testing.executors import EXECUTOR_CHECKS, ExecutorCase

pytestmark = pytest.mark.kubernetes

# A pod's processes have numbers of their own, by which nobody else finds them.
_OF_ONE_MACHINE = "check_stop_leaves_no_process"
CHECKS = [check for check in EXECUTOR_CHECKS if check.__name__ != _OF_ONE_MACHINE]


@pytest.mark.parametrize("check", CHECKS)
def test_kubernetes_conforms(check, cluster):
    shared = cluster.claim("runs")
    options = {
        "kubeconfig": str(cluster.kubeconfig),
        "image": "python:3.12-slim",
        "volume": {"claim": "runs", "path": str(shared)},
    }
    check(ExecutorCase(find_executor("kubernetes"), shared, options={"kubernetes": options}))
