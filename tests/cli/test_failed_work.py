"""What is said of a task's or a training's failure that the catalogue knows."""

from __future__ import annotations

import json

import pytest

import tarmac.checks as tarmac_checks
from tarmac.cli.failed_work import read_tails

KNOWN = "known failure: out of GPU memory [oom]. What to do: nvidia-smi"

MODEL = """
import os
import torch
from torch import nn
from tarmac.workloads import Adam, Recipe, Scale, Workload


class Failing(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 10)
        self.steps = 0

    def forward(self, inputs):
        self.steps += self.training
        if self.steps > 30:
            FAILS
        return self.layer(inputs.flatten(1))


def model() -> nn.Module:
    return Failing()


workload = Workload(
    name="failing",
    summary="fails at its thirtieth step",
    dataset="digits",
    model=model,
    recipe=Recipe(
        optimizer=Adam(learning_rate=3e-3, beta1=0.9, beta2=0.999, eps=1e-8),
        batch_size=32,
        epochs=3,
        preprocess=Scale(factor=1 / 16),
    ),
)
"""
# A worker that dies leaves its words in its log alone.
DIES = 'print("terminate called: CUDA out of memory.", flush=True); os._exit(7)'


@pytest.fixture
def failing(tmp_path):
    """Return a function that writes a workload whose model does what is asked when it fails."""

    def write(statement: str) -> str:
        (tmp_path / "failing.py").write_text(MODEL.replace("FAILS", statement))
        return "failing.py:workload"

    return write


def job(tmp_path, *commands: str) -> str:
    tasks = [{"name": f"t{n}", "command": command} for n, command in enumerate(commands)]
    (tmp_path / "job.yaml").write_text(json.dumps({"name": "x", "tasks": tasks}))
    return "job.yaml"


def test_a_failed_tasks_log_is_read_and_what_to_do_is_said_once(tarmac, tmp_path):
    fails = "echo CUDA out of memory; echo CUDA out of memory >&2; exit 3"
    code, out, _ = tarmac("run", job(tmp_path, fails, fails), "--jobs", "1")
    assert code == 1
    assert out.count(KNOWN) == 1
    assert out.count("known failure, as above: [oom]") == 1


def test_findings_are_in_a_jobs_json(tarmac, tmp_path):
    command = "echo CUDA out of memory; exit 3"
    _, out, _ = tarmac("run", job(tmp_path, command, "true"), "--json")
    found = {
        task["name"]: [f["code"] for f in task["findings"]] for task in json.loads(out)[0]["tasks"]
    }
    assert found == {"t0": ["oom"], "t1": []}


def test_a_task_that_succeeds_is_not_read(tarmac, tmp_path):
    code, out, _ = tarmac("run", job(tmp_path, "echo CUDA out of memory"))
    assert (code, "known failure" in out) == (0, False)


def test_a_failed_trainings_error_is_read(tarmac, failing):
    name = failing('raise RuntimeError("CUDA error: device-side assert triggered")')
    code, _, err = tarmac("train", name, "--no-check", "--device", "cpu")
    assert code == 1
    assert err.count("[device-assert]") == 1
    assert err.startswith("error: ")


def test_a_failed_trainings_json_has_its_findings(tarmac, failing):
    name = failing('raise RuntimeError("CUDA error: device-side assert triggered")')
    code, out, _ = tarmac("train", name, "--no-check", "--device", "cpu", "--json")
    result = json.loads(out)
    assert (code, result["status"]) == (1, "failed")
    assert [finding["code"] for finding in result["findings"]] == ["device-assert"]


@pytest.mark.usefixtures("forked_workers")
def test_what_a_lost_worker_printed_last_is_read(tarmac, failing):
    name = failing(DIES)
    code, _, err = tarmac("train", name, "--no-check", "--devices", "cpu:2", "--max-restarts", "0")
    assert code == 1
    assert err.count(KNOWN) == 1
    assert "lost a worker" in err


def test_a_flaw_in_reading_does_not_hide_the_failure(tarmac, tmp_path, monkeypatch):
    def broken(*_, **__):
        raise ValueError("cannot read")

    monkeypatch.setattr(tarmac_checks, "read_log", broken)
    code, out, err = tarmac("run", job(tmp_path, "echo CUDA out of memory; exit 3"))
    assert code == 1
    assert "exit code 3" in out
    assert "cannot read" not in out + err


def test_logs_that_are_missing_or_binary_are_passed_over(tmp_path):
    binary = tmp_path / "stdout"
    binary.write_bytes(bytes(range(256)) * 9)
    assert read_tails([tmp_path / "none", binary, tmp_path]) == []


PORT_IN_USE = (
    "The server socket has failed to listen on any local network address. port: 29500, useIpv6: "
    "false, code: -98, name: EADDRINUSE, message: address already in use"
)


def test_only_the_end_of_a_long_log_is_read(tmp_path):
    log = tmp_path / "stderr"
    log.write_text("CUDA out of memory\n" + "fine\n" * 100_000 + f"{PORT_IN_USE}\n")
    assert [finding.code for finding in read_tails([log])] == ["port-in-use"]
