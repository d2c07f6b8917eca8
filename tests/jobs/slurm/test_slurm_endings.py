"""What Slurm's word on a job's end says beside how it ended."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tarmac.jobs.executors.queueing.chunks import ChunkFiles, ChunkRecord
from tarmac.jobs.executors.queueing.engine import UnitName
from tarmac.jobs.executors.slurm.endings import accounted_ending
from tarmac.jobs.executors.slurm.engine import SlurmEngine
from tarmac.slurm import Accounted, Silence, Unit


def test_what_a_job_has_printed_of_its_end_is_known_where_slurm_has_forgotten_it(tmp_path):
    chunk = ChunkRecord(
        number=2, name="x", nonce="a", shape={}, attempts=((0, 1), (1, 1)), job="80",
        made_at=datetime.now(UTC),
    )  # fmt: skip
    files = ChunkFiles(tmp_path)
    files.output(chunk).mkdir(parents=True)
    (files.output(chunk) / "80_1.engine").write_text(
        "slurmstepd: error: *** JOB 80 ON n1 CANCELLED AT 2026-11-27T02:00:00 DUE TO TIME LIMIT ***"
    )

    class Forgetful:
        def limits(self):
            return Silence("scontrol", "is down")

        def ended(self, units, since):
            assert (len(units), since) == (2, chunk.made_at)
            return ()

    engine = SlurmEngine(Forgetful(), tmp_path / "agent.pyz", files, {})
    endings = engine.endings([(chunk, 0), (chunk, 1)])
    assert {name: ending.cause for name, ending in endings.items()} == {UnitName(2, 1): "timeout"}


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
