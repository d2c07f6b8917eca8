"""The executor ``ray`` keeps what all executors promise, on a real cluster."""

from __future__ import annotations

import pytest

from tarmac.jobs import find_executor
from tarmac.testing.executors import EXECUTOR_CHECKS, ExecutorCase

pytestmark = pytest.mark.ray


@pytest.mark.parametrize("check", EXECUTOR_CHECKS)
def test_ray_conforms(check, cluster, tmp_path):
    check(ExecutorCase(find_executor("ray"), tmp_path, options=cluster.options))
