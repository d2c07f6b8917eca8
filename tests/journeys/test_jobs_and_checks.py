"""Jobs from their plan to the last retry, checks with a finding, the browser and a cluster."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from prepared import write_page

import tarmac as api
from forked import start_python

SWEEP = """
name: rates
command: 'test -n "$TOKEN" && test -e ../../../go-{{ rate }} && echo {{ rate }} > rate.txt'
sweep: {grid: {rate: [1, 2]}}
secrets: {TOKEN: {name: tracker, key: token}}
outputs: [{path: rate.txt, to: "run:rates/{{ rate }}.txt"}]
"""


def write(name: str, text: str) -> Path:
    Path(name).write_text(text)
    return Path(name)


def test_a_sweep_with_a_secret_is_planned_run_in_part_and_ended_by_a_resume(tarmac, monkeypatch):
    write("job.yaml", SWEEP)
    code, _, err = tarmac("run", "job.yaml")
    assert (code, "Name one: --secret tracker/token=env:VARIABLE" in err) == (2, True)
    monkeypatch.setenv("MY_TOKEN", "hunter2hunter2")
    words = ("run", "job.yaml", "--secret", "tracker/token=env:MY_TOKEN")
    code, out, _ = tarmac(*words, "--dry-run")
    assert (code, out.count("rates[rate="), Path("runs").exists()) == (0, 2, False)
    assert tarmac(*words)[0] == 1
    (run,) = Path("runs").iterdir()
    (run / "go-1").touch()
    code, out, _ = tarmac("run", "--resume", "latest", "--secret", "tracker/token=env:MY_TOKEN")
    assert (code, "1 succeeded, 1 failed" in out or "1 failed, 1 succeeded" in out) == (1, True), (
        out
    )
    (run / "go-2").touch()
    code, out, _ = tarmac("run", "--resume", "latest", "--secret", "tracker/token=env:MY_TOKEN")
    assert code == 0, out
    assert "rates[rate=1]" not in out.replace("rates[rate=1]  already", "")
    kept = b"".join(path.read_bytes() for path in run.rglob("*") if path.is_file())
    assert b"hunter2" not in kept
    assert "succeeded" in tarmac("ps", "--all")[1]
    assert tarmac("report", "latest")[0] == 0


@pytest.mark.parametrize(
    ("text", "words", "answer"),
    [
        ("{name: x, comand: echo}", (), "did you mean 'command'?"),
        ("{name: x, command: echo, resources: {gpus: 64}}", (), "GPU"),
        ("{name: x, command: echo", (), "job.yaml:"),
        ("{name: x, command: echo}", ("--on", "slrum"), "did you mean 'slurm'?"),
        ("{name: x, command: echo}", ("--set", "resourses.gpus=1"), "resourses"),
        ("{name: x, tasks: [{name: a, command: a, needs: [b]}]}", (), "'b'"),
    ],
)
def test_a_job_that_cannot_run_is_refused_with_the_place_and_what_is_valid(
    tarmac, text, words, answer
):
    write("job.yaml", text)
    code, _, err = tarmac("run", "job.yaml", *words)
    assert (code, answer in err) == (2, True), err
    assert not Path("runs").exists()


def test_a_task_that_fails_is_found_with_its_log_and_its_reason(tarmac):
    write("job.yaml", "{name: x, command: 'echo CUDA out of memory >&2; exit 3'}")
    code, out, err = tarmac("run", "job.yaml")
    assert (code, "3" in out, "tarmac run --resume" in err) == (1, True, True)
    code, out, _ = tarmac("logs", "latest", "--stderr")
    assert (code, out) == (0, "CUDA out of memory\n")
    code, out, _ = tarmac("ps", "--all", "--json")
    assert json.loads(out)[0]["tasks"][0]["state"] == "failed"


def test_what_one_task_makes_the_next_is_given(tarmac):
    write("input.txt", "words")
    write(
        "job.yaml",
        "name: x\n"
        "tasks:\n"
        "- {name: a, command: tr a-z A-Z < input.txt > loud.txt, inputs: [{from: input.txt}],"
        " outputs: [{path: loud.txt, to: 'run:made'}]}\n"
        "- {name: b, needs: [a], command: cat loud.txt, inputs: [{from: 'run:made/loud.txt'}]}\n",
    )
    code, out, err = tarmac("run", "job.yaml", "--follow")
    assert (code, "WORDS" in out) == (0, True), out + err


def test_a_job_is_submitted_seen_at_work_and_cancelled(tarmac):
    write("job.yaml", "{name: asleep, command: sleep 600}")
    code, out, _ = tarmac("submit", "job.yaml")
    assert (code, "tarmac logs latest --follow" in out) == (0, True)
    assert "asleep" in tarmac("ps")[1]
    code, out, _ = tarmac("cancel", "latest")
    assert (code, out.startswith("ended asleep-")) == (0, True)
    assert "no job is active" in tarmac("ps")[1]


def test_a_program_of_hkubes_is_run_and_written_for_hkube(tarmac):
    write_page("docs/hkube.md", Path.cwd())
    write_page("docs/hkube-serve.md", Path.cwd())
    words = ("run", "count.json", "--input", "words.json", "--result", "result.json")
    assert tarmac(*words)[0] == 0
    assert json.loads(Path("result.json").read_text()) == 5
    code, out, _ = tarmac("convert", "train.yaml", "--to", "hkube")
    assert (code, json.loads(out)["name"]) == (0, "train-digits")


def test_a_recipe_of_batch_shipyard_becomes_a_job_that_is_planned(tarmac):
    write_page("docs/shipyard.md", Path.cwd())
    code, out, _ = tarmac("convert", "recipe")
    assert code == 0
    write("job.yaml", out)
    code, out, _ = tarmac("run", "job.yaml", "--dry-run")
    assert (code, out.count("--unit")) == (0, 3), out
    code, _, err = tarmac("run", "job.yaml")
    assert (code, "neither docker nor podman is here" in err) == (2, True)


def test_a_log_is_read_and_its_failure_explained(tarmac):
    write("train.log", "epoch 1\nRuntimeError: CUDA error: out of memory\n")
    code, out, _ = tarmac("check", "--read", "train.log")
    assert (code, "line 2: " in out, "1 failure found" in out) == (1, True, True), out
    codes = [word.strip("[]") for word in out.split() if word.startswith("[") and "]" in word]
    code, out, _ = tarmac("check", "--explain", codes[0])
    assert code == 0
    code, _, err = tarmac("check", "--explain", "xid-rest")
    assert (code, "did you mean 'xid-reset'?" in err) == (2, True)


def test_a_machine_with_a_worn_gpu_fails_its_check_with_a_finding(on_machine):
    done = subprocess.run(
        [sys.executable, "-m", "tarmac", "check", "--quick", "--json"],
        env=on_machine("memory-worn"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    findings = json.loads(done.stdout)["findings"]
    assert any(finding["fix"] for finding in findings)


def test_what_is_required_and_is_not_there_fails_a_gate(tarmac, monkeypatch):
    from nearest import end_soon

    end_soon(monkeypatch)
    code, out, _ = tarmac("check", "--quick", "--require", "gpus>=1", "--brief")
    assert (code, "gpus" in out) == (1, True)
    code, out, _ = tarmac("check", "--quick", "--require", "cpus>=1", "--require", "pytorch")
    assert code == 0


@pytest.fixture
def served():
    """Serve a run by a process; yield the address to open, and the run's name."""
    run = api.train("digits-mlp", epochs=1)
    with start_python("-m", "tarmac", "serve", "--json", stdout=subprocess.PIPE) as process:
        try:
            yield json.loads(process.stdout.readline())["url"], run.path.name
        finally:
            process.send_signal(signal.SIGINT)


@pytest.fixture
def chromium():
    path = shutil.which("chromium", path=os.defpath + ":/usr/bin:/usr/local/bin:/snap/bin")
    return path or pytest.skip("no browser is here; provide one: sudo apt install chromium")


def test_a_run_is_opened_in_a_browser_by_the_address_that_is_printed(chromium, served):
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    url, name = served
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(url)
        page.get_by_text(name).first.click()
        playwright.expect(page.get_by_text("test_accuracy").first).to_be_visible()
        browser.close()


@pytest.mark.slurm
def test_a_job_runs_on_a_cluster_that_is_tried_on_this_machine(monkeypatch, start_slurm):
    write("job.yaml", "{name: x, command: 'echo on $SLURMD_NODENAME', sweep: {grid: {n: [1, 2]}}}")
    programs = sysconfig.get_path("scripts")
    monkeypatch.setenv("PATH", f"{programs}:{os.defpath}:/usr/bin:/usr/sbin")
    tried = (sys.executable, "-m", "tarmac", "cluster", "try", "slurm", "--")
    done = subprocess.run(
        [*tried, "tarmac", "run", "--on", "slurm", "job.yaml"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 succeeded" in done.stdout
    (run,) = Path("runs").iterdir()
    printed = [path.read_text() for path in run.glob("tasks/*/stdout")]
    assert len(printed) == 2
    assert set(printed) <= {"on n1\n", "on n2\n"}
