"""A search by workers in a real Slurm: the same trials as locally, whatever befalls the workers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import psutil
import pytest

from gated_searches import results, search_here, steps, waiting, write_gated
from tarmac.studies import Study
from waiting import wait_until

# Each begins a dozen Pythons with PyTorch, and tests run beside it.
pytestmark = [pytest.mark.slurm, pytest.mark.timeout(900)]

# A job that is queued again waits for as long as its credential holds, else two minutes.
QUICK = (
    "AuthInfo=cred_expire=5",
    "SchedulerParameters=sched_min_interval=10000,sched_interval=1,bf_interval=1,batch_sched_delay=0",
    "SlurmdParameters=config_overrides",
)


@pytest.fixture(scope="module")
def cluster(start_slurm):
    return start_slurm(settings=QUICK, cpus=4)


@pytest.fixture
def place(tmp_path):
    write_gated(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """The results of the same search on this machine."""
    return search_here(tmp_path_factory.mktemp("local"))


@pytest.fixture
def start(cluster, place):
    """Return a function that starts a search on the cluster."""
    started = []

    def begin(*words, **variables):
        words = words or ("gated.py:gated", "--set", "hidden=8,13,16,24", "--method", "brute")
        options = ["--on", "slurm", "--workers", "4", "--output", str(place / "runs")]
        process = subprocess.Popen(
            [sys.executable, "-m", "tarmac", "search", *words, *options],
            cwd=place,
            env=os.environ | dict(cluster.variables) | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()
    # What runs is ended at once, and what waits never begins.
    cluster.run("scancel", "--full", "--signal=KILL", f"--user={os.getuid()}")
    cluster.run("scancel", f"--user={os.getuid()}")


def wait_for(is_so, process, what):
    def why_not():
        return None if process.poll() is None else process.communicate()[0]

    wait_until(is_so, what, seconds=120, unless=why_not)


def the_study(place):
    (record,) = (place / "runs").glob("*/study.json")
    return Study.open(record.parent)


def check(place, process, local):
    """Hold the search of a process, once it is over, against the local one."""
    output, _ = process.communicate(timeout=500)
    assert process.returncode == 0, output
    study, (expected, best) = the_study(place), local
    assert study.status == "completed"
    assert results(study) == expected
    assert study.best.number == best.number
    assert study.best.test_accuracy == best.test_accuracy


def test_a_search_on_a_cluster_finds_what_it_finds_here(start, place, local):
    process = start()
    check(place, process, local)
    (job,) = (the_study(place).path / "cluster").glob("*/job-run.json")
    assert json.loads(job.read_text())["num_tasks"] == 4


def test_a_tracker_is_told_of_a_search_on_a_cluster(start, place):
    pytest.importorskip("wandb")
    words = ("gated.py:gated", "--set", "hidden=8,13", "--method", "brute", "--log-to", "wandb")
    process = start(*words, WANDB_MODE="offline", WANDB_X_SERVICE_WAIT="100")
    output, _ = process.communicate(timeout=500)
    assert process.returncode == 0, output
    study = the_study(place)
    (kept,) = (study.path / "wandb").glob("offline-run-*/run-*.wandb")
    told = kept.read_bytes()
    # A row for each network, by this process alone, and the winner's in the end.
    assert told.count(b"num_parameters") >= len(study.trials)
    assert b"best.test_accuracy" in told


def test_a_trial_whose_worker_was_cancelled_is_trained_by_another(start, place, local, cluster):
    (place / "gate").touch()
    process = start()
    wait_for(lambda: waiting(place), process, "a network that waits")
    cluster.run("scancel", waiting(place)[0])
    wait_for(lambda: len(waiting(place)) == 2, process, "its second training")
    first, second = waiting(place)
    assert first != second
    (place / "gate").unlink()
    check(place, process, local)


def test_a_trial_whose_node_was_lost_is_trained_by_another(start, place, local, cluster):
    (place / "gate").touch()
    process = start()
    wait_for(lambda: waiting(place), process, "a network that waits")
    (unit,) = waiting(place)
    node = cluster.run("squeue", "-h", "-j", unit, "-o", "%N").strip()
    array = unit.split("_")
    # As at a power failure, what ran there is gone.
    for each in sorted(psutil.process_iter(), key=psutil.Process.create_time):
        try:
            variables = each.environ()
        except psutil.Error:
            continue
        own = [variables.get(f"SLURM_ARRAY_{name}_ID") for name in ("JOB", "TASK")]
        # Another test's cluster counts its jobs from 1 too.
        is_here = variables.get("SLURM_CONF") == cluster.variables["SLURM_CONF"]
        if is_here and own == array:
            each.kill()
    cluster.end_daemon(node, kill=True)
    cluster.run("scontrol", "update", f"nodename={node}", "state=down", "reason=lost")
    try:
        wait_for(lambda: len(waiting(place)) == 2, process, "its second training")
        (place / "gate").unlink()
        check(place, process, local)
    finally:
        cluster.start_daemon(node)
        cluster.run("scontrol", "update", f"nodename={node}", "state=resume")


@pytest.mark.parametrize("ends_alone", [False, True])
def test_workers_go_on_without_who_began_them_and_are_found_again(start, place, local, ends_alone):
    (place / "gate").touch()
    process = start()
    wait_for(lambda: waiting(place), process, "a network that waits")
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 130, output
    study = the_study(place)
    assert f"tarmac search --resume {study.path} --on slurm" in output
    assert study.status == "running"
    if ends_alone:
        (place / "gate").unlink()
        wait_until(
            lambda: Study.open(study.path).record.status == "completed",
            "the workers",
            seconds=120,
        )
    resumed = start("--resume", str(study.path))
    if not ends_alone:
        # The workers must be at work still when they are found.
        assert any("by workers on slurm" in line for line in resumed.stdout)
        (place / "gate").unlink()
    check(place, resumed, local)
    assert len(waiting(place)) == 1
    if not ends_alone:
        assert len([*(study.path / "cluster").glob("*/job-run.json")]) == 1


def test_a_trial_whose_worker_ran_out_of_time_goes_on_from_its_checkpoint(start, place, local):
    """Waits for a limit of Slurm's, whole minutes that it looks at every half."""
    (place / "settings.toml").write_text("[slurm]\ntime = '1m'\n")
    # In the second epoch of two, of 19 steps each.
    (place / "gate").write_text("25")
    process = start(TARMAC_SETTINGS_FILE=str(place / "settings.toml"))
    wait_for(lambda: len(waiting(place)) == 2, process, "its second training")
    (place / "gate").unlink()
    check(place, process, local)
    # On a busy machine a minute may not suffice for the first epoch, nor the next for more.
    begun_at = steps(place)
    assert (begun_at[0], begun_at[-1]) == (0, 19)
    # The worker was begun again; there are no others.
    assert len([*(the_study(place).path / "cluster").glob("*/job-run.json")]) == 1


def test_a_dry_run_shows_what_sbatch_would_get_and_makes_nothing(start, place, cluster):
    words = ("gated.py:gated", "--set", "hidden=8,13,16,24", "--method", "brute")
    process = start(*words, "--time-per-worker", "2h", "--dry-run")
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    assert "4 workers, each:" in output
    script = place / "shown.sh"
    script.write_text(output[output.index("#!/bin/sh") :])
    lines = script.read_text().splitlines()
    runs = f"{place}/runs/STUDY/cluster/search-RUN"
    assert {"#SBATCH --array=0-3", "#SBATCH --time=120", f"#SBATCH --chdir={runs}"} < {*lines}
    assert lines[-2].startswith(f"exec sh {runs}/agent.pyz")
    assert not (place / "runs").exists()
    # Slurm itself takes what was shown.
    cluster.run("sbatch", "--test-only", str(script))


def test_more_gpus_than_any_node_has_are_refused_before_a_worker_is_begun(start, place):
    process = start("gated.py:gated", "--set", "hidden=8,16", "--gpus-per-worker", "3")
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 2, output
    assert "gpu" in output.lower()
