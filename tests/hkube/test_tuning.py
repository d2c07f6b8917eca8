"""Tuning by Optuna: what is refused, what is drawn, what is kept, and how it goes on."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import subprocess
import sys
import textwrap

import optuna
import pytest

from forked import run_python
from hostile import each_name
from tarmac.errors import RequestError, TarmacError
from tarmac.formats import read_tuner_spec
from tarmac.hkube.tuning import TrialEnd, tune

UNIFORM = {"name": "x", "suggest": "uniform", "low": -10, "high": 10}


def spec(*params, trials=5, sampler=None, **more):
    written = {"objectivePipeline": "train", "numberOfTrials": trials, **more}
    if params:
        written["hyperParams"] = list(params)
    if sampler is not None:
        written["sampler"] = sampler if isinstance(sampler, dict) else {"name": sampler}
    return written


def results(value):
    return [{"nodeName": "score", "algorithmName": "score", "result": value}]


def tuned(written, directory, objective, watch=None):
    """Return the best parameters; the objective is a function of a trial's parameters."""

    async def run_pipeline(number, params):
        return results(objective(params))

    return asyncio.run(tune(read_tuner_spec(written), run_pipeline, directory, watch))


def square(params):
    return sum(value * value for value in params.values())


# What HKube's API server refuses, in its words; then what its tuner could never draw.
WRONG = [
    (None, "Hyper params tuner node must have spec attribute"),
    (
        {"objectivePipeline": "p", "hyperParams": [UNIFORM]},
        "spec.numberOfTrials: is missing",
    ),
    (
        {"numberOfTrials": 1, "hyperParams": [UNIFORM]},
        "spec.objectivePipeline: is missing",
    ),
    (spec(), "spec must include hyperParams"),
    (spec(sampler="TPE"), "spec must include hyperParams"),
    (
        spec(UNIFORM, sampler="Tpe"),
        "spec.sampler.name: 'Tpe': expected one of Grid, PartialFixed, Random, TPE, CmaEs",
    ),
    (spec(UNIFORM, sampler={}), "spec.sampler.name: is missing"),
    (
        spec({"name": "x", "suggest": "normal"}),
        "spec.hyperParams[0].suggest: 'normal': expected one of uniform, loguniform, int, "
        "discrete_uniform, categorical",
    ),
    (spec(UNIFORM, {"suggest": "int"}), "spec.hyperParams[1].name: is missing"),
    (spec({**UNIFORM, "low": "little"}), "spec.hyperParams[0].low: 'little': expected a number"),
    (spec(UNIFORM, trials="many"), "spec.numberOfTrials: 'many': expected a number"),
    (spec(UNIFORM, objectivePipeline="a b"), "pipeline name must contain only alphanumeric"),
    (spec(UNIFORM, trials=0), "spec.numberOfTrials: 0: expected a whole number of at least 1"),
    (spec(UNIFORM, trials=2.5), "spec.numberOfTrials: 2.5: expected"),
    (spec(hyperParams=[]), "spec.hyperParams: names no parameter"),
    (spec(UNIFORM, UNIFORM), "spec.hyperParams[1].name: 'x' is named twice"),
    (
        spec({"name": "x", "suggest": "uniform", "low": 0}),
        "spec.hyperParams[0]: x is uniform, which needs high",
    ),
    (spec({**UNIFORM, "low": 11}), "spec.hyperParams[0].low: 11 is above high, 10"),
    (
        spec({**UNIFORM, "suggest": "loguniform"}),
        "spec.hyperParams[0].low: -10: loguniform needs one above 0",
    ),
    (spec({**UNIFORM, "suggest": "discrete_uniform"}), "which needs q, the step from low"),
    (
        spec({**UNIFORM, "suggest": "discrete_uniform", "q": 0}),
        "spec.hyperParams[0].q: 0: expected a step above 0",
    ),
    (
        spec({**UNIFORM, "suggest": "int", "low": 0.5}),
        "spec.hyperParams[0].low: 0.5: expected a whole number",
    ),
    (spec({"name": "x", "suggest": "categorical"}), "x is categorical, which needs choices"),
    (
        spec({"name": "x", "suggest": "categorical", "choices": []}),
        "x is categorical, which needs choices",
    ),
    (spec(sampler="Grid"), "spec.sampler.search_space: is missing"),
    (
        spec(sampler={"name": "Grid", "search_space": {"x": []}}),
        "spec.sampler.search_space.x: expected a list of at least one value",
    ),
    (
        spec(sampler={"name": "Grid", "search_space": {c: list(range(10)) for c in "abcdef"}}),
        "has 1,000,000 combinations",
    ),
    (spec(UNIFORM, sampler="PartialFixed"), "spec.sampler.fixed_values: is missing"),
    (
        spec(UNIFORM, sampler={"name": "PartialFixed", "fixed_values": {"y": 1}}),
        "spec.sampler.fixed_values.y: hyperParams has no y; it has x",
    ),
    (
        spec(UNIFORM, sampler={"name": "PartialFixed", "fixed_values": {"x": 11}}),
        "spec.sampler.fixed_values.x: 11 is not within -10 to 10",
    ),
    (
        spec(UNIFORM, sampler={"name": "PartialFixed", "fixed_values": {"x": "a"}}),
        "spec.sampler.fixed_values.x: expected a number",
    ),
    (
        spec(
            {"name": "x", "suggest": "categorical", "choices": ["a"]},
            sampler={"name": "PartialFixed", "fixed_values": {"x": "b"}},
        ),
        "spec.sampler.fixed_values.x: 'b' is none of its choices",
    ),
]


@pytest.mark.parametrize(("written", "words"), WRONG, ids=[words[:60] for _, words in WRONG])
def test_what_can_never_be_tuned_is_refused_in_hkubes_words_before_anything_starts(written, words):
    with pytest.raises(RequestError) as caught:
        read_tuner_spec(written)
    assert words in str(caught.value)


def test_all_that_is_wrong_is_said_at_once():
    with pytest.raises(RequestError) as caught:
        read_tuner_spec(
            spec({**UNIFORM, "low": 11}, {"name": "y", "suggest": "categorical"}, trials=0)
        )
    said = str(caught.value)
    assert all(word in said for word in ("numberOfTrials", "above high", "needs choices"))


def test_values_are_taken_as_hkubes_validator_coerces_them():
    read = read_tuner_spec(
        spec({"name": 1, "suggest": "uniform", "low": None, "high": "2.5"}, trials="3")
    )
    (one,) = read.parameters
    assert (one.name, one.low, one.high, read.total) == ("1", 0, 2.5, 3)


def test_keys_for_the_pod_of_hkubes_tuner_are_left_alone():
    assert read_tuner_spec(spec(UNIFORM, mem="512Mi", cpu=0.5)).total == 5


def test_what_is_refused_is_known_without_loading_optuna():
    program = "import sys, tarmac.hkube.tuning; print('optuna' in sys.modules)"
    # Not a fork, which may have imported it.
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("False\n", "")


CHOICES = ["adam", 1, True, None, [1, 2], {"b": 1, "a": 2}, 1.5]
EVERY_KIND = (
    UNIFORM,
    {"name": "rate", "suggest": "loguniform", "low": 1e-4, "high": 0.1},
    {"name": "width", "suggest": "int", "low": 1, "high": 4},
    {"name": "drop", "suggest": "discrete_uniform", "low": 0, "high": 0.5, "q": 0.25},
    {"name": "kind", "suggest": "categorical", "choices": CHOICES},
)


@pytest.mark.parametrize("sampler", [None, "Random", "TPE", "CmaEs"])
def test_each_trial_draws_every_parameter_from_its_values(tmp_path, sampler):
    seen = []

    def objective(params):
        seen.append(params)
        return params["x"]

    best = tuned(spec(*EVERY_KIND, trials=6, sampler=sampler), tmp_path, objective)
    assert len(seen) == 6
    for params in seen:
        assert -10 <= params["x"] <= 10
        assert 1e-4 <= params["rate"] <= 0.1
        assert params["width"] in (1, 2, 3, 4)
        assert isinstance(params["width"], int)
        assert params["drop"] in (0, 0.25, 0.5)
        assert any(params["kind"] is one or params["kind"] == one for one in CHOICES)
    assert len({params["x"] for params in seen}) == 6
    assert best == min(seen, key=lambda params: params["x"])


def test_choices_come_back_as_they_were_written(tmp_path):
    seen = []

    def objective(params):
        seen.append(params["kind"])
        return 0

    space = {"kind": CHOICES}
    tuned(spec(trials=50, sampler={"name": "Grid", "search_space": space}), tmp_path, objective)
    assert sorted(map(json.dumps, seen)) == sorted(map(json.dumps, CHOICES))


def test_a_grid_makes_each_combination_once_and_then_ends(tmp_path):
    seen = []

    def objective(params):
        seen.append((params["a"], params["b"]))
        return params["a"] - params["b"]

    space = {"a": [1, 2, 3], "b": [10, 20]}
    grid = {"name": "Grid", "search_space": space}
    best = tuned(spec(trials=100, sampler=grid), tmp_path, objective)
    assert sorted(seen) == [(a, b) for a in (1, 2, 3) for b in (10, 20)]
    assert best == {"a": 1, "b": 20}


def test_a_grid_goes_by_its_own_parameters_and_never_beyond_the_number_of_trials(tmp_path):
    seen = []

    def objective(params):
        seen.append(params)
        return 0

    grid = {"name": "Grid", "search_space": {"a": [1, 2, 3, 4]}}
    tuned(spec(UNIFORM, trials=2, sampler=grid), tmp_path, objective)
    assert len(seen) == 2
    assert all(params.keys() == {"a"} for params in seen)


def test_fixed_values_do_not_vary(tmp_path):
    seen = []

    def objective(params):
        seen.append(params)
        return params["x"]

    fixed = {"width": 3, "kind": [1, 2]}
    sampler = {"name": "PartialFixed", "fixed_values": fixed}
    tuned(spec(*EVERY_KIND, sampler=sampler), tmp_path, objective)
    assert all({key: params[key] for key in fixed} == fixed for params in seen)
    assert len({params["x"] for params in seen}) == len(seen)


def test_the_least_value_is_the_best_and_the_first_of_equal_ones(tmp_path):
    seen = []

    def objective(params):
        seen.append(params)
        return [3, 1, 2, 1, 5][len(seen) - 1]

    ends: list[TrialEnd] = []
    best = tuned(spec(UNIFORM), tmp_path, objective, ends.append)
    assert best == seen[1]
    assert [end.best for end in ends] == [3, 1, 1, 1, 1]
    assert [(end.number, end.of) for end in ends] == [(number, 5) for number in range(1, 6)]
    assert [dict(end.params) for end in ends] == seen


@pytest.mark.parametrize(
    ("result", "value"),
    [(0.5, 0.5), ("0.5", 0.5), (True, 1), ([0.25, "more"], 0.25), (float("-inf"), float("-inf"))],
)
def test_a_trials_value_is_the_first_result_or_the_first_of_its_list(tmp_path, result, value):
    ends: list[TrialEnd] = []
    tuned(spec(UNIFORM, trials=1), tmp_path, lambda _: result, ends.append)
    assert [end.value for end in ends] == [value]


@pytest.mark.parametrize("result", [None, "fast", [], [[1]], {"loss": 1}, float("nan"), b"\xff"])
def test_a_result_that_is_no_number_fails_that_trial_only(tmp_path, result):
    seen = []

    def objective(params):
        seen.append(params)
        return result if len(seen) == 1 else 7

    ends: list[TrialEnd] = []
    best = tuned(spec(UNIFORM, trials=3), tmp_path, objective, ends.append)
    assert [end.value for end in ends] == [None, 7, 7]
    assert best == seen[1]


def test_where_no_trial_gives_a_number_the_last_result_is_named(tmp_path):
    with pytest.raises(TarmacError, match="none of 2 trials of train gave a number") as caught:
        tuned(spec(UNIFORM, trials=2), tmp_path, lambda _: {"loss": 1})
    assert "{'loss': 1} is not a number" in str(caught.value)


def test_an_objective_pipeline_without_a_result_ends_the_tuning(tmp_path):
    async def nothing(number, params):
        return []

    with pytest.raises(TarmacError, match="objective pipeline has no result"):
        asyncio.run(tune(read_tuner_spec(spec(UNIFORM)), nothing, tmp_path))


def test_a_failed_objective_pipeline_ends_the_tuning_and_its_trial_is_made_again(tmp_path):
    seen = []

    def objective(params):
        seen.append(params)
        if len(seen) == 2:
            raise TarmacError("train failed")
        return square(params)

    with pytest.raises(TarmacError, match="train failed"):
        tuned(spec(UNIFORM), tmp_path, objective)
    tuned(spec(UNIFORM), tmp_path, objective)
    assert seen[2] == seen[1]
    assert len(seen) == 6


SAMPLERS = [
    "Random",
    "TPE",
    "CmaEs",
    {"name": "Grid", "search_space": {"x": [*range(15)], "width": [1, 2]}},
    {"name": "PartialFixed", "fixed_values": {"width": 2}},
]


def name_of(sampler):
    return sampler if isinstance(sampler, str) else sampler["name"]


@pytest.mark.parametrize("sampler", SAMPLERS, ids=name_of)
def test_tuning_that_was_stopped_is_the_one_that_was_not(tmp_path, sampler):
    numbers = [UNIFORM, EVERY_KIND[2]]
    # TPE's first ten trials are random ones, and CmaEs asks for six at once.
    num_trials = 14 if sampler == "TPE" else 9
    written = spec(*numbers, trials=num_trials, sampler=sampler)
    whole = []

    def objective(params):
        whole.append(params)
        return square(params)

    (tmp_path / "whole").mkdir()
    best = tuned(written, tmp_path / "whole", objective)

    parts = []
    (tmp_path / "parts").mkdir()

    async def stopped_at(last):
        waiting = asyncio.Event()

        async def run_pipeline(number, params):
            assert number == len(parts) - (len(parts) > 3)
            parts.append(params)
            if len(parts) == last:
                waiting.set()
                await asyncio.Event().wait()
            return results(square(params))

        task = asyncio.create_task(tune(read_tuner_spec(written), run_pipeline, tmp_path / "parts"))
        await waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(stopped_at(4))
    asyncio.run(stopped_at(num_trials - 1))
    assert parts[4] == parts[3]
    found = tuned(
        written, tmp_path / "parts", lambda params: parts.append(params) or square(params)
    )
    assert [*parts[:4], *parts[5 : num_trials - 1], *parts[num_trials:]] == whole
    assert found == best


def test_another_seed_draws_other_values(tmp_path):
    drawn = {}
    for seed in (0, 1):
        directory = tmp_path / str(seed)
        directory.mkdir()
        sampler = {"name": "Random", "seed": seed}
        drawn[seed] = tuned(spec(UNIFORM, trials=1, sampler=sampler), directory, square)
    assert drawn[0] != drawn[1]


KILLED = """
import asyncio, json, os, signal, sys
from pathlib import Path
from tarmac.formats import read_tuner_spec
from tarmac.hkube.tuning import tune

written, directory = json.loads(sys.argv[1]), Path(sys.argv[2])
log = directory / "log"

async def objective(number, params):
    with log.open("a") as file:
        file.write(json.dumps([number, params]) + "\\n")
    if len(log.read_text().splitlines()) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return [{"result": params["x"] ** 2}]

print(json.dumps(asyncio.run(tune(read_tuner_spec(written), objective, directory))))
"""


def test_tuning_goes_on_after_kill_9(tmp_path):
    words = ("-c", textwrap.dedent(KILLED), json.dumps(spec(UNIFORM)), tmp_path)
    killed = run_python(*words)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    done = run_python(*words)
    assert done.returncode == 0, done.stderr
    made = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert made[3] == made[2]
    assert [number for number, _ in made] == [0, 1, 2, 2, 3, 4]
    assert json.loads(done.stdout) in [params for _, params in made]


def test_tuning_that_has_ended_gives_its_result_again_and_makes_no_trial(tmp_path):
    best = tuned(spec(UNIFORM), tmp_path, square)
    made = []
    assert tuned(spec(UNIFORM), tmp_path, made.append) == best
    assert not made


def test_optuna_reads_the_trials(tmp_path):
    best = tuned(spec(UNIFORM), tmp_path, square)
    study = optuna.load_study(study_name="tuning", storage=f"sqlite:///{tmp_path}/tuning.db")
    assert study.best_params == best
    assert len(study.trials) == 5


@each_name
def test_trials_are_kept_in_a_directory_of_any_name(tmp_path, name):
    directory = tmp_path / name
    directory.mkdir()
    tuned(spec(UNIFORM, trials=1), directory, square)
    assert [path.name for path in directory.iterdir()] == ["tuning.db"]
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_file_that_is_no_database_is_named_and_left_as_it_is(tmp_path):
    (tmp_path / "tuning.db").write_text("not a database" * 100)
    with pytest.raises(TarmacError, match=r"tuning\.db: the trials cannot be kept: file is not"):
        tuned(spec(UNIFORM), tmp_path, square)
    assert (tmp_path / "tuning.db").read_text() == "not a database" * 100


def fill(disk):
    with contextlib.suppress(OSError), (disk / "filler").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def test_a_full_disk_ends_tuning_with_its_reason_and_what_was_kept_goes_on(small_disk):
    disk = small_disk("400k")
    made = []

    def objective(params):
        made.append(params)
        if len(made) == 3:
            fill(disk)
        return square(params)

    with pytest.raises(TarmacError, match="the trials cannot be kept") as caught:
        tuned(spec(UNIFORM, trials=200), disk, objective)
    assert str(disk / "tuning.db") in str(caught.value)
    small_disk("8m")
    (disk / "filler").unlink()
    before = len(made)
    tuned(spec(UNIFORM, trials=before + 2), disk, objective)
    assert len(made) >= before + 2
