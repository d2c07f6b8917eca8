"""Samples whose values, and classes that have names: predictions go by them."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from torch import nn

import tarmac
from tarmac import training
from tarmac.data import Dataset, Split
from tarmac.errors import RequestError
from tarmac.inference.parts import Part
from tarmac.inference.reading.json_files import read_json_lines
from tarmac.inference.reading.tables import read_csv
from tarmac.workloads import SGD, Recipe, Workload

ROWS = np.array([[1.0, 20.0, 300.0], [-3.0, 0.5, 2.0]], np.float32)


def _flowers(count: int, seed: int) -> Split:
    inputs = np.random.default_rng(seed).normal(size=(count, 3)).astype(np.float32)
    return Split(inputs, (inputs[:, 0] > 0).astype(np.int64))


flowers = Workload(
    name="flowers",
    summary="Two kinds by three lengths",
    dataset=lambda: Dataset(
        "flowers",
        _flowers(64, 0),
        _flowers(16, 1),
        2,
        features=("petal", "sepal", "stem"),
        classes=("iris", "rose"),
    ),
    model=lambda: nn.Linear(3, 2),
    recipe=Recipe(
        optimizer=SGD(learning_rate=0.1, momentum=0.0, nesterov=False), batch_size=8, epochs=2
    ),
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    output = tmp_path_factory.mktemp("runs")
    return training.train(flowers, output=output, device="cpu")


def asked(run, path):
    return tarmac.predict(run, path, workload=flowers, device="cpu")


def test_columns_are_taken_by_their_names_in_any_order(run, tmp_path):
    table = tmp_path / "rows.csv"
    table.write_text("stem, petal,sepal\n300,1,20\n2,-3,0.5\n")
    expected = asked(run, ROWS)
    found = asked(run, table)
    assert found.outputs["output"].tolist() == expected.outputs["output"].tolist()
    assert found.labels == ["rose", "iris"]


def test_without_a_line_of_names_the_values_are_in_their_order(run, tmp_path):
    table = tmp_path / "rows.csv"
    table.write_text("1,20,300\n-3,0.5,2\n")
    assert asked(run, table).outputs["output"].tolist() == (
        asked(run, ROWS).outputs["output"].tolist()
    )


def test_a_sample_in_json_may_be_an_object_of_names(run, tmp_path):
    lines = tmp_path / "rows.jsonl"
    lines.write_text('{"stem": 300, "petal": 1, "sepal": 20}\n[-3, 0.5, 2]\n')
    assert asked(run, lines).outputs["output"].tolist() == (
        asked(run, ROWS).outputs["output"].tolist()
    )


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.csv", "petal,sepal\n1,2\n", "a.csv:1: columns do not fit; missing: stem"),
        ("a.csv", "petal,sepal,stem,kind\n1,2,3,0\n", "not in the model: kind"),
        ("a.csv", "petal,sepal,petal\n1,2,3\n", "missing: stem"),
        ("a.jsonl", '{"petal": 1, "sepal": 2, "stalk": 3}\n', "missing: stem; not in the model"),
    ],
)
def test_names_that_do_not_fit_are_refused(run, tmp_path, name, text, said):
    (tmp_path / name).write_text(text)
    with pytest.raises(RequestError, match=said):
        asked(run, tmp_path / name)


def test_other_data_are_scored_by_the_names_of_their_columns_and_classes(run):
    own = flowers.dataset()
    order = [2, 0, 1]
    features = tuple(own.features[place] for place in order)
    turned = [Split(split.inputs[:, order], 1 - split.targets) for split in (own.train, own.test)]
    other = Dataset("other", *turned, 2, features=features, classes=("rose", "iris"))
    found = tarmac.evaluate(run, dataset=other, workload=flowers, device="cpu")
    assert found.metrics == tarmac.evaluate(run, workload=flowers, device="cpu").metrics


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"features": ("petal", "sepal", "stalk")}, "features .*missing: stem; not .*: stalk"),
        ({"classes": ("iris", "lily")}, "classes .*; not in the model: lily"),
    ],
)
def test_other_data_with_other_names_are_refused(run, names, message):
    other = dataclasses.replace(flowers.dataset(), **names)
    with pytest.raises(RequestError, match=message):
        tarmac.evaluate(run, dataset=other, workload=flowers, device="cpu")


def test_the_label_stands_beside_the_class(run, tmp_path):
    from tarmac.inference import open_trained, predict_each, write_predictions
    from tarmac.inference.parts import Samples

    trained = open_trained(run, device="cpu", workload=flowers)
    write_predictions(tmp_path / "y.jsonl", predict_each(trained, iter([Samples({"": ROWS})])))
    lines = [json.loads(line) for line in (tmp_path / "y.jsonl").read_text().splitlines()]
    assert [(line["class"], line["label"]) for line in lines] == [(1, "rose"), (0, "iris")]
    write_predictions(tmp_path / "y.csv", predict_each(trained, iter([Samples({"": ROWS})])))
    header = "index,class,label,probability,output.0,output.1"
    assert (tmp_path / "y.csv").read_text().splitlines()[0] == header


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ({"features": ("petal", "petal", "stem")}, "2 names of features"),
        ({"classes": ("rose",)}, "1 names for 2 classes"),
    ],
)
def test_names_that_are_not_one_each_are_refused(names, said):
    with pytest.raises(RequestError, match=said):
        Dataset("flowers", _flowers(8, 0), _flowers(8, 1), 2, **names)


STREETS = Part("", (3,), np.dtype(np.float32), features=("street=High", "street=Low", "area"))


def read_table(path, text):
    path.write_text(text)
    (samples,) = read_csv(path, [STREETS], 10)
    return samples.columns[""].tolist()


def read_lines(path, text):
    path.write_text(text)
    (samples,) = read_json_lines(path, [STREETS], 10)
    return samples.columns[""].tolist()


def test_a_column_of_categories_stands_for_those_that_were_made_of_it(tmp_path):
    expected = [[1, 0, 3], [0, 1, 4], [0, 0, 5]]
    table = "area,street\n3,High\n4,Low\n5,\n"
    assert read_table(tmp_path / "rows.csv", table) == expected
    lines = """{"area": 3, "street": "High"}
{"street": "Low", "area": 4}
{"area": 5, "street": null}
"""
    assert read_lines(tmp_path / "rows.jsonl", lines) == expected
    one_by_one = "street=Low,street=High,area\n0,1,3\n1,0,4\n0,0,5\n"
    assert read_table(tmp_path / "rows.csv", one_by_one) == expected


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        (read_table, "area,street=High\n3,1\n", "a:1: .*missing: street=Low"),
        (read_table, "area\n3\n", "a:1: .*missing: street$"),
        (read_lines, '{"area": 3}\n', "a:1: .*missing: street$"),
        (read_table, "area,street\n1,low\n", "a:2: street is 'low', expected one of High, Low"),
        (read_lines, '{"area": 1, "street": 7}', "a:1: street is '7', expected one of High, Low"),
    ],
)
def test_a_category_that_the_training_did_not_have_is_refused(tmp_path, read, text, message):
    with pytest.raises(RequestError, match=message):
        read(tmp_path / "a", text)


def test_a_category_is_the_value_that_its_table_was_read_as(tmp_path):
    part = Part("", (3,), np.dtype(np.float32), features=("flag=True", "rate=1.5", "rate=2"))
    (tmp_path / "rows.csv").write_text("flag,rate\ntrue,1.50\nFALSE,2.0\n")
    with pytest.raises(RequestError, match=r"rows\.csv:3: flag is 'FALSE', expected one of True"):
        next(read_csv(tmp_path / "rows.csv", [part], 10))
    (tmp_path / "rows.csv").write_text("flag,rate\ntrue,1.50\n,2.0\n")
    (samples,) = read_csv(tmp_path / "rows.csv", [part], 10)
    assert samples.columns[""].tolist() == [[1, 1, 0], [0, 0, 1]]
