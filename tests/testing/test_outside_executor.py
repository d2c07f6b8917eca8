"""The executor of docs/extend-executor.md: installed as its author does, checked from outside.

Nothing of this repository is on its path but what is installed: the suite comes from `tarmac`.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "extend-executor.md"

BUILD = """
import sys
from setuptools.build_meta import build_wheel
print(build_wheel(sys.argv[1]))
"""

# Says each end twice, which a run would count twice.
BROKEN = """\
        return self._local.start(attempts)

    def wait(self, patience_s):
        return [event for event in self._local.wait(patience_s) for _ in range(2)]
"""


def shown(name: str) -> str:
    """Return a file that the page shows."""
    found = re.search(
        rf"(?:<!-- file: {re.escape(name)} -->\n\n```\w+\n|```\w+\n(?=# {re.escape(name)}\n))"
        r"(.*?)^```$",
        PAGE.read_text(),
        re.DOTALL | re.MULTILINE,
    )
    assert found is not None, f"the page shows no {name}"
    return found[1]


@pytest.fixture
def package(tmp_path):
    """Return a function that builds the package in a folder of its own, and installs it."""
    # Not imported: it would have no other module of its kind imported before it.
    if importlib.util.find_spec("setuptools") is None:
        pytest.skip("the page's package is built by setuptools; provide it: pip install setuptools")

    def install(program: str) -> tuple[Path, dict[str, str]]:
        source, site = tmp_path / "source", tmp_path / "site"
        source.mkdir()
        (source / "pyproject.toml").write_text(shown("pyproject.toml"))
        (source / "held.py").write_text(program)
        built = run([sys.executable, "-c", BUILD, str(tmp_path)], source, os.environ)
        assert built.returncode == 0, built.stderr
        with zipfile.ZipFile(tmp_path / built.stdout.split()[-1]) as wheel:
            wheel.extractall(site)
        tests = tmp_path / "tests"
        tests.mkdir()
        (tests / "test_held.py").write_text(shown("test_held.py"))
        return tests, {**os.environ, "PYTHONPATH": str(site)}

    return install


def run(command, directory, variables) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=directory, env=variables, capture_output=True, text=True, check=False
    )


@pytest.mark.timeout(600)
def test_an_installed_plug_in_passes_the_suite_and_runs_a_job(package):
    tests, variables = package(shown("held.py"))
    checked = run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"], tests, variables
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    (tests / "job.yaml").write_text("{name: x, command: echo hello}")
    tarmac = [sys.executable, "-m", "tarmac", "run", "job.yaml", "--on", "held"]
    done = run([*tarmac, "--output", "runs"], tests, variables)
    assert done.returncode == 0, done.stderr
    (printed,) = (tests / "runs").glob("*/tasks/*/stdout")
    assert printed.read_text() == "hello\n"


@pytest.mark.timeout(600)
def test_the_suite_says_what_is_wrong_with_a_plug_in(package):
    line = "        return self._local.start(attempts)\n"
    tests, variables = package(shown("held.py").replace(line, BROKEN, 1))
    pytest_ = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    checked = run([*pytest_, "-k", "timeouts_end_tasks"], tests, variables)
    assert checked.returncode == 1, checked.stdout + checked.stderr
    assert "x ended twice" in checked.stdout
