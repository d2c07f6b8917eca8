"""What Slurm's word on a job's end says beside how it ended."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tarmac.jobs.executors.queueing.chunks import ChunkFiles, ChunkRecord
from tarmac.jobs.executors.queueing.engine import UnitName
from tarmac.jobs.executors.slurm.endings import accounted_ending
from tarmac.jobs.executors.slurm.engine import SlurmEngine
from tarmac.slurm import UNIT, Accounted, Silence, Unit


class Forgetful:
    """A Slurm that has forgotten what has ended."""

    def limits(self):
        return Silence("scontrol", "is down")

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
