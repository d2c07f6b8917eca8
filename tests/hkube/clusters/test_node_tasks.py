"""What a node is handed of a pipeline, and what an engine's word of its end means for a task."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tarmac.errors import TarmacError
from tarmac.formats import read_algorithm
from tarmac.hkube.clusters.judging import ending_without_word
from tarmac.hkube.clusters.node_tasks import (
    NodeTaskSpec,
    ending_file,
    errand_file,
    read_ending,
    write_ending,
)
from tarmac.hkube.hosting import Ending, Work
from tarmac.hkube.values import pack, unpack
from tarmac.jobs import Attempt, Finished, parse_job, plan_tasks

CALLER = Work(
    index=0, name="ask", task_id="t0", algorithm="a", input=(), job_id="j", pipeline="p", node="ask"
)
WORK = Work(
    index=7,
    name="train[3]",
    task_id="t7",
    algorithm="a",
    input=[{"x": 1, "y": b"bytes", "z": None}],
    job_id="j",
    root_job_id="root",
    pipeline="p",
    node="train",
    batch_index=3,
    parents=("load",),
    children=("add", "show"),
    ttl_s=2.5,
    retry="Always",
    limit=5,
    priority=4,
    caller=CALLER,
)


def algorithm(**own):
    return read_algorithm(
        {
            "name": "double",
            "cpu": 0.5,
            "mem": "256Mi",
            "options": {"tarmac": {"command": ["true"], "protocol": "plain", **own}},
        }
    )


def test_an_errand_comes_to_its_node_as_it_was_written(tmp_path):
    errand = NodeTaskSpec(work=WORK, algorithm=algorithm(), base=tmp_path, fake_gpus=2)
    path = errand_file(tmp_path, 2)
    errand.write(path)
    there = NodeTaskSpec.read(path)
    # Who has called for it is nobody's business on the node.
    expected = dataclasses.replace(WORK, caller=None)
    expected = dataclasses.replace(expected, parents=["load"], children=["add", "show"])
    assert there.work == expected
    assert (there.algorithm.job, there.algorithm.protocol) == (algorithm().job, "plain")
    assert (there.base, there.fake_gpus) == (tmp_path, 2)
    assert path.name == "errand-2.msgpack"
    assert ending_file(path) == tmp_path / "ending-2.msgpack"


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda values: "text", "holds no mapping"),
        (lambda values: {key: values[key] for key in values if key != "work"}, "is damaged: "),
        (lambda values: values | {"work": values["work"] | {"newer": 1}}, "is damaged: "),
        (lambda values: values | {"job": {"command": 3}}, "is damaged: "),
    ],
    ids=["no mapping", "no work", "of a newer version", "a job that is none"],
)
def test_an_errand_that_is_damaged_says_which_file_it_is(tmp_path, damage, words):

    path = errand_file(tmp_path, 1)
    NodeTaskSpec(work=WORK, algorithm=algorithm(), base=tmp_path).write(path)
    path.write_bytes(pack(damage(unpack(path.read_bytes()))))
    with pytest.raises(TarmacError, match=words) as damaged:
        NodeTaskSpec.read(path)
    assert str(path) in str(damaged.value)


def test_how_a_task_ended_comes_back_as_its_node_has_said_it(tmp_path):
    path = tmp_path / "ending-1.msgpack"
    assert read_ending(path, WORK) is None
    ending = Ending(work=WORK, value={"x": [1, b"2"]}, attempts=1, seconds=0.5)
    write_ending(path, ending)
    assert read_ending(path, WORK) == ending
    failed = Ending(work=WORK, why="error", message="no", code="7", details="where", exit_code=3)
    write_ending(path, failed)
    assert read_ending(path, WORK) == failed


def test_a_result_that_no_file_can_hold_is_its_tasks_failure(tmp_path):
    path = tmp_path / "ending-1.msgpack"
    write_ending(path, Ending(work=WORK, value=object(), seconds=0.5))
    ending = read_ending(path, WORK)
    assert (ending.why, ending.value, ending.seconds) == ("error", None, 0.5)
    assert "object" in ending.message


def finished(**how):
    (task,) = plan_tasks(parse_job("{name: x, command: 'true'}"), Path("/x"))
    return Finished(attempt=Attempt(task, 1, Path("/x")), **how)


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"outcome": "failed", "cause": "exit", "exit_code": 3}, "crash"),
        ({"outcome": "failed", "cause": "signal", "exit_code": -9}, "crash"),
        ({"outcome": "failed", "cause": "timeout"}, "ttl"),
        ({"outcome": "failed", "cause": "memory"}, "memory"),
        ({"outcome": "failed", "cause": "start"}, "refused"),
        ({"outcome": "failed", "cause": "cancelled"}, "refused"),
        ({"outcome": "failed", "cause": "stop"}, "stopped"),
        ({"outcome": "failed", "cause": "lost"}, "crash"),
        ({"outcome": "interrupted", "cause": "exit"}, "stopped"),
    ],
)
def test_a_node_that_has_said_nothing_is_judged_by_the_engines_word(tmp_path, how, why):
    (tmp_path / "stderr").write_text("first\nit broke\n")
    ending = ending_without_word(finished(reason="its end", seconds=2.0, **how), WORK, tmp_path)
    # After a disturbance, the output says nothing about the end.
    says = why == "crash" and how["cause"] != "lost"
    said = "; its last line: it broke" if says else ""
    assert (ending.why, ending.message) == (why, f"its end{said}")
    assert (ending.work, ending.exit_code, ending.seconds) == (WORK, how.get("exit_code"), 2.0)


def test_a_success_whose_result_has_not_come_is_a_crash(tmp_path):
    ending = ending_without_word(finished(outcome="succeeded"), WORK, tmp_path)
    words = "its node reports success, but its result is missing"
    assert (ending.why, ending.message) == ("crash", words)
