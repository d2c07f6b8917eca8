"""Of all agents that are given an attempt, one runs it; what a dead one left is taken over."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import psutil
import pytest

from tarmac.node import AttemptRecord, attempt_file, fence_file
from tarmac.node.durable import create_file, replace_file

_PBS = {"TARMAC_ENGINE": "PBS", "TARMAC_ENGINE_UNIT": "80"}
_SLURM = {"SLURM_JOB_ID": "80", "SLURMD_NODENAME": "n2"}

# An agent that beats late takes its attempt back from one that has waited for fewer beats.
_BEAT_S = 1.0

# Of an agent that ran on a machine that is not this one.
_ELSEWHERE = {"pid": 1, "start_ticks": 1, "boot_id": "other", "host": "n9"}


def left(run, element, **values) -> AttemptRecord:
    """Write a record as another agent would have left it."""
    record = AttemptRecord(**{"nonce": "ours", "state": "began", "host": "n9", **values})
    path = attempt_file(Path(element.directory), element.number)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, record.to_bytes())
    return record


def counting(run, **values):
    """An element whose program leaves a line each time it runs."""
    return run.element("sh", "-c", f"echo ran >> {run.path}/ran", **values)


def times_run(run) -> int:
    path = run.path / "ran"
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_of_many_agents_at_once_one_runs_the_attempt(run):
    element = counting(run)
    spec = run.chunk(element)
    agents = [run.start(spec=spec, SLURM_JOB_ID=str(80 + n)) for n in range(6)]
    ends = [run.end(agent) for agent in agents]
    assert times_run(run) == 1
    assert [code for code, _ in ends] == [0] * 6
    assert sum(" is not started: " in said for _, said in ends) == 5


def test_of_many_agents_that_find_a_dead_ones_claim_one_takes_it_over(run):
    element = counting(run)
    dead = run.start(run.element("true"))
    run.end(dead)
    identity = {**run.record(element).process}
    left(run, element, nonce="older", process=identity)
    spec = run.chunk(element)
    agents = [run.start(spec=spec, SLURM_JOB_ID=str(80 + n)) for n in range(6)]
    assert [run.end(agent)[0] for agent in agents] == [0] * 6
    assert times_run(run) == 1
    assert not [*Path(element.directory).glob("*.takeover")]


def test_an_attempt_that_is_at_work_elsewhere_is_left_alone(run):
    pipe = run.pipe()
    element = run.element("sh", "-c", f"echo > {pipe}; sleep 600")
    spec = run.chunk(element)
    first = run.start(spec=spec, **_SLURM)
    pipe.read_text()
    assert run.run(spec=spec, SLURM_JOB_ID="81", SLURMD_NODENAME="n1") == (
        0,
        "tarmac: attempt 1 of task 0 is not started: an agent on n2 (80) is already running it\n",
    )
    assert first.poll() is None
    assert run.record(element).engine_id == "80"


def test_a_killed_agent_takes_its_program_along_and_is_succeeded_at_once(run):
    pipe = run.pipe()
    element = run.element("sh", "-c", f"echo $$ > {pipe}; exec sleep 600")
    agent = run.start(element, **_SLURM)
    program = psutil.Process(int(pipe.read_text()))
    agent.kill()
    agent.communicate()
    program.wait(60)
    again = element._replace(command=["true"])
    assert run.run(again, SLURM_RESTART_COUNT="1", **_SLURM) == (0, "")
    assert run.record(element).outcome == "succeeded"
    assert run.record(element).restart == 1


@pytest.mark.parametrize(
    ("found", "runs"),
    [
        ({"state": "ended", "outcome": "succeeded"}, False),
        ({"state": "ended", "outcome": "failed"}, False),
        ({"state": "ended", "outcome": "interrupted"}, True),
        ({"state": "ended", "outcome": "interrupted", "restart": 1}, False),
        ({"state": "began", "restart": 2}, False),
        ({"state": "fenced"}, False),
        ({"state": "fenced", "nonce": "older", "engine_id": ""}, True),
        ({"state": "ended", "outcome": "succeeded", "nonce": "older"}, True),
    ],
    ids=[
        "succeeded",
        "failed",
        "interrupted",
        "interrupted in this restart",
        "begun by a newer restart",
        "fenced",
        "fenced, of another submission",
        "succeeded, of another submission",
    ],
)
def test_what_a_restart_finds_decides_whether_it_runs(run, found, runs):
    element = counting(run)
    left(run, element, **{"engine_id": "80", "process": _ELSEWHERE, **found})
    exit_code, said = run.run(element, SLURM_RESTART_COUNT="1", **_SLURM)
    assert exit_code == 0
    assert times_run(run) == int(runs)
    assert bool(said) is not runs


@pytest.mark.parametrize(
    ("found", "restart"),
    [
        ({"state": "ended", "outcome": "interrupted"}, 1),
        ({"state": "ended", "outcome": "interrupted", "restart": 1}, 2),
        ({"state": "began"}, 1),
        ({"state": "ended", "outcome": "succeeded"}, None),
        ({"state": "ended", "outcome": "failed"}, None),
        ({"state": "ended", "outcome": "interrupted", "engine_id": "81"}, None),
        ({"state": "fenced", "engine_id": ""}, None),
    ],
    ids=[
        "interrupted",
        "interrupted for the second time",
        "lost",
        "succeeded",
        "failed",
        "interrupted in another unit",
        "fenced",
    ],
)
def test_a_second_agent_of_a_unit_is_a_restart_where_the_engine_counts_none(run, found, restart):
    element = run.element("sh", "-c", "echo $TARMAC_RESTART", beat_s=0.1)
    left(run, element, **{"engine_id": "80", "process": _ELSEWHERE, **found})
    exit_code, message = run.run(element, **_PBS)
    assert exit_code == 0
    assert bool(message) is (restart is None)
    if restart is not None:
        record = run.record(element)
        assert (record.outcome, record.restart) == ("succeeded", restart)
        assert run.printed(element) == f"{restart}\n"


def test_an_attempt_that_was_given_up_before_it_began_is_not_begun(run):
    element = counting(run)
    Path(element.directory).mkdir(parents=True)
    fence_file(Path(element.directory), 1).touch()
    exit_code, said = run.run(element)
    assert (exit_code, times_run(run)) == (0, 0)
    assert said == "tarmac: attempt 1 of task 0 is not started: its runner abandoned it\n"


@pytest.mark.parametrize("content", [b"", b"{", b'{"schema": 99}'])
def test_a_damaged_claim_is_taken_over_once_it_has_stayed_so(run, content):
    element = counting(run, beat_s=0.1)
    path = attempt_file(Path(element.directory), 1)
    path.parent.mkdir(parents=True)
    assert create_file(path, content)
    assert run.run(element) == (0, "")
    assert times_run(run) == 1


def test_an_agent_of_another_machine_that_still_beats_is_left_its_attempt(run):
    element = counting(run, beat_s=5)
    left(run, element, nonce="older", process=_ELSEWHERE, beat=1)
    agent = run.start(element)
    is_over = threading.Event()

    def beat() -> None:
        for number in range(2, 10_000):
            left(run, element, nonce="older", process=_ELSEWHERE, beat=number)
            if is_over.wait(0.1):
                return

    beating = threading.Thread(target=beat)
    beating.start()
    try:
        exit_code, said = run.end(agent)
    finally:
        is_over.set()
        beating.join()
    assert (exit_code, times_run(run)) == (0, 0)
    assert said.endswith("an agent on n9 is already running it\n")


def test_an_agent_of_another_machine_that_is_silent_is_succeeded(run):
    element = counting(run, beat_s=0.1)
    left(run, element, nonce="older", process=_ELSEWHERE)
    assert run.run(element) == (0, "")
    assert times_run(run) == 1
    assert run.record(element).nonce == "ours"


def test_an_older_agent_that_still_lives_ends_its_program_and_keeps_nothing(run):
    pipe = run.pipe()
    older = run.element("sh", "-c", f"echo > {pipe}; sleep 600", beat_s=_BEAT_S)
    first = run.start(older, **_SLURM)
    pipe.read_text()
    newer = older._replace(command=["sh", "-c", f"echo > {pipe}; exit 5"])
    second = run.start(newer, SLURM_RESTART_COUNT="1", SLURM_JOB_ID="80", SLURMD_NODENAME="n1")
    # The newer one's program begins only once the older's agent has had time to see it.
    pipe.read_text()
    exit_code, said = run.end(first)
    assert exit_code == 0
    assert said == "tarmac: attempt 1 of task 0 now belongs to another agent\n"
    assert run.end(second) == (5, "")
    record = run.record(older)
    assert (record.restart, record.host, record.outcome) == (1, "n1", "failed")


def test_a_suspended_agent_finds_on_waking_that_it_was_succeeded(run):
    pipe = run.pipe()
    element = run.element("sh", "-c", f"echo > {pipe}; exec sleep 600", beat_s=_BEAT_S)
    first = run.start(element, **_SLURM)
    pipe.read_text()
    first.send_signal(signal.SIGSTOP)
    newer = element._replace(command=["true"])
    assert run.run(newer, SLURM_RESTART_COUNT="1", **_SLURM) == (0, "")
    first.send_signal(signal.SIGCONT)
    assert run.end(first)[0] == 0
    assert run.record(element).outcome == "succeeded"


def test_an_agent_that_waits_for_another_ones_beat_can_be_ended(run):
    element = counting(run)
    left(run, element, nonce="older", process=_ELSEWHERE)
    agent = run.start(element)
    # It waits for minutes; the signal may come before or within that.
    agent.send_signal(signal.SIGTERM)
    agent.communicate(timeout=60)
    assert times_run(run) == 0
    assert run.record(element).nonce == "older"


@pytest.mark.parametrize("is_lasting", [True, False])
def test_a_file_is_replaced_whole_while_others_read_it(tmp_path, is_lasting):
    path = tmp_path / "file"
    contents = [bytes([number]) * 2000 for number in range(64, 96)]
    path.write_bytes(contents[0])
    seen, is_over = set(), threading.Event()

    def read() -> None:
        while not is_over.is_set():
            seen.add(path.read_bytes())

    reader = threading.Thread(target=read)
    reader.start()
    for content in contents:
        replace_file(path, content, is_lasting=is_lasting)
    is_over.set()
    reader.join()
    assert seen <= set(contents)
    assert [*tmp_path.iterdir()] == [path]
