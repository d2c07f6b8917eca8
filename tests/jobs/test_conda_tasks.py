"""Environments of conda's in job files: what is refused, what the plan shows, what nodes do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarmac import RequestError
from tarmac.cli.views.job_plan import task_lines
from tarmac.jobs import parse_job, plan_tasks
from tarmac.jobs.executors import elements


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
    with pytest.raises(RequestError, match="image, requirements, path or kind: conda"):
        parse_job(job("{file: environment.yml}"), "job.yaml")


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("{kind: conda, file: environment.yml}", "conda environment.yml"),
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
