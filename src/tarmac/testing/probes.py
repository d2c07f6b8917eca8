"""A conformance suite for probes: a `tarmac.checks.Framework` and its program.

Example, in the tests of a package with an entry point of ``tarmac.probes``::

    import pytest
    from tarmac.testing.probes import PROBE_CHECKS

    @pytest.mark.parametrize("check", PROBE_CHECKS)
    def test_my_probe_conforms(check, tmp_path):
        check(FRAMEWORK, tmp_path)

Each check takes the `Framework` and an empty directory, and runs the program under this
interpreter, which must have the framework. It raises an `AssertionError` that describes the
failure. No GPU is needed.
"""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tarmac.checks import Framework
from tarmac.checks.frameworks import PROBES
from tarmac.checks.probe_result import is_result

# The oldest version of Python that probes must support.
_OLDEST = (3, 7)

_LIMIT_S = 240

# Runs a program as the main program, and records each result before it is renamed into place.
_RECORDER = """
import json, os, runpy, sys
journal, program, *arguments = sys.argv[1:]
result = os.path.abspath(arguments[0])

def note(text):
    with open(journal, "a") as file:
        file.write(json.dumps(text) + "\\n")

def hook(event, details):
    if event == "os.rename" and os.path.abspath(os.fspath(details[1])) == result:
        with open(details[0]) as file:
            note(file.read())
    elif event == "open" and isinstance(details[0], str) and isinstance(details[1], str):
        if os.path.abspath(details[0]) == result and set(details[1]) & set("wax+"):
            note("written in place")

sys.addaudithook(hook)
sys.argv = [program, *arguments]
sys.path[0] = os.path.dirname(program)
runpy.run_path(program, run_name="__main__")
"""


def check_probe_needs_only_the_harness(framework: Framework, directory: Path) -> None:  # noqa: ARG001 - every check takes one
    """Check the syntax for Python 3.7, and that the top level imports only stdlib and harness."""
    tree = ast.parse(framework.program.read_text(encoding="utf-8"), feature_version=_OLDEST)
    imports = {
        name.split(".")[0]
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else _names(node))
    }
    others = imports - sys.stdlib_module_names - {"harness"}
    assert not others, (
        f"{framework.program.name} imports {', '.join(sorted(others))} at the top, so it cannot "
        "report a missing framework; import within main"
    )


def check_every_stage_is_written(framework: Framework, directory: Path) -> None:
    """Check that the probe writes a complete result after every stage, ``import`` to ``done``."""
    journal = directory / "journal"
    recorder = directory / "recorder.py"
    recorder.write_text(_RECORDER, encoding="utf-8")
    code, result = _run(framework, directory, ["cpu"], runner=[str(recorder), str(journal)])
    assert code == 0, f"the exit code is {code}: {result.get('error')}"
    written = [json.loads(line) for line in journal.read_text(encoding="utf-8").splitlines()]
    assert "written in place" not in written, (
        "RESULT is written in place, so a reader may see half of it; write and rename"
    )
    results = [json.loads(text) for text in written]
    bad = next((result for result in results if not is_result(result)), None)
    assert bad is None, f"not a valid result: {bad}"
    stages = [result.get("stage") for result in results]
    assert stages[:1] == ["import"], f"the first stage is {stages[:1]}, expected import"
    assert stages[-1] == "done", f"the last stage is {stages[-1]!r}, expected done"
    assert len(set(stages)) > 2, "there is no stage between import and done"
    assert results[-1].get("framework") == framework.name
    assert results[-1].get("version"), "the result has no version"


def check_requested_device_is_used(framework: Framework, directory: Path) -> None:
    """Check that the probe uses the CPU on request, and no device if the wanted one is missing."""
    _, result = _run(framework, directory, ["cpu"])
    kinds = [device["kind"] for device in result["devices"]]
    assert kinds, "on request of the CPU, it computed on no device"
    assert set(kinds) == {"cpu"}, f"on request of the CPU, it computed on {kinds}"
    code, result = _run(framework, directory, ["cuda:99"])
    assert code == 0, f"the exit code for a missing device is {code}, expected 0"
    assert result["devices"] == [], "on request of cuda:99, it computed on another device"
    assert result["wanted"] == ["cuda:99"]


def check_missing_framework_is_reported(framework: Framework, directory: Path) -> None:
    """Check that the probe reports a framework that is not installed, with exit code 0."""
    # `-S` disables site-packages, so that the framework cannot be imported.
    code, result = _run(framework, directory, ["cpu"], options=["-S"])
    assert (code, result.get("absent")) == (0, True), f"exit code {code}, result {result}"


def check_broken_installation_is_reported(framework: Framework, directory: Path) -> None:
    """Check that the result of a failed import has the error's message and the stage."""
    broken = directory / "broken"
    broken.mkdir()
    (broken / f"{framework.name}.py").write_text(
        "raise ImportError('libbroken.so.1: cannot open shared object file')\n", encoding="utf-8"
    )
    code, result = _run(framework, directory, ["cpu"], variables={"PYTHONPATH": str(broken)})
    assert code == 1, f"the exit code is {code}, expected 1"
    assert result["stage"] == "import", f"the stage is {result['stage']!r}, expected import"
    error = result["error"]
    assert "libbroken.so.1" in error["message"], error
    assert "Traceback" in error["traceback"], error


PROBE_CHECKS: Sequence[Callable[[Framework, Path], None]] = (
    check_probe_needs_only_the_harness,
    check_every_stage_is_written,
    check_requested_device_is_used,
    check_missing_framework_is_reported,
    check_broken_installation_is_reported,
)


def _names(node: ast.Import) -> list[str]:
    return [alias.name for alias in node.names]


def _run(
    framework: Framework,
    directory: Path,
    devices: Sequence[str],
    *,
    options: Sequence[str] = (),
    runner: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
) -> tuple[int, dict[str, Any]]:
    """Run a probe beside the harness; return its exit code and its result."""
    folder = directory / "probe"
    folder.mkdir(exist_ok=True)
    for file in (PROBES / "harness.py", framework.program):
        shutil.copyfile(file, folder / file.name)
    result = directory / "result.json"
    result.unlink(missing_ok=True)
    program = folder / framework.program.name
    command = [sys.executable, *options, *runner, str(program), str(result), "quick", *devices]
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONSAFEPATH": "", **(variables or {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=_LIMIT_S,
    )
    assert result.is_file(), f"the probe wrote no result; output: {done.stdout}{done.stderr}"
    return done.returncode, json.loads(result.read_text(encoding="utf-8"))
