"""What Slurm's word on a job's end says beside how it ended."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tarmac.executors.queueing.chunks import ChunkFiles, ChunkRecord
from tarmac.executors.queueing.engine import UnitName
from tarmac.executors.slurm.endings import accounted_ending, printed_ending
from tarmac.executors.slurm.engine import SlurmEngine
from tarmac.slurm import UNIT, Accounted, NoAnswer, Unit


class Forgetful:
    """A Slurm that has forgotten what has ended."""

    def limits(self):
        return NoAnswer("scontrol", "is down")

    def ended(self, units, since):
        return ()


@pytest.fixture
def engine(tmp_path):
    return SlurmEngine(Forgetful(), tmp_path / "agent.pyz", ChunkFiles(tmp_path), {})


def chunk(**values) -> ChunkRecord:
    made_at = datetime.now(UTC)
    return ChunkRecord(number=2, name="x", nonce="a", shape={}, made_at=made_at, job="80", **values)


def test_what_a_job_has_printed_of_its_end_is_known_where_slurm_has_forgotten_it(tmp_path, engine):
    array = chunk(attempts=((0, 1), (1, 1)))
    output = ChunkFiles(tmp_path).output(array)
    output.mkdir(parents=True)
    (output / "80_1.engine").write_text(
        "slurmstepd: error: *** JOB 80 ON n1 CANCELLED AT 2026-11-27T02:00:00 DUE TO TIME LIMIT ***"
    )
    endings = engine.endings([(array, 0), (array, 1)])
    assert {name: ending.cause for name, ending in endings.items()} == {UnitName(2, 1): "timeout"}


def test_an_agent_is_told_how_many_attempts_its_unit_has(engine):
    attempts = tuple((task, 1) for task in range(10))
    lines = {
        per_unit: engine.script(chunk(attempts=attempts, per_unit=per_unit)).text.splitlines()[-1]
        for per_unit in (1, 5)
    }
    assert lines[1].endswith(f"0002.spec {UNIT}")
    assert lines[5] == f"{lines[1]} 5"


# A program that saves what it has when it is warned, and ends well, ends its job well.
@pytest.mark.parametrize("state", ["completed", "failed"])
@pytest.mark.parametrize(
    ("ran_s", "near_limit"),
    [(3545.0, "the time limit of its job in Slurm, 60 min"), (60.0, ""), (None, None)],
    ids=["near", "far", "unknown"],
)
def test_whether_a_jobs_time_was_nearly_over_is_said_however_it_ended(
    tmp_path, state, ran_s, near_limit
):
    accounted = Accounted(
        unit=Unit(80), state=state, word=state.upper(), time_limit_s=3600.0, ran_s=ran_s
    )
    ending = accounted_ending(accounted, "", run=tmp_path, asked_for_time=True)
    assert ending is not None
    assert ending.near_limit == near_limit


GONE = "the run's directory {} is not there on n1, or cannot be written to; make the run where the"
MEMORY = "it took more memory than its job had in Slurm"
DAEMON = "slurmstepd: error: "


@pytest.mark.parametrize(
    ("said", "printed", "cause", "words"),
    [
        ({"state": "timeout"}, "", "timeout", "the time limit of its job in Slurm, 60 min"),
        ({"state": "out_of_memory"}, "", "memory", MEMORY),
        (
            {"state": "out_of_memory", "max_rss_bytes": 3 * 2**20},
            "",
            "memory",
            f"{MEMORY}; at most 3 MiB were seen",
        ),
        ({"state": "preempted"}, "", "preempted", "a job of higher priority preempted it on n1"),
        (
            {"state": "node_fail", "word": "BOOT_FAIL"},
            "",
            "node",
            "its node failed on n1 (BOOT_FAIL)",
        ),
        (
            {"state": "cancelled", "word": "CANCELLED by 1002"},
            "",
            "cancelled",
            "cancelled by UID 1002 with scancel",
        ),
        ({"state": "cancelled", "word": "CANCELLED"}, "", "cancelled", "cancelled with scancel"),
        ({"state": "other", "word": "ODD"}, "", "lost", "Slurm says ODD (exit code 0) on n1"),
        ({"signal": 9}, "", "start", "Slurm says FAILED (signal 9) on n1"),
        (
            {"signal": 53},
            "no",
            "start",
            "Slurm says FAILED (signal 53) on n1, and its job printed: no",
        ),
        ({"exit_code": 2, "nodes": ""}, "", "start", "Slurm says FAILED (exit code 2)"),
        ({}, "Detected 1 oom_kill event in StepId=5.batch.", "memory", MEMORY),
        ({}, "StepId=5.batch exceeded memory limit, being killed", "memory", MEMORY),
        (
            {"state": "cancelled"},
            "exceeded memory limit (459034624 > 268435456), being killed",
            "memory",
            "it took 438 MiB of memory, and its job had 256 MiB in Slurm",
        ),
    ],
)
def test_each_state_of_slurms_is_a_cause_in_words(tmp_path, said, printed, cause, words):
    values = {"state": "failed", "word": "FAILED", "nodes": "n1", "time_limit_s": 3600.0, **said}
    accounted = Accounted(unit=Unit(80), **values)
    ending = accounted_ending(accounted, printed, run=tmp_path, asked_for_time=True)
    assert ending is not None
    assert (ending.cause, ending.words, ending.host) == (cause, words, values["nodes"])


def test_a_directory_that_nodes_do_not_see_is_told_with_what_to_do(tmp_path):
    accounted = Accounted(unit=Unit(80), state="failed", word="FAILED", signal=53, nodes="n1")
    ending = accounted_ending(accounted, "", run=tmp_path, asked_for_time=True)
    assert ending.words.startswith(GONE.format(tmp_path))


@pytest.mark.parametrize("state", ["pending", "running", "completing", "suspended"])
def test_what_has_not_ended_has_no_ending(tmp_path, state):
    accounted = Accounted(unit=Unit(80), state=state, word=state.upper())
    assert accounted_ending(accounted, "", run=tmp_path, asked_for_time=True) is None


@pytest.mark.parametrize(("partition", "words"), [("gpu", "partition gpu"), ("", "its partition")])
def test_a_limit_that_nobody_asked_for_is_its_partitions(tmp_path, partition, words):
    accounted = Accounted(unit=Unit(80), state="timeout", word="TIMEOUT", partition=partition)
    ending = accounted_ending(accounted, "", run=tmp_path, asked_for_time=False)
    assert ending.words == (
        f"the time limit of its job in Slurm, which {words} sets by default: set `time` in "
        "options.slurm"
    )


@pytest.mark.parametrize(
    ("why", "cause"),
    [
        (" DUE TO TIME LIMIT", "timeout"),
        (" DUE TO PREEMPTION", "preempted"),
        (" DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS", "node"),
        (" DUE TO JOB REQUEUE", "evicted"),
        (" DUE TO MEMORY LIMIT", "memory"),
        ("", "cancelled"),
    ],
)
def test_the_last_word_of_slurmstepd_is_a_cause(why, cause):
    line = DAEMON + "*** {} 80 ON {} CANCELLED AT 2026-11-22T10:00:00{} ***\n"
    ending = printed_ending(
        line.format("STEP", "n1", " DUE TO TIME LIMIT") + line.format("JOB", "n2", why)
    )
    assert (ending.cause, ending.host, ending.when) == (cause, "n2", "2026-11-22T10:00:00")
    assert printed_ending("a program's own words") is None
    assert printed_ending("slurmstepd: Detected 1 oom-kill event").words == MEMORY
