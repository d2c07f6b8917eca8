"""A real Slurm, asked by its commands alone.

Most of it is in `make test`: one cluster answers all of these for a few seconds of CPU.
"""

from __future__ import annotations

import dataclasses
import os
from datetime import UTC, datetime, timedelta

import pytest

from hostile import NAMES
from tarmac.errors import RequestError
from tarmac.slurm import (
    UNIT,
    Accounted,
    NoAnswer,
    Queued,
    Request,
    Shape,
    Slurm,
    SlurmCommands,
    Submitted,
    Unit,
    job_variables,
    write_script,
)

SHAPE = Shape(memory_bytes=64 * 2**20)


@pytest.fixture
def request_of(tmp_path, request):
    """Return a function that makes a request of a name of its own."""
    (tmp_path / "chunks").mkdir()
    first = Request(
        name=f"tarmac-{abs(hash(request.node.nodeid)) % 10**8}-0001",
        shape=SHAPE,
        command="true",
        directory=tmp_path,
        output="chunks/%A_%a.engine",
    )

    def make(command: str, **changes) -> Request:
        return dataclasses.replace(first, command=command, **changes)

    return make


def submitted(slurm: Slurm, request: Request) -> Submitted:
    answer = slurm.submit(write_script(request, slurm.nodes()), job_variables(os.environ))
    assert isinstance(answer, Submitted), answer
    return answer


def left(cluster, slurm: Slurm, name: str) -> None:
    """Wait until none of a name is in the queue."""
    cluster.wait_until(lambda: slurm.queue([name]) == [], f"{name} has left the queue")


def ended(cluster, slurm: Slurm, *units: Unit) -> list[Accounted]:
    found: list[Accounted] = []

    def have_ended() -> bool:
        answer = slurm.ended(units, datetime.now(UTC))
        assert not isinstance(answer, NoAnswer), answer
        found[:] = sorted(answer, key=lambda one: one.unit)
        unfinished = ("pending", "running", "completing")
        return len(found) == len(units) and all(one.state not in unfinished for one in found)

    cluster.wait_until(have_ended, "all are known to have ended")
    return found


@pytest.fixture
def recorded(tmp_path):
    """Return Slurm's commands where each is a shell script."""

    def make(**scripts: str) -> SlurmCommands:
        for name, script in scripts.items():
            path = tmp_path / name
            path.write_text(f"#!/bin/sh\n{script}\n")
            path.chmod(0o755)
        return SlurmCommands({"PATH": f"{tmp_path}:{os.environ['PATH']}"})

    return make


CONFIG = "SLURM_VERSION = 24.05.1\nAccountingStorageType = accounting_storage/slurmdbd"
REMEMBERED = (
    "JobId=90 JobName=ours JobState=COMPLETED ExitCode=0:0 NodeList=n2\n"
    "JobId=91 JobName=other JobState=FAILED ExitCode=1:0 NodeList=n2"
)


def test_of_accounts_that_do_not_answer_the_controller_is_asked(recorded):
    scontrol = f"[ $2 = config ] && echo '{CONFIG}' || echo '{REMEMBERED}'"
    slurm = recorded(sacct="exit 1", scontrol=scontrol)
    (found,) = slurm.ended([Unit(90)], datetime.now(UTC))
    assert (found.unit, found.state) == (Unit(90), "completed")


def test_where_neither_accounts_nor_the_controller_answer_nothing_is_said_of_ends(recorded):
    slurm = recorded(sacct="exit 1", scontrol=f"[ $2 = config ] && echo '{CONFIG}'")
    assert isinstance(slurm.ended([Unit(90)], datetime.now(UTC)), NoAnswer)


def test_each_of_very_many_jobs_is_cancelled_once_by_lines_that_are_not_too_long(
    recorded, tmp_path
):
    slurm = recorded(scancel=f"echo $* >> {tmp_path}/calls")
    assert slurm.cancel([Unit(job) for job in range(1, 1201)]) is None
    calls = [line.split()[1:] for line in (tmp_path / "calls").read_text().splitlines()]
    assert [len(words) for words in calls] == [500, 500, 200]
    assert [int(word) for words in calls for word in words] == [*range(1, 1201)]


def test_the_limits_of_a_site_are_read_once(slurm):
    limits = slurm.limits()
    assert limits.version.startswith("2")
    assert (limits.max_array_size, limits.min_job_age_s, limits.kill_wait_s) == (1001, 300, 15)
    assert not limits.has_accounting
    assert limits.requeues
    assert slurm.limits() is limits


def test_the_nodes_of_a_site_are_read_with_their_gpus(slurm):
    nodes = slurm.nodes()
    assert [node.name for node in nodes] == ["n1", "n2"]
    assert all(node.partition == "main" and node.is_default for node in nodes)
    assert all(node.memory_bytes == 4096 * 2**20 for node in nodes)
    assert [(gres.name, gres.kind, gres.count) for gres in nodes[0].gres] == [("gpu", "", 2)]
    assert all(node.is_usable for node in nodes)


def test_each_element_of_an_array_is_told_its_number_and_its_end(cluster, slurm, request_of):
    request = request_of(f"exit {UNIT}", elements=3)
    job = submitted(slurm, request).job
    found = ended(cluster, slurm, *(Unit(job, element) for element in range(3)))
    assert [one.state for one in found] == ["completed", "failed", "failed"]
    assert [one.exit_code for one in found] == [0, 1, 2]
    assert {one.nodes for one in found} <= {"n1", "n2"}
    assert all(one.ended_at is not None for one in found)


def test_a_job_that_is_no_array_has_unit_zero(cluster, slurm, request_of, tmp_path):
    request = request_of(f"echo unit {UNIT}; kill -9 $$", output="chunks/%j.engine")
    job = submitted(slurm, request).job
    (one,) = ended(cluster, slurm, Unit(job))
    assert (one.state, one.signal) == ("failed", 9)
    assert (tmp_path / f"chunks/{job}.engine").read_text() == "unit 0\n"


def test_what_waits_and_what_runs_is_shown_unit_by_unit(cluster, slurm, request_of, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    request = request_of(f"cat {pipe}", elements=40, throttle=1)
    job = submitted(slurm, request).job

    def one_runs() -> bool:
        return "running" in {queued.state for queued in slurm.queue([request.name])}

    cluster.wait_until(one_runs, "an element runs")
    shown = slurm.queue([request.name, "tarmac-of-nobody"])
    assert sorted(queued.unit for queued in shown) == [Unit(job, number) for number in range(40)]
    by_state = {queued.state: queued for queued in shown}
    assert by_state["running"].nodes in ("n1", "n2")
    assert by_state["running"].nodes in slurm.own_nodes()
    assert by_state["pending"].reason == "JobArrayTaskLimit"
    assert slurm.queue(["tarmac-of-nobody"]) == []
    assert slurm.queue([]) == []

    # Elements of an array are ended one by one, and whole.
    odd = [Unit(job, number) for number in range(1, 40, 2)]
    assert slurm.cancel(odd) is None
    cluster.wait_until(lambda: len(slurm.queue([request.name])) == 20, "half of them are gone")
    assert slurm.throttle(job, 3) is None
    # What runs already is no reason not to hear of what waits.
    assert slurm.avoid(job, ["n1", "n2"]) is None
    told = cluster.run("squeue", "--noheader", "--states=PD", "--format=%x")
    assert told.split() == ["n[1-2]"], told
    assert slurm.cancel(names=[request.name]) is None
    left(cluster, slurm, request.name)
    # Of what had not begun nothing is known any more; absence says nothing.
    running = by_state["running"].unit
    (one,) = ended(cluster, slurm, running)
    assert one.state == "cancelled"


def test_the_nodes_of_a_job_of_several_are_named_one_by_one(cluster, slurm):
    wish = ("--nodes=2", "--output=/dev/null", "--wrap=sleep 600")
    job = cluster.run("sbatch", "--parsable", *wish)
    cluster.wait_until(lambda: {*slurm.own_nodes()} >= {"n1", "n2"}, "the job runs on both")
    cluster.run("scancel", job.strip())
    cluster.wait_until(lambda: slurm.own_nodes() == (), "no job runs any more")


def test_what_has_left_is_neither_cancelled_nor_throttled_nor_an_error(cluster, slurm, request_of):
    job = submitted(slurm, request_of("true", elements=1)).job
    ended(cluster, slurm, Unit(job, 0))
    assert slurm.cancel([Unit(job, 0), Unit(4711), Unit(job)]) is None
    assert slurm.cancel(names=["tarmac-of-nobody"]) is None
    assert slurm.throttle(4711, 1) is None
    assert slurm.avoid(4711, ["n1"]) is None
    assert slurm.ended([Unit(4711)], datetime.now(UTC)) == []


def test_a_script_is_found_by_its_name_queued_and_ended(cluster, slurm, request_of):
    since = datetime.now(UTC) - timedelta(minutes=1)
    request = request_of("true", elements=2)
    assert slurm.find(request.name, since) is None
    answer = submitted(slurm, request)
    assert slurm.find(request.name, since) == answer
    left(cluster, slurm, request.name)
    assert slurm.find(request.name, since) == answer


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        (Shape(partition="nowhere"), "Invalid partition name specified"),
        (Shape(cpus=10_000), "configuration is not available"),
        (Shape(memory_bytes=2**50), "configuration is not available"),
        (Shape(reservation="nobodys"), "reservation is invalid"),
        (Shape(extra=("--no-such-option",)), "unrecognized option"),
    ],
)
def test_what_can_never_run_is_refused_in_the_words_of_slurm(slurm, request_of, shape, words):
    script = write_script(request_of("true", shape=shape))
    refused = slurm.test(script)
    assert isinstance(refused, str), refused
    assert words.lower() in refused.lower()


def test_a_refused_submission_is_no_silence(slurm, request_of):
    script = write_script(request_of("true", shape=Shape(partition="nowhere")))
    refused = slurm.submit(script, job_variables(os.environ))
    assert isinstance(refused, str), refused
    assert "invalid partition" in refused
    assert slurm.find(script.name, datetime.now(UTC)) is None


def test_what_can_run_is_not_refused_and_not_submitted(slurm, request_of):
    request = request_of("true", shape=dataclasses.replace(SHAPE, gpus=2, time_limit_s=61))
    assert slurm.test(write_script(request, slurm.nodes())) is None
    assert slurm.queue([request.name]) == []


def test_gpus_are_given_by_the_node_and_disjoint(cluster, slurm, request_of, tmp_path):
    shape = dataclasses.replace(SHAPE, gpus=1)
    request = request_of(
        f'echo "$SLURMD_NODENAME $CUDA_VISIBLE_DEVICES" > {tmp_path}/{UNIT}; '
        f"until [ $(ls {tmp_path} | grep -c '^[0-3]$') = 4 ]; do sleep 0.1; done",
        shape=shape,
        elements=4,
    )
    job = submitted(slurm, request).job
    ended(cluster, slurm, *(Unit(job, number) for number in range(4)))
    given = {(tmp_path / str(number)).read_text().strip() for number in range(4)}
    assert given == {"n1 0", "n1 1", "n2 0", "n2 1"}


def test_the_variables_of_another_job_do_not_reach_slurm_or_the_job(cluster, request_of, tmp_path):
    outer = {"SLURM_MEM_PER_NODE": "1", "SBATCH_PARTITION": "nowhere", "SQUEUE_FORMAT": "%j"}
    own = os.environ | dict(cluster.variables) | outer | {"SECRET": "1", "TZ": "Asia/Tokyo"}
    slurm = SlurmCommands(own)
    request = request_of(f"env > {tmp_path}/env", elements=1)
    answer = slurm.submit(write_script(request), job_variables(own))
    assert isinstance(answer, Submitted), answer
    (one,) = ended(cluster, slurm, Unit(answer.job, 0))
    assert abs(datetime.now(UTC) - one.ended_at) < timedelta(hours=1)
    names = {line.partition("=")[0] for line in (tmp_path / "env").read_text().splitlines()}
    assert names.isdisjoint({"SECRET", "TZ", "LC_ALL", "SBATCH_PARTITION", "SQUEUE_FORMAT"})
    assert {"HOME", "PATH", "SLURM_JOB_ID"} <= names


@pytest.mark.slurm
@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_a_directory_of_any_name_is_where_a_job_begins_or_is_refused(
    cluster, slurm, request_of, tmp_path, name
):
    directory = tmp_path / name
    directory.mkdir()
    request = request_of("pwd", directory=directory, output="%A.engine", comment=str(directory))
    if "\n" in name:
        with pytest.raises(RequestError, match="no line break"):
            write_script(request)
        return
    job = submitted(slurm, request).job
    ended(cluster, slurm, Unit(job))
    assert (directory / f"{job}.engine").read_text() == f"{directory}\n"


def test_a_backslash_in_the_directory_is_refused_in_words(request_of, tmp_path):
    with pytest.raises(RequestError, match="no backslash"):
        write_script(request_of("true", directory=tmp_path / "a\\b"))


def test_lines_before_the_command_have_what_a_login_sets_up(cluster, slurm, request_of, tmp_path):
    shape = dataclasses.replace(SHAPE, setup=("shopt -q login_shell && export LOADED=yes",))
    job = submitted(slurm, request_of(f'echo "$LOADED" > {tmp_path}/said', shape=shape)).job
    ended(cluster, slurm, Unit(job))
    assert (tmp_path / "said").read_text() == "yes\n"


@pytest.mark.slurm
def test_a_controller_that_is_gone_is_silence_to_every_question(start_slurm, request_of):
    cluster = start_slurm(settings=("MessageTimeout=2", "SlurmctldTimeout=2"))
    slurm = SlurmCommands(os.environ | dict(cluster.variables))
    assert slurm.nodes()
    cluster.end_daemon("slurmctld")
    script, now = write_script(request_of("true")), datetime.now(UTC)
    asked = SlurmCommands(os.environ | dict(cluster.variables), timeout_s=10)
    answers = {
        "limits": asked.limits(),
        "nodes": asked.nodes(),
        "test": asked.test(script),
        "submit": asked.submit(script, job_variables(os.environ)),
        "find": asked.find(script.name, now),
        "queue": asked.queue([script.name]),
        "ended": asked.ended([Unit(1)], now),
        "cancel": asked.cancel([Unit(1)]),
        "cancel of a name": asked.cancel(names=[script.name]),
        "avoid": asked.avoid(1, ["n1"]),
        "throttle": asked.throttle(1, 2),
        "own nodes": asked.own_nodes(),
    }
    assert {name: type(answer) for name, answer in answers.items()} == dict.fromkeys(
        answers, NoAnswer
    )
    cluster.start_daemon("slurmctld")
    cluster.wait_until(lambda: slurm.queue([script.name]) == [], "it answers again")


def test_the_real_commands_are_what_is_agreed(slurm):
    agreed: Slurm = slurm
    assert agreed.queue(["tarmac-of-nobody"]) == []
    assert Queued(unit=Unit(1, 2), name="n", state="pending", word="PENDING").unit < Unit(2)
