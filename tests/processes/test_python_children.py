"""Python processes of Tarmac's own take no module of the current directory for the library's."""

import ast
import multiprocessing
import os
import re
import sys
from pathlib import Path

import pytest

import tarmac
from tarmac.cli import main
from tarmac.processes import Worker, python_command
from waiting import limit_s

_SOURCE = Path(tarmac.__file__).parent

# Modules that may name an interpreter, or an option that runs code by it, and why.
_MAY = {
    "checks/probes/all_reduce_probe.py": "its ranks are a file, whose folder comes first",
    "checks/probes/harness.py": "names the interpreter in a report",
    "checks/probes/horovod_probe.py": "may be of Python 3.7; starts -m in the probes' own folder",
    "checks/probes/soak_probe.py": "its ranks are a file, whose folder comes first",
    "checks/rules/commands.py": "reads what a user is to type",
    "checks/targets.py": "-I, as the interpreter may be of Python 3.7; probes are files",
    "cli/nodes_check.py": "names an interpreter that nodes are asked for",
    "environments/conda/activation.py": "a shell, for scripts of packages",
    "environments/installer.py": "-I, as the interpreter may be of Python 3.7",
    "formats/shipyard/mapping/command.py": "a shell of the user's",
    "executors/elements.py": "names the interpreter for node/staging.py",
    "executors/kubernetes/demand.py": "replaces the interpreter's name by the image's",
    "executors/kubernetes/stores.py": "names the interpreter for node/staging.py",
    "executors/ray/worker.py": "-I, and travels to nodes without Tarmac",
    "tasks/plan.py": "the placeholder tarmac.python, for commands of the user's",
    "node/conductor.py": "-I, and is an archive",
    "node/packing.py": "-I, before any module of Tarmac's can be imported",
    "node/pod.py": "-I, and is an archive",
    "processes/python.py": "the one place",
    "processes/tree.py": "-I, and needs no installed module",
    "slurm/survey.py": "-I, as the interpreter may be of Python 3.9",
    "testing/executors/ends.py": "a task, as a user's would be",
    "testing/executors/programs.py": "a task, as a user's would be",
    "testing/probes.py": "runs a probe as a file, whose folder comes first",
    "training/session/record.py": "a hint of what to type",
}
_IN_SHELL = re.compile(r"(?:python[\d.]*|\$\{?\w+\}?)[\"']?((?: -\w+)*) -[cm]\b|-m tarmac")


def _starts(tree: ast.Module) -> list[ast.AST]:
    """Return nodes that name an interpreter, or run code by an option of Python's."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    found: list[ast.AST] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in ("executable", "_base_executable"):
            found.append(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if id(node) not in docstrings and _IN_SHELL.search(node.value):
                found.append(node)
        elif isinstance(node, ast.List | ast.Tuple | ast.Call):
            items = node.args if isinstance(node, ast.Call) else node.elts
            words = [item.value if isinstance(item, ast.Constant) else None for item in items]
            shell = any(str(word).rpartition("/")[2] in ("sh", "bash") for word in words)
            if ("-m" in words or "-c" in words) and not shell:
                found.append(node)
    return found


def test_only_the_one_place_composes_the_command_of_a_python_child() -> None:
    found = {
        f"{path.relative_to(_SOURCE)}:{node.lineno}"
        for path in sorted(_SOURCE.rglob("*.py"))
        for node in _starts(ast.parse(path.read_text(encoding="utf-8")))
    }
    files = {place.rpartition(":")[0] for place in found}
    others = sorted(p for p in found if p.rpartition(":")[0] not in _MAY)
    assert not others, f"use tarmac.processes.python_command: {', '.join(others)}"
    assert {*_MAY} <= files, "these start nothing any more: leave them out above"


@pytest.mark.parametrize("name", [name for name, why in _MAY.items() if why.startswith("-I")])
def test_who_starts_python_in_another_way_isolates_it(name: str) -> None:
    text = (_SOURCE / name).read_text(encoding="utf-8")
    assert re.search(r"[\"' ]-IS?[\"' \n]", text)


def _exit_code(arguments: list[str]) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(ended.value.code or 0)


@pytest.fixture
def among_impostors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current directory, where modules replace the library's and end who takes them."""
    for name in ("types", "random", "numpy", "torch"):
        (tmp_path / f"{name}.py").write_text(f"raise ImportError('impostor {name}')\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def job_with_input(among_impostors: Path) -> Path:
    (among_impostors / "in.txt").write_text("brought\n")
    path = among_impostors / "i.yaml"
    path.write_text("{name: i, command: cat in.txt, inputs: [{from: in.txt}]}\n")
    return path


def test_a_job_with_inputs_runs_among_modules_that_are_called_as_the_librarys(
    job_with_input: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert _exit_code(["run", str(job_with_input)]) == 0
    assert "succeeded" in capfd.readouterr().out


def test_a_submitted_job_runs_among_modules_that_are_called_as_the_librarys(
    job_with_input: Path,
) -> None:
    handle = tarmac.submit(job_with_input)
    handle.result(timeout=limit_s(120))
    assert handle.stdout() == "brought\n"


def test_a_stager_that_dies_at_once_says_why_in_the_error_of_its_task(
    job_with_input: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(job_with_input.parent))
    assert _exit_code(["run", str(job_with_input)]) == 1
    said = capfd.readouterr().out
    assert "staging ended with exit code 1: ImportError: impostor types" in said


def test_a_worker_starts_among_modules_that_are_called_as_the_librarys(
    among_impostors: Path,
) -> None:
    worker = Worker("this", log=among_impostors / "log", environment=os.environ)
    assert worker.why_ended().startswith("its process exited with 0")
    worker.kill()


def test_ranks_of_a_training_start_among_modules_that_are_called_as_the_librarys(
    among_impostors: Path,
) -> None:
    launcher = pytest.importorskip("tarmac.training.processes.launcher")

    def nothing(*_: object) -> None:
        pytest.fail("nothing restarts or reports")

    launcher.launch("this", among_impostors, 2, max_restarts=0, receive=nothing, restarting=nothing)
    assert "Zen of Python" in (among_impostors / "logs" / "rank-1.out").read_text()


def test_a_rank_that_dies_at_once_says_why(
    among_impostors: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher = pytest.importorskip("tarmac.training.processes.launcher")
    monkeypatch.setenv("PYTHONPATH", str(among_impostors))

    def nothing(*_: object) -> None:
        pytest.fail("nothing restarts or reports")

    with pytest.raises(tarmac.TarmacError, match="exit code 1: ImportError: impostor types"):
        launcher.launch(
            "this", among_impostors, 1, max_restarts=0, receive=nothing, restarting=nothing
        )


@pytest.mark.usefixtures("among_impostors")
def test_a_loaders_new_interpreters_start_among_modules_that_are_called_as_the_librarys(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    samples = pytest.importorskip("tarmac.training.engine.loader_samples")
    # As of a program that was started by its own name, and not by -m.
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", None, raising=False)
    monkeypatch.setattr(sys.modules["__main__"], "__file__", None, raising=False)
    process = multiprocessing.get_context("spawn").Process(target=os._exit, args=[7])
    with samples.starting_workers():
        process.start()
    process.join()
    assert process.exitcode == 7
    assert "PYTHONSAFEPATH" not in os.environ


@pytest.mark.usefixtures("among_impostors")
def test_a_search_by_processes_trains_among_modules_that_are_called_as_the_librarys(
    capfd: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("optuna")
    space = ["--set", "hidden=16,17", "--method", "brute", "--epochs", "1", "--train-size", "64"]
    assert _exit_code(["search", "digits-mlp", *space, "--workers", "1", "--trials", "1"]) == 0
    assert "retrained" in capfd.readouterr().out


def test_a_search_in_which_nothing_trains_says_why(
    among_impostors: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("optuna")
    monkeypatch.setenv("PYTHONPATH", str(among_impostors))
    space = ["--set", "hidden=16,17", "--method", "brute", "--epochs", "1"]
    assert _exit_code(["search", "digits-mlp", *space, "--workers", "1"]) == 1
    assert "no network could be trained; most often: its process" in (
        said := capfd.readouterr().err
    )
    assert "ImportError: impostor types" in said


def test_a_task_does_not_inherit_how_tarmacs_own_python_starts(tmp_path: Path) -> None:
    path = tmp_path / "i.yaml"
    path.write_text('{name: i, command: "echo ${PYTHONSAFEPATH-unset}"}\n')
    assert _exit_code(["run", str(path), "--output", str(tmp_path / "runs")]) == 0
    (log,) = tmp_path.glob("runs/*/tasks/*/stdout")
    assert log.read_text() == "unset\n"


def test_python_command_runs_a_module_without_the_current_directory() -> None:
    expected = ["python3", "-P", "-m", "tarmac", "top"]
    assert python_command("tarmac", "top", python="python3") == expected
