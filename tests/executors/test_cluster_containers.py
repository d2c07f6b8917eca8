"""Containers on nodes: by a real Docker engine; of Apptainer and Pyxis, the command lines."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest
from test_node_staging import node  # noqa: F401 - a fixture

from tarmac.environments import ClusterEngine, image_file
from tarmac.errors import RequestError, TarmacError
from tarmac.jobs import Grant, parse_job, plan_tasks
from tarmac.tasks.cluster_containers import (
    apptainer_command,
    image_name,
    pyxis_command,
    refuse_unknown_settings,
)
from tarmac.tasks.containers import ContainerRun
from tarmac.tasks.model import Container

DOCKER = {"containers": "docker"}


def run_of(base: Path, settings: str, *, gpus: tuple[str, ...] = ()) -> ContainerRun:
    job = parse_job(f"{{name: x, command: [echo, 'a b'], environment: {{image: i{settings}}}}}")
    (task,) = plan_tasks(job, base)
    return ContainerRun(
        container=task.environment,
        command=task.command,
        resources=task.resources,
        grant=Grant(cpus=2, memory=2**30, gpus=gpus, share=1),
        name="tarmac-ab-0-1",
        work=Path("/runs/x/work"),
        base=base,
        variables={},
        names=["TOKEN"],
    )


def test_apptainers_command_line(tmp_path):
    run = run_of(
        tmp_path, ", mounts: [{source: 'd,1', target: /in, read_only: true}]", gpus=("GPU-a",)
    )
    *shell, script, _ = apptainer_command(run, program="/usr/bin/apptainer", image="i.sif")[:4]
    assert shell == ["/bin/sh", "-c"]
    assert 'export APPTAINERENV_TOKEN="$TOKEN"' in script
    assert script.endswith('exec "$@"')
    assert apptainer_command(run, program="/usr/bin/apptainer", image="i.sif")[4:] == (
        *("/usr/bin/apptainer", "run", "--contain", "--cleanenv", "--pid", "--writable-tmpfs"),
        *("--ipc", "--pwd", "/tarmac"),
        *("--mount", "type=bind,source=/runs/x/work,target=/tarmac"),
        *("--mount", f'type=bind,"source={tmp_path}/d,1",target=/in,readonly', "--nv"),
        *("i.sif", "echo", "a b"),
    )


def test_apptainer_starts_an_entrypoint_of_the_jobs_own_without_the_images(tmp_path):
    run = run_of(tmp_path, ", entrypoint: [sh, -c], workdir: '', network: none, ipc: host")
    command = apptainer_command(run, program="/usr/bin/singularity", image="i")[4:]
    assert command[1] == "exec"
    assert command[-5:] == ("i", "sh", "-c", "echo", "a b")
    assert "--pwd" not in command
    assert "--ipc" not in command
    assert command[command.index("--net") :][:3] == ("--net", "--network", "none")


def test_pyxis_command_line(tmp_path):
    run = run_of(tmp_path, ", mounts: [{source: data, target: /in, read_only: true}]")
    command = pyxis_command(run, program="/usr/bin/srun", image="/i.sqsh", node="n1")
    assert command[:2] == ("/bin/sh", "-c")
    assert command[3:] == (
        *("sh", "tarmac-ab-0-1"),
        *("/usr/bin/srun", "--overlap", "--nodes=1", "--ntasks=1", "--nodelist=n1"),
        *("--input=none", "--job-name=tarmac-ab-0-1", "--container-image=/i.sqsh"),
        f"--container-mounts=/runs/x/work:/tarmac,{tmp_path}/data:/in:ro",
        *("--no-container-mount-home", "--container-writable", "--container-workdir=/tarmac"),
        *("--container-entrypoint", "--container-env=TOKEN", "echo", "a b"),
    )


def test_what_pyxis_cannot_mount_is_said(tmp_path):
    run = run_of(tmp_path, ", mounts: [{source: 'a,b', target: /in}]")
    with pytest.raises(RequestError, match="pyxis cannot mount") as caught:
        pyxis_command(run, program="srun", image="i", node="n1")
    assert "apptainer" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("engine", "settings", "refused"),
    [
        ("apptainer", {"user": "1000"}, "user"),
        ("apptainer", {"ulimits": ("memlock=-1",), "network": "mine"}, "network, ulimits"),
        ("pyxis", {"network": "none"}, "network"),
        ("pyxis", {"user": "root"}, ""),
        ("docker", {"user": "1000", "network": "mine"}, ""),
    ],
)
def test_what_an_engine_does_not_have_is_refused(engine, settings, refused):
    container = Container(image="i", **settings)
    if not refused:
        refuse_unknown_settings(container, engine)
        return
    with pytest.raises(RequestError, match=f"{engine} does not support this value of {refused}"):
        refuse_unknown_settings(container, engine)


@pytest.mark.parametrize(
    ("image", "apptainer", "pyxis"),
    [
        ("debian:12", "docker://debian:12", "debian:12"),
        ("team/tool", "docker://team/tool", "team/tool"),
        (
            "nvcr.io/nvidia/pytorch:26.01-py3",
            "docker://nvcr.io/nvidia/pytorch:26.01-py3",
            "nvcr.io#nvidia/pytorch:26.01-py3",
        ),
        ("localhost:5000/a/b", "docker://localhost:5000/a/b", "localhost:5000#a/b"),
        ("docker.io/library/debian", "docker://docker.io/library/debian", "library/debian"),
        ("library://me/tool:1", "library://me/tool:1", "library://me/tool:1"),
        ("./torch.sif", "/job/torch.sif", "/job/torch.sif"),
        ("/images/torch.sqsh", "/images/torch.sqsh", "/images/torch.sqsh"),
    ],
)
def test_an_image_is_named_as_each_engine_wants(image, apptainer, pyxis):
    assert image_name(image, "apptainer", Path("/job")) == apptainer
    assert image_name(image, "pyxis", Path("/job")) == pyxis


APPTAINER = """#!/bin/sh
# What the program does as far as its tests see: pulls a file, and runs a command in a directory.
if [ "$1" = pull ]; then
  echo "$*" >> {log}
  [ "$4" = docker://private ] && [ "$APPTAINER_DOCKER_PASSWORD" != hunter2hunter2 ] && exit 9
  echo image > "$3"; exit
fi
while [ "$1" != "${{1%.sif}}.sif" ]; do shift; done; shift
exec env -i PATH="$PATH" TOKEN="$APPTAINERENV_TOKEN" PLAIN="$APPTAINERENV_PLAIN" \
  RANK="$APPTAINERENV_NODE_RANK" UNSET="${{APPTAINERENV_MASTER_ADDR-none}}" "$@"
"""


@pytest.fixture
def apptainer(tmp_path):
    """Return a program that stands for Apptainer, and where it notes what it pulls."""
    program, log = tmp_path / "programs/apptainer", tmp_path / "pulled"
    program.parent.mkdir()
    program.write_text(APPTAINER.format(log=log))
    program.chmod(0o755)
    return program, log


def test_values_reach_a_container_of_apptainer_as_they_are(node, tmp_path, apptainer, monkeypatch):  # noqa: F811
    program, log = apptainer
    monkeypatch.setenv("VAULT", "hunter2, 'x' \"$HOME\" `id`\n line")
    at, tasks = node(
        """
        name: x
        command: [sh, -c, 'printf "%s|%s|%s|%s" "$TOKEN" "$PLAIN" "$RANK" "$UNSET"; echo > made']
        env: {PLAIN: "a,b=c  'd'"}
        secrets: {TOKEN: {env: VAULT}}
        environment: {image: some/image, engine: apptainer}
        outputs: [{path: made, to: kept}]
        sweep: {repeat: 2}
        """
    )
    at.variables = {"PATH": f"{program.parent}:{os.environ['PATH']}", "NODE_RANK": "3"}
    for task in tasks:
        element = at.element(task, options={"store": str(tmp_path / "store")})
        element.variables["NODE_RANK"] = "3"
        staged, done, kept = at.run(element)
        assert staged["error"] is None
        assert "hunter2" not in str(staged)
        assert done.stdout == "hunter2, 'x' \"$HOME\" `id`\n line|a,b=c  'd'|3|none"
        assert kept["problems"] == []
    assert len(log.read_text().splitlines()) == 1


def test_a_login_of_a_cluster_is_on_no_command_line_and_in_no_file_but_the_spool(
    node,  # noqa: F811
    tmp_path,
    apptainer,
    monkeypatch,
):
    program, log = apptainer
    monkeypatch.setenv("LOGIN", "me:hunter2hunter2")
    at, (task,) = node(
        "{name: x, command: ['true'],"
        " environment: {image: private, engine: apptainer, login: {env: LOGIN}}}"
    )
    at.variables = {"PATH": f"{program.parent}:{os.environ['PATH']}"}
    element = at.element(task, options={"store": str(tmp_path / "store")})
    staged, done, _ = at.run(element)
    assert (staged["error"], done.returncode) == (None, 0)
    assert "hunter2" not in log.read_text() + str(staged) + str(element)
    at.spool.remove()
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path != program]
    assert not [path for path in files if b"hunter2" in path.read_bytes()]


ENROOT = """#!/bin/sh
cat "$ENROOT_CONFIG_PATH/.credentials" > {log} 2>/dev/null
echo "$TARMAC_REGISTRY_LOGIN" > {log}.password
echo "$*" >> {log}
echo image > "$3"
"""


def test_enroot_logs_in_by_a_file_that_names_a_variable(tmp_path, monkeypatch):
    log = tmp_path / "said"
    (tmp_path / "enroot").write_text(ENROOT.format(log=log))
    (tmp_path / "enroot").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    path = image_file(
        ClusterEngine("pyxis", "srun"),
        "nvcr.io#nvidia/pytorch:26.01-py3",
        tmp_path / "store",
        credentials="$oauthtoken:hunter2",
        when="missing",
        run="r",
    )
    assert path.read_text() == "image\n"
    *lines, called = log.read_text().splitlines()
    assert lines == [
        "machine nvcr.io login $oauthtoken password $TARMAC_REGISTRY_LOGIN",
        "machine authn.nvidia.com login $oauthtoken password $TARMAC_REGISTRY_LOGIN",
    ]
    assert called.endswith(" docker://$oauthtoken@nvcr.io#nvidia/pytorch:26.01-py3")
    assert (tmp_path / "said.password").read_text() == "hunter2\n"


def test_an_image_is_pulled_as_often_as_the_job_says(tmp_path, apptainer):
    program, log = apptainer
    engine = ClusterEngine("apptainer", str(program))

    def get(when, run):
        store = tmp_path / "store"
        return image_file(engine, "docker://i", store, credentials=None, when=when, run=run)

    with pytest.raises(TarmacError, match="pull is never"):
        get("never", "a")
    for when, run, pulls in (
        *(("missing", "a", 1), ("missing", "b", 1), ("never", "b", 1)),
        *(("always", "a", 2), ("always", "a", 2), ("always", "b", 3)),
    ):
        get(when, run)
        assert len(log.read_text().splitlines()) == pulls


def test_an_engine_that_the_node_lacks_is_said(node, tmp_path):  # noqa: F811
    at, (task,) = node("{name: x, command: ['true'], environment: {image: i, engine: apptainer}}")
    programs = tmp_path / "empty"
    programs.mkdir()
    at.variables = {"PATH": str(programs)}
    assert "apptainer is not on this node" in at.stage(at.element(task), "in", "/nowhere")["error"]


def test_pyxis_is_taken_where_srun_has_it(node, tmp_path):  # noqa: F811
    srun = tmp_path / "programs/srun"
    srun.parent.mkdir()
    srun.write_text(
        "#!/bin/sh\necho '      --container-image=[USER@][REGISTRY#]IMAGE[:TAG]|PATH'\n"
    )
    srun.chmod(0o755)
    (tmp_path / "i.sqsh").write_text("image\n")
    at, (task,) = node("{name: x, command: ['true'], environment: {image: ./i.sqsh}}")
    path = f"{srun.parent}:{os.environ['PATH']}"
    element = at.element(task)
    answer = at.stage(element, "in", str(tmp_path / "work"), PATH=path, SLURMD_NODENAME="n7")
    assert answer["error"] is None
    assert str(srun) in answer["command"]
    assert "--nodelist=n7" in answer["command"]
    assert f"--container-image={tmp_path}/i.sqsh" in answer["command"]


def test_a_container_of_docker_runs_on_a_node_as_it_does_here(
    node,  # noqa: F811
    busybox_image,
    tmp_path,
    monkeypatch,
):
    (tmp_path / "data").write_text("hello\n")
    monkeypatch.setenv("VAULT", "hunter2")
    at, (task,) = node(
        f"""
        name: x
        command: cat data > made; echo "$TOKEN $PLAIN $TARMAC_TASK"
        env: {{PLAIN: a b}}
        secrets: {{TOKEN: {{env: VAULT}}}}
        environment: {{image: {busybox_image}, network: none}}
        inputs: [{{from: data}}]
        outputs: [{{path: made, to: kept}}]
        """
    )
    staged, done, kept = at.run(at.element(task, options=DOCKER))
    assert (staged["error"], done.stdout) == (None, "hunter2 a b x\n"), done.stderr
    assert "hunter2" not in str(staged)
    assert kept["problems"] == []
    assert (tmp_path / "kept/made").read_text() == "hello\n"


def test_a_container_of_docker_ends_by_its_kill_command(node, busybox_image, tmp_path):  # noqa: F811
    at, (task,) = node(
        f"{{name: x, command: 'echo up; sleep 600',"
        f" environment: {{image: {busybox_image}, network: none}}}}"
    )
    staged = at.stage(at.element(task, options=DOCKER), "in", str(tmp_path / "work"))
    with subprocess.Popen(staged["command"], stdout=subprocess.PIPE) as program:
        assert program.stdout.readline() == b"up\n"
        program.kill()
        subprocess.run(staged["kill_command"], check=True, capture_output=True)
    name = staged["kill_command"][-1]
    listing = ["docker", "ps", "--quiet", "--filter", f"name={name}"]
    assert not subprocess.run(listing, check=True, capture_output=True).stdout


def test_a_container_of_docker_that_takes_too_much_memory_says_so(node, busybox_image):  # noqa: F811
    at, (task,) = node(
        f"""
        name: x
        command: 'x=aaaaaaaaaaaaaaaa; while :; do x="$x$x"; done'
        environment: {{image: {busybox_image}, network: none}}
        resources: {{memory: 16MiB}}
        """
    )
    _, done, kept = at.run(at.element(task, options=DOCKER))
    assert done.returncode == 128 + signal.SIGKILL
    assert kept["is_over_memory"]


def test_this_machine_refuses_engines_of_clusters(tmp_path):
    from tarmac.jobs import prepare

    job = parse_job("{name: x, command: [a], environment: {image: i, engine: pyxis}}")
    with pytest.raises(RequestError, match="pyxis runs containers on clusters only") as caught:
        prepare(job, tmp_path)
    assert "--on slurm" in (caught.value.hint or "")
