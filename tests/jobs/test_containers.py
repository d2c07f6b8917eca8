"""Tasks in containers of a real Docker engine."""

from __future__ import annotations

import io
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import textwrap
from pathlib import Path

import pytest
from test_run import Watcher, wait_for

from tarmac.errors import RequestError
from tarmac.jobs import create_run, parse_job, prepare, task_directory, work_on
from tarmac.jobs._containers import container_command
from tarmac.jobs._machine import Grant

IMAGE = "tarmac-test-busybox"


@pytest.fixture(scope="module")
def image() -> str:
    """Return an image of Busybox and nothing else."""
    engine = shutil.which("docker")
    answers = engine and subprocess.run([engine, "version"], capture_output=True, check=False)
    if not answers or answers.returncode != 0:
        pytest.skip("no Docker engine answers; provide one: sudo sh .ci/start-docker")
    busybox = Path("/bin/busybox")
    if not busybox.exists():
        pytest.skip("no static busybox is here; provide one: sudo apt install busybox-static")
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        tar.add(busybox, "bin/busybox")
        for name in (
            "sh",
            "cat",
            "echo",
            "sleep",
            "test",
            "touch",
            "env",
            "df",
            "id",
            "pwd",
            "true",
        ):
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
    command = ["docker", "import", "--change", "ENV PATH=/bin", "-", IMAGE]
    subprocess.run(command, input=content.getvalue(), check=True, capture_output=True)
    return IMAGE


@pytest.fixture
def run(tmp_path, image):
    def go(text: str):
        job = parse_job(
            textwrap.dedent(text).replace("IMAGE", f"{{image: {image}, network: none}}")
        )
        made = create_run(job, tmp_path, prepare(job, tmp_path, {}), tmp_path / "runs")
        watcher = Watcher()
        work_on(made, watcher)
        (task,) = made.tasks
        out = task_directory(made.path, task) / "stdout"
        return watcher.ends["x"], out.read_text() if out.exists() else ""

    return go


def test_a_configuration_of_batch_shipyards_runs_from_its_folder(tmp_path, image):
    option = "additional_docker_run_options: [--network=none]"
    (tmp_path / "config").mkdir()
    (tmp_path / "config/jobs.yaml").write_text(
        textwrap.dedent(
            f"""
            job_specifications:
            - id: ship
              environment_variables: {{GREETING: hello}}
              job_preparation: {{command: echo prepared}}
              tasks:
              - id: first
                docker_image: {image}
                {option}
                command: echo $GREETING > made.txt
              - id: second
                docker_image: {image}
                {option}
                shm_size: 96m
                max_wall_time: 00:05:00
                input_data:
                  azure_batch: [{{job_id: ship, task_id: first, include: ["*.txt"]}}]
                command: sh -c "cat made.txt; df -k /dev/shm"
              - docker_image: {image}
                {option}
                task_factory: {{repeat: 2}}
                command: "true"
              merge_task:
                docker_image: {image}
                {option}
                command: echo merged by $AZ_BATCH_TASK_ID
            """
        )
    )
    done = subprocess.run(
        [sys.executable, "-m", "tarmac", "run", ".", "--follow"],
        cwd=tmp_path,
        env=os.environ | {"TARMAC_RUNS": str(tmp_path / "runs")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for text in ("6 succeeded", "| hello", str(96 * 1024), "| merged by merge-task-00000"):
        assert text in done.stdout


def containers() -> list[str]:
    listed = ["docker", "ps", "--all", "--quiet", "--filter", "label=tarmac.run"]
    return subprocess.run(listed, capture_output=True, text=True, check=True).stdout.split()


def test_a_task_computes_in_a_container_with_its_inputs_and_outputs(run, tmp_path):
    (tmp_path / "data").write_text("hello\n")
    ended, out = run(
        """
        name: x
        command: cat data && echo made > result && df -k /dev/shm
        environment: IMAGE
        resources: {shm: 96MiB, memory: 512MiB}
        inputs: [{from: data}]
        outputs: [{path: result, to: kept}]
        """
    )
    assert ended.outcome == "succeeded", ended.reason
    assert out.startswith("hello\n")
    assert str(96 * 1024) in out
    assert (tmp_path / "kept/result").read_text() == "made\n"
    assert containers() == []


def test_secrets_come_in_and_are_on_no_command_line(run, monkeypatch):
    monkeypatch.setenv("MY_TOKEN", "hunter2hunter2")
    ended, out = run(
        """
        name: x
        command: test "$TOKEN" = hunter2hunter2 && echo $PLAIN
        environment: IMAGE
        env: {PLAIN: 1}
        secrets: {TOKEN: {env: MY_TOKEN}}
        """
    )
    assert (ended.outcome, out) == ("succeeded", "1\n")


def test_a_container_starts_where_it_is_told_to(run, image):
    for workdir, expected in (("/bin", "/bin"), ("", "/"), (None, "/tarmac")):
        given = "" if workdir is None else f", workdir: '{workdir}'"
        environment = f"{{image: {image}, network: none{given}}}"
        ended, out = run(f"{{name: x, command: pwd, environment: {environment}}}")
        assert (ended.outcome, out.strip()) == ("succeeded", expected), ended.reason


def test_a_time_limit_ends_the_container_too(run):
    ended, _ = run("{name: x, command: [sleep, '600'], environment: IMAGE, timeout: 1}")
    assert ended.reason == "its time limit of 1 s"
    wait_for(lambda: containers() == [])


def test_a_missing_image_fails_in_the_engines_words(run, tmp_path):
    ended, _ = run("{name: x, command: a, environment: {image: tarmac-none, pull: never}}")
    assert ended.reason == "exit code 125"


def test_a_container_does_not_outlive_a_runner_that_is_killed(tmp_path, image):
    text = f"{{name: x, command: [sleep, '600'], environment: {{image: {image}, network: none}}}}"
    (tmp_path / "job.yaml").write_text(text)
    process = subprocess.Popen(
        [sys.executable, "-m", "tarmac", "run", "job.yaml"],
        cwd=tmp_path,
        env=os.environ | {"TARMAC_RUNS": str(tmp_path / "runs")},
        stdout=subprocess.DEVNULL,
    )
    wait_for(lambda: len(containers()) == 1)
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_for(lambda: containers() == [])


def test_gpus_are_given_by_their_ids(tmp_path):
    job = parse_job("{name: x, command: [a], environment: {image: i}, resources: {gpus: 2}}")
    from tarmac.jobs import plan_tasks

    (task,) = plan_tasks(job, tmp_path)
    command = container_command(
        task,
        task.environment,
        Grant(cpus=2, memory=2**30, gpus=("GPU-a", "GPU-b"), share=1),
        engine="docker",
        name="n",
        mark="m",
        work=tmp_path,
        variables={"A": "1"},
        secret_names=["S"],
    )
    assert '--gpus "device=GPU-a,GPU-b"' in " ".join(command)
    assert " ".join(command).endswith("--env A=1 --env S i a")


def test_an_engine_that_is_not_here_is_said(tmp_path, monkeypatch):
    from tarmac.jobs._containers import find_engine

    find_engine.cache_clear()
    monkeypatch.setenv("PATH", "/nowhere")
    job = parse_job("{name: x, command: [a], environment: {image: i}}")
    with pytest.raises(RequestError, match="container: docker and podman are not here"):
        prepare(job, tmp_path, {})
    find_engine.cache_clear()
