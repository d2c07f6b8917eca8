"""What docs/gates.md shows, tried where it belongs: Slurm, Docker, systemd, Kubernetes' schemas."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

from doc_pages import blocks
from tarmac.testing.slurm import OneMachineSlurm
from waiting import wait_until

ROOT = Path(__file__).parents[2]
MACHINES = Path(__file__).parent / "machines"
PROGRAM = "/opt/tarmac/bin/tarmac"
WITHIN_S = 120


def recipe(name: str) -> str:
    """Return the file of a name that the page shows."""
    return next(b.text for b in blocks(ROOT / "docs/gates.md") if b.file == name)


@pytest.fixture
def node(tmp_path, stand_in):
    """Return a node: a program as Tarmac's, and a function that gives the node its GPUs.

    PyTorch is left out: what is tried is what becomes of the answer.
    """
    machine, program = tmp_path / "machine.txt", tmp_path / "tarmac"

    def become(name: str) -> None:
        shutil.copyfile(MACHINES / f"{name}.txt", tmp_path / "next.txt")
        (tmp_path / "next.txt").replace(machine)

    become("healthy")
    program.write_text(
        f"#!/bin/sh\nexport LD_LIBRARY_PATH={stand_in} NVML_STAND_IN={machine}\n"
        f"export HOME={tmp_path} PYTHONPATH='{ROOT}/src'\n"
        f'exec "{sys.executable}" -m tarmac "$@" --python "{plain_python()}"\n'
    )
    program.chmod(0o755)
    return program, become


def plain_python() -> str:
    """Return an interpreter without frameworks."""
    return f"{sys.base_prefix}/bin/python3"


class GatedSlurm(OneMachineSlurm):
    """A Slurm whose jobs all go to its first node, on which the gates are tried."""

    def __init__(self, directory: Path, settings: str) -> None:
        super().__init__(
            directory,
            settings=settings.splitlines(),
            partitions=("PartitionName=main Nodes=n1 Default=YES State=UP",),
        )

    def state(self) -> str:
        return self.run("sinfo", "-h", "-N", "-n", "n1", "-o", "%T").strip().rstrip("*")

    def reason(self) -> str:
        shown = self.run("scontrol", "show", "node", "n1")
        found = re.search(r"^ *Reason=(.*?) *\[", shown, re.MULTILINE)
        return found[1] if found else ""


@pytest.fixture
def slurm(tmp_path):
    """Return a function that starts a Slurm with more settings; it ends with the test."""
    if os.geteuid() != 0 or not (shutil.which("slurmctld") and shutil.which("slurmd")):
        pytest.skip("no Slurm can be started here; provide one, as root: apt install slurm-wlm")
    with contextlib.ExitStack() as clusters:
        yield lambda settings: clusters.enter_context(GatedSlurm(tmp_path / "slurm", settings))


def script(directory: Path, name: str, program: Path) -> Path:
    path = directory / name
    path.write_text(recipe(name).replace(PROGRAM, str(program)))
    path.chmod(0o755)
    return path


@pytest.mark.slurm
def test_a_prolog_drains_the_node_with_the_reason_and_the_job_does_not_run(slurm, node, tmp_path):
    program, become = node
    gate = script(tmp_path, "slurm-gate.sh", program)
    cluster = slurm(f"Prolog={gate}\nSchedulerParameters=nohold_on_prolog_fail")
    ran = tmp_path / "ran"
    cluster.run("srun", "--gres=gpu:1", "touch", str(ran))
    assert ran.exists()
    become("ecc-errors")
    cluster.run("sbatch", "--gres=gpu:1", "--output=/dev/null", "--wrap", f"rm {ran}")
    wait_until(lambda: cluster.state() == "drained", "the node is drained", seconds=WITHIN_S)
    assert cluster.reason() == "tarmac: FAILED: ecc at GPU 0"
    assert ran.exists()
    # It waits for a node that is well.
    assert cluster.run("squeue", "-h", "-o", "%T").split() == ["PENDING"]
    become("healthy")
    cluster.run("scontrol", "update", "NodeName=n1", "State=RESUME")
    cluster.run("srun", "--gres=gpu:1", "true")


@pytest.mark.slurm
def test_an_epilog_drains_the_node_that_a_job_left_broken(slurm, node, tmp_path):
    program, become = node
    cluster = slurm(f"Epilog={script(tmp_path, 'slurm-gate.sh', program)}")
    become("ecc-errors")
    cluster.run("srun", "true")
    wait_until(lambda: cluster.state() == "drained", "the node is drained", seconds=WITHIN_S)
    assert cluster.reason() == "tarmac: FAILED: ecc at GPU 0"


@pytest.mark.slurm
def test_a_health_check_drains_the_node_and_takes_it_back(slurm, node, tmp_path):
    program, become = node
    health = script(tmp_path, "slurm-health.sh", program)
    # Slurm gives it the node's name and no other variable; this slurm.conf is in no usual place.
    configured = f"export SLURM_CONF={tmp_path}/slurm/slurm.conf\nexport PATH="
    health.write_text(health.read_text().replace("export PATH=", configured))
    cluster = slurm(f"HealthCheckProgram={health}\nHealthCheckInterval=1\nHealthCheckNodeState=ANY")
    assert cluster.state() == "idle"
    become("unknown-error")
    wait_until(lambda: cluster.state() == "drained", "the node is drained", seconds=WITHIN_S)
    assert cluster.reason().startswith("tarmac: ")
    become("healthy")
    wait_until(lambda: cluster.state() == "idle", "the node comes back", seconds=WITHIN_S)
    # What somebody else has drained stays so.
    cluster.run("scontrol", "update", "NodeName=n1", "State=DRAIN", "Reason=fan replaced")
    calls = tmp_path / "calls"
    program.write_text(program.read_text().replace("exec ", f"echo >> {calls}\nexec ", 1))
    wait_until(
        lambda: calls.exists() and calls.read_text().count("\n") > 4,
        "both were checked again",
        seconds=WITHIN_S,
    )
    assert (cluster.state(), cluster.reason()) == ("drained", "fan replaced")


@pytest.mark.slurm
@pytest.mark.skipif(
    importlib.util.find_spec("torch") is None,
    reason="PyTorch computes here: pip install 'tarmac-gpu[train]'",
)
def test_ranks_that_srun_starts_meet_and_compute_in_pairs(slurm):
    cluster = slurm("")
    words = ("-m", "tarmac", "check", "--ranks", "all", "--device", "cpu", "--json")
    # The node's name is Slurm's alone, and leads nowhere.
    variables = "OMP_NUM_THREADS=1,MASTER_ADDR=127.0.0.1"
    said = cluster.run(
        *("srun", "-n", "4", "--overcommit", f"--export=ALL,{variables}"), sys.executable, *words
    )
    report = json.loads(said)
    assert [rank["host"] for rank in report["ranks"]["ranks"]] == ["n1"] * 4
    assert report["frameworks"][0]["name"] == "all-reduce (4 ranks on 1 host)"


@pytest.fixture
def container(tmp_path, node):
    """Return the name of a container with the page's HEALTHCHECK, looking each second."""
    engine = shutil.which("docker")
    answers = engine and subprocess.run([engine, "version"], capture_output=True, check=False)
    if not answers or answers.returncode != 0:
        pytest.skip("no Docker engine answers; provide one: sudo sh .ci/start-docker")
    program, _ = node
    name = f"tarmac-test-health-{os.getpid()}"
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("empty"))
    health = recipe("Dockerfile.health").strip()
    changes = ("--change", health, "--change", f"ENV PATH={program.parent}:/usr/bin:/bin")
    made = subprocess.run(
        ["docker", "import", *changes, "-", name],
        input=content.getvalue(),
        capture_output=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    # This machine's programs, in the same places.
    places = {"/usr", "/bin", "/lib", "/lib64", "/etc", sys.base_prefix, sys.prefix, ROOT}
    places |= {tmp_path, program.parent}
    library = re.search("LD_LIBRARY_PATH=(\\S+)", program.read_text())
    assert library is not None
    mounts = [
        f"--volume={place}:{place}:ro"
        for place in sorted({str(place) for place in (*places, library[1])})
        if Path(place).exists()
    ]
    started = subprocess.run(
        [
            *("docker", "run", "--detach", "--network=none", f"--name={name}", *mounts),
            *("--health-interval=1s", name, "sleep", "600"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert started.returncode == 0, started.stderr
    yield name
    subprocess.run(["docker", "rm", "--force", name], capture_output=True, check=False)
    subprocess.run(["docker", "rmi", "--force", name], capture_output=True, check=False)


def test_a_container_is_healthy_while_the_check_holds(container, node):
    _, become = node

    def health() -> dict:
        command = ["docker", "inspect", "--format", "{{json .State.Health}}", container]
        return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)

    wait_until(lambda: health()["Status"] == "healthy", "it is healthy", seconds=WITHIN_S)
    become("ecc-errors")
    wait_until(lambda: health()["Status"] == "unhealthy", "it is unhealthy", seconds=WITHIN_S)
    failed = [look for look in health()["Log"] if look["ExitCode"] == 1]
    assert failed[-1]["Output"] == "FAILED: ecc at GPU 0\n"
    become("healthy")
    wait_until(lambda: health()["Status"] == "healthy", "it is healthy again", seconds=WITHIN_S)


# What pkg/custompluginmonitor/types/config.go of node-problem-detector reads.
_PLUGIN = {"plugin", "pluginConfig", "source", "conditions", "rules", "metricsReporting"}
_GLOBAL = {
    *("invoke_interval", "timeout", "max_output_length", "concurrency"),
    *("enable_message_change_based_condition_update", "skip_initial_status"),
}
_RULE = {"type", "condition", "reason", "path", "args", "timeout", "invoke_interval"}


def test_the_plugin_of_node_problem_detector_has_its_fields_and_runs(node):
    program, become = node
    config = json.loads(recipe("tarmac-check.json"))
    assert config["plugin"] == "custom"
    assert config.keys() <= _PLUGIN
    assert config["pluginConfig"].keys() <= _GLOBAL
    (condition,), (rule,) = config["conditions"], config["rules"]
    assert condition.keys() == {"type", "reason", "message"}
    assert rule.keys() <= _RULE
    assert (rule["type"], rule["condition"]) == ("permanent", condition["type"])
    # A longer one than that of all is refused.
    assert rule["timeout"] == config["pluginConfig"]["timeout"]
    for machine, code in (("healthy", 0), ("ecc-errors", 1)):
        become(machine)
        command = [str(program), *rule["args"]]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
        assert len(done.stdout.strip()) <= config["pluginConfig"]["max_output_length"]


@pytest.mark.parametrize("name", ["init-container.yaml", "daemonset.yaml", "rbac.yaml"])
@pytest.mark.parametrize("version", ["1.29", "1.37"])
def test_manifests_are_what_kubernetes_takes(name, version):
    validate = pytest.importorskip("kubernetes_validate").validate
    manifest = yaml.safe_load(recipe(name))
    for part in manifest["items"] if manifest["kind"] == "List" else [manifest]:
        validate(part, version, strict=True)


def test_the_loop_on_a_kubernetes_node_taints_and_clears_it(node, tmp_path):
    program, become = node
    loop = yaml.safe_load(recipe("daemonset.yaml"))
    (part,) = loop["spec"]["template"]["spec"]["containers"]
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    (bin_folder / "tarmac").symlink_to(program)
    said = tmp_path / "said"
    for name, text in (("kubectl", f'echo "$@" >> {said}\n'), ("sleep", "kill $PPID\n")):
        (bin_folder / name).write_text(f"#!/bin/sh\n{text}")
        (bin_folder / name).chmod(0o755)
    env = os.environ | {"PATH": f"{bin_folder}:{os.environ['PATH']}", "NODE": "n1"}
    for machine in ("ecc-errors", "healthy"):
        become(machine)
        subprocess.run(part["command"], env=env, check=False, timeout=WITHIN_S)
    assert said.read_text().splitlines() == [
        "taint --overwrite node n1 tarmac/check=failed:NoSchedule",
        "annotate --overwrite node n1 tarmac/check=FAILED: ecc at GPU 0",
        "taint node n1 tarmac/check-",
        "annotate --overwrite node n1 tarmac/check=ok: 1 x NVIDIA H200",
    ]


def test_units_are_what_systemd_takes(tmp_path, node):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not here; provide it: sudo apt install systemd")
    program, _ = node
    for name in ("tarmac-check.service", "tarmac-check.timer"):
        (tmp_path / name).write_text(recipe(name).replace(PROGRAM, str(program)))
    done = subprocess.run(
        ["systemd-analyze", "verify", *map(str, tmp_path.glob("tarmac-check.*"))],
        capture_output=True,
        text=True,
        check=False,
    )
    own = [line for line in done.stderr.splitlines() if "tarmac-check" in line]
    assert (done.returncode, own) == (0, [])


def test_the_textfile_is_replaced_whole(node, tmp_path):
    parser = pytest.importorskip("prometheus_client.parser")
    program, become = node
    become("ecc-errors")
    path = tmp_path / "tarmac.prom"
    text = recipe("textfile.sh").replace(PROGRAM, str(program))
    text = re.sub(r"^file=.*", f"file={path}", text, flags=re.MULTILINE)
    subprocess.run(["sh", "-c", text], check=True)
    families = {f.name: f for f in parser.text_string_to_metric_families(path.read_text())}
    assert families["tarmac_check_exit_code"].samples[0].value == 1
    assert not list(tmp_path.glob("tarmac.prom.*"))
    subprocess.run(["sh", "-c", text.replace(str(program), "/bin/false")], check=True)
    assert path.read_text()
