"""Formats of other packages join by an entry point."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tarmac.cli import choices

MODULE = """
from tarmac.formats import Format, Reading, Written
from tarmac.jobs import Job

def read(documents, environment):
    (document,) = documents
    return Reading("lines", [Job(name="x", command=document.value["run"])])

def write(jobs, directory):
    return Written("".join(f"run: {job.command}\\n" for job in jobs), ["it was easy"])

LINES = Format(name="lines", title="Lines", looks_like=lambda v: isinstance(v, dict) and "run" in v,
               read=read, write=write)
OTHER = Format(name="other", title="Other", looks_like=lambda v: False, read=read)
"""


@pytest.fixture
def tarmac(tmp_path):
    """Return a function that runs the command where a package provides formats."""

    def run(provided: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        info = tmp_path / "packages/lines-1.0.dist-info"
        info.mkdir(parents=True, exist_ok=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lines\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[tarmac.formats]\n{provided}\n")
        (tmp_path / "packages/lines.py").write_text(MODULE)
        return subprocess.run(
            [sys.executable, "-m", "tarmac", *arguments],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(tmp_path / "packages")},
            capture_output=True,
            text=True,
            check=False,
        )

    (tmp_path / "job.yaml").write_text("{name: x, command: echo}\n")
    (tmp_path / "x.lines").write_text("run: echo hello\n")
    return run


def test_a_format_of_another_package_is_offered_read_and_written(tarmac):
    provided = "lines = lines:LINES\nother = lines:OTHER"
    written = tarmac(provided, "convert", "job.yaml", "--to", "lines")
    assert (written.stdout, written.stderr) == ("run: echo\n", "note: it was easy\n")
    assert tarmac(provided, "convert", "x.lines").stdout == "name: x\ncommand: echo hello\n"
    refused = tarmac(provided, "convert", "job.yaml", "--to", "other")
    assert (refused.returncode, "cannot write them" in refused.stderr) == (2, True)
    unknown = tarmac(provided, "convert", "job.yaml", "--to", "nothing")
    valid = ", ".join(sorted((*choices.CONVERTED, "lines", "other")))
    assert f"Valid: {valid}" in unknown.stderr


@pytest.mark.parametrize(
    ("provided", "said"),
    [
        ("lines = lines:GONE", "format 'lines' of lines:GONE failed to load: AttributeError: "),
        ("lines = lines:read", "format 'lines' of lines:read is of type function, expected Format"),
        ("line = lines:LINES", "calls itself 'lines', expected its entry point's name"),
    ],
)
def test_a_package_that_provides_no_format_is_named(tarmac, provided, said):
    done = tarmac(provided, "convert", "x.lines")
    assert (done.returncode, said in done.stderr) == (1, True), done.stderr


def test_no_package_takes_the_name_of_a_format_of_tarmacs(tarmac):
    assert tarmac("hkube = lines:LINES", "convert", "job.yaml").stdout.startswith("name: x\n")
