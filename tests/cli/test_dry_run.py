"""``tarmac run --dry-run`` says what a run would be refused for."""

from __future__ import annotations

import json
import re

import pytest

LACKS = {
    "secrets: {TOKEN: {env: TARMAC_NO_SUCH_VARIABLE}}": "the variable TARMAC_NO_SUCH_VARIABLE is",
    "secrets: {TOKEN: {file: no-token}}": "no-token: No such file",
    "inputs: [{from: no-data.csv}]": "input no-data.csv: no such file",
    "environment: {image: i, engine: apptainer}": "apptainer runs containers on clusters only",
    "environment: {image: i, engine: pyxis}": "pyxis runs containers on clusters only",
    "resources: {cpus: 90000}": "task 'x' needs 90,000 CPUs, this machine has ",
    "resources: {memory: 9000TiB}": "task 'x' needs 9216000.0 GiB of memory, this machine has ",
    "resources: {gpus: 900}": "task 'x' needs 900 GPUs",
    "resources: {nodes: 2}": "task 'x' needs 2 nodes, and this is one machine",
}


@pytest.mark.parametrize(("rest", "said"), LACKS.items())
def test_a_dry_run_says_what_is_not_there(tarmac, tmp_path, monkeypatch, rest, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.yaml").write_text(f"{{name: x, command: 'true', {rest}}}")
    code, out, err = tarmac("run", "job.yaml", "--dry-run")
    assert (code, "$ sh -c true" in out) == (0, True)
    assert f"cannot be run here: {'secret for TOKEN: ' * ('secrets' in rest)}{said}" in err
    code, out, err = tarmac("run", "job.yaml", "--dry-run", "--json")
    assert said in "".join(json.loads(out)[0]["refusals"])
    code, out, err = tarmac("run", "job.yaml")
    assert (code, said in err, [*tmp_path.glob("runs/*")]) == (2, True, [])


def test_a_dry_run_says_of_each_kind_of_tasks_once_that_it_never_fits(tarmac, tmp_path):
    tasks = ", ".join(
        f"{{name: {name}, command: 'true', resources: {{{needs}}}, sweep: {{repeat: 3}}}}"
        for name, needs in (("a", "cpus: 90000"), ("b", "gpus: 3"), ("c", "cpus: 1"))
    )
    (tmp_path / "job.yaml").write_text(f"{{name: x, tasks: [{tasks}]}}")
    said = ["task 'a[repeat=0]' needs 90,000 CPUs", "task 'b[repeat=0]' needs 3 GPUs"]
    for words in ((), ("--fake-gpus", "2")):
        _, _, err = tarmac("run", str(tmp_path / "job.yaml"), "--dry-run", *words)
        lines = [line for line in err.splitlines() if line.startswith("cannot be run here")]
        assert len(lines) == len(said)
    assert all(text in line for text, line in zip(said, lines, strict=True))
    _, _, err = tarmac("run", str(tmp_path / "job.yaml"), "--dry-run", "--fake-gpus", "3")
    assert "GPUs, this machine has" not in err
    _, _, err = tarmac("run", str(tmp_path / "job.yaml"), "--dry-run", "--on", "slurm")
    assert "this machine" not in err


def test_a_dry_run_of_what_is_left_of_a_run_says_what_never_fits_here(tarmac, tmp_path):
    job = "{name: x, command: 'false', resources: {gpus: 1}}"
    (tmp_path / "job.yaml").write_text(job)
    output = ("--output", str(tmp_path / "runs"))
    assert tarmac("run", str(tmp_path / "job.yaml"), "--fake-gpus", "1", *output)[0] == 1
    code, _, err = tarmac("run", "--resume", "latest", "--dry-run", *output)
    assert (code, "cannot be run here" in err) == (0, True)


def test_a_dry_run_says_that_no_container_engine_is_here(tarmac, tmp_path, monkeypatch):
    monkeypatch.setattr("tarmac.environments.engines._first", lambda names: None)
    (tmp_path / "job.yaml").write_text("{name: x, command: 'true', environment: {image: i}}")
    _, _, err = tarmac("run", "job.yaml", "--dry-run")
    assert "cannot be run here: neither docker nor podman is here" in err
    _, _, err = tarmac("run", "job.yaml", "--dry-run", "--on", "kubernetes")
    assert "cannot be run here" not in err


def test_a_dry_run_shows_the_names_that_jobs_of_a_cluster_begin_with(tarmac, tmp_path, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    job = "{name: sweep, command: 'true', environment: {image: i}}"
    (tmp_path / "job.yaml").write_text(job)
    _, out, _ = tarmac("run", "job.yaml", "--on", "kubernetes", "--dry-run")
    assert "tarmac.dev/job: sweep\n" in out
    assert re.search(r"name: sweep-[0-9a-f]+-0000\n", out)


@pytest.mark.parametrize("workload", ["digit-mlp", "nope.py:workload"])
def test_a_dry_run_says_that_a_workload_is_not_there(tarmac, tmp_path, monkeypatch, workload):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.yaml").write_text(f"{{name: x, workload: '{workload}'}}")
    _, _, err = tarmac("run", "job.yaml", "--dry-run")
    assert "cannot be run here: task 'x': " in err
    code, _, err = tarmac("run", "job.yaml")
    assert (code, [*tmp_path.glob("runs/*")]) == (2, [])
