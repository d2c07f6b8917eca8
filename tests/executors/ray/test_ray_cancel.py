"""What is cancelled gets TERM, and KILL where it stays, also on nodes that a script has started."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.ray

# `ray start ... &` in a script: a shell has what it starts so ignore SIGINT, and that is handed on.
IN_BACKGROUND = True

STAYS = """
trap 'echo TERM >> {0}/told' TERM
echo $$ > {0}/pid
while :; do sleep 0.1; if test -e {0}/told; then echo tick >> {0}/ticks; fi; done
"""


def test_a_cancelled_program_is_told_and_killed_where_it_stays(runs, tmp_path):
    job = {"name": "x", "command": ["sh", "-c", STAYS.format(tmp_path)]}
    progress = runs(json.dumps(job), stop=(tmp_path / "pid").exists)
    (end,) = progress.ends.values()
    assert (end.outcome, end.reason, end.exit_code) == ("interrupted", "the run was stopped", -9)
    assert runs.lines("told") == ["TERM"]
    # It went on for a while: ten seconds, which a busy machine makes fewer rounds of.
    assert len(runs.lines("ticks")) > 10
