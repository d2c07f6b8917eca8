"""Tasks in containers of a real Docker engine."""

from __future__ import annotations

import base64
import os
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from test_run import Watcher

from busybox import IMAGE
from hostile import each_name
from tarmac.environments import find_engine, pull_with_login
from tarmac.errors import RequestError, TarmacError
from tarmac.jobs import (
    Grant,
    Job,
    create_run,
    parse_job,
    plan_tasks,
    prepare,
    task_directory,
    work_on,
)
from tarmac.processes import guarded
from tarmac.tasks.containers import ContainerRun, container_command
from tarmac.tasks.placeholders import escape
from waiting import wait_until


@pytest.fixture
def run(tmp_path, busybox_image):
    def go(text: str):
        job = parse_job(
            textwrap.dedent(text).replace("IMAGE", f"{{image: {busybox_image}, network: none}}")
        )
        made = create_run(job, tmp_path, prepare(job, tmp_path), tmp_path / "runs")
        watcher = Watcher()
        work_on(made, watcher)
        (task,) = made.tasks
        out = task_directory(made.path, task) / "stdout"
        return watcher.ends["x"], out.read_text() if out.exists() else ""

    return go


@pytest.mark.containers
def test_a_configuration_of_batch_shipyards_runs_from_its_folder(tmp_path, busybox_image):
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
                docker_image: {busybox_image}
                {option}
                command: echo $GREETING > made.txt
              - id: second
                docker_image: {busybox_image}
                {option}
                shm_size: 96m
                max_wall_time: 00:05:00
                input_data:
                  azure_batch: [{{job_id: ship, task_id: first, include: ["*.txt"]}}]
                command: sh -c "cat made.txt; df -k /dev/shm"
              - docker_image: {busybox_image}
                {option}
                task_factory: {{repeat: 2}}
                command: "true"
              merge_task:
                docker_image: {busybox_image}
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
    for text in ("6 succeeded", ": hello\n", str(96 * 1024), ": merged by merge-task-00000\n"):
        assert text in done.stdout


def containers() -> list[str]:
    listed = ["docker", "ps", "--all", "--quiet", "--filter", f"ancestor={IMAGE}"]
    return subprocess.run(listed, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.containers
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


@pytest.mark.containers
def test_a_container_that_was_made_and_not_started_is_removed_with_its_run(busybox_image, tmp_path):
    label = f"tarmac.run={tmp_path.name}"
    made = ["docker", "create", "--label", label, "--network", "none", busybox_image, "true"]
    subprocess.run(made, check=True, capture_output=True)
    with guarded(tmp_path.name, ["docker"], None):
        pass
    listing = ["docker", "ps", "--all", "--quiet", "--filter", f"label={label}"]
    wait_until(
        lambda: not subprocess.run(listing, check=True, capture_output=True).stdout,
        "the removal of the container",
    )


@pytest.mark.containers
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


@pytest.mark.containers
def test_a_container_starts_where_it_is_told_to(run, busybox_image):
    for workdir, expected in (("/bin", "/bin"), ("", "/"), (None, "/tarmac")):
        given = "" if workdir is None else f", workdir: '{workdir}'"
        environment = f"{{image: {busybox_image}, network: none{given}}}"
        ended, out = run(f"{{name: x, command: pwd, environment: {environment}}}")
        assert (ended.outcome, out.strip()) == ("succeeded", expected), ended.reason


@pytest.mark.containers
def test_a_time_limit_ends_the_container_too(run):
    ended, _ = run("{name: x, command: [sleep, '600'], environment: IMAGE, timeout: 1}")
    assert ended.reason == "its time limit of 1 s"
    wait_until(lambda: containers() == [], "the removal of the container")


@pytest.mark.containers
def test_a_container_that_takes_too_much_memory_says_so(run):
    ended, _ = run(
        """
        name: x
        command: 'x=aaaaaaaaaaaaaaaa; while :; do x="$x$x"; done'
        environment: IMAGE
        resources: {memory: 16MiB}
        """
    )
    assert (ended.outcome, ended.exit_code) == ("failed", 137)
    assert ended.reason == "it took more than 16 MiB of memory"


@pytest.mark.containers
def test_a_missing_image_fails_in_the_engines_words(run, tmp_path):
    ended, _ = run("{name: x, command: a, environment: {image: tarmac-none, pull: never}}")
    assert ended.reason.startswith("exit code 125: docker: ")


@pytest.mark.containers
@pytest.mark.parametrize(
    ("environment", "command", "reason"),
    [
        (
            "image: IMAGE_NAME, mounts: [{source: none, target: /m}]",
            "[a]",
            "exit code 125: docker",
        ),
        (
            "image: IMAGE_NAME, pull: never",
            "[nosuch]",
            "exit code 127: .*nosuch failed: No such file",
        ),
        ("image: IMAGE_NAME", "sh -c 'exit 125'", "exit code 125$"),
    ],
)
def test_a_container_that_does_not_start_says_why(run, busybox_image, environment, command, reason):
    environment = environment.replace("IMAGE_NAME", busybox_image)
    end, _ = run(f"name: x\ncommand: {command}\nenvironment: {{{environment}}}")
    assert end.outcome == "failed"
    assert re.match(reason, end.reason)


@pytest.mark.containers
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give files to another user")
@pytest.mark.parametrize("user", ["1234", "1000:1000"])
def test_another_user_of_a_container_can_write_in_its_directory(run, busybox_image, user, tmp_path):
    (tmp_path / "words").write_text("in\n")
    end, printed = run(f"""
        name: x
        command: "id -u; echo more >> words; cp words made"
        inputs: [{{from: words}}]
        outputs: [{{path: made, to: out}}]
        environment: {{image: {busybox_image}, user: "{user}"}}
    """)
    assert (end.outcome, end.reason) == ("succeeded", "")
    assert printed == f"{user.partition(':')[0]}\n"
    assert (tmp_path / "words").read_text() == "in\n"


@pytest.mark.containers
def test_a_container_does_not_outlive_a_runner_that_is_killed(tmp_path, busybox_image):
    environment = f"{{image: {busybox_image}, network: none}}"
    text = f"{{name: x, command: [sleep, '600'], environment: {environment}}}"
    (tmp_path / "job.yaml").write_text(text)
    process = subprocess.Popen(
        [sys.executable, "-m", "tarmac", "run", "job.yaml"],
        cwd=tmp_path,
        env=os.environ | {"TARMAC_RUNS": str(tmp_path / "runs")},
        stdout=subprocess.DEVNULL,
    )
    wait_until(lambda: len(containers()) == 1, "the container")
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_until(lambda: containers() == [], "the removal of the container")


def test_gpus_are_given_by_their_ids(tmp_path):
    job = parse_job("{name: x, command: [a], environment: {image: i}, resources: {gpus: 2}}")
    command = command_of(job, tmp_path, engine="docker", gpus=("GPU-a", "GPU-b"))
    assert '--gpus "device=GPU-a,GPU-b"' in " ".join(command)
    assert " ".join(command).endswith("--env A=1 --env S i a")


def test_podman_gets_gpus_by_the_container_device_interface(tmp_path):
    job = parse_job("{name: x, command: [a], environment: {image: i}, resources: {gpus: 2}}")
    command = " ".join(command_of(job, tmp_path, engine="/usr/bin/podman", gpus=("GPU-a", "GPU-b")))
    assert "--device nvidia.com/gpu=GPU-a --device nvidia.com/gpu=GPU-b" in command
    assert "--gpus" not in command


def command_of(job, base: Path, *, engine: str, gpus: tuple[str, ...] = ()) -> tuple[str, ...]:
    (task,) = plan_tasks(job, base)
    run = ContainerRun(
        container=task.environment,
        command=task.command,
        resources=task.resources,
        grant=Grant(cpus=2, memory=2**30, gpus=gpus, share=1),
        name="n",
        work=base,
        base=base,
        variables={"A": "1"},
        names=["S"],
    )
    return container_command(run, engine=engine, mark="m")


def test_placeholders_are_filled_in_images_and_mounts(tmp_path):
    job = parse_job(
        "{name: x, command: [a], sweep: {grid: {v: [3]}}, environment: {image: 'i:{{ v }}', "
        "mounts: [{source: 'data-{{ v }}', target: '/in/{{ v }}', read_only: true}]}}"
    )
    command = command_of(job, tmp_path, engine="docker")
    assert "i:3" in command
    assert f"type=bind,source={tmp_path}/data-3,target=/in/3,readonly" in command


@pytest.mark.parametrize(("engine", "package"), [("docker", "docker.io"), ("podman", "podman")])
def test_an_engine_that_is_missing_comes_by_its_own_package(engine, package, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(RequestError, match=f"{engine} is not here") as caught:
        find_engine(engine)
    assert caught.value.hint == f"sudo apt install {package}"


def test_an_engine_that_never_answers_is_said(tmp_path, monkeypatch):
    (tmp_path / "podman").write_text("#!/bin/sh\nexec sleep 60\n")
    (tmp_path / "podman").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr("tarmac.environments.images._ANSWER_S", 0.1)
    with pytest.raises(RequestError, match="podman does not answer within") as caught:
        find_engine("podman", limit_s=0.1)
    assert "docker" not in caught.value.hint
    with pytest.raises(TarmacError, match=r"container: .* has not within 0.1 s"):
        pull_with_login(
            str(tmp_path / "podman"), "registry.example/i", "me:hunter2hunter2", when="always"
        )


@pytest.mark.containers
@each_name
def test_a_mount_is_beside_the_job_file_and_has_any_name(tmp_path, busybox_image, name):
    base = tmp_path / name
    (base / "data" / name).mkdir(parents=True)
    (base / "data" / name / "in").write_text("hello\n")
    environment = {
        "image": busybox_image,
        "network": "none",
        "mounts": [{"source": f"data/{escape(name)}", "target": "/mounted", "read_only": True}],
    }
    text = {"name": "x", "command": "cat /mounted/in && ! touch /mounted/new"}
    job = Job.model_validate(text | {"environment": environment})
    run = create_run(job, base, prepare(job, base), base / "runs")
    watcher = Watcher()
    work_on(run, watcher)
    (task,) = run.tasks
    directory = task_directory(run.path, task)
    assert (directory / "stdout").read_text() == "hello\n", (directory / "stderr").read_text()
    assert watcher.ends["x"].outcome == "succeeded"


@pytest.mark.containers
def test_an_image_comes_from_a_registry_with_a_login_that_is_kept_nowhere(
    tmp_path, registry, monkeypatch
):
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("LOGIN", "me:hunter2hunter2")
    (tmp_path / "job.yaml").write_text(
        f"{{name: x, command: [echo, hello], "
        f"environment: {{image: '{registry}', network: none, login: {{env: LOGIN}}}}}}"
    )
    line = [sys.executable, "-m", "tarmac", "run", "job.yaml", "--follow"]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "| hello" in done.stdout
    assert "hunter2" not in done.stdout + done.stderr
    encoded = base64.b64encode(b"me:hunter2hunter2")
    kept = [home, tmp_path / "runs", Path("/dev/shm")]
    files = [path for root in kept for path in root.rglob("*") if path.is_file()]
    assert not [path for path in files if encoded in path.read_bytes()]


def test_a_login_is_in_no_file_while_its_image_comes(tmp_path, monkeypatch):
    seen = tmp_path / "seen"
    (tmp_path / "docker").write_text(
        "#!/bin/sh\n"
        f'if [ "$1" = pull ]; then cp -r "$DOCKER_CONFIG" {seen}; kill -KILL $PPID; fi\n'
        'if [ "$1" = login ]; then read -r word; test "$word" = hunter2hunter2; fi\n'
    )
    (tmp_path / "docker").chmod(0o755)
    program = (
        "import sys; from tarmac.environments import pull_with_login\n"
        "pull_with_login(sys.argv[1], 'registry.example/i', 'me:hunter2hunter2', when='always')\n"
    )
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    command = [sys.executable, "-c", program, str(tmp_path / "docker")]
    killed = subprocess.run(command, env=os.environ | {"TMPDIR": str(temporary)}, check=False)
    assert killed.returncode == -signal.SIGKILL
    left = [path for root in (seen, temporary) for path in root.rglob("*") if path.is_file()]
    assert left
    encoded = base64.b64encode(b"me:hunter2hunter2")
    for path in left:
        assert b"hunter2" not in path.read_bytes()
        assert encoded not in path.read_bytes()


@pytest.mark.containers
def test_a_registry_that_refuses_a_login_is_said_in_the_engines_words(
    tmp_path, registry, monkeypatch
):
    monkeypatch.setenv("LOGIN", "me:wrong-password-7")
    job = parse_job(f"{{name: x, environment: {{image: '{registry}', login: {{env: LOGIN}}}}}}")
    made = create_run(job, tmp_path, prepare(job, tmp_path), tmp_path / "runs")
    watcher = Watcher()
    work_on(made, watcher)
    reason = watcher.ends["x"].reason
    assert reason.startswith(f"not started: container: login to {registry.partition('/')[0]}: ")
    assert "wrong-password" not in reason


def test_an_engine_that_is_not_here_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    job = parse_job("{name: x, command: [a], environment: {image: i}}")
    with pytest.raises(RequestError, match="neither docker nor podman is here"):
        prepare(job, tmp_path)
