"""Processes whose numbers are the machine's, seen from a container that has numbers of its own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tarmac.machine.pids import sees_all_processes

IMAGE = "tarmac-test-empty"

# Whoever has these numbers inside is not who holds memory outside.
_PROGRAM = (
    "import json, os\n"
    "from tarmac.checks.inventory import read_inventory\n"
    "gpu = read_inventory().gpus[0]\n"
    "print(json.dumps([os.getpid(), [[p.pid, p.name] for p in gpu.processes]]))"
)


@pytest.fixture(scope="module")
def image():
    """Return an image with nothing in it, for what is mounted from here."""
    engine = shutil.which("docker")
    answers = engine and subprocess.run([engine, "version"], capture_output=True, check=False)
    if not answers or answers.returncode != 0:
        pytest.skip("no Docker engine answers; provide one: sudo sh .ci/start-docker")
    empty = subprocess.run(["tar", "-c", "-T", "/dev/null"], capture_output=True, check=True)
    subprocess.run([engine, "import", "-", IMAGE], input=empty.stdout, check=True)
    return IMAGE


def test_numbers_of_a_container_name_no_processes_of_the_machine(image, stand_in, tmp_path):
    # In the container the program has number 1, which outside is the machine's first.
    machine = tmp_path / "machine.txt"
    machine.write_text("count 1\n0.name x\n0.memory 1000\n0.process 1 900\n")
    own = {Path(sys.prefix).resolve(), Path(sysconfig.get_path("stdlib")).parents[1].resolve()}
    own |= {Path(sys.executable).resolve().parents[1], Path(__file__).parents[2]}
    folders = {"/usr", "/lib", "/lib64", "/bin", "/etc", str(stand_in), str(tmp_path)}
    folders |= {str(path) for path in own}
    mounts = [f"--volume={name}:{name}:ro" for name in sorted(folders) if Path(name).exists()]
    command = ["docker", "run", "--rm", "--network=none", *mounts]
    command += [f"--env=LD_LIBRARY_PATH={stand_in}", f"--env=NVML_STAND_IN={machine}"]

    def run(*options: str) -> list:
        line = [*command, *options, image, sys.executable, "-c", _PROGRAM]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    number, processes = run()
    assert number == 1
    assert processes == [[1, None]]
    _, shared = run("--pid=host")
    assert shared == [[1, Path("/proc/1/comm").read_text().strip()]]


@pytest.mark.parametrize(
    ("namespace", "expected"),
    [("pid:[4026531836]", True), ("pid:[4026532290]", False), (None, False)],
)
def test_the_machines_numbers_are_known_by_their_namespace(tmp_path, namespace, expected):
    folder = tmp_path / "proc/self/ns"
    folder.mkdir(parents=True)
    if namespace is not None:
        (folder / "pid").symlink_to(namespace)
    assert sees_all_processes(tmp_path) is expected
    own = str(Path("/proc/self/ns/pid").readlink())
    assert sees_all_processes() is (own == "pid:[4026531836]")
