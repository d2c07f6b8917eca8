"""Environments of conda's in job files: what is refused, what the plan shows, what nodes do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarmac import RequestError
from tarmac.cli.views.job_plan import task_lines
from tarmac.executors import elements
from tarmac.jobs import parse_job, plan_tasks, prepare, problems_beforehand


def job(environment, **more):
    options = f", options: {more}" if more else ""
    return f"{{name: x, command: 'true', environment: {environment}{options}}}"


@pytest.mark.parametrize(
    "given",
    [
        "{kind: conda}",
        "{kind: conda, name: a, prefix: b}",
        "{kind: conda, file: ''}",
        "{kind: conda, name: a, tool: conda}",
        "{kind: conda, file: a.yml, tool: pip}",
    ],
)
def test_one_of_file_name_and_prefix_says_which(given):
    with pytest.raises(RequestError, match=r"job\.yaml:1:\d+: environment"):
        parse_job(job(given), "job.yaml")


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("{kind: conda, fil: a.yml}", "did you mean 'file'?"),
        ("{kind: conda, other: a}", "valid: kind, file, name, prefix"),
        ("{requirements: [six], pyton: '3'}", "did you mean 'python'?"),
        ("{path: ., extra: [a]}", "did you mean 'extras'?"),
        ("{image: a, pul: always}", "did you mean 'pull'?"),
    ],
)
def test_an_unknown_key_is_answered_with_those_of_its_kind(given, hint):
    with pytest.raises(RequestError, match="unknown key") as raised:
        parse_job(job(given), "job.yaml")
    assert hint in f"{raised.value.message}\n{raised.value.hint}"


def test_a_mapping_of_no_kind_is_told_what_there_is():
    with pytest.raises(RequestError, match="image, requirements, path, file, prefix or kind"):
        parse_job(job("{name: production}"), "job.yaml")


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("{kind: conda, file: environment.yml}", "conda environment.yml"),
        ("{file: environment.yml}", "conda environment.yml"),
        ("{kind: conda, name: tf}", "conda tf"),
        ("{kind: conda, prefix: /opt/tf}", "conda /opt/tf"),
        ("{kind: conda, prefix: /opt/tf, file: a.yml}", "conda /opt/tf"),
        ("{kind: conda, file: a.yml, tool: mamba}", "conda a.yml by mamba"),
        ("{path: ../mine}", "project ../mine"),
    ],
)
def test_the_plan_shows_which(given, shown):
    (task,) = plan_tasks(parse_job(job(given), "job.yaml"), Path())
    assert f"{shown}, 1 CPU" in [*task_lines(task, None)]


def test_one_that_is_to_be_built_here_for_a_cluster_is_refused():
    text = job("{kind: conda, file: a.yml}", slurm={"environments": "here"})
    tasks = [*plan_tasks(parse_job(text, "job.yaml"), Path())]
    with pytest.raises(RequestError, match="built on the nodes, not here") as raised:
        elements.build_environments(tasks, Path(), engine="slurm")
    assert "prefix" in raised.value.hint


def refused(text, base, executor="local"):
    with pytest.raises(RequestError) as raised:
        prepare(parse_job(text, "job.yaml"), base, executor=executor)
    return raised.value.message


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ("{kind: conda, file: none.yml}", "none.yml: cannot be read: No such file"),
        ("{kind: conda, file: bad.yml}", "bad.yml:1:1: dependencies: is missing"),
        ("{kind: conda, prefix: none}", "it has no conda-meta"),
        ("{path: none}", "none/pyproject.toml: No such file"),
        ("{path: none.py}", "none.py: No such file"),
        ("{path: mine, extras: [x]}", "the project has no extra 'x'"),
        ("{requirements: [-r none.txt]}", "none.txt: No such file"),
    ],
)
def test_what_an_environment_is_made_from_is_looked_at_before_anything_starts(
    tmp_path, environment, words
):
    (tmp_path / "bad.yml").write_text("dependency: [a]\n")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/pyproject.toml").write_text("[project]\nname = 'mine'\n")
    message = refused(job(environment), tmp_path)
    assert message.startswith("task 'x': ")
    assert words in message


def test_files_that_a_cluster_may_have_are_not_missed_here(tmp_path):
    (tmp_path / "bad.yml").write_text("dependency: [a]\n")
    for environment in ("{kind: conda, file: /nowhere/a.yml}", "{kind: conda, prefix: /nowhere}"):
        tasks = plan_tasks(parse_job(job(environment), "job.yaml"), tmp_path)
        assert problems_beforehand([*tasks], tmp_path, {}, executor="slurm") == []
    tasks = [*plan_tasks(parse_job(job("{kind: conda, file: bad.yml}"), "job.yaml"), tmp_path)]
    (problem,) = problems_beforehand(tasks, tmp_path, {}, executor="slurm")
    assert "dependencies: is missing" in problem


def test_what_another_task_may_make_is_not_missed(tmp_path):
    text = (
        "{name: x, tasks: [{name: a, command: 'true'}, {name: b, command: 'true', needs: [a], "
        "environment: {kind: conda, file: made.yml}}]}"
    )
    assert len(prepare(parse_job(text, "job.yaml"), tmp_path)) == 2
