"""The agent as it travels: one file that needs nothing but a Python."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tarmac.node import place_agent, write_agent

_OLDEST = (3, 9)


def test_the_same_bytes_are_packed_each_time(packed, tmp_path):
    again = tmp_path / "agent.pyz"
    # By a process whose strings and modules are others.
    code = "import sys, pathlib, tarmac.node as node; node.write_agent(pathlib.Path(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", code, again], check=True)
    assert again.read_bytes() == packed.read_bytes()


def test_a_run_keeps_the_agent_that_its_queued_jobs_read(tmp_path, packed):
    first = place_agent(tmp_path)
    assert place_agent(tmp_path) == first == tmp_path / "agent.pyz"
    first.write_bytes(b"of another version")
    own = place_agent(tmp_path)
    assert (first.read_bytes(), own.read_bytes()) == (b"of another version", packed.read_bytes())
    assert place_agent(tmp_path) == own


def test_all_of_it_is_python_of_the_oldest_version_and_its_standard_library(packed):
    with zipfile.ZipFile(packed) as archive:
        assert "tarmac/node/main.py" in archive.namelist()
        for name in archive.namelist():
            if name.endswith(".pyc"):
                continue
            tree = ast.parse(archive.read(name), feature_version=_OLDEST)
            imported = {
                module.partition(".")[0]
                for node in ast.walk(tree)
                for module in (
                    [alias.name for alias in node.names]
                    if isinstance(node, ast.Import)
                    else [node.module or ""]
                    if isinstance(node, ast.ImportFrom)
                    else []
                )
            }
            assert imported <= {"tarmac", *sys.stdlib_module_names}, name


def test_nothing_that_is_slow_to_import_is_needed_to_begin(packed):
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import tarmac.node.main; print(*sys.modules)"
    )
    command = [sys.executable, "-I", "-S", "-c", code, str(packed)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    # The second brings the first; either takes longer than an attempt of a short program.
    assert not {"inspect", "dataclasses", "tempfile", "zipfile"} & {*done.stdout.split()}


def _found(version: str) -> str | None:
    """Return a Python of a version that is on this machine."""
    found = shutil.which(f"python{version}")
    installed = Path(sys.base_prefix).parent.glob(f"{version}.*/bin/python3")
    for python in (found, *installed):
        asked = [str(python), "-c", "import sys; print(sys.version)"]
        if python and subprocess.run(asked, capture_output=True, check=False).returncode == 0:
            return str(python)
    return None


@pytest.mark.parametrize("version", ["3.9", "3.10", "3.12", "3.13", "3.14"])
def test_another_python_runs_it(run, version):
    python = _found(version)
    if python is None:
        pytest.skip(f"no Python {version} is here; provide one: uv python install {version}")
    element = run.element("sh", "-c", "exit 3", memory_bytes=2**30)
    assert run.run(element, interpreter=(python, "-I", "-S")) == (3, "")
    assert run.record(element).outcome == "failed"


def test_a_python_that_cannot_open_processes_runs_it(run):
    code = (
        "import os, runpy, signal, sys; del os.pidfd_open, signal.pidfd_send_signal\n"
        "sys.argv.pop(0); runpy.run_path(sys.argv[0], run_name='__main__')\n"
    )
    pipe = run.pipe()
    # One of its children leaves the session of the program.
    script = f"trap '' TERM; setsid sleep 600 & echo > {pipe}; while :; do sleep 600; done"
    element = run.element("sh", "-c", script, grace_s=0.2, memory_bytes=2**30)
    agent = run.start(element, interpreter=(sys.executable, "-c", code))
    pipe.read_text()
    agent.terminate()
    assert run.end(agent) == (137, "")
    assert run.record(element).outcome == "interrupted"


def test_sh_runs_it_with_the_python_that_packed_it_and_asks_no_other(run, tmp_path):
    programs = tmp_path / "bin"
    programs.mkdir()
    # As version managers have it: a script, which takes long to find the one that is meant.
    (programs / "python3").write_text(f"#!/bin/sh\ntouch {tmp_path}/asked\necho Python 3.11.7\n")
    (programs / "python3").chmod(0o755)
    element = run.element("/bin/sh", "-c", "exit 3")
    agent = subprocess.Popen(
        ["/bin/sh", run.agent, run.chunk(element), "0"],
        env={"PATH": str(programs)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert run.end(agent) == (3, "")
    assert not (tmp_path / "asked").exists()


def test_sh_runs_it_with_the_python_that_it_finds(run, tmp_path):
    # Where it was packed is another machine's disk.
    write_agent(run.agent, python=str(tmp_path / "away" / "it's python"))
    programs = tmp_path / "bin"
    programs.mkdir()
    # One that is too old, or whose module is not loaded.
    (programs / "python3").write_text("#!/bin/sh\necho Python 3.6.8\n")
    (programs / "python3").chmod(0o755)
    (programs / "python3.11").symlink_to(os.path.realpath(sys.executable))
    element = run.element("/bin/sh", "-c", "exit 3")
    spec = run.chunk(element)
    agent = subprocess.Popen(
        ["/bin/sh", run.agent, spec, "0"],
        env={"PATH": str(programs)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert run.end(agent) == (3, "")
    (programs / "python3.11").unlink()
    (programs / "hostname").write_text("#!/bin/sh\necho n7\n")
    (programs / "hostname").chmod(0o755)
    done = subprocess.run(
        ["/bin/sh", run.agent, spec, "0"],
        env={"PATH": str(programs)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 127
    assert done.stderr.splitlines() == [
        "tarmac: no Python 3.9 or newer is on n7",
        "tarmac: python3 there: Python 3.6.8",
        "tarmac: load one before, as by options: {slurm: {setup: [module load python]}}",
    ]


def test_what_a_user_has_set_for_python_is_the_programs_alone(run, tmp_path):
    (tmp_path / "json.py").write_text("raise SystemExit('not the json of Python')\n")
    element = run.element("sh", "-c", "echo $PYTHONPATH")
    agent = subprocess.Popen(
        ["/bin/sh", run.agent, run.chunk(element), "0"],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert run.end(agent) == (0, "")
    assert run.printed(element) == f"{tmp_path}\n"
