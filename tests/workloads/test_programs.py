"""Programs that are named as workloads: told apart by their syntax, and never run."""

from __future__ import annotations

import shlex
import textwrap

import pytest

from tarmac.errors import RequestError, TarmacError
from tarmac.files import job_lines
from tarmac.jobs import parse_job
from tarmac.workloads import find_workload

_RAN = "open('ran', 'w').close()\n"
_STUDENT = f"""\
import keras
{_RAN}
model = keras.Sequential()
def main(): pass
"""
_TRAINS = f"import tarmac\n{_RAN}tarmac.train('digits-mlp')\n"
_PLAIN = f"import numpy as np\n{_RAN}model = np.zeros(3)\nlate: int\n"


@pytest.fixture(autouse=True)
def nothing_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("named", ["a loop.py", "a loop.py:workload", "a loop.py:late"])
@pytest.mark.parametrize("text", [_STUDENT, _TRAINS, _PLAIN, _RAN, ""])
def test_a_program_is_told_how_it_becomes_a_job(tmp_path, text, named):
    (tmp_path / "a loop.py").write_text(text)
    with pytest.raises(RequestError, match=r"a loop\.py is a program that") as caught:
        find_workload(named)
    assert "tarmac run job.yaml" in caught.value.hint
    assert f"  name: a-loop\n  command: python '{tmp_path}/a loop.py'" in caught.value.hint
    assert "docs/take-over.md" in caught.value.hint


def test_modules_that_a_program_lacks_are_named_with_their_packages(tmp_path):
    (tmp_path / "beside.py").touch()
    (tmp_path / "loop.py").write_text("import os, beside, keras\nfrom nothing_here import x\n")
    with pytest.raises(RequestError) as caught:
        find_workload("loop.py")
    assert "This Python lacks keras, nothing_here." in caught.value.hint
    assert "environment: {requirements: [nothing_here, tensorflow]}" in caught.value.hint


def test_what_lacks_a_module_is_told_what_brings_it(tmp_path):
    (tmp_path / "loop.py").write_text("import keras\nmodel = keras.Sequential()\n")
    with pytest.raises(TarmacError, match=r"loop\.py:1: ModuleNotFoundError") as caught:
        find_workload("loop.py:model")
    assert caught.value.hint == "pip install tensorflow"


_MAKES = "import dataclasses\nfrom tarmac.workloads.digits_mlp import workload\n"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (_MAKES, "workload"),
        (f"{_MAKES}mine = dataclasses.replace(workload, name='x')\n", "workload"),
        ("import tarmac\nmine = tarmac.Workload()\n", "mine"),
        ("import tarmac\nmine: tarmac.Workload = tarmac.Workload()\n", "mine"),
        ("from tarmac.workloads.digits_mlp import *\n", "workload"),
        ("from beside import workload as theirs\n", "theirs"),
    ],
)
def test_a_file_of_workloads_is_asked_which(tmp_path, text, name):
    (tmp_path / "beside.py").touch()
    (tmp_path / "mine.py").write_text(text)
    with pytest.raises(RequestError, match="names a file only") as caught:
        find_workload("mine.py")
    assert caught.value.hint == f"Name the workload in it too: mine.py:{name}"


@pytest.mark.parametrize(
    "text",
    [
        f"{_MAKES}if True:\n    mine = workload\n",
        f"{_MAKES}def make():\n    global mine\n    mine = workload\nmake()\n",
        f"{_MAKES}globals()['mine'] = workload\n",
        f"{_MAKES}def __getattr__(name):\n    return workload\n",
        f"{_MAKES}for mine in [workload]:\n    pass\n",
        "import importlib\n"
        "mine = importlib.import_module('tarmac.workloads.digits_mlp').workload\n",
        "from beside import mine\n",
        "from beside import *\n",
    ],
)
def test_a_workload_is_found_however_its_name_is_made(tmp_path, text):
    pytest.importorskip("torch")
    (tmp_path / "beside.py").write_text(f"{_MAKES}mine = workload\n")
    (tmp_path / "mine.py").write_text(text)
    assert find_workload("mine.py:mine").name == "digits-mlp"


def test_modules_on_the_path_may_bring_a_workload(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "ours.py").write_text(f"{_MAKES}def make(): return workload\n")
    monkeypatch.syspath_prepend(tmp_path / "project")
    (tmp_path / "mine.py").write_text("import ours\nmine = ours.make()\n")
    assert find_workload("mine.py:mine").name == "digits-mlp"


@pytest.mark.parametrize("name", ["we: ird", "a #b", "it's: one", 'say "x": y', "plain"])
def test_the_lines_of_a_job_are_yaml_whatever_the_program_is_called(tmp_path, name):
    path = tmp_path / f"{name}.py"
    job = parse_job(textwrap.dedent(job_lines(path, "python")))
    assert shlex.split(job.command) == ["python", str(path.resolve())]


@pytest.mark.parametrize(
    ("text", "line"), [("def f(:\n", 1), ("x = 1\n  y = 2\n", 2), ("x = (\n", 1)]
)
def test_a_file_alone_that_is_no_python_is_told_with_its_line(tmp_path, text, line):
    (tmp_path / "bad.py").write_text(text)
    with pytest.raises(RequestError, match=rf"bad\.py:{line}: it cannot be read as Python"):
        find_workload("bad.py")


def test_a_file_that_is_not_there_is_told(tmp_path):
    with pytest.raises(RequestError, match=r"workload file 'none\.py' does not exist"):
        find_workload("none.py")
