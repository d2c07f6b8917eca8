"""A run whose watches its server ends, cuts or forgets: ``tarmac run`` goes on regardless."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from emulator.kinds import JOB

from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from emulator import Emulator

pytestmark = pytest.mark.kubernetes

WITHIN_S = 120.0

# What the server does to watches while a task runs, and how often pods are listed then at most.
TROUBLES: dict[str, tuple[Callable[[Emulator], Any], int]] = {
    "their time is over": (lambda c: c.faults.end_watches(), 1),
    "the connection is closed": (lambda c: c.faults.cut_watches(), 1),
    "an event is cut in two": (lambda c: c.faults.cut_watches(inside_event=True), 1),
    # 410 Gone as an event of the open watch, and as one of that which follows.
    "their version is forgotten": (lambda c: c.compact(), 2),
    "it is forgotten when they are opened again": (
        lambda c: (c.compact(), c.faults.cut_watches()),
        2,
    ),
    # 410 Gone as the answer itself, as old servers say it.
    "410 is the answer": (
        lambda c: (c.faults.answer(410, 1, verb="watch", resource="pods"), c.faults.cut_watches()),
        2,
    ),
}


@pytest.mark.parametrize("what", TROUBLES)
def test_a_run_goes_on_when_a_server_closes_its_watches(
    what: str, cluster: Emulator, tmp_path: Path
) -> None:
    make_trouble, most_lists = TROUBLES[what]
    job, runs = tmp_path / "job.yaml", tmp_path / "runs"
    job.write_text("{name: x, command: 'echo once; sleep 2; echo twice', sweep: {repeat: 2}}")
    command = [
        *(sys.executable, "-m", "tarmac", "run", str(job), "--on", "kubernetes"),
        *("--output", str(runs)),
        *("--set", f"options.kubernetes.kubeconfig={cluster.kubeconfig}"),
        *("--set", "options.kubernetes.image=python:3.12-slim"),
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as runner:
        wait_until(
            lambda: "Running" in [pod["status"].get("phase") for pod in cluster.pods()],
            "a pod that runs",
            seconds=WITHIN_S,
            unless=lambda: None if runner.poll() is None else runner.communicate()[0],
        )
        make_trouble(cluster)
        said, _ = runner.communicate(timeout=WITHIN_S)
    assert runner.returncode == 0, said
    assert "2 succeeded" in said
    assert [path.read_text() for path in runs.glob("*/tasks/*/stdout")] == ["once\ntwice\n"] * 2
    ends = [*runs.glob("*/tasks/*/attempt-*.json")]
    assert [path.name for path in ends] == ["attempt-1.json"] * 2
    assert [json.loads(path.read_text())["restart"] for path in ends] == [0, 0]
    assert cluster.requests.count("list", "pods") <= most_lists
    assert cluster.requests.count("watch", "pods") >= 2
    assert not cluster.store.list(JOB, cluster.namespace)
