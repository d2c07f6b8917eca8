"""Workloads of tasks: files that come along, and names that are refused beforehand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarmac.errors import RequestError
from tarmac.jobs import parse_job, plan_tasks, prepare, problems_beforehand


def planned(text: str, base: Path):
    return tuple(plan_tasks(parse_job(text), base))


def brought(text: str, base: Path) -> dict[str, str | None]:
    (task,) = planned(text, base)
    return {given.source: given.to for given in task.inputs}


@pytest.fixture
def base(tmp_path):
    (tmp_path / "models/parts").mkdir(parents=True)
    (tmp_path / "models/two.py").write_text(
        "import torch, json\nimport helper\nfrom parts.a import A"
    )
    (tmp_path / "models/helper.py").write_text("import other\nimport helper")
    (tmp_path / "models/other.py").write_text("import two")
    (tmp_path / "models/json.py").write_text("")
    (tmp_path / "models/unused.py").write_text("")
    (tmp_path / "models/parts/__init__.py").write_text("")
    (tmp_path / "models/parts/a.py").write_text("from parts.b import B\nfrom . import c")
    return tmp_path


def test_a_workloads_file_comes_along_with_the_neighbours_that_it_imports(base):
    text = "{name: x, workload: models/two.py:workload}"
    assert brought(text, base) == {
        f"models/{name}": f"models/{name}" for name in ("two.py", "helper.py", "other.py", "parts")
    }
    (task,) = planned(text, base)
    assert task.train_words == ("models/two.py:workload",)


def test_a_workloads_file_above_the_job_file_stands_in_the_tasks_directory(base):
    (base / "jobs").mkdir()
    (task,) = planned("{name: x, workload: ../models/two.py:workload}", base / "jobs")
    assert task.train_words == ("two.py:workload",)
    assert {given.to for given in task.inputs} == {"two.py", "helper.py", "other.py", "parts"}
    assert problems_beforehand((task,), base / "jobs", {}) == []


@pytest.mark.parametrize(
    "inputs", ["{from: models/two.py, to: models/two.py}", "{from: models, to: models}"]
)
def test_a_workloads_file_that_an_input_brings_is_not_brought_twice(base, inputs):
    text = f"{{name: x, workload: models/two.py:workload, inputs: [{inputs}]}}"
    assert len(brought(text, base)) == 1
    assert problems_beforehand(planned(text, base), base, {}) == []


def test_files_of_a_sweep_over_workloads_come_along_each_with_its_task(base):
    (base / "one.py").write_text("")
    (base / "two.py").write_text("(")
    tasks = planned("{name: x, workload: '{{ m }}.py:w', sweep: {grid: {m: [one, two]}}}", base)
    assert [[given.source for given in task.inputs] for task in tasks] == [["one.py"], ["two.py"]]


@pytest.mark.parametrize(
    ("workload", "said"),
    [
        ("digit-mlp", "task 'x': unknown workload 'digit-mlp', did you mean 'digits-mlp'?"),
        ("nope.py:workload", "workload file 'nope.py' does not exist beside the job file"),
        ("/nope/nope.py:workload", "workload file '/nope/nope.py' does not exist"),
        ("models/two.py", "workload 'models/two.py' names a file only"),
        ("../nope.py:workload", "workload file 'nope.py' does not exist beside"),
    ],
)
def test_a_workload_that_is_not_there_is_refused_before_anything_starts(base, workload, said):
    job = parse_job(f"{{name: x, workload: '{workload}'}}")
    with pytest.raises(RequestError) as caught:
        prepare(job, base)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "rest",
    [
        "environment: {image: mine}",
        "inputs: [{from: models.zip, unpack: true}]",
        "inputs: [{from: https://example.com/nope.py}]",
    ],
)
def test_a_workload_that_may_be_there_when_it_starts_is_not_refused(base, rest):
    (base / "models.zip").touch()
    job = parse_job(f"{{name: x, workload: nope.py:workload, {rest}}}")
    problems = problems_beforehand(tuple(plan_tasks(job, base)), base, {})
    assert not [problem for problem in problems if "neither docker nor podman" not in problem]


def test_an_absolute_path_elsewhere_is_left_to_the_node(base):
    tasks = planned("{name: x, workload: /nope/nope.py:workload}", base)
    assert problems_beforehand(tasks, base, {}, executor="slurm") == []
