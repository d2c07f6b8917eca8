"""Clusters that this process cannot work with: real ones, of another Ray and of another Python."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import ray

from tarmac.environments import VenvSpec, build_venv

pytestmark = [pytest.mark.ray, pytest.mark.timeout(900)]

OLDER = "2.49.2"


def other_python() -> str:
    """Return another Python of this machine that Ray has wheels for."""
    for name in ("python3.12", "python3.10", "python3.13", "python3.11"):
        # Where versions are chosen by a directory, a name in PATH need not start.
        pyenv = sorted(Path.home().glob(f".pyenv/versions/{name[6:]}.*/bin/{name}"))
        for found in filter(None, (shutil.which(name), *map(str, pyenv))):
            asked = subprocess.run([found, "-V"], capture_output=True, text=True, check=False)
            if asked.returncode == 0 and asked.stdout.split()[-1] != platform.python_version():
                return found
    pytest.skip("needs another Python")


@pytest.fixture
def head(tmp_path):
    """Return a function that starts a head of another environment, and returns its address."""
    started = []

    def start(spec: VenvSpec) -> str:
        venv = build_venv(spec, tmp_path)
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        words = ["--head", "--block", f"--port={port}", "--num-cpus=1", "--disable-usage-stats"]
        words += ["--include-dashboard=false", "--object-store-memory=80000000"]
        # Sockets below it have long names, and a limit of 107 characters.
        words += [f"--temp-dir=/tmp/tarmac-ray-{os.getpid()}-{len(started)}"]
        process = subprocess.Popen(
            [venv / "bin/python", "-m", "ray.scripts.scripts", "start", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started.append(process)
        assert process.stdout is not None
        for line in process.stdout:
            if "will now block forever" in line:
                break
        assert process.poll() is None, "the head has ended"
        return f"127.0.0.1:{port}"

    yield start
    for process in started:
        process.terminate()
        process.communicate(timeout=60)


def run_on(address: str, directory: Path) -> subprocess.CompletedProcess[str]:
    (directory / "job.yaml").write_text("{name: x, command: 'true'}")
    tarmac = [sys.executable, "-m", "tarmac", "run", "job.yaml", "--on", "ray"]
    return subprocess.run(
        [*tarmac, "--output", "runs", "--set", f"options.ray.address={address}"],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_cluster_of_another_ray_is_refused_with_both_versions(head, tmp_path):
    address = head(VenvSpec((f"ray=={OLDER}",)))
    done = run_on(address, tmp_path)
    assert done.returncode == 2, done.stdout + done.stderr
    assert f"is of another version: Ray {OLDER} there, {ray.__version__} here\n" in done.stderr
    assert f"Install Tarmac with Python {platform.python_version()} and ray=={OLDER}" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_a_cluster_of_another_python_is_refused_with_both_versions(head, tmp_path):
    python = other_python()
    asked = subprocess.run([python, "-V"], capture_output=True, text=True, check=True)
    there = asked.stdout.split()[-1]
    done = run_on(head(VenvSpec((f"ray=={ray.__version__}",), python=python)), tmp_path)
    assert done.returncode == 2, done.stdout + done.stderr
    words = f"is of another version: Python {there} there, {platform.python_version()} here\n"
    assert words in done.stderr
    assert not (tmp_path / "runs").exists()
