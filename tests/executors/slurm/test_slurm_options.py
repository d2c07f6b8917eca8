"""What a job's ``options: {slurm: ...}`` may say, and what Slurm's own lines mean."""

from __future__ import annotations

import dataclasses

import pytest

from tarmac.errors import RequestError
from tarmac.executors.slurm.endings import printed_ending
from tarmac.executors.slurm.engine import shape_of
from tarmac.executors.slurm.options import options_of
from tarmac.jobs import parse_job, plan_tasks


def task_of(tmp_path, options: str, more: str = ""):
    text = f"{{name: x, command: a, options: {{slurm: {options}}}{more}}}"
    (task,) = plan_tasks(parse_job(text), tmp_path)
    return task


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("{partion: gpu}", "options.slurm.partion: unknown key"),
        ("{sbatch: --mem=4G}", "--mem is set by Tarmac itself; use `memory`"),
        ("{sbatch: -p gpu}", "is no long option of sbatch"),
        ("{per_job: 0}", "options.slurm.per_job: "),
    ],
)
def test_a_wrong_option_is_refused_by_its_place_and_name(tmp_path, options, said):
    with pytest.raises(RequestError) as refused:
        task_of(tmp_path, options)
    assert refused.value.message.startswith("job:1:")
    assert said in refused.value.message


def test_a_wrong_option_of_a_job_made_in_python_is_refused_by_its_task(tmp_path):
    task = dataclasses.replace(task_of(tmp_path, "{}"), options={"slurm": {"per_job": 0}})
    with pytest.raises(RequestError, match=r"task 'x': options\.slurm\.per_job: "):
        options_of(task)


def test_a_job_has_the_time_of_its_tasks_and_some_to_end(tmp_path):
    assert shape_of(task_of(tmp_path, "{}", ", timeout: 600")).time_limit_s == 720
    assert shape_of(task_of(tmp_path, "{per_job: 3}", ", timeout: 600")).time_limit_s == 2160
    assert shape_of(task_of(tmp_path, "{time: 1h}", ", timeout: 600")).time_limit_s == 3600
    assert shape_of(task_of(tmp_path, "{}")).time_limit_s is None


@pytest.mark.parametrize(
    ("options", "check"),
    [
        ("{check: quick}", "quick"),
        ("{check: off}", "off"),
        ("{check: 'off'}", "off"),
        ("{}", "off"),
    ],
)
def test_the_check_of_gpus_is_quick_or_off_with_or_without_quotes(tmp_path, options, check):
    assert options_of(task_of(tmp_path, options)).check == check


def test_a_job_has_time_for_the_check_of_its_gpus(tmp_path):
    assert shape_of(task_of(tmp_path, "{check: quick}", ", timeout: 600")).time_limit_s == 1500


def test_less_urgent_tasks_stand_behind_a_runs_own_alone(tmp_path):
    assert shape_of(task_of(tmp_path, "{}", ", priority: 2"), 2).nice == 0
    assert shape_of(task_of(tmp_path, "{}", ", priority: -1"), 2).nice == 300


# As slurmstepd of 22.05 prints them.
@pytest.mark.parametrize(
    ("printed", "cause"),
    [
        ("slurmstepd: error: *** JOB 5 ON n1 CANCELLED AT 2026-01-02T03:04:05 ***", "cancelled"),
        (
            "slurmstepd: error: *** JOB 5 ON n1 CANCELLED AT 2026-01-02T03:04:05 DUE TO TIME LIMIT"
            " ***",
            "timeout",
        ),
        (
            "slurmstepd: error: *** JOB 5 ON n1 CANCELLED AT 2026-01-02T03:04:05 DUE TO PREEMPTION"
            " ***",
            "preempted",
        ),
        ("Traceback: no such file", None),
        ("", None),
    ],
)
def test_what_slurmstepd_prints_says_why_a_job_ended(printed, cause):
    ending = printed_ending(printed)
    assert (ending.cause if ending else None) == cause
    assert ending is None or ending.host == "n1"
