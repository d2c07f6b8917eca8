"""What Slurm's word on a job's end says beside how it ended."""

from __future__ import annotations

import pytest

from tarmac.jobs.executors.slurm.endings import accounted_ending
from tarmac.slurm import Accounted, Unit


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
