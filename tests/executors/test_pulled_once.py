"""Images are pulled once for many tasks: for all nodes, or for each, as the engine keeps them."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from test_cluster_containers import DOCKER, apptainer  # noqa: F401 - a fixture
from test_node_staging import node  # noqa: F401 - a fixture


def staged_together(node, element, programs: Path, count: int) -> list[dict]:  # noqa: F811
    """Stage so many attempts at once, each as a process on its node; return the answers."""
    path = f"{programs}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "TMPDIR": str(programs)}
    started = [
        node.start("in", str(node.base / f"work-{number}"), env=env) for number in range(count)
    ]
    for process in started:
        process.stdin.write(element.stage.encode())
        process.stdin.close()
    answers = [json.loads(process.stdout.read()) for process in started]
    for process in started:
        process.stdout.close()
        assert process.wait() == 0
    return answers


def test_an_array_pulls_an_image_for_apptainer_once_for_all_nodes(node, tmp_path, apptainer):  # noqa: F811
    program, log = apptainer
    at, (task,) = node("{name: x, command: ['true'], environment: {image: i}}")
    element = at.element(task, options={"containers": "apptainer", "store": str(tmp_path / "st")})
    answers = staged_together(at, element, program.parent, 4)
    assert [answer["error"] for answer in answers] == [None] * 4
    assert len([line for line in log.read_text().splitlines() if line.startswith("pull")]) == 1


@pytest.fixture
def docker_calls(tmp_path, monkeypatch):
    """Return where a program lies that notes which of Docker's commands are called, and the notes.

    The login of `registry` is in a variable.
    """
    monkeypatch.setenv("LOGIN", "me:hunter2hunter2")
    programs, calls = tmp_path / "programs", tmp_path / "calls"
    programs.mkdir()
    (programs / "docker").write_text(
        f'#!/bin/sh\necho "$1" >> {calls}\nexec {shutil.which("docker")} "$@"\n'
    )
    (programs / "docker").chmod(0o755)
    return programs, calls


@pytest.mark.parametrize(("pull", "pulls"), [("missing", 1), ("always", 2)])
def test_an_array_pulls_an_image_for_docker_once_for_each_node_and_run(
    node,  # noqa: F811
    registry,
    docker_calls,
    pull,
    pulls,
):
    programs, calls = docker_calls
    at, (task,) = node(
        f"{{name: x, command: ['true'], environment: {{image: '{registry}', network: none,"
        f" login: {{env: LOGIN}}, pull: {pull}}}}}"
    )
    answers = staged_together(at, at.element(task, options=DOCKER), programs, 3)
    assert [answer["error"] for answer in answers] == [None] * 3
    assert calls.read_text().split().count("pull") == 1
    subprocess.run(answers[0]["command"], check=True)
    # Another run asks again where it is to.
    at.site = dataclasses.replace(at.site, shared=at.base / "another")
    (answer,) = staged_together(at, at.element(task, options=DOCKER), programs, 1)
    assert answer["error"] is None
    assert calls.read_text().split().count("pull") == pulls


def test_an_image_that_docker_cannot_pull_is_why_a_task_never_began(node, tmp_path):  # noqa: F811
    if shutil.which("docker") is None:
        pytest.skip("no Docker engine answers; provide one: sudo sh .ci/start-docker")
    at, (task,) = node("{name: x, command: ['true'], environment: {image: '127.0.0.1:1/none:1'}}")
    element, work = at.element(task, options=DOCKER), str(tmp_path / "work")
    answer = at.stage(element, "in", work, TMPDIR=str(tmp_path))
    assert answer["error"].startswith("container: pull 127.0.0.1:1/none:1: ")
