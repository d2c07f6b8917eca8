"""A training as a job, and what the command line makes of it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from forked import run_python
from tarmac.executors.launching import attempt_variables
from tarmac.jobs import LAUNCH, Attempt, parse_job, plan_tasks, training_job


def command_of(workload: str, *options: str, **given) -> list[str]:
    (task,) = plan_tasks(training_job(workload, options, output=Path("/runs"), **given), Path())
    assert task.command[:5] == (sys.executable, "-P", "-m", "tarmac", "train")
    return [*task.command[5:]]


@pytest.mark.parametrize(
    ("gpus", "devices"), [(0, "cpu"), (1, "cuda"), (8, "8")], ids=["none", "one", "eight"]
)
def test_a_training_takes_the_gpus_that_it_asked_for_and_never_the_cpu_instead(gpus, devices):
    command = command_of("digits-mlp", "--epochs=2", gpus_per_node=gpus)
    expected = ["digits-mlp", "--epochs=2", "--devices", devices, "--output", "/runs"]
    assert command == expected


def test_devices_that_are_named_are_left_as_they_are():
    assert command_of("digits-mlp", "--device=cpu:2")[1:] == ["--device=cpu:2", "--output", "/runs"]


def test_a_workload_of_a_file_is_found_from_any_directory_and_braces_stay():
    command = command_of("my {{ model }}.py:workload", "--set=a={{ b }}")
    assert command[:2] == [f"{Path.cwd()}/my {{{{ model }}}}.py:workload", "--set=a={{ b }}"]


def test_only_a_training_on_several_nodes_is_tried_again_by_its_job():
    jobs = [training_job("digits-mlp", [], output=Path(), nodes=n) for n in (1, 2)]
    assert [job.retries.count for job in jobs] == [0, 3]
    # An error of its own, exit code 1, would come again.
    assert 1 not in jobs[1].retries.exit_codes
    assert 137 in jobs[1].retries.exit_codes
    assert jobs[0].env["TARMAC_LAUNCH"] != jobs[1].env["TARMAC_LAUNCH"]


def test_all_attempts_of_a_training_have_one_name_and_other_tasks_have_none(tmp_path):
    job = parse_job("{name: x, tasks: [{name: a, workload: digits-mlp}, {name: b, command: c}]}")
    trains, other = plan_tasks(job, tmp_path)

    def launch(task, number):
        attempt = Attempt(task, number, tmp_path / "run" / "tasks" / task.name)
        return attempt_variables(attempt, cpus=1.0).get(LAUNCH)

    assert [launch(trains, number) for number in (1, 2)] == ["run/0", "run/0"]
    assert launch(other, 1) is None


@pytest.mark.parametrize("option", ["--nodes", "--gpus-per-node", "--cpus-per-node"])
def test_what_nodes_give_is_refused_without_a_cluster(tmp_path, option):
    done = run_python("-m", "tarmac", "train", "digits-mlp", option, "2", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(
        f"error: {option} is for a training on a cluster\n  Choose a cluster:"
    )
