"""One run on a real Ray, in `make test`: what `ray_in_process` stands for is so.

The other files of this folder start a real Ray for each of their own; `make test-ray` runs them.
"""

from __future__ import annotations

import json

import pytest

from conda_channel import make_tool
from tarmac.jobs import Began
from tarmac.processes.handles import has_ended

HEAD = {"num_cpus": 3, "num_gpus": 1}


def test_a_run_on_a_real_ray_retries_fails_and_is_cancelled(runs, tmp_path):
    go = f"echo $$ >> {tmp_path}/pids; exec sleep 600"
    tasks = [
        {"name": "sweep", "sweep": {"repeat": 2}, "command": "echo on $TARMAC_ENGINE"},
        {"name": "again", "retries": 1, "command": "test $TARMAC_ATTEMPT = 2"},
        {"name": "gpu", "resources": {"gpus": 0.5}, "command": "echo GPU $CUDA_VISIBLE_DEVICES"},
        {"name": "bad", "command": "echo no sample >&2; exit 3"},
        {"name": "stays", "command": go},
    ]
    for task in tasks:
        task["resources"] = {"cpus": 0.5, **task.get("resources", {})}
    job = json.dumps({"name": "x", "tasks": tasks})

    # The others have ended by then.
    alone = []

    def look(progress) -> None:
        if len(progress.ends) == len(tasks) and runs.lines("pids"):
            alone.append(True)

    progress = runs(job, look, stop=lambda: bool(alone), keep_going=True)
    ends = {name: (end.outcome, end.attempts) for name, end in progress.ends.items()}
    assert ends.pop("stays") == ("interrupted", 1)
    assert ends.pop("bad") == ("failed", 1)
    assert progress.ends["bad"].exit_code == 3
    assert ends.pop("again") == ("succeeded", 2)
    assert {*ends.values()} == {("succeeded", 1)}
    directories = {began.attempt.task.name: began.attempt.directory for began in progress.of(Began)}
    assert (directories["gpu"] / "stdout").read_text() == "GPU 0\n"
    swept = [path for name, path in directories.items() if name.startswith("sweep")]
    assert [(path / "stdout").read_text() for path in swept] == ["on Ray\n"] * 2
    assert all(has_ended(int(pid)) for pid in runs.lines("pids"))


def test_an_environment_of_condas_is_built_where_its_tasks_run(runs, tmp_path):
    pytest.importorskip("rattler", reason="needs pip install 'tarmac-gpu[conda]'")
    make_tool(tmp_path / "channel")
    (tmp_path / "environment.yml").write_text(
        f"channels: [{tmp_path}/channel]\ndependencies: [tool]\n"
    )
    environment = {"kind": "conda", "file": str(tmp_path / "environment.yml")}
    job = {"name": "x", "command": ["tool"], "environment": environment}
    progress = runs(json.dumps(job))
    (end,) = progress.ends.values()
    assert end.outcome == "succeeded", end.reason
    (began,) = progress.of(Began)
    assert (began.attempt.directory / "stdout").read_text().startswith("tool at /")
