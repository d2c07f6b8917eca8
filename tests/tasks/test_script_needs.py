"""A task whose script lists what it needs runs in an environment that has that."""

from __future__ import annotations

import pytest

from tarmac import RequestError
from tarmac.jobs import parse_job, plan_tasks
from tarmac.tasks.script_needs import script_of

_LIST = "# /// script\n# dependencies = ['six']\n# ///\nprint(1)\n"


@pytest.mark.parametrize(
    ("command", "script"),
    [
        (["python", "train.py"], "train.py"),
        (["python3", "-u", "src/train.py", "--x"], "src/train.py"),
        (["./train.py"], "./train.py"),
        (["sh", "-c", "python train.py --epochs 3"], "train.py"),
        (["sh", "-c", "cd x; python train.py"], None),
        (["sh", "-c", "python train.py > log"], None),
        (["sh", "-c", "python 'my file.py'"], None),
        (["python", "-m", "train.py"], None),
        (["python", "-c", "print()", "train.py"], None),
        # This interpreter was chosen.
        (["/usr/bin/python3", "train.py"], None),
        (["python3.12", "train.py"], None),
        (["bash", "train.py"], None),
        (["python"], None),
        (["sh", "-c", ""], None),
        ([], None),
    ],
)
def test_the_script_of_a_command_is_told_where_that_is_sure(command, script):
    assert script_of(command) == script


@pytest.fixture
def plan(tmp_path):
    """Return a function that plans a job beside scripts with a list and without."""
    (tmp_path / "code").mkdir()
    for name in ("train.py", "code/inner.py"):
        (tmp_path / name).write_text(_LIST)
    (tmp_path / "plain.py").write_text("print(1)\n")

    def make(text):
        return [*plan_tasks(parse_job(text.replace("HERE", str(tmp_path)), "job.yaml"), tmp_path)]

    return make


@pytest.mark.parametrize(
    ("rest", "script"),
    [
        ("command: python train.py, inputs: [{from: train.py}]", "train.py"),
        ("command: [python, b.py], inputs: [{from: train.py, to: b.py}]", "train.py"),
        ("command: python code/inner.py, inputs: [{from: code}]", "code/inner.py"),
        ("command: python inner.py, inputs: [{from: code, to: .}]", "code/inner.py"),
        ("command: python HERE/train.py", "train.py"),
        ("command: ./train.py, inputs: [{from: train.py}]", "train.py"),
        ("command: 'python {{x}}.py', sweep: {grid: {x: [train]}},"
         " inputs: [{from: '{{x}}.py'}]", "train.py"),
        ("command: python train.py", None),
        ("command: python plain.py, inputs: [{from: plain.py}]", None),
        ("command: python train.py, inputs: [{from: 'https://a.example/train.py'}]", None),
        ("command: python train.py, inputs: [{from: train.py}], environment: system", None),
        ("command: python train.py, inputs: [{from: train.py}], environment: {image: a}", None),
    ],
)  # fmt: skip
def test_its_list_makes_the_environment_where_none_is_named(plan, tmp_path, rest, script):
    for text in (f"{{name: x, {rest}}}", f"{{name: x, tasks: [{{name: a, {rest}}}]}}"):
        for task in plan(text):
            found = task.environment
            assert (found.path if found.kind == "project" else None) == (
                script and str(tmp_path / script)
            )


def test_an_environment_of_the_job_is_one_that_is_named(plan):
    task = "{name: a, command: python train.py, inputs: [{from: train.py}]}"
    (found,) = plan(f"{{name: x, environment: system, tasks: [{task}]}}")
    assert found.environment.kind == "system"


def test_a_list_of_another_form_is_refused_before_anything_runs(plan, tmp_path):
    (tmp_path / "train.py").write_text(_LIST.replace("['six']", "'six'"))
    with pytest.raises(RequestError, match=r"task 'x': environment: .*train\.py:1: .*a list"):
        plan("{name: x, command: python train.py, inputs: [{from: train.py}]}")


def test_a_project_is_planned_by_its_path(plan):
    job = "{name: x, command: 'true', environment: {path: '{{p}}', extras: [gpu]}"
    first, second = plan(job + ", sweep: {grid: {p: [a, b]}}}")
    assert (first.environment.path, second.environment.path) == ("a", "b")
    assert (first.environment.kind, first.environment.extras) == ("project", ("gpu",))
