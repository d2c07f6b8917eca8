"""That a pipeline's tasks and results are those that HKube's own packages make of it."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import subprocess
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tarmac.errors import RequestError
from tarmac.formats import read_pipeline, read_reference
from tarmac.hkube.pipelines import NodeFailure, PipelineState

_DRIVER = Path(__file__).parent / "drive_hkube.js"
_PACKAGES = ("@hkube/dag@2.2.2", "@hkube/parsers@2.1.11")

_FLOW_INPUT = {
    "list": ["x", {"y": 2}, [3]],
    "two": [None, False],
    "empty": [],
    "object": {"number": 7, "text": "seven", "list": [1.5]},
}
_FLOW_PATHS = ("list", "two", "empty", "object", "object.number", "object.list", "list.1.y")
_BATCHES = (
    *("#@flowInput.list", "#@flowInput.two", "#[1...4]", "#[p, q,3...4]"),
    *("#@flowInput.empty", "#@flowInput.object", "#[3...1]"),
)

Ask = Callable[[dict[str, Any]], dict[str, Any]]


@pytest.fixture(scope="module")
def hkube(node_packages: Callable[..., Path]) -> Iterator[Ask]:
    """Return what runs a case by HKube's packages, in one process of Node.js."""
    environment = os.environ | {"NODE_PATH": str(node_packages(*_PACKAGES))}
    with subprocess.Popen(
        ["node", str(_DRIVER)],
        env=environment,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        reader, writer = process.stdout, process.stdin

        def ask(case: dict[str, Any]) -> dict[str, Any]:
            writer.write(f"{json.dumps(case)}\n")
            writer.flush()
            return json.loads(reader.readline())

        yield ask
        writer.close()


def ours(case: dict[str, Any]) -> dict[str, Any]:
    """Run a case as the driver of HKube's packages does."""
    try:
        state = PipelineState(read_pipeline(case["pipeline"]), case["flowInput"])
    except RequestError as error:
        return {"refused": error.message}
    ready = deque(task for tasks in state.start() for task in tasks)
    tasks = []
    while ready and not state.is_finished:
        task = ready.popleft()
        tasks.append({"node": task.node, "index": task.batch_index, "input": task.input})
        number = task.batch_index or 0
        if number in case["failures"].get(task.node, ()):
            made = state.failed(task, NodeFailure("no"))
        else:
            answers = case["results"][task.node]
            made = state.succeeded(task, answers[number % len(answers)])
        ready += [task for tasks in made for task in tasks]
    results = None if state.stopped_for else state.results()
    return {"tasks": tasks, "results": results, "error": state.stopped_for or None}


def case(nodes: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a case whose nodes are given by their inputs, or by all their keys."""
    listed = []
    for name, node in nodes.items():
        keys = node if isinstance(node, dict) else {"input": node}
        listed.append({"nodeName": name, "algorithmName": "some", "kind": "algorithm"} | keys)
    options = {"batchTolerance": more.pop("tolerance", 80)}
    edges = more.pop("edges", [])
    pipeline = {"name": "p", "kind": "batch", "nodes": listed, "options": options, "edges": edges}
    results = {name: [f"result of {name}"] for name in nodes} | more.pop("results", {})
    return {
        "pipeline": pipeline,
        "flowInput": _FLOW_INPUT,
        "results": results,
        "failures": {},
    } | more


def in_order(found: dict[str, Any]) -> list[str]:
    return sorted(json.dumps(task, sort_keys=True) for task in found["tasks"])


@dataclasses.dataclass(frozen=True)
class _Made:
    """A node that later ones may refer to."""

    name: str
    # simple, batch, or each, which follows a batch.
    kind: str
    # It can take no results.
    is_alone: bool


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    """Draw pipelines that HKube runs to the end.

    Left out is what its packages cannot: ``*#@``, and ``*@`` on what is no batch, never start;
    batches in a node that follows one get their indices twice; a batch of a path that is not there,
    and two of the run's input in a node that takes results, are errors of JavaScript; empty lists
    and objects get lost; nodes that follow two batches have tasks too early, and again later; and
    of two that follow one batch, one has tasks twice where the other waits for a further node.
    """
    made: list[_Made] = []
    nodes: dict[str, Any] = {}
    # Whether what follows a node waits for others too.
    waits: dict[str, bool] = {}
    for number in range(draw(st.integers(1, 6))):
        name = f"n{number}"
        whole = [each.name for each in made if each.kind != "each"]
        plain = st.sampled_from([
            *("text", 5, None, True, "a@b"),
            *(f"@flowInput.{path}" for path in _FLOW_PATHS),
            *(f"@{parent}{path}" for parent in whole for path in ("", ".v", ".w.x", ".none")),
        ])  # fmt: skip
        own = [f"#@{each.name}.v" for each in made if each.kind != "each"]
        leaders = [m.name for m in made if m.kind != "simple" and not waits.get(m.name)]
        kind = draw(st.sampled_from(["simple", "batch"] + ["each"] * bool(leaders)))
        leader = draw(st.sampled_from(leaders)) if kind == "each" else None
        if leader is not None:
            again = st.sampled_from([f"*@{leader}", f"*@{leader}.v"])
            special = [f"*@{leader}", *draw(st.lists(again, max_size=1))]
        elif kind == "batch":
            special = draw(st.lists(st.sampled_from([*_BATCHES, *own]), min_size=1, max_size=3))
        else:
            special = []
        others = draw(st.lists(plain, max_size=3))
        is_alone = len({part for part in special if part.startswith("#@flowInput")}) > 1
        if is_alone:
            special = [part for part in special if not _takes_results(part)]
        if is_alone or leader in waits:
            others = [part for part in others if not _takes_results(part)]
        if leader is not None:
            waits[leader] = any(_takes_results(part) for part in others)
        parts = [*special, *others]
        wrapped = [_wrapped(draw, part) for part in draw(st.permutations(parts))]
        operation = draw(st.sampled_from(["indexed", "cartesian"]))
        nodes[name] = {"input": wrapped, "batchOperation": operation}
        made.append(_Made(name, kind, is_alone))
    value = st.fixed_dictionaries({
        "v": st.lists(st.integers(0, 9), max_size=3),
        "w": st.fixed_dictionaries({"x": st.sampled_from([0, None, "x", [1]])}),
    })  # fmt: skip
    results = {name: draw(st.lists(value, min_size=1, max_size=3)) for name in nodes}
    able = [each.name for each in made if each.kind != "each"]
    failures = {}
    if able and draw(st.booleans()):
        failing = draw(st.sampled_from(able))
        failures[failing] = draw(st.lists(st.integers(0, 6), unique=True, min_size=1))
    pairs = [
        {"source": first.name, "target": second.name}
        for first, second in itertools.combinations(made, 2)
        if first.kind != "each" and second.kind != "each" and not second.is_alone
    ]
    edges = draw(st.lists(st.sampled_from(pairs), max_size=2)) if pairs else []
    order = draw(st.permutations(list(nodes)))
    shuffled = {name: nodes[name] for name in order}
    tolerance = draw(st.sampled_from([0, 20, 33, 50, 67, 80, 100]))
    more = {"failures": failures, "tolerance": tolerance, "edges": edges}
    return case(shuffled, results=results, **more)


def _takes_results(part: Any) -> bool:
    reference = read_reference(part) if isinstance(part, str) else None
    return reference is not None and reference.node is not None


def _wrapped(draw: st.DrawFn, part: Any) -> Any:
    for form in draw(st.lists(st.sampled_from("[{"), max_size=2)):
        part = [part] if form == "[" else {"k": part, "l": 1}
    return part


@settings(max_examples=200, derandomize=True)
@given(asked=cases())
def test_tasks_and_results_are_those_of_hkubes_packages(hkube: Ask, asked: dict[str, Any]) -> None:
    theirs, found = hkube(asked), ours(asked)
    if theirs["error"] is not None:
        assert found["error"].endswith(theirs["error"])
        return
    assert found["error"] is None
    assert in_order(found) == in_order(theirs)
    assert found["results"] == theirs["results"]


@pytest.mark.parametrize(
    "nodes",
    [
        {"a": ["#@flowInput.list"], "b": ["@a"], "c": ["#@a"], "d": ["*@a"]},
        {"a": ["#@flowInput.empty"], "b": ["#@a"], "c": ["*@a"], "d": ["@a", "@c"]},
        {"a": ["*@flowInput.object", "*#@flowInput.list"]},
        {"c": ["@b", "@a"], "a": [1], "b": [2]},
    ],
)  # fmt: skip
@pytest.mark.parametrize("failures", [{}, {"a": [2]}])
def test_every_form_of_a_reference_is_hkubes(
    hkube: Ask, nodes: dict[str, Any], failures: dict[str, Any]
) -> None:
    asked = case(nodes, failures=failures)
    theirs, found = hkube(asked), ours(asked)
    assert in_order(found) == in_order(theirs)
    assert (found["results"], found["error"]) == (theirs["results"], theirs["error"])


@pytest.mark.parametrize("text", ["@flowInput.none", "#@flowInput.list.7", "@flowInput.list.x"])
def test_what_the_runs_input_lacks_is_refused_in_hkubes_words(hkube: Ask, text: str) -> None:
    asked = case({"a": [{"k": text}]})
    assert ours(asked)["refused"].endswith(hkube(asked)["refused"])


@pytest.mark.parametrize(
    ("nodes", "results", "their_end", "our_tasks"),
    [
        ({"a": ["#[x]"], "b": ["*#@a"]}, {"a": [[1, 2]]}, "hangs", 3),
        ({"a": [1], "b": ["*@a"]}, {}, "hangs", 2),
        ({"a": [1], "b": ["#@a.none"]}, {"a": [{}]}, "Cannot read properties of null", 1),
    ],
)
def test_what_hkube_cannot_end_is_ended_here(
    hkube: Ask, nodes: dict[str, Any], results: dict[str, Any], their_end: str, our_tasks: int
) -> None:
    asked = case(nodes, results=results)
    assert hkube(asked)["error"].startswith(their_end)
    assert len(ours(asked)["tasks"]) == our_tasks


def test_a_task_that_follows_two_batches_runs_once_and_has_both_results(hkube: Ask) -> None:
    asked = case({"a": ["#[x,y]"], "b": ["#[x,y]"], "c": ["*@a", "*@b"]})
    given = [
        [task["input"] for task in found["tasks"] if task["node"] == "c"]
        for found in (hkube(asked), ours(asked))
    ]
    both = ["result of a", "result of b"]
    assert given == [[both, ["result of a", None], both], [both, both]]


@pytest.mark.parametrize(
    ("nodes", "theirs", "here"),
    [
        ({"a": ["#[x,y]"], "b": ["*@a", "#[p,q]"]}, [1, 1, 2, 2], [1, 2, 3, 4]),
        ({"a": ["#[x,y]"], "s": [], "b": ["*@a"], "c": ["*@a", "@s"]}, [1, 1, 2], [1, 2]),
    ],
)
def test_indices_that_hkube_gives_twice_are_given_once(
    hkube: Ask, nodes: dict[str, Any], theirs: list[int], here: list[int]
) -> None:
    asked = case(nodes)
    indices = [
        sorted(task["index"] for task in found["tasks"] if task["node"] == "b")
        for found in (hkube(asked), ours(asked))
    ]
    assert indices == [theirs, here]


def test_empty_lists_and_objects_stay_which_hkube_loses(hkube: Ask) -> None:
    given = [{"k": [], "l": {}, "m": 1}, []]
    asked = case({"a": given})
    assert hkube(asked)["tasks"][0]["input"] == [{"m": 1}]
    assert ours(asked)["tasks"][0]["input"] == given


def test_a_node_that_asks_for_it_is_in_the_results_which_hkube_passes_over(hkube: Ask) -> None:
    asked = case({"a": {"input": [], "includeInResult": True}, "b": ["@a"]})
    named = [
        [each["nodeName"] for each in found["results"]] for found in (hkube(asked), ours(asked))
    ]
    assert named == [["b"], ["a", "b"]]
