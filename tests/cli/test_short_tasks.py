"""The hint that short tasks had better share jobs of a cluster's."""

from __future__ import annotations

import pytest

from tarmac.cli.views.short_tasks import ShortTasks
from tarmac.jobs import Ended, parse_job, plan_tasks


def hints(tmp_path, *, seconds=2.0, num_tasks=100, options="{}", host="n1", num_ended=60):
    text = f"{{name: x, command: a, options: {{slurm: {options}}}}}"
    (task,) = plan_tasks(parse_job(text), tmp_path)
    short = ShortTasks(num_tasks)
    ended = Ended(task, "succeeded", exit_code=0, seconds=seconds, host=host)
    return [hint for hint in (short.note(ended) for _ in range(num_ended)) if hint]


def test_short_tasks_are_told_once_how_many_of_them_a_job_had_better_have(tmp_path):
    assert hints(tmp_path) == [
        "the first 50 tasks took 2.0 s each, less than a job may need to start. To run several "
        "in one job: --set options.slurm.per_job=100"
    ]
    assert hints(tmp_path, seconds=20.0)[0].endswith("per_job=15")


@pytest.mark.parametrize(
    "values",
    [
        pytest.param({"seconds": 30.0}, id="long tasks"),
        pytest.param({"num_tasks": 99}, id="few are left"),
        pytest.param({"num_ended": 49}, id="few are known"),
        pytest.param({"options": "{per_job: 2}"}, id="they share jobs"),
        pytest.param({"host": ""}, id="they did not run"),
    ],
)
def test_nothing_is_told_where_nothing_is_to_be_gained(tmp_path, values):
    assert hints(tmp_path, **values) == []
