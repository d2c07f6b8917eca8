"""Slurm does what every executor promises; a few seconds of CPU, and so in `make test`."""

from __future__ import annotations

import pytest

from tarmac.jobs import find_executor
from tarmac.testing.executors import EXECUTOR_CHECKS, ExecutorCase

# Several tasks at once are what some checks are about.
CLUSTER = {"cpus": 8}


@pytest.mark.parametrize("check", EXECUTOR_CHECKS, ids=lambda check: check.__name__)
def test_slurm_is_an_executor(check, on_cluster, tmp_path):
    check(ExecutorCase(kind=find_executor("slurm"), directory=tmp_path))
