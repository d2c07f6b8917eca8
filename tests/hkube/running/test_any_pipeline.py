"""Any pipeline: it ends, or is refused, in words; and what has been done is not done again."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

from hkube_functions import Failed, Functions, Log
from hypothesis import given, settings
from hypothesis import strategies as st

from tarmac.errors import RequestError
from tarmac.hkube.running import work_on_pipeline
from tarmac.jobs import Job, create_run, find_run

NODES = ("a", "b", "c")
REFERENCES = (
    *("@a", "#@a", "*@a", "*#@a", "@b", "#@b", "*@b", "@b.x.0", "#@c.list", "@nobody"),
    *("@flowInput", "@flowInput.x", "#@flowInput.list", "#@flowInput.x", "@flowInput.none.x"),
    *("#[1...3]", "#[1,a,,]", "#[]", "#[1...99999999999]", "#[3...1]", "@", "#@", "*@", "$$", "#["),
)
SOUND = ("@flowInput", "@flowInput.x", "#@flowInput.list", "#[1...3]", "#[1,a,,]", "#[]")
WAYS = [(sign, path) for sign in ("", "#", "*", "*#") for path in ("", ".x", ".0", ".list")]
plain = st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3)


def nested(leaf):
    """Return leaves, and lists and objects of them."""
    return st.recursive(
        leaf,
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=2)
        ),
        max_leaves=4,
    )


# Most of what HKube would refuse is in the tests of the reader; here a little of it.
junk = st.fixed_dictionaries(
    {},
    optional={
        "algorithmName": st.sampled_from(("nobody", "")) | plain,
        "kind": st.sampled_from(("pipeline", "output", "debug", "hyperparamsTuner")),
        "retry": st.dictionaries(st.sampled_from(("policy", "limit")), plain),
        "spec": st.dictionaries(st.sampled_from(("name", "objectivePipeline")), plain),
    },
)
sound = st.fixed_dictionaries(
    {},
    optional={
        "batchOperation": st.sampled_from(("indexed", "cartesian")),
        "retry": st.just({"policy": "Always", "limit": 2}),
        "ttl": st.just(60),
        "includeInResult": st.booleans(),
    },
)


@st.composite
def pipelines(draw):
    """Return a pipeline, most of whose nodes take only from those before them."""
    nodes = []
    for number, name in enumerate(NODES[: draw(st.integers(1, 3))]):
        before = [f"{sign}@{one}{path}" for one in NODES[:number] for sign, path in WAYS]
        known = [*before, *before, *REFERENCES] if draw(st.integers(0, 9)) == 0 else before or [1]
        given_input = st.lists(nested(st.sampled_from([*known, *SOUND]) | plain), max_size=3)
        more = draw(junk) if draw(st.integers(0, 19)) == 0 else draw(sound)
        nodes.append({"nodeName": name, "algorithmName": "alg", "input": draw(given_input), **more})
    tolerance = st.sampled_from((0, 50, 80, 100, 100, 100))
    return {
        "name": "p",
        "nodes": nodes,
        "flowInput": {"x": draw(nested(plain)), "list": draw(st.lists(plain, max_size=3))},
        "options": {"batchTolerance": draw(tolerance)},
    }


RESULTS = (None, 1, [1, 2], [], {}, {"x": [1], "list": [3, 4]}, "@a", "#[1,2]", b"\xff", 1e308)


def made_of(given_input):
    """Give one of the results, or an error; always the same for an input."""
    drawn = hashlib.sha256(repr(given_input).encode()).digest()[0]
    if drawn < 40:
        raise Failed("error", "no luck")
    return RESULTS[drawn % len(RESULTS)]


def run(made):
    calls = []

    def function(given_input):
        calls.append(given_input)
        return made_of(given_input)

    def host(algorithms, run, *, watcher, calls, **_):
        return Functions({"alg": function}, run, watcher=watcher, calls=calls)

    return work_on_pipeline(made, Log(), open_host=host), len(calls)


@settings(max_examples=60)
@given(pipelines())
def test_any_pipeline_ends_in_words_and_goes_on_without_doing_again_what_succeeded(pipeline):
    definition = {"name": "alg", "options": {"tarmac": {"command": ["true"]}}}
    with tempfile.TemporaryDirectory() as name:
        try:
            job = Job(name="p", pipeline=pipeline, algorithms=(definition,))
            made = create_run(job, Path(name), (), Path(name) / "runs")
            end, num_calls = run(made)
        except RequestError:
            return
        assert end.outcome in ("succeeded", "failed")
        assert bool(end.reason) == (end.outcome == "failed")
        assert num_calls >= end.counts.get("succeeded", 0)
        again, num_more = run(find_run(str(made.path), Path(name) / "runs"))
        assert again.outcome == end.outcome
        if end.outcome == "succeeded":
            assert num_more <= end.counts.get("failed", 0)
            assert again.results == end.results
