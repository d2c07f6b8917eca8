"""HKube's pipelines on a real Slurm: hosted on its nodes, disturbed, left, and gone on with."""

from __future__ import annotations

import json
import re
import signal
import sys
from collections import Counter
from pathlib import Path

import pytest
from by_commands import WITHIN_S, start, the_run, wait_for, wait_for_lines

pytest.importorskip("bson", reason="needs pip install 'tarmac-gpu[hkube]'")

pytestmark = pytest.mark.slurm

# What is put back begins again without a pause of two minutes.
SETTINGS = ("AuthInfo=cred_expire=5",)

WRAPPED = Path(__file__).parents[2] / "hkube/hosting/algorithm.py"

# Notes that it was called, waits for a gate where the test has one, and doubles its first input.
_DOUBLE = """
import json, os, pathlib, sys, time
(first,) = json.load(open(os.environ["TARMAC_INPUT"]))
here = pathlib.Path(sys.argv[1])
with open(here / "calls", "a") as calls:
    calls.write(f"{first}\\n")
print("doubling", first, flush=True)
while (here / "gated").exists() and not (here / "gate").exists():
    time.sleep(0.05)
json.dump(first * 2, open(os.environ["TARMAC_RESULT"], "w"))
"""

_SUM = """
import json, os
(numbers,) = json.load(open(os.environ["TARMAC_INPUT"]))
json.dump(sum(numbers), open(os.environ["TARMAC_RESULT"], "w"))
"""


def define(name: str, *command: str, protocol: str = "plain", **more: object) -> None:
    said = {"protocol": protocol, "command": [*command]}
    value = {"name": name, "cpu": 0.5, "mem": "256Mi", "options": {"tarmac": said}, **more}
    Path(f"algorithms/{name}.json").write_text(json.dumps(value))


@pytest.fixture
def numbers(tarmac, tmp_path):
    """Return the command line, in a directory with a pipeline that doubles numbers and adds up."""
    Path("algorithms").mkdir()
    define("double", sys.executable, "-c", _DOUBLE, str(tmp_path))
    define("add", sys.executable, "-c", _SUM)
    nodes = [
        {"nodeName": "double", "algorithmName": "double", "input": ["#@flowInput.numbers"]},
        {"nodeName": "add", "algorithmName": "add", "input": ["@double"]},
    ]
    pipeline = {"name": "numbers", "nodes": nodes, "flowInput": {"numbers": [1, 2, 3]}}
    Path("pipeline.json").write_text(json.dumps(pipeline))
    return tarmac


RUN = ("run", "pipeline.json", "--algorithms", "algorithms", "--on", "slurm")


def calls() -> Counter[str]:
    return Counter(Path("calls").read_text().split())


def test_a_pipeline_runs_on_slurms_nodes(numbers):
    done = numbers(*RUN, "--result", "result.json")
    assert done.returncode == 0, done.stdout + done.stderr
    (result,) = json.loads(Path("result.json").read_text())
    assert result["result"] == 12
    assert "4 succeeded" in done.stdout
    assert re.search(r"started    add on n[12] \(", done.stdout)
    assert calls() == {"1": 1, "2": 1, "3": 1}
    logs = numbers("logs", "latest", "double[2]").stdout
    assert "doubling 2" in logs


def test_an_algorithm_that_speaks_hkubes_protocol_is_hosted_on_its_node(numbers):
    Path("one").mkdir()
    algorithm = {"protocol": "hkube", "command": [sys.executable, str(WRAPPED)]}
    more = {"cpu": 0.5, "minHotWorkers": 3, "options": {"tarmac": algorithm}}
    Path("one/spoken.json").write_text(json.dumps({"name": "spoken", **more}))
    Path("input.json").write_text(json.dumps(["echo", {"a": [1.5, None]}, "é"]))
    line = ("run", "one/spoken.json", "--input", "input.json", "--on", "slurm", "--json")
    done = numbers(*line)
    assert done.returncode == 0, done.stdout + done.stderr
    (said,) = json.loads(done.stdout)
    assert said["result"] == [{"a": [1.5, None]}, "é"]
    assert numbers("logs", "latest").stdout == "ready\n"


def test_what_crashes_is_tried_again_and_an_error_is_told_in_its_words(numbers):
    define("double", sys.executable, str(WRAPPED), protocol="hkube")
    pipeline = json.loads(Path("pipeline.json").read_text())
    node = pipeline["nodes"][0]
    sign = str(Path("sign").resolve())
    node["input"] = ["fail_once", sign, ["leave", 3]]
    pipeline["nodes"] = [node]
    Path("pipeline.json").write_text(json.dumps(pipeline))
    done = numbers(*RUN, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    (said,) = json.loads(done.stdout)
    assert [(task["outcome"], task["attempts"]) for task in said["tasks"]] == [("succeeded", 2)]
    node["input"] = ["error", "no such sample"]
    Path("pipeline.json").write_text(json.dumps(pipeline))
    failed = numbers(*RUN)
    assert failed.returncode == 1
    assert "no such sample" in failed.stdout


def test_an_algorithm_that_starts_another_is_refused_in_words(numbers):
    define("double", sys.executable, str(WRAPPED), protocol="hkube")
    pipeline = json.loads(Path("pipeline.json").read_text())
    pipeline["nodes"] = [pipeline["nodes"][0] | {"input": ["call", "add", [[1]]]}]
    Path("pipeline.json").write_text(json.dumps(pipeline))
    failed = numbers(*RUN)
    assert failed.returncode == 1
    assert "it starts other algorithms or pipelines" in failed.stdout
    assert "tarmac run without --on" in failed.stdout


def test_what_no_node_has_is_refused_before_anything_starts(numbers):
    define("double", "true", cpu=1000)
    refused = numbers(*RUN)
    assert refused.returncode == 2
    assert "task 'double': Slurm refuses it" in refused.stderr
    assert not Path("runs").exists()
    wrong = numbers(*RUN, "--set", "options.slurm.partitoin=main")
    assert wrong.returncode == 2
    assert "options.slurm.partitoin" in wrong.stderr
    assert "did you mean 'partition'" in wrong.stderr


def test_options_of_the_engine_go_with_each_task(numbers, on_cluster):
    Path("gated").touch()
    with start(*RUN, "--set", "options.slurm.partition=main", "--jobs", "1") as running:
        wait_for_lines(Path("calls"), 1)
        assert on_cluster.run("squeue", "-h", "-o", "%P").split()[0] == "main"
        record = json.loads((the_run() / "job-run.json").read_text())
        assert record["job"]["options"] == {"slurm": {"partition": "main"}}
        Path("gate").touch()
        running.communicate(timeout=WITHIN_S)
    assert running.returncode == 0
    assert calls() == {"1": 1, "2": 1, "3": 1}


def test_a_killed_runner_is_followed_by_one_that_does_nothing_twice(numbers):
    Path("gated").touch()
    with start(*RUN) as running:
        wait_for_lines(Path("calls"), 3)
        running.kill()
        running.communicate(timeout=WITHIN_S)
    (shown,) = json.loads(numbers("ps", "--json").stdout)
    assert shown["state"] == "detached"
    with start("run", "--resume", "latest") as again:
        wait_for(
            lambda: json.loads(numbers("ps", "--json").stdout)[0]["state"] == "running",
            "another runner is at work",
        )
        Path("gate").touch()
        out, err = again.communicate(timeout=WITHIN_S)
    assert again.returncode == 0, out + err
    assert "4 succeeded" in out
    assert calls() == {"1": 1, "2": 1, "3": 1}


def test_what_ends_while_no_runner_lives_is_taken_as_it_is(numbers, on_cluster):
    Path("gated").touch()
    with start(*RUN) as running:
        wait_for_lines(Path("calls"), 3)
        running.kill()
        running.communicate(timeout=WITHIN_S)
    Path("gate").touch()
    wait_for(lambda: not on_cluster.run("squeue", "-h").split(), "they have ended")
    again = numbers("run", "--resume", "latest")
    assert again.returncode == 0, again.stdout + again.stderr
    assert calls() == {"1": 1, "2": 1, "3": 1}


def test_ctrl_c_leaves_tasks_to_slurm_and_cancel_ends_them(numbers, on_cluster):
    Path("gated").touch()
    with start(*RUN) as running:
        wait_for_lines(Path("calls"), 3)
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=WITHIN_S)
    assert running.returncode == 130
    assert "3 tasks run and 0 are queued on a Slurm cluster, and continue" in err
    assert "detached from" in err
    ended = numbers("cancel", "latest")
    assert ended.returncode == 0, ended.stderr
    wait_for(lambda: not on_cluster.run("squeue", "-h").split(), "they have ended")
    (shown,) = json.loads(numbers("ps", "--all", "--json").stdout)
    assert shown["state"] == "interrupted"
    Path("gate").touch()
    again = numbers("run", "--resume", "latest")
    assert again.returncode == 0, again.stdout + again.stderr
    assert "4 succeeded" in again.stdout
    assert calls() == {"1": 2, "2": 2, "3": 2}


def test_a_second_ctrl_c_ends_what_is_at_work(numbers, on_cluster):
    Path("gated").touch()
    with start(*RUN) as running:
        wait_for_lines(Path("calls"), 3)
        running.send_signal(signal.SIGINT)
        assert "Ctrl-C again" in running.stderr.readline()
        running.send_signal(signal.SIGINT)
        out, _ = running.communicate(timeout=WITHIN_S)
    assert running.returncode == 130
    assert "3 interrupted" in out
    # Slurm shows a job for a moment longer, as completing.
    wait_for(lambda: not on_cluster.run("squeue", "-h").split(), "they have ended")


def test_the_runner_of_a_submitted_pipeline_is_a_job_that_has_its_secrets(
    numbers, on_cluster, monkeypatch
):
    reference = {"secretKeyRef": {"name": "store", "key": "key"}}
    program = _DOUBLE + "assert len(os.environ['KEY']) == 14"
    here = str(Path.cwd())
    define("double", sys.executable, "-c", program, here, algorithmEnv={"KEY": reference})
    monkeypatch.setenv("HERE", "hunter2hunter2")
    line = ("submit", *RUN[1:], "--secret", "store/key=env:HERE", "--json")
    (made,) = json.loads(numbers(*line).stdout)
    assert f"JobId={made['runner_job']} " in on_cluster.run(
        "scontrol", "show", "job", made["runner_job"]
    )
    wait_for(
        lambda: json.loads(numbers("ps", "--all", "--json").stdout)[0]["state"] == "succeeded",
        "the run has succeeded",
    )
    assert json.loads(Path(made["path"], "result.json").read_text())["data"][0]["result"] == 12
    assert calls() == {"1": 1, "2": 1, "3": 1}
    for path in Path(made["path"]).rglob("*"):
        assert not path.is_file() or b"hunter2hunter2" not in path.read_bytes(), path


def test_a_task_that_slurm_puts_back_is_done_again_and_spends_no_retry(numbers, on_cluster):
    Path("gated").touch()
    pipeline = json.loads(Path("pipeline.json").read_text())
    pipeline["nodes"][0]["retry"] = {"policy": "Never"}
    Path("pipeline.json").write_text(json.dumps(pipeline))
    with start(*RUN, "--jobs", "1") as running:
        wait_for_lines(Path("calls"), 1)
        job = on_cluster.run("squeue", "-h", "-t", "R", "-o", "%A").strip()
        on_cluster.run("scontrol", "requeue", job)
        out = running.stdout.readline()
        while out and "requeued" not in out:
            out = running.stdout.readline()
        Path("gate").touch()
        out, err = running.communicate(timeout=WITHIN_S)
    assert running.returncode == 0, out + err
    assert "4 succeeded" in out
    assert calls() == {"1": 2, "2": 1, "3": 1}


def test_a_task_out_of_time_is_ended_on_its_node_and_not_tried_again(numbers, on_cluster):
    Path("gated").touch()
    pipeline = json.loads(Path("pipeline.json").read_text())
    pipeline["flowInput"]["numbers"] = [1]
    pipeline["nodes"][0]["ttl"] = 1
    Path("pipeline.json").write_text(json.dumps(pipeline))
    failed = numbers(*RUN, "--json")
    assert failed.returncode == 1
    (said,) = json.loads(failed.stdout)
    assert [(task["outcome"], task["attempts"]) for task in said["tasks"]] == [("failed", 1)]
    assert "TTL expired" in said["tasks"][0]["reason"]
    wait_for(lambda: not on_cluster.run("squeue", "-h").split(), "nothing is left")


def test_results_are_those_of_one_machine(numbers):
    double = {"algorithmName": "double"}
    nodes = [
        {"nodeName": "first", "input": ["#@flowInput.numbers"], **double},
        {"nodeName": "second", "input": ["*@first"], **double},
        {"nodeName": "third", "input": ["@second.1"], **double},
        {"nodeName": "add", "algorithmName": "add", "input": ["@second"]},
    ]
    pipeline = {"name": "numbers", "nodes": nodes, "flowInput": {"numbers": [1, 2.5, 3]}}
    Path("pipeline.json").write_text(json.dumps(pipeline))
    for place, name in (("local", "here.json"), ("slurm", "there.json")):
        done = numbers(*RUN[:-1], place, "--result", name)
        assert done.returncode == 0, done.stdout + done.stderr
    here = json.loads(Path("here.json").read_text())
    assert sorted(node["nodeName"] for node in here) == ["add", "third"]
    assert json.loads(Path("there.json").read_text()) == here
