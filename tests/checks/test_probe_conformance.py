"""Every probe keeps the promises that a probe of another package can be held to as well."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from forked import forked_interpreter
from tarmac.checks import Framework, framework_names
from tarmac.checks.frameworks import find_framework
from tarmac.testing.probes import (
    PROBE_CHECKS,
    check_every_stage_is_written,
    check_missing_framework_is_reported,
    check_probe_needs_only_the_harness,
)

pytest.importorskip("torch", reason="needs pip install 'tarmac-gpu[train]'")

# A framework that needs no installation, and a probe of it.
_ABACUS = """
from harness import judged, run


def main(probe):
    if probe.lacks("abacus"):
        return
    with probe.importing():
        import abacus
    probe.result["version"] = abacus.__version__
    if probe.wants("cpu"):
        device = probe.device("cpu", on_gpu=False)
        probe.stage("product on cpu")
        device["matmul"] = judged(abs(abacus.multiply(6, 7) - 42), 0.0)
    probe.stage("done")


if __name__ == "__main__":
    run("abacus", main)
"""


@pytest.fixture
def abacus(tmp_path, monkeypatch) -> Path:
    """Return a folder on Python's path with a package that provides a framework and its probe."""
    packages = tmp_path / "packages"
    metadata = packages / "abacus-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: abacus\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[tarmac.probes]\nabacus = abacus_row:ROW\n")
    (packages / "abacus.py").write_text("__version__ = '1.0'\ndef multiply(a, b): return a * b\n")
    (packages / "abacus_probe.py").write_text(_ABACUS)
    (packages / "abacus_row.py").write_text(
        "from pathlib import Path\n"
        "from tarmac.checks import Framework\n"
        "ROW = Framework('abacus', 'Abacus', alias='ab',\n"
        "                probe=Path(__file__).with_name('abacus_probe.py'))\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(packages))
    return packages


@pytest.mark.parametrize("check", PROBE_CHECKS)
def test_pytorchs_probe_conforms(check, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", forked_interpreter())
    check(find_framework("torch"), tmp_path)


@pytest.mark.parametrize("name", framework_names())
def test_every_probe_needs_the_harness_alone(name, tmp_path):
    check_probe_needs_only_the_harness(find_framework(name), tmp_path)


@pytest.mark.parametrize("name", framework_names())
def test_every_probe_tells_of_a_missing_framework(name, tmp_path):
    check_missing_framework_is_reported(find_framework(name), tmp_path)


# But for the two that take away or replace what is on Python's path.
@pytest.mark.parametrize("check", PROBE_CHECKS[:-2])
def test_a_probe_of_another_package_can_conform(check, abacus, tmp_path):
    check(Framework("abacus", "Abacus", probe=abacus / "abacus_probe.py"), tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('probe.stage("done")', "pass", "the last stage is 'product on cpu', expected done"),
        ('probe.result["version"] = abacus.__version__', "pass", "the result has no version"),
        ('probe.stage("product on cpu")', "pass", "no stage between import and done"),
        (
            'probe.stage("done")',
            'probe.stage("done"); import sys; open(sys.argv[1], "w").write("{}")',
            "RESULT is written in place",
        ),
    ],
)
def test_a_probe_that_breaks_a_promise_is_told_which(abacus, tmp_path, old, new, message):
    program = abacus / "abacus_probe.py"
    program.write_text(_ABACUS.replace(old, new))
    with pytest.raises(AssertionError, match=message):
        check_every_stage_is_written(Framework("abacus", "Abacus", probe=program), tmp_path)


def test_a_packages_framework_is_checked_by_its_name_and_alias(abacus):
    for name in ("abacus", "AB"):
        command = [sys.executable, "-m", "tarmac", "check", name, "--require", "abacus"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "cpu only  abacus" in done.stdout


def test_a_package_that_cannot_be_loaded_is_named(abacus):
    (abacus / "abacus_row.py").write_text("raise ValueError('no beads')\n")
    command = [sys.executable, "-m", "tarmac", "check", "abacus"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    words = "probe 'abacus' of abacus_row:ROW failed to load: ValueError: no beads"
    assert words in done.stderr
    assert importlib.util.find_spec("abacus") is None
