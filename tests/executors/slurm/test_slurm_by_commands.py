"""`tarmac run` and `submit` on a real Slurm: what they print, and let go of."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from by_commands import (
    WITHIN_S,
    queued_names,
    start,
    the_run,
    wait_for,
    wait_for_lines,
    write_gated,
    write_job,
)


def test_a_dry_run_shows_what_sbatch_would_get_and_makes_nothing(tarmac, on_cluster, tmp_path):
    write_job("{name: x, command: [echo, hello], sweep: {repeat: 120}, timeout: 10m}")
    words = ("--on", "slurm", "--set", "options.slurm.partition=main", "--jobs", "3")
    shown = tarmac("run", "job.yaml", "--dry-run", *words)
    assert shown.returncode == 0, shown.stderr
    assert "  and 20 more of x; --json shows all" in shown.stdout
    script = shown.stdout.partition("#!/bin/sh\n")[2].splitlines()
    assert "#SBATCH --array=0-119%3" in script
    assert "#SBATCH --partition=main" in script
    assert f"#SBATCH --chdir={tmp_path}/runs/x-RUN" in script
    assert script[-2].startswith(f"exec sh {tmp_path}/runs/x-RUN/agent.pyz")
    assert not Path("runs").exists()
    # Slurm itself takes what was shown.
    given = Path("shown.sh")
    given.write_text(shown.stdout[shown.stdout.index("#!/bin/sh") :])
    on_cluster.run("sbatch", "--test-only", str(given))


def test_very_many_tasks_are_shown_by_their_first_files(tarmac):
    write_job("{name: x, command: [echo, hello], sweep: {repeat: 20000}}")
    shown = tarmac("run", "job.yaml", "--dry-run", "--on", "slurm")
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.count("#!/bin/sh") == 10
    assert shown.stdout.splitlines()[-1] == "and 10 more files, 20 in all"


def test_a_profile_says_where_tasks_run_and_its_options_go_on_record(tarmac, monkeypatch):
    Path("settings.toml").write_text(
        "[profiles.cluster]\non = 'slurm'\n[profiles.cluster.slurm]\npartition = 'main'\n"
    )
    monkeypatch.setenv("TARMAC_SETTINGS_FILE", "settings.toml")
    write_job("{name: x, command: 'echo $SLURM_JOB_PARTITION'}")
    done = tarmac("run", "job.yaml", "--profile", "cluster")
    assert done.returncode == 0, done.stdout + done.stderr
    record = json.loads((the_run() / "job-run.json").read_text())
    assert record["executor"] == "slurm"
    assert record["job"]["options"] == {"slurm": {"partition": "main"}}
    assert tarmac("logs", "latest").stdout == "main\n"


@pytest.mark.slurm
def test_a_run_whose_disk_was_full_says_how_to_go_on_and_does(tarmac, small_disk):
    disk = small_disk("200k")
    write_job("{name: x, command: [echo, hello], sweep: {repeat: 3}}")
    full = tarmac("run", "job.yaml", "--on", "slurm", "--output", str(disk))
    assert full.returncode == 1
    assert f"no space left to write {disk}/x-" in full.stderr
    (run,) = disk.glob("x-*")
    assert full.stderr.splitlines()[-1] == f"  Then resume it: tarmac run --resume {run}"
    small_disk("8m")
    again = tarmac("run", "--resume", str(run))
    assert again.returncode == 0, again.stdout + again.stderr
    assert again.stdout.splitlines()[-1] == f"3 succeeded  {run}"


def test_ctrl_c_leaves_tasks_to_slurm_and_a_resumed_run_takes_them_up(tarmac, on_cluster, tmp_path):
    write_gated(tmp_path / "gate")
    with start("run", "job.yaml", "--on", "slurm") as running:
        wait_for_lines(tmp_path / "gate.begun", 1)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=WITHIN_S)
    run = the_run()
    assert running.returncode == 130, out + err
    first, *rest = err.splitlines()
    assert first.endswith(
        "queued on a Slurm cluster, and continue. Ctrl-C again within 5 s cancels them."
    )
    assert rest == [
        f"detached from {run.name}",
        f"  Resume it: tarmac run --resume {run}",
        f"  Cancel it: tarmac cancel {run}",
    ]
    assert len(queued_names(on_cluster)) == 1
    (row,) = json.loads(tarmac("ps", "--json").stdout)
    assert row["state"] == "detached"
    (tmp_path / "gate").touch()
    done = tarmac("run", "--resume", str(run))
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "gate.begun").read_text() == "begun\n"


@pytest.mark.slurm
def test_ctrl_c_twice_ends_the_tasks(tarmac, on_cluster, tmp_path):
    write_gated(tmp_path / "gate", num=12)
    with start("run", "job.yaml", "--on", "slurm") as running:
        wait_for_lines(tmp_path / "gate.begun", 1)
        running.send_signal(signal.SIGINT)
        assert "Ctrl-C again" in running.stderr.readline()
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=WITHIN_S)
    assert running.returncode == 130
    assert err.splitlines() == [
        "interrupted",
        f"  Resume the remaining tasks: tarmac run --resume {the_run()}",
    ]
    wait_for(lambda: not queued_names(on_cluster), "nothing of it is left in the queue")


@pytest.mark.slurm
def test_sigterm_leaves_tasks_to_slurm_at_once(tarmac, on_cluster, tmp_path):
    write_gated(tmp_path / "gate")
    with start("run", "job.yaml", "--on", "slurm") as running:
        wait_for_lines(tmp_path / "gate.begun", 1)
        running.terminate()
        _, err = running.communicate(timeout=WITHIN_S)
    assert err.splitlines()[0] == f"detached from {the_run().name}"
    assert len(queued_names(on_cluster)) == 1
    cancelled = tarmac("cancel", "latest")
    assert cancelled.returncode == 0, cancelled.stderr
    wait_for(lambda: not queued_names(on_cluster), "nothing of it is left in the queue")
