"""A runner that is killed again and again loses no task, and does none twice."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter

import pytest

from tarmac.jobs import read_journal

pytestmark = pytest.mark.slurm

CLUSTER = {"cpus": 8}

NUM_TASKS = 1000
KILLS = 8

# A busy machine takes longer, and a passing test does not wait.
WITHIN_S = 180.0


def test_a_thousand_tasks_are_done_once_whenever_their_runners_are_killed(
    on_cluster, tmp_path, monkeypatch
):
    monkeypatch.setenv("TARMAC_RUNS", str(tmp_path / "runs"))
    job, seen, log = tmp_path / "job.yaml", tmp_path / "seen", tmp_path / "log"
    job.write_text(
        f"""
        name: x
        resources: {{cpus: 4}}
        sweep: {{repeat: {NUM_TASKS}}}
        command: echo $TARMAC_TASK_INDEX >> {seen}; sleep 0.1
        options: {{slurm: {{per_job: 50}}}}
        """
    )
    tarmac = [sys.executable, "-m", "tarmac", "run"]

    def num_lines(what: str) -> int:
        """Return how much tasks have done, or a runner has written down to go on from."""
        return sum(path.read_bytes().count(b"\n") for path in tmp_path.glob(what))

    chance = random.Random(17)
    words = [str(job), "--on", "slurm"]
    for _ in range(KILLS):
        what = chance.choice(["seen", "runs/x-*/journal.jsonl"])
        enough = num_lines(what) + chance.randint(1, 60)
        with log.open("ab") as said, subprocess.Popen([*tarmac, *words], stderr=said) as runner:

            def is_due(what=what, enough=enough, runner=runner) -> bool:
                return num_lines(what) >= enough or runner.poll() is not None

            on_cluster.wait_until(is_due, f"{what} has {enough} lines", within_s=WITHIN_S)
            runner.kill()
        words = ["--resume", "latest"]
    end = subprocess.run(
        [*tarmac, "--resume", "latest"], capture_output=True, text=True, check=False
    )
    assert end.returncode == 0, end.stdout + end.stderr + log.read_text()
    times = Counter(map(int, seen.read_text().split()))
    assert times == dict.fromkeys(range(NUM_TASKS), 1)
    (journal,) = tmp_path.glob("runs/x-*/journal.jsonl")
    ends = [event for event in read_journal(journal) if event["event"] == "ended"]
    assert Counter(event["task"] for event in ends) == times
    assert {(event["outcome"], event["attempts"]) for event in ends} == {("succeeded", 1)}
