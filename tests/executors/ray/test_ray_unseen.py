"""Nodes that do not see the run's directory, and secrets, which Ray shows nobody."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
import ray
from ray._private.worker import get_dashboard_url

from tarmac.jobs import Began

pytestmark = pytest.mark.ray

HEAD = {"num_cpus": 2, "include_dashboard": True, "dashboard_port": 0}

SECRET = "pssst-ray-17"


@pytest.fixture
def blind_node(cluster, tmp_path, until):
    """Start a node that has an empty directory in the place of the test's."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("a node with mounts of its own needs root and unshare")
    start = (
        f"mount -t tmpfs tmpfs {tmp_path} && exec {Path(sys.executable).parent}/ray start "
        f"--address={cluster.address} --num-cpus=2 --resources='{{\"blind\": 2}}' "
        "--object-store-memory=78643200 --node-name=blind --block"
    )
    with subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", start],
        cwd="/",
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as node:
        try:
            names = lambda: [n["NodeName"] for n in ray.nodes() if n["Alive"]]  # noqa: E731
            ray.init(cluster.address, ignore_reinit_error=True, log_to_driver=False)
            until(lambda: "blind" in names() or node.poll() is not None, "the node did not come")
            if node.poll() is not None:
                pytest.skip("mounts of one's own are not allowed here")
            ray.shutdown()
            yield
        finally:
            node.terminate()


def test_a_node_that_does_not_see_the_run_sends_what_its_tasks_print(blind_node, runs, monkeypatch):
    monkeypatch.setenv("VAULT", SECRET)
    progress = runs(
        """
        name: x
        options: {ray: {resources: {blind: 1}}}
        tasks:
          - name: good
            secrets: {TOKEN: {env: VAULT}}
            command: "echo out; echo ${#TOKEN} >&2; head -c 200000 /dev/zero | tr '\\\\0' x"
          - {name: bad, command: exit 3}
        """
    )
    ends = {name: (end.outcome, end.exit_code) for name, end in progress.ends.items()}
    assert ends == {"good": ("succeeded", 0), "bad": ("failed", 3)}
    directory = next(
        b.attempt.directory for b in progress.of(Began) if b.attempt.task.name == "good"
    )
    assert (directory / "stdout").read_text() == "out\n" + "x" * 200_000
    assert (directory / "stderr").read_text() == f"{len(SECRET)}\n"


def test_inputs_for_a_node_that_does_not_see_the_run_are_refused_in_words(blind_node, runs):
    (runs.directory / "in.txt").write_text("a")
    progress = runs(
        """
        name: x
        options: {ray: {resources: {blind: 1}}}
        inputs: [{from: in.txt}]
        command: cat in.txt
        """
    )
    (end,) = progress.ends.values()
    assert end.outcome == "failed"
    assert "does not see the run's directory; make the run where all nodes see it" in end.reason


def test_a_secret_is_nowhere_that_ray_shows_or_keeps(cluster, runs, monkeypatch):
    monkeypatch.setenv("VAULT", SECRET)
    said = []

    def ask(progress):
        if not progress.of(Began) or (runs.directory / "go").exists():
            return
        url = get_dashboard_url()
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        for path in ("/api/jobs/", "/api/v0/tasks?detail=1", "/api/v0/workers?detail=1"):
            with opener.open(f"http://{url}{path}", timeout=60) as answer:
                said.append(answer.read().decode())
        # What workers do is shown a moment later.
        if any("tarmac x" in text for text in said):
            (runs.directory / "go").touch()

    progress = runs(
        f"""
        name: x
        secrets: {{TOKEN: {{env: VAULT}}}}
        command: "until test -e {runs.directory}/go; do sleep 0.1; done; test $TOKEN"
        """,
        ask,
    )
    (end,) = progress.ends.values()
    assert end.outcome == "succeeded", end
    assert not [text for text in said if SECRET in text]
    session = Path(cluster.cluster.head_node.get_session_dir_path())
    files = [path for root in (runs.directory, session) for path in root.rglob("*")]
    kept = [path for path in files if path.is_file() and SECRET.encode() in path.read_bytes()]
    assert not kept
