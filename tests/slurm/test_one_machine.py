"""The small Slurm of one machine: it begins although ports are taken, and leaves nothing."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys

import psutil
import pytest

from tarmac.errors import RequestError
from tarmac.testing.slurm import NODES, OneMachineSlurm, configuration

pytestmark = pytest.mark.slurm

# A script that TERM does not end, and that says when it runs.
STUBBORN = "#!/bin/sh\ntrap '' TERM\necho runs > {pipe}\nwhile :; do sleep 600; done\n"


@pytest.fixture(autouse=True)
def _needs_slurm(start_slurm):
    """Skip where none can be started."""


def processes_of(conf: str) -> list[psutil.Process]:
    """Return what leads to a cluster by its environment."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("SLURM_CONF") == conf:
                found.append(process)
        except psutil.Error:
            continue
    return found


def start_stubborn(cluster, directory) -> None:
    """Submit a job, and return once it runs."""
    pipe, script = directory / "pipe", directory / "stubborn.sh"
    os.mkfifo(pipe)
    script.write_text(STUBBORN.format(pipe=pipe))
    cluster.run("sbatch", "--output=/dev/null", "--mem=64M", str(script))
    with pipe.open() as said:
        assert said.readline() == "runs\n"


def test_a_cluster_ends_with_its_jobs_and_all_daemons(tmp_path):
    with OneMachineSlurm(tmp_path / "cluster") as cluster:
        start_stubborn(cluster, tmp_path)
        conf = cluster.variables["SLURM_CONF"]
        assert len(processes_of(conf)) > len(NODES) + 1
    assert processes_of(conf) == []


def test_jobs_end_although_the_controller_has_gone_before(tmp_path):
    with OneMachineSlurm(tmp_path / "cluster") as cluster:
        start_stubborn(cluster, tmp_path)
        cluster.end_daemon("slurmctld", kill=True)
        cluster.end_daemon("n1", kill=True)
        conf = cluster.variables["SLURM_CONF"]
    assert processes_of(conf) == []


def test_a_cluster_ends_with_the_process_that_started_it(tmp_path):
    program = (
        "import signal, sys; from pathlib import Path\n"
        "from tarmac.testing.slurm import OneMachineSlurm\n"
        "with OneMachineSlurm(Path(sys.argv[1])) as cluster:\n"
        "    print(cluster.variables['SLURM_CONF'], flush=True)\n"
        "    signal.pause()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "cluster")], stdout=subprocess.PIPE
    ) as owner:
        conf = owner.stdout.readline().decode().strip()
        running = processes_of(conf)
        assert running
        owner.send_signal(signal.SIGKILL)
    psutil.wait_procs(running, timeout=60)
    assert processes_of(conf) == []


@pytest.mark.parametrize("position", [0, 2], ids=["slurmctld", "slurmd"])
def test_a_port_that_somebody_else_has_taken_meanwhile_is_chosen_anew(
    tmp_path, monkeypatch, position
):
    free_ports, first = configuration._free_ports, []
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()

        def ports(count: int) -> list[int]:
            chosen = free_ports(count)
            if not first:
                chosen[position] = taken.getsockname()[1]
                first.append(chosen)
            return chosen

        monkeypatch.setattr(configuration, "_free_ports", ports)
        with OneMachineSlurm(tmp_path / "cluster") as cluster:
            assert cluster.run("sinfo", "-h", "-N", "-o", "%N %T").split("\n")[:2] == [
                "n1 idle",
                "n2 idle",
            ]
    assert first


def test_a_machine_without_slurm_is_told_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RequestError, match="sudo apt install slurm-wlm"):
        OneMachineSlurm(tmp_path / "cluster")
    assert not (tmp_path / "cluster").exists()


def test_whoever_is_not_root_is_told_so(tmp_path):
    program = (
        "import os, sys; from pathlib import Path\n"
        "from tarmac.testing.slurm import OneMachineSlurm\n"
        "os.setuid(65534)\n"
        "OneMachineSlurm(Path(sys.argv[1]))\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "cluster")]
    # Where daemons are is in the PATH of few.
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PATH": "/usr/bin:/bin"},
    )
    assert "only root can start Slurm nodes" in done.stderr
