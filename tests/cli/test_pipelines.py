"""HKube's algorithms and pipelines from the command line, with real processes and sockets."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from forked import ForkedProcess, forked_interpreter, start_python
from tarmac.cli import main
from tarmac.cli.views.job_logs import Tail
from tarmac.cli.views.pipeline import PipelineProgress, _LiveProgress
from tarmac.hkube import Ending, Work
from waiting import limit_s, wait_until

WRAPPED = Path(__file__).parents[1] / "hkube/hosting/algorithm.py"

# Doubles its first input, and notes that it was called.
_DOUBLE = """
import json, os
first = json.load(open(os.environ["TARMAC_INPUT"]))[0]
print("doubling", first, flush=True)
open("../../../calls", "a").write(f"{first}\\n")
json.dump(first * 2, open(os.environ["TARMAC_RESULT"], "w"))
"""

_PIPELINE = {
    "name": "numbers",
    "nodes": [
        {"nodeName": "double", "algorithmName": "double", "input": ["#@flowInput.numbers"]},
        {"nodeName": "last", "algorithmName": "last", "input": ["@double"]},
    ],
    "flowInput": {"numbers": [1, 2]},
}


def plain(name: str, *command: str) -> dict:
    """Return a definition of a plain program."""
    said = {"protocol": "plain", "command": [*command]}
    return {"name": name, "cpu": 0.1, "mem": "256Mi", "options": {"tarmac": said}}


# Takes all room that its disk has, the first time.
_FILL = """
import pathlib
if not pathlib.Path("../../../filled").exists():
    pathlib.Path("../../../filled").touch()
    with open("fill", "wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
"""


@pytest.fixture
def start(tmp_path):
    """Return a function that starts ``tarmac`` in a directory with algorithms."""
    folder = tmp_path / "algorithms"
    folder.mkdir()

    def define(*definitions: dict) -> None:
        for definition in definitions:
            (folder / f"{definition['name']}.json").write_text(json.dumps(definition))

    define(
        plain("double", sys.executable, "-c", _DOUBLE),
        plain("last", "sh", "-c", 'cp "$TARMAC_INPUT" "$TARMAC_RESULT"'),
    )
    (tmp_path / "pipeline.json").write_text(json.dumps(_PIPELINE))

    def go(*arguments: str) -> ForkedProcess:
        return start_python(
            *("-m", "tarmac", *arguments),
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    go.define = define
    return go


@pytest.fixture
def tarmac(start):
    """Return a function that runs ``tarmac`` to its end, and gives (exit code, output, errors)."""

    def run(*arguments: str) -> tuple[int, str, str]:
        process = start(*arguments)
        out, err = process.communicate()
        return process.returncode, out, err

    run.define = start.define
    return run


def sleepers(seconds: str) -> list[psutil.Process]:
    return [p for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == ["sleep", seconds]]


def the_run(tmp_path: Path) -> Path:
    (run,) = (tmp_path / "runs").iterdir()
    return run


def sleeping(nap: str) -> dict:
    """Return a definition whose program sleeps until its run has a file ``awake``."""
    line = (
        f'test -e ../../../awake || {{ sleep {nap} & sleep {nap}; }}; cp "$TARMAC_INPUT" '
        '"$TARMAC_RESULT"'
    )
    return plain("last", "sh", "-c", line)


def test_an_algorithm_is_run_with_an_input_and_its_result_is_the_last_that_is_printed(
    tarmac, tmp_path
):
    (tmp_path / "input.json").write_text("[21]")
    code, out, err = tarmac("run", "algorithms/double.json", "--input", "input.json")
    assert (code, err) == (0, "")
    assert out.splitlines()[-1] == "42"
    result = json.loads((the_run(tmp_path) / "result.json").read_text())
    assert result["status"] == "completed"
    assert [(row["nodeName"], row["result"]) for row in result["data"]] == [("double", 42)]


SEED = "{input:[{train_size:1000,output:'/training_1',num_epochs:10}], taskId:'a1'}"
ASKED = [{"train_size": 1000, "output": "/training_1", "num_epochs": 10}]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("in.json", SEED),
        ("in.yaml", SEED),
        ("in.json", json.dumps({"input": ASKED, "taskId": "a1"})),
        ("exec.json", json.dumps({"name": "echo", "input": ASKED})),
        ("in.json", json.dumps({"input": ASKED})),
        ("in.json", json.dumps(ASKED)),
        ("in.yaml", "input:\n- train_size: 1000\n  output: /training_1\n  num_epochs: 10\n"),
    ],
)
def test_an_algorithm_is_run_with_each_form_of_its_input(tmp_path, name, text):
    definition = plain("echo", "sh", "-c", 'cp "$TARMAC_INPUT" "$TARMAC_RESULT"')
    (tmp_path / "echo.json").write_text(json.dumps(definition))
    (tmp_path / name).write_text(text)
    line = ["run", str(tmp_path / "echo.json"), "--input", str(tmp_path / name)]
    line += ["--result", str(tmp_path / "result.json"), "--output", str(tmp_path / "runs")]
    with pytest.raises(SystemExit) as ended:
        main(line)
    assert ended.value.code == 0
    assert json.loads((tmp_path / "result.json").read_text()) == ASKED


def test_a_key_that_an_input_does_not_have_is_refused_where_it_stands(tmp_path, capsys):
    (tmp_path / "echo.json").write_text(json.dumps(plain("echo", "true")))
    (tmp_path / "in.json").write_text(SEED.replace("taskId", "taskid"))
    with pytest.raises(SystemExit) as ended:
        main(["run", str(tmp_path / "echo.json"), "--input", str(tmp_path / "in.json")])
    assert ended.value.code == 2
    first = capsys.readouterr().err.splitlines()[0]
    assert first == (
        f"error: --input {tmp_path}/in.json:1:{SEED.index('taskId') + 1}: unknown key of an "
        "algorithm's input 'taskid', did you mean 'taskId'?"
    )


def test_a_second_run_with_the_same_task_id_goes_on_with_the_task(tarmac, tmp_path):
    serve = [forked_interpreter(), "-m", "tarmac", "hkube", "serve", "digits-mlp"]
    definition = plain("digits", *serve)
    del definition["options"]["tarmac"]["protocol"], definition["mem"]
    (tmp_path / "digits.json").write_text(json.dumps(definition))
    asked = "{input:[{train_size:64,output:'PLACE',num_epochs:2}], taskId:'a1'}"
    (tmp_path / "in.json").write_text(asked.replace("PLACE", f"{tmp_path}/training_1"))
    results, said = [], []
    for _ in range(2):
        code, out, err = tarmac("run", "digits.json", "--input", "in.json", "--json")
        assert code == 0, err
        (row,) = json.loads(out)
        results.append(row["result"])
        said.append("".join(log.read_text() for log in (tmp_path / "runs").rglob("std*")))
    assert results[0] == results[1]
    assert results[0]["output"] == f"{tmp_path}/training_1/a1/model.safetensors"
    assert ["a1 is already completed" in text for text in said] == [False, True]


def test_a_pipelines_result_is_written_and_said_as_json(tarmac, tmp_path):
    line = ("run", "pipeline.json", "--algorithms", "algorithms")
    code, out, err = tarmac(*line, "--result", "result.json", "--json")
    assert code == 0, err
    (said,) = json.loads(out)
    rows = [{"nodeName": "last", "algorithmName": "last", "result": [[2, 4]]}]
    assert said["result"] == json.loads((tmp_path / "result.json").read_text()) == rows
    assert said["counts"] == {"succeeded": 3}
    assert sorted(task["name"] for task in said["tasks"]) == ["double[1]", "double[2]", "last"]


def test_an_algorithm_that_speaks_hkubes_protocol_is_kept_warm(tarmac, tmp_path):
    said = {"command": [sys.executable, "-u", str(WRAPPED)]}
    wrapped = {"name": "who", "cpu": 0.1, "mem": "256Mi", "options": {"tarmac": said}}
    pipeline = {
        "name": "who",
        "nodes": [{"nodeName": "a", "algorithmName": "who", "input": ["who", "#[1...5]"]}],
    }
    tarmac.define(wrapped)
    (tmp_path / "pipeline.json").write_text(json.dumps(pipeline))
    line = ("run", "pipeline.json", "--algorithms", "algorithms", "--jobs", "1", "--json")
    code, out, err = tarmac(*line)
    assert code == 0, err
    rows = json.loads(out)[0]["result"]
    assert sorted(row["result"]["name"] for row in rows) == [1, 2, 3, 4, 5]
    assert len({row["result"]["pid"] for row in rows}) == 1
    # Its tasks share what it prints.
    assert tarmac("logs", "latest")[1].count("ready\n") == 1


def test_a_pipeline_that_fails_says_why_and_is_resumed(tarmac, tmp_path):
    tarmac.define(plain("last", "sh", "-c", "echo told you >&2; exit 3"))
    code, out, err = tarmac("run", "pipeline.json", "--algorithms", "algorithms")
    assert code == 1
    assert "failed: last: " in err
    assert "Run the failed tasks again: tarmac run --resume" in err
    assert "| told you" in out
    assert json.loads((the_run(tmp_path) / "result.json").read_text())["status"] == "failed"
    code, out, err = tarmac("run", "--resume", "latest", "--dry-run")
    assert (code, out.splitlines()[0]) == (
        0,
        "2 tasks have succeeded and are not run again with the same input",
    )
    code, out, err = tarmac("run", "--resume", "latest")
    # Its definition is the run's own by now, so it fails as before.
    assert code == 1
    assert "before     2 tasks have ended and are not run again" in out
    assert sorted((the_run(tmp_path) / "calls").read_text().split()) == ["1", "2"]
    assert "failed" in tarmac("ps", "--all")[1]


def test_a_pipeline_whose_runner_is_killed_leaves_nothing_and_goes_on_where_it_was(
    start, tarmac, tmp_path
):
    nap = f"721.{os.getpid()}"
    start.define(sleeping(nap))
    process = start("run", "pipeline.json", "--algorithms", "algorithms")
    wait_until(lambda: len(sleepers(nap)) == 2, "both programs to sleep")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    wait_until(lambda: not sleepers(nap), "the end of the sleeping programs")
    run = the_run(tmp_path)
    assert json.loads(tarmac("ps", "--all", "--json")[1])[0]["state"] == "interrupted"
    (run / "awake").touch()
    # All that it needs is in its directory.
    (tmp_path / "pipeline.json").unlink()
    (tmp_path / "algorithms/double.json").unlink()
    code, _, err = tarmac("run", "--resume", str(run))
    assert code == 0, err
    assert json.loads((run / "result.json").read_text())["data"][0]["result"] == [[2, 4]]
    assert sorted((run / "calls").read_text().split()) == ["1", "2"]
    assert json.loads(tarmac("ps", "--all", "--json")[1])[0]["state"] == "succeeded"


def test_a_pipeline_that_is_interrupted_ends_its_tasks_and_can_go_on(start, tarmac, tmp_path):
    nap = f"722.{os.getpid()}"
    start.define(sleeping(nap))
    process = start("run", "pipeline.json", "--algorithms", "algorithms")
    wait_until(lambda: len(sleepers(nap)) == 2, "both programs to sleep")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130
    assert "Resume the remaining tasks: tarmac run --resume" in err
    assert not sleepers(nap)
    (the_run(tmp_path) / "awake").touch()
    assert tarmac("run", "--resume", "latest")[0] == 0


def test_a_submitted_pipeline_is_listed_followed_and_ended(start, tarmac, tmp_path):
    nap = f"723.{os.getpid()}"
    start.define(sleeping(nap))
    code, out, err = tarmac("submit", "pipeline.json", "--algorithms", "algorithms")
    assert code == 0, err
    assert out.startswith("numbers: pipeline of 2 nodes")
    wait_until(lambda: len(sleepers(nap)) == 2, "both programs to sleep")
    (row,) = json.loads(tarmac("ps", "--json")[1])
    states = {task["name"]: task["state"] for task in row["tasks"]}
    assert states == {"double[1]": "succeeded", "double[2]": "succeeded", "last": "running"}
    assert "doubling 1" in tarmac("logs", "latest", "double[1]")[1]
    code, out, err = tarmac("cancel", "latest")
    assert out.startswith("ended numbers-"), err
    assert not sleepers(nap)
    assert "interrupted" in tarmac("ps", "--all")[1]


def test_a_dry_run_says_which_tasks_are_known_and_which_depend_on_results(tarmac, tmp_path):
    line = ("run", "pipeline.json", "--algorithms", "algorithms", "--dry-run")
    code, out, err = tarmac(*line)
    assert code == 0, err
    assert "double: double, 2 tasks" in out
    assert "double[2] [2]" in out
    assert "last: last after double, 1 task\n    its input depends on results" in out
    first, last = json.loads(tarmac(*line, "--json")[1])
    assert (first["num_tasks"], first["inputs"]) == (2, [[1], [2]])
    assert (last["depends_on"], last["inputs"]) == (["double"], None)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pipeline.json", "--result", "no/where.json"], "there is no folder no"),
        (["pipeline.json", "--result", "algorithms"], "--result algorithms is a folder"),
        (["job.yaml", "--result", "x.json"], "only one HKube algorithm or pipeline has a result"),
        (["--resume", "latest", "--input", "x.json"], "--input cannot be changed"),
        (["--resume", "latest", "--algorithms", "x"], "--algorithms cannot be changed"),
        (["pipeline.json", "--algorithms", "none"], "--algorithms none is not a folder"),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_what_cannot_be_is_refused_before_anything_starts(tarmac, tmp_path, arguments, message):
    (tmp_path / "job.yaml").write_text("{name: x, command: [echo, hello]}")
    if "--algorithms" not in arguments and "--resume" not in arguments:
        arguments = [*arguments, "--algorithms", "algorithms"]
    code, _, err = tarmac("run", *arguments)
    assert (code, message in err) == (2, True), err
    assert not (tmp_path / "runs").exists()


def work(name: str, index: int = 0, **fields) -> Work:
    made = {"task_id": "t", "algorithm": "alg", "input": [], "job_id": "j", "pipeline": "p"}
    return Work(index=index, name=name, node=name.partition("[")[0], **made | fields)


def test_the_table_on_a_terminal_shows_running_tasks_and_how_far_they_are(tmp_path):
    progress = _LiveProgress(tmp_path, Console(), follow=False)
    for index, name in enumerate(["fit[1]", "fit[2]"]):
        directory = tmp_path / f"instances/00000{index}-alg"
        directory.mkdir(parents=True)
        (directory / "stdout").write_text("loss 0.25\n")
        progress.started(work(name, index), 1, directory, ())
    progress.progress(work("fit[2]", 1), 0.5, "epoch 3")
    console = Console(width=100)
    with console.capture() as shown:
        console.print(progress.render())
    lines = [line.split() for line in shown.get().splitlines()]
    assert lines[1] == ["fit[1]", "0", "s", "000000-alg", "loss", "0.25"]
    assert lines[2] == ["fit[2]", "0", "s", "000001-alg", "50%", "epoch", "3"]
    assert lines[3] == ["0", "tasks", "done"]


def test_what_tasks_print_is_read_while_they_run_and_not_for_ever(tmp_path, monkeypatch):
    console = Console(width=100)
    progress = PipelineProgress(tmp_path, console, follow=True, quiet=False, keeps_rows=False)
    with console.capture() as shown:
        for index in range(3):
            directory = tmp_path / f"instances/{index:06d}-alg"
            directory.mkdir(parents=True)
            one = work(f"fit[{index}]", index)
            progress.started(one, 1, directory, ())
            (directory / "stdout").write_text("hello\n")
            progress.waited()
            (directory / "stdout").open("a").write("bye\n")
            progress.ended(Ending(work=one))
        reads = []
        monkeypatch.setattr(Tail, "read", reads.append)
        progress.waited()
        assert not reads
        monkeypatch.undo()
        (tmp_path / "instances/000000-alg/stdout").open("a").write("at the end\n")
        progress.close()
    lines = shown.get().splitlines()
    assert [line.split(": ")[1] for line in lines if " | " in line] == [
        *(["hello", "bye"] * 3),
        "at the end",
    ]


def test_the_tasks_of_a_large_batch_are_counted_and_not_listed(tmp_path):
    console = Console(width=100)
    progress = PipelineProgress(tmp_path, console, follow=False, quiet=False, keeps_rows=False)
    with console.capture() as shown:
        for index in range(1000):
            one = work(f"fit[{index}]", index)
            progress.started(one, 1, tmp_path, ())
            why = "error" if index >= 990 else ""
            progress.ended(Ending(work=one, why=why, message="no luck" if why else ""))
        progress.close()
    lines = shown.get().splitlines()
    assert lines[-1] == "  fit: 990 succeeded, 10 failed"
    assert sum("succeeded  fit" in line for line in lines) == 20
    assert sum("failed     fit" in line for line in lines) == 5
    assert len(lines) < 70


def test_a_disk_that_tasks_have_filled_is_named_and_the_run_goes_on_once_there_is_room(
    start, small_disk
):
    disk = small_disk("600k")
    start.define(plain("fill", sys.executable, "-c", _FILL))
    Path(disk.parent / "input.json").write_text("[]")
    options = ("run", "algorithms/fill.json", "--input", "input.json", "--output", str(disk))
    process = start(*options)
    _, said = process.communicate(timeout=limit_s(120))
    assert process.returncode == 1
    assert re.search(rf"^error: no space left to write {disk}/\S+$", said, re.MULTILINE), said
    small_disk("8m")
    process = start("run", "--resume", "latest", "--output", str(disk))
    out, said = process.communicate(timeout=limit_s(120))
    assert process.returncode == 0, said
    assert out.splitlines()[-1] == "null"
