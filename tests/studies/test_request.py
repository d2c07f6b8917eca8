"""What may be asked of a search, and what is said of what may not."""

from __future__ import annotations

import typing
from collections.abc import Mapping, Sequence

import pytest

from tarmac.errors import RequestError
from tarmac.studies.objectives import find_objectives
from tarmac.studies.opening import check_new, open_study
from tarmac.studies.request import (
    Request,
    SearchOptions,
    make_request,
    read_request,
    read_space,
    study_names,
)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"population": 1}, "population is 1, expected at least 2"),
        (
            {"retain": 0.01},
            "retain is 0.01, which keeps none of a population of 20",
        ),
        ({"retain": 1.0}, "retain is 1, which keeps all of a population of 20"),
        ({"retain": 1.5}, "retain is 1.5, expected 0 to 1"),
        ({"mutate": -0.1}, "mutate is -0.1, expected 0 to 1"),
        ({"generations": 0}, "generations is 0, expected at least 1"),
        ({"trials": 0}, "trials is 0, expected at least 1"),
        ({"budget": 0}, "budget is 0 s, expected above 0"),
        ({"budget": "soon"}, "budget: 'soon': expected a length of time, such as 90s"),
        ({"method": "evlove"}, "unknown method 'evlove', did you mean 'evolve'"),
        (
            {"objective": "val_accuracy,params", "prune": "halving"},
            "prune is halving and there are 2 objectives",
        ),
        ({"objective": "params", "prune": "median"}, "pruning needs a metric on held-out samples"),
        ({"generatoins": 3}, "generatoins: unknown key"),
        ({"workers": 0}, "workers is 0, expected at least 1"),
    ],
)
def test_a_request_that_cannot_be_met_is_refused(fields, message):
    with pytest.raises(RequestError) as caught:
        make_request({"workload": "digits-mlp", **fields})
    assert message in caught.value.message
    assert caught.value.exit_code == 2


def test_a_method_without_parents_does_not_mind_who_survives():
    assert make_request({"workload": "digits-mlp", "method": "random", "retain": 0.0}).retain == 0


def test_keys_that_begin_with_x_hold_anchors_in_a_study_and_in_a_space(tmp_path):
    path = tmp_path / "study.yaml"
    path.write_text("x-sizes: &sizes [8, 16]\nworkload: digits-mlp\nspace: {hidden: *sizes}\n")
    assert [*read_request(path, {}).space] == ["hidden"]
    path.write_text("x-sizes: &sizes [8, 16]\nhidden: *sizes\n")
    assert [*read_space(path)] == ["hidden"]


@pytest.mark.parametrize("field", ["trials", "population", "mutate", "patience", "seed", "devices"])
def test_true_is_no_number_of_a_study(field):
    kinds = "a text or a number" if field == "devices" else "a number"
    with pytest.raises(RequestError, match=f"{field}: true: expected {kinds}, not true or false"):
        make_request({"workload": "digits-mlp", field: True})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"generations": 0}, "generations is 0, expected at least 1"),
        ({"space": {"neurons": []}}, "space.neurons: "),
    ],
)
def test_what_was_asked_beside_a_file_is_not_blamed_on_it(changes, words):
    with pytest.raises(RequestError) as raised:
        check_new("mlp-evolve", {"space": {"dataset": "digits"}} | changes)
    assert ".yaml" not in str(raised.value)
    assert str(raised.value).startswith(words)


def test_generations_are_refused_beside_a_method_that_has_none():
    fields = {"space": {"hidden": [8, 16]}, "method": "brute"}
    with pytest.raises(RequestError, match="has no generations"):
        check_new("digits-mlp", fields | {"generations": 3})
    assert check_new("digits-mlp", fields | {"trials": 3}).request.trials == 3


def test_a_file_says_where_it_is_wrong(tmp_path):
    path = tmp_path / "study.yaml"
    path.write_text("workload: digits-mlp\nspace:\n  hidden: [16, 32]\nretain: 0.01\n")
    with pytest.raises(RequestError, match=r"study.yaml:4:1: retain: retain is 0.01"):
        read_request(path, {})
    path.write_text("workload: digits-mlp\nspace:\n  hidden: {low: 16, hihg: 32}\n")
    with pytest.raises(RequestError, match=r"study.yaml:3:21: space.hidden.hihg: unknown key"):
        read_request(path, {})
    path.write_text("workload: digits-mlp\nspace:\n  hidden: []\n")
    with pytest.raises(RequestError, match=r"study.yaml:3:3: space.hidden: has no values"):
        read_request(path, {})
    path.write_text("- workload\n")
    with pytest.raises(RequestError, match=r"study.yaml:1:1: is not a study"):
        read_request(path, {})


@pytest.mark.parametrize(
    ("text", "where", "own"),
    [
        ("workload: x\nmetric: {name: a}\n", "x.yaml:2:1: metric", "objective: val_accuracy"),
        ("parameters: {}\n", "x.yaml:1:1: parameters", "space: {hidden: [32, 64]}"),
        ("space:\n  a: {values: [1]}\n", "x.yaml:2:7: space.a.values", "choices: [32, 64]"),
        ("datasets: {d: {a: {min: 1}}}\n", "x.yaml:1:20: datasets.d.a.min", "low: 0.001"),
        ("space:\n  values: {hgh: [1]}\n", "x.yaml:2:12: space.values.hgh", "mean 'high'"),
    ],
)
def test_what_other_systems_call_a_key_is_told_with_ours(tmp_path, text, where, own):
    path = tmp_path / "x.yaml"
    path.write_text(text)
    with pytest.raises(RequestError) as caught:
        read_request(path, {})
    lines = str(caught.value).splitlines()
    (line,) = [number for number, text in enumerate(lines) if f"{where}: unknown key" in text]
    assert own in lines[line + 1]


def test_a_space_says_what_its_keys_are_and_that_a_study_is_none(tmp_path):
    path = tmp_path / "my space.yaml"
    path.write_text("a: {min: 1, hgh: 2, strange: 3}\n")
    with pytest.raises(RequestError) as caught:
        read_space(path)
    assert "my space.yaml:1:5: a.min: unknown key" in caught.value.message
    for own in ("write here: low: 0.001", "did you mean 'high'?", "valid: choices, low, high"):
        assert own in caught.value.hint
    path.write_text("workload: digits-mlp\nspace: {hidden: [8, 16]}\n")
    with pytest.raises(RequestError, match="is a whole study") as caught:
        read_space(path)
    assert caught.value.hint == f"Run it as one: tarmac search '{path}'"


def test_a_file_with_a_space_alone_is_read_as_the_same(tmp_path):
    path = tmp_path / "space.yaml"
    path.write_text("hidden: 16..128\nlearning_rate: {low: 1e-4, high: 1e-1, log: true}\n")
    space = read_space(path)
    assert (space["hidden"].low, space["learning_rate"].log) == (16, True)
    path.write_text("hidden: 128..16\n")
    with pytest.raises(RequestError, match=r"space.yaml:1:1: hidden: .*goes from 128 to 16"):
        read_space(path)


def test_what_is_asked_beside_a_file_goes_over_it(tmp_path):
    path = tmp_path / "study.yaml"
    path.write_text(
        "workload: digits-mlp\npopulation: 8\nspace: {hidden: [16, 32], dropout: 0.1}\n"
    )
    request = read_request(path, {"population": 6, "space": {"hidden": ["64"]}})
    assert request.population == 6
    assert request.space["hidden"].fixed == "64"
    assert request.space["dropout"].fixed == 0.1


def test_a_workload_beside_the_file_is_found_from_anywhere(tmp_path):
    (tmp_path / "mine.py").write_text("")
    path = tmp_path / "study.yaml"
    path.write_text("workload: mine.py:net\nspace: {hidden: [16, 32]}\n")
    assert read_request(path, {}).workload == f"{tmp_path}/mine.py:net"


def test_the_published_study_comes_with_tarmac():
    assert "mlp-evolve" in study_names()
    request = read_request("mlp-evolve", {})
    sizes = [len(text.choices) for text in request.space.values() if text.fixed is None]
    assert sizes == [6, 4, 4, 7]
    assert (request.population, request.patience, request.survivors) == (20, 5, 8)
    assert request.space["batch_size"].fixed == 128


def test_a_study_differs_by_dataset_unless_told_otherwise():
    on_cifar = read_request("mlp-evolve", {"space": {"dataset": ["cifar10"]}})
    assert on_cifar.space["batch_size"].fixed == 64
    told = read_request("mlp-evolve", {"space": {"dataset": ["cifar10"], "batch_size": ["100"]}})
    assert told.space["batch_size"].fixed == "100"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, (1199, 239)),
        ({"train_size": 600}, (600, 120)),
        ({"train_size": 1400}, (1400, 38)),
        ({"validation_size": 300}, (1138, 300)),
        ({"train_size": 600, "validation_size": 300}, (600, 300)),
    ],
)
def test_one_sample_judges_for_every_five_to_train_on(tmp_path, given, expected):
    study = open_study("digits-mlp", output=tmp_path, space={"hidden": [16, 32]}, **given)
    assert (study.record.train_size, study.record.validation_size) == expected


@pytest.mark.parametrize(
    ("fields", "monitor", "objective"),
    [
        ({}, "accuracy:max", "val_accuracy"),
        ({"objective": "val_loss"}, "loss:min", "val_loss"),
        ({"objective": "params,val_loss"}, "accuracy:max", "params"),
        ({"monitor": "val_loss"}, "loss:min", "val_loss"),
        ({"objective": "val_accuracy", "monitor": "loss"}, "loss:min", "val_accuracy"),
    ],
)
def test_a_search_goes_by_one_metric_unless_two_are_named(fields, monitor, objective):
    checked = check_new("digits-mlp", {"space": {"hidden": [8, 16]}, **fields})
    assert checked.request.monitor == monitor
    names = find_objectives(checked.request.objective, checked.judged_by)
    assert names[0].name == objective


def test_a_study_with_an_unknown_monitor_is_refused():
    with pytest.raises(RequestError, match="unknown metric to monitor 'f1'"):
        check_new("digits-mlp", {"space": {"hidden": [8, 16]}, "monitor": "f1"})


def test_editors_and_type_checkers_see_every_field_of_a_search_with_its_type():
    names = {"Mapping": Mapping, "Sequence": Sequence}
    offered = typing.get_type_hints(SearchOptions, localns=names)
    assert offered.keys() == Request.model_fields.keys()
    # `tarmac.search` accepts more types for these fields than a Request stores.
    several = {"budget", "space", "datasets", "objective"}
    kept = typing.get_type_hints(Request)
    assert {name: offered[name] for name in offered if name not in several} == {
        name: kept[name] for name in offered if name not in several
    }
