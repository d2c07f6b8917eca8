"""Which tasks of a pipeline follow from which results."""

from __future__ import annotations

import collections
import gc
import itertools
import random
import weakref
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tarmac.errors import RequestError
from tarmac.formats import read_pipeline
from tarmac.hkube.pipelines import NodeFailure, NodeTask, NodeTasks, PipelineState


def state_of(
    nodes: Mapping[str, Any], flow_input: Any = None, *, tolerance: int = 80, **more: Any
) -> PipelineState:
    """Return a state of a pipeline whose nodes are given by their inputs, or by all their keys."""
    listed = []
    for name, node in nodes.items():
        keys = node if isinstance(node, dict) else {"input": node}
        listed.append({"nodeName": name, "algorithmName": f"{name}-alg", **keys})
    body = {"name": "p", "nodes": listed, "options": {"batchTolerance": tolerance}, **more}
    return PipelineState(read_pipeline(body), flow_input)


def flat(groups: Sequence[NodeTasks]) -> list[NodeTask]:
    return [task for tasks in groups for task in tasks]


def shown(groups: Sequence[NodeTasks]) -> dict[str, Any]:
    return {task.name: task.input for task in flat(groups)}


def run(
    state: PipelineState,
    value: Callable[[NodeTask], Any] = lambda task: task.name,
    pick: Callable[[int], int] = lambda _: 0,
) -> dict[str, Any]:
    """Run a pipeline by a function; returns the inputs of all tasks by their names."""
    ready, seen = flat(state.start()), {}
    while ready:
        task = ready.pop(pick(len(ready)))
        assert task.name not in seen
        seen[task.name] = task.input
        result = value(task)
        end = state.failed if isinstance(result, NodeFailure) else state.succeeded
        ready += flat(end(task, result))
    assert state.is_finished
    return seen


def of(node: str, *, in_state: PipelineState) -> list[Any]:
    return [entry.get("result") for entry in in_state.results() if entry["nodeName"] == node]


def test_a_node_waits_for_the_nodes_that_its_input_refers_to() -> None:
    state = state_of({"c": ["@a", "@b.x.1"], "a": [1], "b": ["text"]})
    first = flat(state.start())
    assert [(task.name, task.input) for task in first] == [("a", [1]), ("b", ["text"])]
    assert state.succeeded(first[0], {"k": b"v"}) == []
    assert shown(state.succeeded(first[1], {"x": [5, 6]})) == {"c": [{"k": b"v"}, 6]}


def test_the_runs_input_is_found_by_its_path() -> None:
    state = state_of({"a": ["@flowInput.files.0.link", "@flowInput"]}, {"files": [{"link": "l"}]})
    assert shown(state.start()) == {"a": ["l", {"files": [{"link": "l"}]}]}


def test_references_are_replaced_at_any_depth_and_empty_lists_and_objects_stay() -> None:
    given = [{"x": ["@flowInput.a", {}, []], "y": {"z": "@flowInput.b"}}, [], {}, None, "a@b"]
    state = state_of({"n": given}, {"a": 1, "b": None})
    expected = [{"x": [1, {}, []], "y": {"z": None}}, [], {}, None, "a@b"]
    assert shown(state.start()) == {"n": expected}


def test_a_path_that_a_result_does_not_have_is_none() -> None:
    state = state_of({"a": [], "b": ["@a.x.y"]})
    assert run(state, lambda task: {"x": 3}) == {"a": [], "b": [None]}


def test_a_batch_makes_a_task_for_each_element() -> None:
    state = state_of({"a": ["#@flowInput.d", "same"]}, {"d": [{"i": 1}, [2], None]})
    assert shown(state.start()) == {
        "a[1]": [{"i": 1}, "same"],
        "a[2]": [[2], "same"],
        "a[3]": [None, "same"],
    }


def test_a_batch_that_is_written_out_has_texts_and_ranges_of_integers() -> None:
    state = state_of({"a": ["#[1,x,3...5]"]})
    assert [task.input for task in flat(state.start())] == [["1"], ["x"], [3], [4], [5]]


def test_batches_within_an_object_go_together_and_the_shorter_one_has_nothing_at_the_end() -> None:
    state = state_of({"a": [{"x": "#@flowInput.x", "y": "#@flowInput.y"}, ["#[a]"], "#[b]"]},
                     {"x": [1, 2], "y": [3]})  # fmt: skip
    assert shown(state.start()) == {
        "a[1]": [{"x": 1, "y": 3}, ["a"], "b"],
        "a[2]": [{"x": 2}, [None], None],
    }


def test_cartesian_batches_make_a_task_for_each_combination() -> None:
    node = {"input": ["#[a,b]", {"n": "#@flowInput.n"}, "c"], "batchOperation": "cartesian"}
    state = state_of({"a": node}, {"n": [1, 2, 3]})
    assert [task.input for task in flat(state.start())] == [
        [letter, {"n": number}, "c"] for letter, number in itertools.product("ab", (1, 2, 3))
    ]


def test_a_node_takes_the_results_of_a_whole_batch_in_its_order() -> None:
    state = state_of({"a": ["#[x,y,z]"], "b": ["@a.v"]})
    tasks = flat(state.start())
    for place in (2, 0):
        assert state.succeeded(tasks[place], {"v": place}) == []
    assert shown(state.succeeded(tasks[1], {"v": 1})) == {"b": [[0, 1, 2]]}


def test_a_batch_of_a_batchs_results_has_one_task_for_each_of_them() -> None:
    state = state_of({"a": ["#[x,y]"], "b": ["#@a.v"]})
    assert run(state, lambda task: {"v": [task.name]}) == {
        "a[1]": ["x"], "a[2]": ["y"], "b[1]": [["a[1]"]], "b[2]": [["a[2]"]],
    }  # fmt: skip


def test_a_batch_of_one_nodes_result_has_one_task_for_each_element() -> None:
    state = state_of({"a": [], "b": ["#@a.v"]})
    assert run(state, lambda task: {"v": [7, 8]}) == {"a": [], "b[1]": [7], "b[2]": [8]}


def test_a_node_that_follows_a_batch_starts_as_each_task_ends() -> None:
    state = state_of({"a": ["#[x,y]"], "b": ["*@a.v", "c"]})
    first, second = flat(state.start())
    assert shown(state.succeeded(second, {"v": 2})) == {"b[2]": [2, "c"]}
    assert shown(state.succeeded(first, {"v": 1})) == {"b[1]": [1, "c"]}
    assert not state.is_finished


def test_a_node_that_follows_two_batches_waits_for_the_same_task_of_both() -> None:
    state = state_of({"a": ["#[x,y,z]"], "b": ["#[x,y]"], "c": ["*@a", "*@b"]})
    a1, a2, a3, b1, b2 = flat(state.start())
    assert state.succeeded(a1, 1) == []
    assert shown(state.succeeded(b1, 10)) == {"c[1]": [1, 10]}
    assert state.succeeded(b2, 20) == []
    assert shown(state.succeeded(a3, 3)) == {"c[3]": [3, None]}
    assert shown(state.succeeded(a2, 2)) == {"c[2]": [2, 20]}


def test_a_node_that_follows_a_batch_waits_for_what_it_takes_as_a_whole_too() -> None:
    state = state_of({"a": ["#[x,y]"], "s": [], "b": ["*@a", "@s"], "c": ["@b"]})
    a1, a2, single = flat(state.start())
    assert state.succeeded(a1, 1) == []
    (b1,) = flat(state.succeeded(single, "s"))
    assert (b1.name, b1.input) == ("b[1]", [1, "s"])
    assert state.succeeded(b1, 10) == []  # b has another task to come, so c waits.
    (b2,) = flat(state.succeeded(a2, 2))
    assert shown(state.succeeded(b2, 20)) == {"c": [[10, 20]]}


def test_a_node_that_follows_a_batch_and_takes_all_of_it_starts_at_its_end() -> None:
    state = state_of({"a": ["#[x,y]"], "b": ["*@a", "@a"]})
    a1, a2 = flat(state.start())
    assert state.succeeded(a2, 2) == []
    assert shown(state.succeeded(a1, 1)) == {"b[1]": [1, [1, 2]], "b[2]": [2, [1, 2]]}


def test_to_follow_a_node_that_is_no_batch_is_to_wait_for_it() -> None:
    state = state_of({"a": [], "b": ["*@a"], "c": ["*#@a"]})
    (first,) = flat(state.start())
    assert shown(state.succeeded(first, [5, 6])) == {"b": [[5, 6]], "c[1]": [5], "c[2]": [6]}


def test_elements_of_each_result_of_a_batch_are_numbered_as_they_come() -> None:
    state = state_of({"a": ["#[x,y]"], "b": ["*#@a.v", "*@a.w"], "c": ["@b"]})
    a1, a2 = flat(state.start())
    made = state.succeeded(a2, {"v": [1, 2], "w": "second"})
    assert shown(made) == {"b[1]": [1, "second"], "b[2]": [2, "second"]}
    more = state.succeeded(a1, {"v": [3], "w": "first"})
    assert shown(more) == {"b[3]": [3, "first"]}
    assert [state.succeeded(task, task.input[0]) for task in flat(made)] == [[], []]
    # Their order is that of what they follow, whichever came first.
    assert shown(state.succeeded(*flat(more), 3)) == {"c": [[3, 1, 2]]}


def test_a_chain_of_nodes_that_follow_each_other_goes_on_element_by_element() -> None:
    state = state_of({"a": ["#[x,y]"], "b": ["*@a"], "c": ["*@b"]})
    _, a2 = flat(state.start())
    (b2,) = flat(state.succeeded(a2, "A"))
    assert shown(state.succeeded(b2, "B")) == {"c[2]": ["B"]}


@pytest.mark.parametrize("empty", [[], "text", None, 3, {"a": 1}])
def test_a_batch_of_nothing_is_skipped_with_all_that_is_a_batch_of_it(empty: Any) -> None:
    nodes = {"a": ["#@flowInput.x"], "b": ["#@a"], "c": ["*@a"], "d": ["@a", "@c"], "e": ["*#@a"]}
    state = state_of(nodes, {"x": empty})
    assert run(state) == {"d": [[], []]}
    skipped = [entry["nodeName"] for entry in state.results() if entry.get("batchIndex") == -1]
    assert skipped == ["b", "e"]
    assert all("result" not in entry for entry in state.results() if entry["nodeName"] != "d")


def test_a_cartesian_batch_with_an_empty_one_is_skipped() -> None:
    state = state_of({"a": {"input": ["#[x]", "#@flowInput"], "batchOperation": "cartesian"}}, [])
    assert run(state) == {}


def test_a_batch_of_what_a_result_does_not_have_ends_the_pipeline() -> None:
    state = state_of({"a": [], "b": ["#@a.files"]})
    (first,) = flat(state.start())
    assert state.succeeded(first, {"file": []}) == ()
    assert state.stopped_for == "b: #@a.files: a has no files"
    assert state.is_finished


@pytest.mark.parametrize(
    ("tolerance", "num_tasks", "ends_at"),
    [(0, 9, 1), (100, 3, 3), (80, 10, 8), (13, 8, 1), (34, 3, 2), (33, 3, 1), (1, 201, 2)],
)  # fmt: skip
def test_a_pipeline_ends_when_so_many_tasks_of_a_batch_have_failed(
    tolerance: int, num_tasks: int, ends_at: int
) -> None:
    state = state_of({"a": [f"#[1...{num_tasks}]"]}, tolerance=tolerance)
    tasks = flat(state.start())
    for number, task in enumerate(tasks[:ends_at], 1):
        assert not state.stopped_for, number
        state.failed(task, NodeFailure("no"))
    assert state.stopped_for.endswith(f"failed tasks, batch tolerance is {tolerance}%, error: no")
    assert state.stopped_for.startswith(f"a: {ends_at}/{num_tasks} (")


def test_failed_tasks_within_the_tolerance_are_left_out_of_the_whole_and_none_one_by_one() -> None:
    state = state_of({"a": ["#[x,y,z]"], "b": ["@a"], "c": ["#@a"], "d": ["*@a"], "e": ["*#@a"]})
    seen = run(
        state, lambda task: NodeFailure("no") if task.name == "a[2]" else [task.name]
    )  # fmt: skip
    assert seen["b"] == [[["a[1]"], ["a[3]"]]]
    assert [seen["c[1]"], seen["c[2]"]] == [[["a[1]"]], [["a[3]"]]]
    assert [seen["d[1]"], seen["d[2]"], seen["d[3]"]] == [[["a[1]"]], [None], [["a[3]"]]]
    assert [seen["e[1]"], seen["e[2]"]] == [["a[1]"], ["a[3]"]]
    assert "c[3]" not in seen
    assert "e[3]" not in seen


@pytest.mark.parametrize("failed_first", [True, False])
def test_the_share_of_failed_tasks_is_of_all_that_will_follow_a_batch(failed_first: bool) -> None:
    state = state_of({"a": ["#[1...4]"], "b": ["*@a"]}, tolerance=30)
    tasks = flat(state.start())
    for task in tasks if failed_first else reversed(tasks):
        (follower,) = flat(state.succeeded(task, 1))
        if task is tasks[0]:
            state.failed(follower, NodeFailure("no"))
            assert not state.stopped_for
        else:
            state.succeeded(follower, 1)
    assert state.is_finished
    assert not state.stopped_for


def test_while_the_number_of_tasks_is_unknown_only_no_tolerance_at_all_ends_a_pipeline() -> None:
    for tolerance, ends in ((0, True), (1, False)):
        state = state_of({"a": ["#[1...4]"], "b": ["*#@a"]}, tolerance=tolerance)
        (follower,) = flat(state.succeeded(flat(state.start())[0], [1]))
        state.failed(follower, NodeFailure("no"))
        assert bool(state.stopped_for) is ends


def test_the_share_of_failed_tasks_is_looked_at_when_their_number_becomes_known() -> None:
    state = state_of({"a": ["#[1...2]"], "b": ["*#@a"]}, tolerance=50)
    first, second = flat(state.start())
    (follower,) = flat(state.succeeded(first, [1]))
    state.failed(follower, NodeFailure("no"))
    assert state.succeeded(second, [2]) == ()
    assert state.stopped_for == "b: 1/2 (50%) failed tasks, batch tolerance is 50%, error: no"


def test_a_failed_task_of_no_batch_ends_the_pipeline() -> None:
    state = state_of({"a": [], "b": ["@a"]}, tolerance=100)
    assert state.failed(*flat(state.start()), NodeFailure("out of memory")) == ()
    assert (state.stopped_for, state.is_finished) == ("a: out of memory", True)


def test_an_image_that_cannot_be_had_ends_the_pipeline_whatever_the_tolerance() -> None:
    state = state_of({"a": ["#[1...5]"]}, tolerance=100)
    first, second, *_ = flat(state.start())
    state.failed(first, NodeFailure("no such image", is_image=True))
    assert state.stopped_for == "a[1]: no such image"
    assert state.succeeded(second, 1) == ()


def test_results_are_those_of_nodes_that_nobody_takes_and_of_those_that_ask_for_it() -> None:
    state = state_of({
        "a": {"input": ["#[x,y]"], "includeInResult": True},
        "b": ["@a"],
        "c": ["#[1...3]"],
    })  # fmt: skip
    run(state, lambda task: NodeFailure("no") if task.name == "c[2]" else task.name)
    assert state.results() == [
        {"nodeName": "a", "batchIndex": 1, "algorithmName": "a-alg", "result": "a[1]"},
        {"nodeName": "a", "batchIndex": 2, "algorithmName": "a-alg", "result": "a[2]"},
        {"nodeName": "b", "algorithmName": "b-alg", "result": "b"},
        {"nodeName": "c", "batchIndex": 1, "algorithmName": "c-alg", "result": "c[1]"},
        {"nodeName": "c", "batchIndex": 2, "algorithmName": "c-alg", "error": "no"},
        {"nodeName": "c", "batchIndex": 3, "algorithmName": "c-alg", "result": "c[3]"},
    ]


def test_results_have_the_order_in_which_references_name_the_nodes() -> None:
    asks = {"includeInResult": True}
    state = state_of({"c": {"input": ["@b", "@a"], **asks}, "a": asks, "b": asks})
    run(state)
    assert [entry["nodeName"] for entry in state.results()] == ["b", "c", "a"]


def test_the_result_of_an_output_node_is_its_input() -> None:
    state = state_of({"o": {"kind": "output", "input": [{"all": "@a"}, 3]}, "a": ["#[x,y]"]})
    assert set(run(state)) == {"a[1]", "a[2]"}
    assert state.results() == [
        {"nodeName": "o", "algorithmName": "p-output", "result": [{"all": ["a[1]", "a[2]"]}, 3]}
    ]


def test_an_output_node_can_be_a_batch() -> None:
    state = state_of({"a": ["#[x,y]"], "o": {"kind": "output", "input": ["*@a"]}})
    run(state)
    assert of("o", in_state=state) == [["a[1]"], ["a[2]"]]


def test_an_edge_is_an_order_without_a_value() -> None:
    edges = [{"source": "b", "target": "a"}, {"source": "b", "target": "nobody"}, {"source": []}]
    state = state_of({"a": [1], "b": [2]}, edges=edges)
    (first,) = flat(state.start())
    assert first.name == "b"
    assert shown(state.succeeded(first, 5)) == {"a": [1]}
    assert (state.parents_of("a"), state.children_of("b")) == (("b",), ("a",))


def test_nothing_is_left_of_a_pipeline_of_edges_to_skipped_batches() -> None:
    edges = [{"source": "a", "target": "b"}]
    state = state_of({"a": ["#@flowInput"], "b": ["#@flowInput"]}, [], edges=edges)
    assert run(state) == {}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["@flowInput.x.y"], "node a takes @flowInput.x.y: unable to find flowInput.x.y"),
        ([{"k": "#@flowInput.z"}], "node a takes #@flowInput.z: unable to find flowInput.z"),
        (
            ["@dataSource.a/b"],
            "node a takes @dataSource.a/b: data sources exist only in an HKube cluster",
        ),
    ],
)
def test_what_cannot_be_had_is_refused_before_anything_runs(given: Any, message: str) -> None:
    with pytest.raises(RequestError) as caught:
        state_of({"a": given}, {"x": {}})
    assert caught.value.message == f"pipeline p: {message}"


@pytest.mark.parametrize(
    ("inputs", "message"),
    [(([], []), 'found duplicate node "a"'), ((["*@b"],), "node a takes *@b: there is no node b")],
)
def test_nodes_that_came_from_elsewhere_are_refused_where_they_make_no_pipeline(
    inputs: Sequence[list[Any]], message: str
) -> None:
    pipeline = read_pipeline({"name": "p", "nodes": [{"nodeName": "a", "algorithmName": "some"}]})
    nodes = [pipeline.nodes[0].model_copy(update={"input": given}) for given in inputs]
    with pytest.raises(RequestError) as caught:
        PipelineState(pipeline.model_copy(update={"nodes": nodes}), None)
    assert caught.value.message == f"pipeline p: {message}"


def test_an_input_that_is_nested_without_end_is_refused() -> None:
    given: list[Any] = []
    for _ in range(5000):
        given = [given]
    with pytest.raises(RequestError, match="the input of node a is nested more than 100 deep"):
        state_of({"a": given})


def test_more_tasks_than_can_be_run_end_a_pipeline() -> None:
    node = {"input": ["#[1...10000]"] * 30, "batchOperation": "cartesian"}
    state = state_of({"a": node})
    with pytest.raises(RequestError, match=r"pipeline p: a: 10+ tasks, at most 1000000 can be run"):
        state.known_tasks()
    assert state.start() == ()
    assert state.stopped_for.endswith("tasks, at most 1000000 can be run")


@pytest.mark.parametrize(
    ("node", "index"), [("a", None), ("a", 3), ("a", 1), ("c", None), ("z", 1)]
)
def test_the_end_of_what_is_no_open_task_is_an_error(node: str, index: int | None) -> None:
    state = state_of({"a": ["#[x,y]"], "b": ["@a"], "c": ["@b"]})
    state.succeeded(flat(state.start())[0], 1)
    with pytest.raises(ValueError, match="is not a running task"):
        state.succeeded(NodeTask(node, index, ()), 1)


def test_told_the_same_in_the_same_order_a_state_makes_the_same_tasks() -> None:
    nodes = {"a": ["#[1...5]"], "b": ["*#@a", "*@a"], "c": ["*@b", "@a"], "d": ["@c", "#@b"]}
    order: list[NodeTask] = []

    def value(task: NodeTask) -> Any:
        order.append(task)
        return [task.name, 1]

    seen = run(state_of(nodes), value, random.Random(3).randrange)
    again = state_of(nodes)
    made = shown(again.start())
    for task in order:
        made |= shown(again.succeeded(NodeTask(task.node, task.batch_index, ()), [task.name, 1]))
    assert made == seen


@pytest.mark.parametrize("seed", range(5))
def test_the_order_in_which_tasks_end_does_not_change_what_they_are_given(seed: int) -> None:
    nodes = {
        "a": ["#[1...6]"], "s": [], "b": ["*@a", "@s"], "c": ["*@b", "*@a"], "d": ["@c", "@b"],
        "e": ["#@b"], "f": {"input": ["#@c", "#@a"], "batchOperation": "cartesian"},
    }  # fmt: skip
    first = run(state_of(nodes))
    assert run(state_of(nodes), pick=random.Random(seed).randrange) == first


@st.composite
def any_pipelines(draw: st.DrawFn) -> dict[str, Any]:
    """Draw nodes with every form of reference to each other.

    Left out are nodes that follow another one beside one whose tasks are numbered as they come:
    which of their tasks go together is a matter of the order.
    """
    nodes: dict[str, Any] = {}
    for number in range(draw(st.integers(1, 5))):
        forms = [f"{sign}@{name}" for sign in ("", "#", "*", "*#") for name in nodes]
        texts = ["text", "#[a,b]", "#[1...3]", "#@flowInput.empty", "#@flowInput.list", *forms]
        taken = draw(st.lists(st.sampled_from(texts), max_size=2))
        followed = {text.rpartition("@")[2] for text in taken if text.startswith("*")}
        if len(followed) > 1 and "*" in str([nodes[name]["input"] for name in followed]):
            taken.pop()
        operation = draw(st.sampled_from(["indexed", "cartesian"]))
        nodes[f"n{number}"] = {"input": taken, "batchOperation": operation}
    if draw(st.booleans()) and any("@n" in text for text in taken):
        nodes[f"n{number}"]["kind"] = "output"
    return dict.fromkeys(draw(st.permutations(list(nodes)))) | nodes


def canonical(value: Any) -> Any:
    """Return a value in which the order of elements makes no difference."""
    if isinstance(value, list):
        return sorted((canonical(each) for each in value), key=repr)
    return value


@settings(max_examples=200, derandomize=True)
@given(
    nodes=any_pipelines(),
    seeds=st.tuples(st.integers(), st.integers()),
    failing=st.sets(st.integers(0, 9), max_size=3),
)
def test_every_pipeline_ends_and_the_order_of_ends_changes_only_numbers(
    nodes: dict[str, Any], seeds: tuple[int, int], failing: set[int]
) -> None:
    def value(task: NodeTask) -> Any:
        digest = zlib.crc32(repr((task.node, canonical(task.input))).encode())
        is_spared = task.batch_index is None
        if digest % 10 in failing and not is_spared:
            return NodeFailure("no")
        return [digest, *([digest % 7] * (digest % 3))]

    runs = []
    for seed in seeds:
        state = state_of(nodes, {"empty": [], "list": [1, [2]]}, tolerance=100)
        forecasts = {each.node: each.num_tasks for each in state.known_tasks()}
        seen = run(state, value, random.Random(seed).randrange)
        if state.stopped_for:
            assert failing
            return
        counts = collections.Counter(name.partition("[")[0] for name in seen)
        if not failing:
            known = {name: number for name, number in forecasts.items() if number is not None}
            assert known == {name: counts[name] for name in known}
        tasks = [(name.partition("[")[0], canonical(given)) for name, given in seen.items()]
        runs.append(sorted(tasks, key=repr))
    assert runs[0] == runs[1]


_WRITTEN = st.one_of(
    st.text(alphabet="@#*[].,0aflowInput", max_size=12),
    st.sampled_from(
        ["@a", "#@a.x", "*@a", "*#@b.0", "@flowInput.x", "#@flowInput", "#[1...9", "@"]
    ),
)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.binary(max_size=3) | _WRITTEN,
    lambda part: (
        st.lists(part, max_size=3) | st.dictionaries(_WRITTEN | st.just("x"), part, max_size=3)
    ),
    max_leaves=6,
)


@settings(max_examples=300, derandomize=True)
@given(
    inputs=st.lists(st.lists(_VALUES, max_size=3), min_size=1, max_size=3),
    edges=st.lists(st.dictionaries(st.sampled_from(["source", "target"]), st.sampled_from("abc"))),
    flow_input=_VALUES,
    results=st.lists(_VALUES, min_size=1, max_size=4),
)
def test_whatever_is_written_is_run_or_refused(
    inputs: list[Any], edges: list[Any], flow_input: Any, results: list[Any]
) -> None:
    nodes = dict(zip("abc", inputs, strict=False))
    try:
        state = state_of(nodes, flow_input, edges=edges)
        state.known_tasks()
    except RequestError:
        return
    given = itertools.cycle(results)
    run(state, lambda task: next(given))


def test_inputs_of_a_large_batch_are_made_as_they_are_asked_for_and_shared() -> None:
    big = ["x"] * 1000
    given = {"d": list(range(100_000)), "big": big}
    state = state_of({"a": ["#@flowInput.d", "@flowInput.big"]}, given)
    (tasks,) = state.start()
    assert len(tasks) == 100_000
    for task in tasks:
        assert task.input[1] is big
        state.succeeded(task, None)
    assert state.is_finished


def test_a_large_batch_is_followed_in_a_time_that_grows_with_it_alone() -> None:
    state = state_of({"a": ["#[1...20000]"], "b": ["*@a"], "c": ["*@b", "@s"], "s": []})
    a, single = state.start()
    for task in a:
        (follower,) = flat(state.succeeded(task, task.batch_index))
        state.succeeded(follower, follower.batch_index)
    assert sum(len(tasks) for tasks in state.succeeded(*single, 0)) == 20_000


def test_a_long_chain_of_nodes_takes_no_stack() -> None:
    nodes = {"n0": ["#[x,y]"]} | {f"n{i}": [f"*@n{i - 1}"] for i in range(1, 1500)}
    state = state_of(nodes, tolerance=100)
    run(state)
    skipped = {"n0": ["#@flowInput"]} | {f"n{i}": [f"#@n{i - 1}"] for i in range(1, 1500)}
    assert run(state_of(skipped, [])) == {}


def test_results_that_nobody_takes_any_more_are_given_up() -> None:
    class Value(dict[str, Any]):
        """A result that tells when it is gone."""

    state = state_of({"a": ["#[x]"], "b": ["@a"], "c": ["@b"]})
    value = Value()
    gone = weakref.ref(value)
    (b,) = flat(state.succeeded(*flat(state.start()), value))
    del value
    del b
    gc.collect()
    assert gone() is None


def test_what_is_known_before_anything_runs_is_said() -> None:
    state = state_of({
        "a": ["#@flowInput", "x"],
        "b": ["*@a"],
        "c": ["@b"],
        "d": ["#@c"],
        "e": {"input": ["#@b", "#[1,2]"], "batchOperation": "cartesian"},
        "f": ["*@d"],
        "o": {"kind": "output", "input": ["@f", "@e"]},
        "s": [1],
    }, ["p", "q", "r"])  # fmt: skip
    known = {forecast.node: forecast for forecast in state.known_tasks()}
    assert {name: forecast.num_tasks for name, forecast in known.items()} == {
        "a": 3, "b": 3, "c": 1, "d": None, "e": 6, "f": None, "s": 1,
    }  # fmt: skip
    assert [task.input for task in known["a"].tasks or ()] == [["p", "x"], ["q", "x"], ["r", "x"]]
    assert [task.input for task in known["s"].tasks or ()] == [[1]]
    assert (known["e"].tasks, known["e"].depends_on) == (None, ("b",))
