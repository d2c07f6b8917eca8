"""`tarmac cluster try slurm`: a Slurm for as long as a command runs."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slurm

TRY = (sys.executable, "-m", "tarmac", "cluster", "try", "slurm")


@pytest.fixture(autouse=True)
def _needs_slurm(start_slurm):
    """Skip where none can be started."""


def run(*words: str, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*TRY, *words], capture_output=True, text=True, check=False, timeout=240, **options
    )


def place_of(said: str) -> Path:
    """Return the cluster's directory, which it names."""
    found = re.search(r"runs in (\S+)\.", said)
    assert found, said
    return Path(found[1])


def test_a_command_sees_the_cluster_and_gives_its_exit_code():
    done = run("--", "sh", "-c", "sinfo -h -N -o '%N %G'; exit 3")
    assert done.stdout == "n1 gpu:2\nn2 gpu:2\n"
    assert done.returncode == 3, done.stderr
    assert not place_of(done.stderr).exists()


def test_daemons_are_found_although_path_does_not_lead_to_them(tmp_path):
    path = tmp_path / "bin"
    path.symlink_to("/usr/bin")
    done = run("--", "sinfo", "-h", "-o", "%N", env=os.environ | {"PATH": str(path)})
    assert done.stdout == "n[1-2]\n", done.stderr


def test_a_shell_sees_the_cluster_where_no_command_is_given():
    done = run(input="srun --mem=64M hostname\n", env=os.environ | {"SHELL": "/bin/sh"})
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert "To stop it: exit." in done.stderr


def test_jobs_that_are_left_end_with_the_command(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    # The job holds the pipe's other end until it ends.
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    job = f"sbatch --mem=64M --output=/dev/null --wrap 'exec 3> {pipe}; echo >&3; sleep 600'"
    done = run("--", "sh", "-c", f"{job}; read line < {pipe}")
    assert done.returncode == 0, done.stderr
    os.set_blocking(reader, True)
    while os.read(reader, 100):
        pass
    os.close(reader)


def test_sigterm_ends_the_command_and_the_cluster(tmp_path):
    with subprocess.Popen(
        [*TRY, "--", "sh", "-c", "echo runs; exec sleep 600"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as trial:
        assert trial.stdout.readline() == "runs\n"
        trial.send_signal(signal.SIGTERM)
        said = trial.stderr.read()
    assert trial.returncode == 128 + signal.SIGTERM
    assert not place_of(said).exists()


def test_a_command_that_is_not_there_is_a_wrong_request():
    done = run("--", "no-such-program")
    assert done.returncode == 2
    assert "cannot start no-such-program" in done.stderr
    assert not place_of(done.stderr).exists()


def test_accounts_are_kept_where_they_are_asked_for():
    done = run("--accounting", "--", "sacctmgr", "-n", "show", "cluster", "format=cluster")
    if "is not installed" in done.stderr:
        pytest.skip(f"no accounts can be kept here: {done.stderr}")
    assert done.stdout.strip() == "tarmac", done.stderr
