"""Pipelines run to their end, go on where they were, and tell how they ended."""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
import tracemalloc

import pytest
from hkube_functions import Failed, Log, body

import tarmac
from tarmac.errors import RequestError, TarmacError
from tarmac.formats import merged
from tarmac.hkube.pipelines.batches import Inputs
from tarmac.hkube.running import Silent, plan_pipeline, run_pipeline
from tarmac.jobs import Job, JobFailed, find_run, read_status
from waiting import limit_s

SUM = body(
    ("square", "square", ["#@flowInput.numbers"]),
    ("add", "add", ["@square"]),
    flowInput={"numbers": [1, 2, 3]},
)


def square(given):
    return given[0] ** 2


def add(given):
    return sum(given[0])


def test_a_pipeline_is_run_and_its_results_are_kept(run):
    end, log, made = run(SUM, {"square": square, "add": add})
    assert (end.outcome, end.counts) == ("succeeded", {"succeeded": 4})
    assert [(row["nodeName"], row["result"]) for row in end.results] == [("add", 14)]
    result = json.loads((made.path / "result.json").read_text())
    assert (result["status"], result["data"]) == ("completed", [*end.results])
    status = read_status(made.path)
    assert (status.state, status.num_tasks) == ("succeeded", 4)
    assert [task.name for task in status.tasks] == ["square[1]", "square[2]", "square[3]", "add"]
    assert log.lines[-1] == "done add"


def test_a_pipeline_that_fails_says_why_and_what_has_not_succeeded_is_done_again(run):
    broken = [True]

    def fragile(given):
        if broken:
            raise Failed("error", "no luck")
        return add(given)

    end, _, made = run(SUM, {"square": square, "add": fragile})
    assert (end.outcome, end.reason) == ("failed", "add: no luck")
    status = read_status(made.path)
    assert (status.state, status.reason, status.count("failed")) == ("failed", "add: no luck", 1)
    assert json.loads((made.path / "result.json").read_text())["error"] == "add: no luck"
    broken.clear()
    end, log, _ = run(None, {"square": square, "add": fragile}, resume=made)
    assert end.outcome == "succeeded"
    assert log.lines == ["before square[1]", "before square[2]", "before square[3]", "done add"]
    assert read_status(made.path).state == "succeeded"
    end, log, _ = run(None, {}, resume=made)
    assert (end.outcome, log.lines[-1], end.counts) == ("succeeded", "before add", {"succeeded": 4})


def test_what_follows_a_result_that_has_changed_is_done_again(run):
    tolerant = {**SUM, "options": {"batchTolerance": 50}}
    broken = [True]

    def fragile(given):
        if given[0] == 2 and broken:
            raise Failed("error", "no luck")
        return square(given)

    def last(given):
        raise Failed("error", "never")

    tolerant["nodes"] = [
        *SUM["nodes"],
        {"nodeName": "last", "algorithmName": "last", "input": ["@add"]},
    ]
    functions = {"square": fragile, "add": add, "last": last}
    end, _, made = run(tolerant, functions)
    assert (end.outcome, end.reason) == ("failed", "last: never")
    broken.clear()
    end, log, _ = run(None, functions | {"last": lambda given: given[0]}, resume=made)
    assert [row["result"] for row in end.results] == [14]
    assert log.lines == [
        "before square[1]",
        "before square[3]",
        "done square[2]",
        "done add",
        "done last",
    ]


def test_a_run_that_is_stopped_goes_on_where_it_was_beyond_what_had_failed(run):
    tolerant = {**SUM, "options": {"batchTolerance": 50}}
    stopping, begun = [True], []

    def fragile(given):
        if given[0] == 2:
            raise Failed("error", "no luck")
        return square(given)

    async def slow(given, calls, work):
        if stopping:
            begun.append(work.name)
            await asyncio.Event().wait()
        return add(given)

    functions = {"square": fragile, "add": slow}
    end, log, made = run(tolerant, functions, stop=lambda: bool(begun))
    assert end.outcome == "interrupted"
    assert log.lines[-1] == "stopped add"
    assert read_status(made.path).state == "interrupted"
    stopping.clear()
    end, log, _ = run(None, functions, resume=made)
    assert (end.outcome, [row["result"] for row in end.results]) == ("succeeded", [10])
    assert log.lines == ["before square[1]", "before square[2]", "before square[3]", "done add"]


def test_a_pipeline_whose_time_is_over_has_failed(run):
    async def slow(given, calls, work):
        await asyncio.Event().wait()

    pipeline = body(("a", "slow", []), options={"activeTtl": 1})
    end, _, made = run(pipeline, {"slow": slow})
    assert (end.outcome, end.reason) == ("failed", "pipeline expired: its 1 s are over")
    assert read_status(made.path).state == "failed"


def test_a_large_batch_is_never_at_the_host_as_a_whole(run):
    pipeline = body(("a", "square", ["#[1...1000]"]), ("b", "count", ["@a"]))
    end, _, made = run(pipeline, {"square": square, "count": lambda given: len(given[0])})
    assert [row["result"] for row in end.results] == [1000]
    assert read_status(made.path).count("succeeded") == 1001


@pytest.mark.parametrize(
    "value",
    [None, True, 2**70, -(2**70), 1.5, "ä\ud800", b"\x00\xff", [1, [2]], {"a": {"b": b"c"}}],
    ids=str,
)
def test_results_of_all_kinds_are_the_same_when_a_run_goes_on(run, value):
    def fail(given):
        raise Failed("error", "x")

    pipeline = body(("a", "make", []), ("b", "take", ["@a"]))
    _, _, made = run(pipeline, {"make": lambda: value, "take": fail})
    end, log, _ = run(None, {"take": lambda given: given[0]}, resume=made)
    assert log.lines == ["before a", "done b"]
    (row,) = end.results
    assert row["result"] == value
    assert type(row["result"]) is type(value)


def test_an_algorithm_starts_others_and_pipelines(run):
    async def boss(given, calls, work):
        made = await calls.run_algorithm(work, "square", [3])
        rows = await calls.run_pipeline(work, {"name": "stored", "flowInput": {"b": 2}})
        gone = await calls.run_algorithm(work, "nobody", [])
        return [made.value, rows[0]["result"], gone.message]

    stored = body(("x", "echo", ["@flowInput"]), flowInput={"a": 1}) | {"name": "stored"}
    functions = {"boss": boss, "square": square, "echo": lambda given: given[0]}
    end, log, _ = run(body(("a", "boss", [])), functions, stored=[stored])
    (row,) = end.results
    assert row["result"] == [9, {"a": 1, "b": 2}, "Algorithm named 'nobody' does not exist"]
    assert log.lines == [
        "done a/square#1",
        "done a/stored#1/x",
        "refused a/nobody#1",
        "done a",
    ]


def test_a_node_that_names_a_pipeline_is_that_pipelines_nodes(run):
    stored = body(("x", "echo", ["@flowInput.a"]), ("y", "echo", ["@x"]), flowInput={"a": 1}) | {
        "name": "stored"
    }
    pipeline = body(("first", "echo", ["@flowInput.b"]), flowInput={"b": 2})
    pipeline["nodes"] += [
        {"nodeName": "in", "kind": "pipeline", "spec": {"name": "stored"}, "input": ["@first"]},
        {"nodeName": "end", "algorithmName": "echo", "input": ["@in"]},
    ]
    end, log, _ = run(pipeline, {"echo": lambda given: given[0]}, stored=[stored])
    assert log.lines == ["done first", "done in-x", "done in-y", "done end"]
    assert end.outcome == "succeeded"


def test_a_node_tunes_and_goes_on_after_it_was_stopped(run):
    pytest.importorskip("optuna")
    log = Log()
    stored = body(("loss", "loss", ["@flowInput.hyperParams"])) | {"name": "objective"}
    pipeline = {
        "name": "p",
        "nodes": [
            {
                "nodeName": "best",
                "kind": "hyperparamsTuner",
                "spec": {
                    "objectivePipeline": "objective",
                    "numberOfTrials": 4,
                    "hyperParams": [{"name": "x", "suggest": "uniform", "low": 0, "high": 1}],
                    "sampler": {"name": "Random"},
                },
            }
        ],
    }
    done, begun = [], []
    stopping = [True]

    async def loss(given, calls, work):
        if stopping and len(done) == 2:
            begun.append(work.name)
            await asyncio.Event().wait()
        done.append(given[0]["x"])
        return (given[0]["x"] - 0.5) ** 2

    end, _, made = run(
        pipeline,
        {"loss": loss},
        stored=[stored],
        log=log,
        stop=lambda: bool(begun) and len(log.lines) == 2,
    )
    assert end.outcome == "interrupted"
    stopping.clear()
    end, log, _ = run(None, {"loss": loss}, resume=made)
    assert end.outcome == "succeeded", end.reason
    assert log.lines == ["done best/3/loss", "done best/4/loss", "done best"]
    (row,) = end.results
    assert row["algorithmName"] == "p-hyperparamstuner"
    assert row["result"] == {"x": min(done, key=lambda x: (x - 0.5) ** 2)}


@pytest.mark.parametrize(
    ("pipeline", "message"),
    [
        (body(("a", "none", [])), "node a: unknown algorithm 'none'"),
        (
            {"name": "p", "nodes": [{"nodeName": "a", "kind": "pipeline", "spec": {"name": "q"}}]},
            "node a: unknown pipeline 'q'",
        ),
    ],
)
def test_what_names_something_that_is_not_there_is_refused(tmp_path, pipeline, message):
    with pytest.raises(RequestError, match=message):
        plan_pipeline(Job(name="p", pipeline=pipeline))


def test_a_pipeline_is_run_from_python_with_real_programs(tmp_path):
    program = (
        "import json, os; given = json.load(open(os.environ['TARMAC_INPUT']));"
        "json.dump(given[0] * 2, open(os.environ['TARMAC_RESULT'], 'w'))"
    )
    own = {"protocol": "plain", "command": [sys.executable, "-c", program]}
    definition = {"name": "double", "cpu": 0.1, "mem": "256Mi", "options": {"tarmac": own}}
    path = tmp_path / "double.json"
    path.write_text(json.dumps(definition))
    assert run_pipeline(path, input_data=[21], output=tmp_path / "runs").result == 42
    with pytest.raises(TarmacError, match="double: double: ") as caught:
        run_pipeline(path, input_data=[], output=tmp_path / "runs")
    assert "tarmac run --resume" in caught.value.hint
    with pytest.raises(RequestError, match="already contains its input and its algorithms"):
        run_pipeline(Job(name="p", pipeline=SUM), input_data=[1])


@pytest.mark.parametrize("start", [tarmac.run, tarmac.submit], ids=["run", "submit"])
def test_the_verbs_of_python_run_pipelines_as_they_run_jobs(tmp_path, start):
    program = "import os; open(os.environ['TARMAC_RESULT'], 'w').write('42')"
    own = {"protocol": "plain", "command": [sys.executable, "-c", program]}
    definition = {"name": "answer", "cpu": 0.1, "mem": "256Mi", "options": {"tarmac": own}}
    (tmp_path / "answer.json").write_text(json.dumps(definition))
    (tmp_path / "p.json").write_text(json.dumps(body(("a", "answer", []))))
    handle = start(tmp_path / "p.json", output=tmp_path / "runs")
    assert [task.name for task in handle.result(timeout=limit_s(120))] == ["a"]
    assert json.loads((handle.path / "result.json").read_text())["data"][0]["result"] == 42
    own["command"] = ["false"]
    failing = Job(name="p", pipeline=body(("a", "answer", [])), algorithms=(definition,))
    with pytest.raises(JobFailed, match="a: ") as caught:
        start(failing, output=tmp_path / "runs").result(timeout=limit_s(120))
    assert "tarmac run --resume" in caught.value.hint
    with pytest.raises(RequestError, match="far"):
        start(failing, output=tmp_path / "runs", on="far")


_WITHOUT = """
import sys, tarmac
from tarmac.jobs import Job
for package in sys.argv[1:]:
    for name in [name for name in sys.modules if name.startswith("tarmac.hkube")]:
        del sys.modules[name]
    sys.modules[package] = None
    try: tarmac.run(Job(name="p", pipeline={"name": "p", "nodes": [{"nodeName": "a"}]}))
    except tarmac.RequestError as error: print(type(error).__name__, error.hint)
    del sys.modules[package]
"""


def test_a_pipeline_names_the_extra_that_it_needs_in_python_too():
    packages = ("websockets", "bson", "msgpack")
    # Not a fork, which has imported them.
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT, *packages], check=False, capture_output=True, text=True
    )
    lines = done.stdout.splitlines()
    assert len(lines) == len(packages), done.stderr
    for line in lines:
        assert line.startswith("MissingExtraError ")
        assert "[hkube]" in line


def test_a_full_disk_ends_the_run_and_it_goes_on_once_there_is_room(run, small_disk):
    disk = small_disk("1m")
    pipeline = body(("a", "make", ["#[1...4]"]), ("b", "count", ["@a"]))
    functions = {"make": lambda: b"x" * 300_000, "count": lambda given: len(given[0])}
    with pytest.raises(TarmacError, match="no space left to write"):
        run(pipeline, functions, output=disk)
    (path,) = disk.iterdir()
    assert read_status(path).state == "interrupted"
    small_disk("8m")
    end, _, _ = run(None, functions, resume=find_run(str(path)))
    assert [row["result"] for row in end.results] == [4]


@pytest.mark.parametrize("when", ["started", "ended"])
def test_an_observer_that_fails_ends_the_run(run, when, caplog):
    def fail(*_):
        raise BrokenPipeError("nobody listens")

    log = Log()
    setattr(log, when, fail)
    with pytest.raises(BrokenPipeError, match="nobody listens"):
        run(SUM, {"square": square, "add": add}, log=log)
    gc.collect()
    assert caplog.messages == []


def test_a_run_that_is_worked_on_is_not_worked_on_twice(run, tmp_path):
    refused = []

    def nested(given, calls, work):
        made = next((tmp_path / "runs").iterdir())
        with pytest.raises(RequestError, match="another process works on") as caught:
            run(None, {}, resume=find_run(str(made)))
        refused.append(caught.value)

    end, _, _ = run(body(("a", "nested", [])), {"nested": nested})
    assert (end.outcome, len(refused)) == ("succeeded", 1)


def test_a_task_has_the_same_id_when_it_is_done_again(run):
    ids = []

    def note(given, calls, work):
        ids.append((work.index, work.task_id, work.parents, work.children))
        if len(ids) == 1:
            raise Failed("error", "x")

    pipeline = body(("a", "echo", []), ("b", "note", ["@a"]), ("c", "echo", ["@b"]))
    functions = {"echo": lambda: 1, "note": note}
    _, _, made = run(pipeline, functions)
    run(None, functions, resume=made)
    assert ids[0] == ids[1]
    assert ids[0][1] == f"{made.path.name}-000001"
    assert ids[0][2:] == (("a",), ("c",))


@pytest.mark.parametrize(("inputs", "ids"), [([5], ["mine"]), (["#[a,b]"], ["mine-1", "mine-2"])])
def test_a_task_of_an_algorithm_has_the_id_that_its_input_names_in_every_run(run, inputs, ids):
    seen = []
    functions = {"pp": lambda given, calls, work: seen.append(work.task_id)}
    node = {"nodeName": "pp", "algorithmName": "pp", "input": inputs, "taskId": "mine"}
    for _ in range(2):
        run({"name": "pp", "nodes": [node]}, functions)
        assert sorted(seen) == ids
        seen.clear()


def test_a_task_whose_result_cannot_be_kept_has_failed(run):
    deep: list = []
    for _ in range(2000):
        deep = [deep]
    end, _, _ = run(body(("a", "deep", [])), {"deep": lambda: deep})
    assert end.outcome == "failed"
    assert end.reason.startswith("a: a result cannot be stored: ")


@pytest.mark.parametrize(
    ("under", "over", "expected"),
    [
        ({"a": 1, "b": 2}, {"b": 3}, {"a": 1, "b": 3}),
        ({"a": {"b": 1}}, {"a": {"c": 2}}, {"a": {"b": 1, "c": 2}}),
        ([1, 2, 3], [4], [4, 2, 3]),
        ({"a": [1]}, {"a": {"b": 1}}, {"a": {"b": 1}}),
        ({"a": 1}, {"a": None}, {"a": None}),
    ],
)
def test_values_are_merged_key_by_key_and_number_by_number(under, over, expected):
    assert merged(under, over) == expected


def test_a_pipeline_that_an_algorithm_starts_is_held_to_the_same_rules(run):
    async def boss(given, calls, work):
        said = []
        asked = [
            {"name": "gone"},
            {"name": "x", "nodes": [{"nodeName": "a", "kind": "gateway"}]},
            {"name": "z", "nodes": [tuning("t", "gone")]},
            {"name": "y", "nodes": [{"nodeName": "a", "algorithmName": "slow"}]}
            | {"options": {"activeTtl": 1}},
        ]
        for wanted in asked:
            with pytest.raises(TarmacError) as caught:
                await calls.run_pipeline(work, wanted)
            said.append(caught.value.message)
        return said

    async def slow(given, calls, work):
        await asyncio.Event().wait()

    end, _, _ = run(body(("a", "boss", [])), {"boss": boss, "slow": slow})
    gone, gateway, tuned, slow_one = end.results[0]["result"]
    assert gone == "unknown pipeline 'gone'"
    assert gateway.startswith("pipeline x cannot be run here: nodes[0].kind: gateway: ")
    assert tuned == "node t: unknown pipeline 'gone'"
    assert slow_one == "pipeline expired: its 1 s are over"


def test_the_runner_keeps_of_tasks_that_have_ended_their_results_alone(run):
    class Meter(Silent):
        def __init__(self) -> None:
            self.num_ended = 0
            self.num_bytes: list[int] = []

        def ended(self, ending) -> None:
            self.num_ended += 1
            if self.num_ended in (500, 2500):
                gc.collect()
                self.num_bytes.append(tracemalloc.get_traced_memory()[0])

    meter = Meter()
    pipeline = body(("a", "boss", ["#[1...2600]"]))

    async def boss(given, calls, work):
        return (await calls.run_algorithm(work, "square", given)).value

    tracemalloc.start()
    try:
        end, _, _ = run(pipeline, {"boss": boss, "square": square}, log=meter)
    finally:
        tracemalloc.stop()
    assert end.counts == {"succeeded": 5200}
    first, last = meter.num_bytes
    # Of each other one an entry of a dict, of two integers; one name would be as much again.
    assert (last - first) / 2000 < 120


def test_inputs_of_a_run_that_goes_on_are_made_when_their_turn_has_come(run, monkeypatch):
    log = Log()
    pipeline = body(("a", "square", ["#[1...5000]"]))
    stops = [True]

    async def some(given, calls, work):
        if stops and given[0] % 2:
            await asyncio.Event().wait()
        return given[0]

    _, _, made = run(pipeline, {"square": some}, log=log, stop=lambda: len(log.lines) > 100)
    num_done = sum(line.startswith("done") for line in log.lines)
    stops.clear()
    num_made = [0]
    most = [0]
    make = Inputs.make

    def counted(self, place):
        num_made[0] += 1
        return make(self, place)

    class Last(Log):
        def ended(self, ending) -> None:
            super().ended(ending)
            most[0] = max(most[0], num_made[0] - len(self.lines))

    monkeypatch.setattr(Inputs, "make", counted)
    end, log, _ = run(None, {"square": some}, resume=made, log=Last())
    assert end.counts == {"succeeded": 5000}
    assert sum(line.startswith("before") for line in log.lines) == num_done > 0
    assert num_made[0] == 5000
    assert most[0] <= 256


def tuning(name: str, objective: str) -> dict:
    """Return a node that tunes."""
    x = {"name": "x", "suggest": "uniform", "low": 0, "high": 1}
    spec = {"objectivePipeline": objective, "numberOfTrials": 1, "hyperParams": [x]}
    return {"nodeName": name, "kind": "hyperparamsTuner", "spec": spec}


def job_of_tuners(*pairs: tuple[str, str]) -> Job:
    """Return a job of pipelines that tune: names and those of their objectives."""
    first, *stored = [{"name": name, "nodes": [tuning("t", other)]} for name, other in pairs]
    algorithm = {"name": "one", "options": {"tarmac": {"command": ["true"]}}}
    last = {"name": "last", "nodes": [{"nodeName": "a", "algorithmName": "one"}]}
    return Job(name="p", pipeline=first, algorithms=(algorithm, last, *stored))


def test_a_pipeline_that_is_tuned_may_tune_another():
    assert [*plan_pipeline(job_of_tuners(("p", "q"), ("q", "last"))).needed] == ["one"]


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([("p", "q"), ("q", "gone")], "node t: unknown pipeline 'gone'"),
        (
            [("p", "q"), ("q", "r"), ("r", "q")],
            "node t: pipelines tune each other in a cycle: p > q > r > q",
        ),
        (
            [(f"p{number}", f"p{number + 1}") for number in range(400)],
            "pipelines tune each other more than 100 deep",
        ),
    ],
    ids=["unknown", "circle", "deep"],
)
def test_a_pipeline_that_is_tuned_is_held_to_the_same_rules(pairs, message):
    with pytest.raises(RequestError) as caught:
        plan_pipeline(job_of_tuners(*pairs))
    assert caught.value.message == message


@pytest.mark.parametrize(
    ("depth", "width", "message"),
    [(400, 1, "in each other more than 100 deep"), (60, 2, "has more than 10000 nodes")],
)
def test_pipelines_in_each_other_are_neither_too_deep_nor_too_many(depth, width, message):
    stored = [
        {
            "name": f"p{number}",
            "nodes": [
                {"nodeName": name, "kind": "pipeline", "spec": {"name": f"p{number + 1}"}}
                for name in "ab"[:width]
            ],
        }
        for number in range(depth)
    ]
    last = {"name": f"p{depth}", "nodes": [{"nodeName": "a", "algorithmName": "one"}]}
    with pytest.raises(RequestError, match=message):
        plan_pipeline(Job(name="p", pipeline=stored[0], algorithms=(*stored, last)))
