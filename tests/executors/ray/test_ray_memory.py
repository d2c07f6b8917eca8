"""A node whose memory is full: Ray's own monitor ends tasks there, and it is told in words."""

from __future__ import annotations

import contextlib
import json
import re
import sys

import psutil
import pytest
import ray

from ray_heads import start_head

pytestmark = pytest.mark.ray

# Of the machine's memory: what Ray leaves before it acts, and what the task takes beyond that.
_LEFT, _TAKEN = 0.1, 0.16


@pytest.fixture
def small_node(monkeypatch):
    """Start a node whose memory counts as full a little above what the machine uses now."""
    memory = psutil.virtual_memory()
    used = 1 - memory.available / memory.total
    if used + _TAKEN > 0.8:
        pytest.skip("needs a sixth of the machine's memory")
    monkeypatch.setenv("RAY_memory_usage_threshold", f"{used + _LEFT:.3f}")
    monkeypatch.setenv("RAY_memory_monitor_refresh_ms", "100")
    cluster = start_head(num_cpus=2)
    yield cluster
    ray.shutdown()
    cluster.shutdown()


def test_a_task_that_fills_its_node_is_tried_once_more_and_then_fails_for_its_memory(
    small_node, tmp_path, runs_on
):
    runs = runs_on(small_node.address)
    # Its pages are written, so that they are taken; its number tells whether it is still there.
    hog = (
        f"import os, signal; file = open({str(tmp_path / 'pids')!r}, 'a');"
        " file.write(str(os.getpid()) + chr(10)); file.close();"
        f" held = b'x' * {int(psutil.virtual_memory().total * _TAKEN)}; signal.pause()"
    )
    progress = runs(json.dumps({"name": "x", "command": [sys.executable, "-c", hog]}))
    (end,) = progress.ends.values()
    assert (end.outcome, end.cause, end.attempts) == ("failed", "memory", 2), end
    (first,) = progress.retries
    assert re.fullmatch(
        r"its node's memory was full \([\d.]+GB of [\d.]+GB\), and Ray ended the newest task there",
        first,
    )
    assert "and Ray ended it for the second time: request the memory that it needs" in end.reason
    assert runs.lines("pids")
    for pid in map(int, runs.lines("pids")):
        with contextlib.suppress(psutil.NoSuchProcess):
            assert psutil.Process(pid).wait(60) is None, "what filled the node is still there"
