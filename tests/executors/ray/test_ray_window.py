"""Many short tasks: few of them are with Ray at a time, which Ray itself is asked, and all end."""

from __future__ import annotations

import time

import pytest
import ray
from ray.util.state import list_tasks

pytestmark = [pytest.mark.ray, pytest.mark.timeout(900)]

HEAD = {"num_cpus": 2, "include_dashboard": True, "dashboard_port": 0}

# Twice the four that fit, and 16.
WINDOW = 24
# As many states as Ray gives at once.
MAX = 10_000


def with_ray() -> int:
    """Return how many tasks Ray has that have not ended."""
    listed = list_tasks(limit=MAX, raise_on_missing_output=False)
    ended = ("FINISHED", "FAILED")
    return sum(one.name.startswith("tarmac x") and one.state not in ended for one in listed)


@pytest.mark.parametrize("number", [200, pytest.param(2000, marks=pytest.mark.nightly)])
def test_ray_has_few_of_many_short_tasks_and_each_ends_once(runs, tmp_path, number):
    go, seen = tmp_path / "go", []

    def look(_):
        if go.exists() or not ray.is_initialized():
            return
        seen.append((time.monotonic(), with_ray()))
        # More would have come by then.
        full = [at for at, count in seen if count == WINDOW]
        if full and time.monotonic() > full[0] + 3:
            go.touch()

    line = f"until test -e {go}; do sleep 0.1; done; echo $TARMAC_TASK_INDEX >> {tmp_path}/done"
    job = f"{{name: x, sweep: {{repeat: {number}}}, resources: {{cpus: 0.5}}, command: '{line}'}}"
    progress = runs(job, look)
    assert max(count for _, count in seen) == WINDOW
    assert {end.outcome for end in progress.ends.values()} == {"succeeded"}
    assert sorted(map(int, runs.lines("done"))) == [*range(number)]
