"""`tarmac check --on slurm`: what the nodes of a real Slurm have, and what they lack."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

from tarmac.slurm import SlurmCommands, SlurmFindings, SlurmNode, job_variables, survey_nodes
from tarmac.slurm.site import read_gres
from tarmac.slurm.survey import look_script, read_look


@pytest.fixture(scope="module")
def cluster(start_slurm):
    """Return a Slurm whose nodes have more GPUs by Slurm's word than by their driver's."""
    return start_slurm()


@pytest.fixture
def check(cluster, tmp_path):
    """Return a function that looks at the nodes from an empty directory."""

    settings, here = tmp_path / "settings.toml", tmp_path / "here"
    settings.touch()
    here.mkdir()

    def run(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        own = os.environ | dict(cluster.variables) | variables
        return subprocess.run(
            [sys.executable, "-m", "tarmac", "check", "--on", "slurm", *words],
            cwd=here,
            env=own | {"TARMAC_SETTINGS_FILE": str(settings)},
            capture_output=True,
            text=True,
            check=False,
            timeout=200,
        )

    return run


@pytest.mark.slurm
def test_each_node_is_said_to_have_what_it_has(check, tmp_path):
    done = check("--json")
    first, second = json.loads(done.stdout)
    assert (first["node"], second["node"]) == ("n1", "n2")
    for node in (first, second):
        assert node["state"] == "looked"
        assert node["python"].startswith("3.")
        assert node["user_id"] == os.getuid()
        assert node["has_interpreter"]
        assert node["gres"] == "gpu:2"
        # Devices like /dev/null have no driver, which is what a wrong gres.conf looks like.
        assert node["words"] == ["Slurm gives 2 GPUs there; no driver has any"]
        assert (node["gpu_makers"], node["alike"]) == ({}, [])
    assert done.returncode == 1
    # Nothing is left of the look.
    assert list((tmp_path / "here").iterdir()) == []


@pytest.mark.slurm
def test_people_get_a_table_and_what_is_wrong_below_it(check):
    said = check().stdout.splitlines()
    assert said[0].split() == [
        *("NODE", "PARTITION", "CPUS", "MEMORY", "GPUS", "PYTHON", "CONTAINERS", "TARMAC")
    ]
    assert said[1].startswith("n1    main")
    assert "n2: Slurm gives 2 GPUs there; no driver has any" in said


@pytest.mark.slurm
def test_a_node_that_is_down_is_said_to_be_so_with_the_reason(check, cluster):
    cluster.run("scontrol", "update", "NodeName=n2", "State=DRAIN", "Reason=fan broken")
    try:
        first, second = json.loads(check("--json").stdout)
    finally:
        cluster.run("scontrol", "update", "NodeName=n2", "State=RESUME")
    assert first["state"] == "looked"
    assert (second["state"], second["words"]) == ("failed", ["is drained: fan broken"])


@pytest.mark.slurm
def test_a_directory_that_nodes_do_not_see_is_said_to_be_so(check, cluster, tmp_path):
    # In a mount namespace of its own, as on a machine with another disk at that place.
    own = os.environ | dict(cluster.variables)
    words = f"mount -t tmpfs none {tmp_path} && cd {tmp_path} && exec '{sys.executable}' -m tarmac"
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", f"{words} check --on slurm --json"],
        env=own,
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    if "unshare" in done.stderr or "mount" in done.stderr:
        pytest.skip(f"no mount can be made here: {done.stderr.strip()}")
    found = json.loads(done.stdout)
    assert [node["state"] for node in found] == ["blind", "blind"]
    assert "is that another directory there?" in found[0]["words"][0]
    assert done.returncode == 1


@pytest.mark.slurm
def test_nodes_without_room_are_said_to_wait_and_why(check, cluster):
    cluster.run("sbatch", "--exclusive", "--nodes=2", "--output=/dev/null", "--wrap", "sleep 600")
    cluster.wait_until(lambda: "R" in cluster.run("squeue", "-h", "-o", "%t"), "the job runs")
    try:
        done = check("--timeout", "3", "--json")
    finally:
        cluster.run("scancel", "--user=root")
    found = json.loads(done.stdout)
    assert {node["state"] for node in found} == {"waits"}
    assert "(" in found[0]["words"][0]
    assert done.returncode == 3
    cluster.wait_until(lambda: not cluster.run("squeue", "-h").strip(), "the queue is empty")


@pytest.mark.slurm
def test_the_profile_of_the_settings_leads_to_its_partition(check, tmp_path):
    (tmp_path / "settings.toml").write_text('[profiles.gpu.slurm]\npartition = "nowhere"\n')
    done = check("--profile", "gpu")
    assert done.stdout == "This Slurm has no node in that partition.\n", done.stderr
    assert done.returncode == 3


@pytest.mark.slurm
def test_what_checks_this_machine_does_not_go_with_it(check):
    done = check("--quick")
    assert done.returncode == 2
    assert "--on does not go with --quick" in done.stderr


@pytest.mark.slurm
def test_a_slurm_that_does_not_answer_is_said_to_be_silent(check, tmp_path):
    done = check(PATH=str(tmp_path))
    assert done.returncode == 1
    assert done.stderr == (
        "error: Slurm does not answer: sinfo: is not in PATH\n"
        "  Is this a machine that jobs are submitted from? Try: sinfo\n"
    )


@pytest.mark.slurm
def test_a_job_that_was_accepted_without_an_answer_is_cancelled_too(check, cluster, tmp_path):
    programs = tmp_path / "programs"
    programs.mkdir()
    sbatch = programs / "sbatch"
    sbatch.write_text(f'#!/bin/sh\n{shutil.which("sbatch")} --begin=now+1hour "$@" > /dev/null\n')
    sbatch.chmod(0o755)
    found = json.loads(check("--json", PATH=f"{programs}:{os.environ['PATH']}").stdout)
    assert [(node["state"], node["words"]) for node in found] == [
        ("failed", ["sbatch: printed nothing"])
    ] * 2
    assert not cluster.run("squeue", "-h").strip()


@pytest.fixture
def seen(tmp_path):
    """Return a function that looks at this machine as one with other GPUs on its bus."""

    def look(gres: str, *devices: str, tool: str, does: str = "") -> SlurmFindings:
        for number, device in enumerate(devices):
            vendor, driver, kind = device.split()
            place = tmp_path / f"bus/0000:{number:02x}:00.0"
            place.mkdir(parents=True)
            (place / "vendor").write_text(f"{vendor}\n")
            (place / "class").write_text(f"{kind}\n")
            (place / "driver").symlink_to(f"../../drivers/{driver}")
        programs = tmp_path / "some programs"
        programs.mkdir()
        (programs / "python3.14").symlink_to(sys.executable)
        (programs / tool).write_text(f"#!/bin/sh\n{does}\n")
        (programs / tool).chmod(0o755)
        script = look_script(tmp_path, sys.executable, tmp_path / "bus")
        path = f"{programs}:{os.environ['PATH']}"
        home = tmp_path / "home"
        home.mkdir()
        own = {**os.environ, "HOME": str(home), "PATH": path, "SLURMD_NODENAME": "n7"}
        subprocess.run(["sh", "-c", script], env=own, check=True)
        node = SlurmNode(
            name="n7",
            partition="main",
            is_default=True,
            state="idle",
            cpus=8,
            memory_bytes=2**30,
            gres=read_gres(gres),
        )
        return read_look(node, (tmp_path / "n7").read_text())

    return look


@pytest.mark.parametrize(
    ("gres", "devices", "makers", "words"),
    [
        ("gpu:a100:2", ["0x10de nvidia 0x030200"] * 2, {"NVIDIA": 2}, []),
        # Parts of a GPU are not on the bus.
        ("gpu:1g.10gb:7", ["0x10de nvidia 0x030200"], {"NVIDIA": 1}, []),
        (
            "gpu:mi250:8",
            ["0x1002 amdgpu 0x038000"] * 7,
            {"AMD": 7},
            [
                "Slurm gives 8 GPUs there; AMD's driver has 7",
                "its GPUs are AMD's: tasks with GPUs start only on NVIDIA's",
            ],
        ),
        (
            "gpu:max1550:1",
            ["0x8086 xe 0x038000"],
            {"Intel": 1},
            [
                "its GPUs are Intel's: tasks with GPUs start only on NVIDIA's",
                "has no xpu-smi, which the check needs",
            ],
        ),
        # A display of the board, a card that no driver has, and what is no GPU.
        (
            "",
            ["0x8086 i915 0x030000", "0x10de vfio-pci 0x030200", "0x8086 ice 0x020000"],
            {"Intel": 1},
            [],
        ),
    ],
)
def test_gpus_of_any_maker_are_counted_by_their_own_driver(seen, gres, devices, makers, words):
    found = seen(gres, *devices, tool="rocm-smi")
    assert found.makers == makers
    assert list(found.words) == words


@pytest.mark.parametrize(("does", "is_listed"), [("", True), ("exit 1", False)])
def test_docker_is_listed_where_it_answers_this_user(seen, does, is_listed):
    assert ("docker" in seen("", tool="docker", does=does).containers) is is_listed


def test_singularity_is_what_apptainer_was_called(seen):
    assert list(seen("", tool="singularity").containers).count("apptainer") == 1


@pytest.mark.slurm
def test_of_more_nodes_than_that_one_of_each_kind_is_looked_at(cluster, tmp_path):
    slurm = SlurmCommands(os.environ | dict(cluster.variables))
    variables = job_variables(os.environ)
    cluster.run("scontrol", "update", "NodeName=n1", "State=DRAIN", "Reason=fan broken")
    try:
        (one,) = survey_nodes(slurm, tmp_path, python="python", variables=variables, most=1)
    finally:
        cluster.run("scontrol", "update", "NodeName=n1", "State=RESUME")
    # The one where jobs are started.
    assert (one.node.name, one.state, one.alike) == ("n2", "looked", ("n1",))


def test_a_python_may_lie_in_a_folder_of_any_name(seen):
    assert seen("", tool="rocm-smi").python.endswith("/some programs/python3.14")
