"""What a run's model says of samples, in Python, on the command line and in files."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
import torch
from inference_models import pair, regression
from safetensors.torch import load_file
from torch import nn

import tarmac
from tarmac import RequestError, data
from tarmac.runs import Run
from tarmac.workloads import find_workload


def test_a_classifier_says_class_and_probability_as_the_model_does(digits):
    images = data.load("digits").test.inputs
    said = tarmac.predict(digits, images, device="cpu", batch_size=100)
    model = find_workload("digits-mlp").model().eval()
    assert data.load("digits").train.inputs.max() == 16
    model.load_state_dict(load_file(digits.model))
    with torch.no_grad():
        logits = model(torch.tensor(images).float() / 16)
    assert np.allclose(said.outputs["output"], logits.numpy(), atol=1e-5)
    highest = logits.softmax(1).max(1)
    assert said.classes.tolist() == highest.indices.tolist()
    assert np.allclose(said.probabilities, highest.values.numpy(), atol=1e-6)
    right = (said.classes == data.load("digits").test.targets).mean()
    assert right == pytest.approx(digits.metrics["test_accuracy"])


def test_a_regression_says_values_alone(table):
    rows = np.eye(3, dtype=np.float32)
    said = tarmac.predict(table, rows, device="cpu", workload=regression)
    assert said.classes is None
    weights = load_file(table.model)
    assert np.allclose(
        said.outputs["output"].ravel(), weights["weight"].numpy()[0] + weights["bias"].numpy()
    )


def test_a_model_of_several_inputs_says_outputs_by_name(parts):
    dataset = pair.dataset()
    said = tarmac.predict(parts, dataset.test.inputs, device="cpu", workload=pair)
    assert {name: array.shape for name, array in said.outputs.items()} == {
        "features": (16, 4),
        "value": (16,),
    }


def test_the_trained_module_can_be_had(digits, table):
    model = tarmac.load_model(digits, device="cpu")
    assert type(model) is type(find_workload("digits-mlp").model())
    assert not model.training
    weights = load_file(digits.model)
    assert weights.keys() == model.state_dict().keys()
    assert all(torch.equal(weights[name], own) for name, own in model.state_dict().items())
    assert isinstance(tarmac.load_model(table, device="cpu", workload=regression), nn.Linear)


def test_data_are_not_needed_where_the_record_describes_them(digits, tmp_path, monkeypatch):
    monkeypatch.setattr(data, "load", None)
    said = tarmac.predict(digits, np.zeros((1, 8, 8), np.uint8), device="cpu")
    assert len(said) == 1


def test_a_run_that_is_not_completed_answers_by_its_newest_checkpoint(digits, tmp_path):
    copy = tmp_path / "stopped"
    copy.mkdir()
    (copy / "run.json").write_bytes((digits.path / "run.json").read_bytes())
    (copy / "checkpoints").mkdir()
    newest = max(digits.checkpoints.iterdir())
    (copy / "checkpoints" / newest.name).write_bytes(newest.read_bytes())
    image = np.ones((1, 8, 8), np.uint8)
    theirs, ours = tarmac.predict(digits, image), tarmac.predict(Run.open(copy), image)
    assert np.array_equal(theirs.outputs["output"], ours.outputs["output"])
    (copy / "checkpoints" / newest.name).unlink()
    with pytest.raises(RequestError, match="has no weights yet"):
        tarmac.predict(copy, image)


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        (np.zeros((2, 8, 9), np.uint8), r"shape \[2, 8, 9\], expected \[num_samples, 8, 8\]"),
        (np.full((2, 8, 8), 0.5), "expected uint8, whole numbers from 0 to 255"),
        ({"a": np.zeros(1)}, r"inputs are a, expected uint8 \[8, 8\]"),
        (np.zeros((0, 8, 8), np.uint8), "hold no samples"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(digits, inputs, said):
    with pytest.raises(RequestError, match=said):
        tarmac.predict(digits, inputs)


@pytest.mark.parametrize(("batch_size", "sample"), [(2, 3), (8, 3)])
def test_a_token_beyond_the_vocabulary_is_named_with_its_sample(parts, batch_size, sample):
    words = np.zeros((5, 5), np.uint16)
    words[sample, 2] = 10
    asked = {"words": words, "age": np.zeros(5, np.float32)}
    said = rf"inputs: sample {sample} \(from 0\) has token 10, .* embedding has 10: 0 to 9"
    with pytest.raises(RequestError, match=said):
        tarmac.predict(parts, asked, workload=pair, batch_size=batch_size)
    words[sample, 2] = 9
    assert len(tarmac.predict(parts, asked, workload=pair, batch_size=batch_size)) == 5


@pytest.fixture
def images(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = data.load("digits").test.inputs[:3]
    np.savetxt(tmp_path / "x.csv", found.reshape(3, -1), "%d", ",")
    np.save(tmp_path / "x.npy", found)
    return tmp_path / "x.csv"


def test_a_line_of_json_for_each_sample(line, digits, images):
    code, out, err = line("predict", digits.path, images, "--batch-size", 2)
    assert (code, err) == (0, "")
    lines = [json.loads(text) for text in out.splitlines()]
    said = tarmac.predict(digits, images, batch_size=2)
    assert [one["index"] for one in lines] == [0, 1, 2]
    assert [one["class"] for one in lines] == said.classes.tolist()
    assert np.float32([one["output"] for one in lines]).tolist() == said.outputs["output"].tolist()


def test_the_ending_chooses_the_form(line, digits, images, tmp_path):
    for ending in ("csv", "jsonl", "npy", "npz"):
        code, out, _ = line("predict", digits.path, images, "--output", tmp_path / f"y.{ending}")
        assert code == 0
        assert out == f"3 predictions {tmp_path / f'y.{ending}'}\n"
    said = tarmac.predict(digits, images)
    logits = said.outputs["output"]
    assert np.load(tmp_path / "y.npy").tolist() == logits.tolist()
    with np.load(tmp_path / "y.npz") as file:
        assert sorted(file.files) == ["class", "output", "probability"]
        assert file["class"].tolist() == said.classes.tolist()
    rows = [*csv.DictReader((tmp_path / "y.csv").open())]
    assert [int(row["class"]) for row in rows] == said.classes.tolist()
    assert np.float32([row["output.9"] for row in rows]).tolist() == logits[:, 9].tolist()
    assert len((tmp_path / "y.jsonl").read_text().splitlines()) == 3


def test_several_outputs_have_a_column_for_each_value(parts, tmp_path):
    from tarmac.inference import open_trained, predict_each, write_predictions
    from tarmac.inference.parts import Samples

    trained = open_trained(parts, device="cpu", workload=pair)
    samples = [Samples(pair.dataset().test.inputs)]
    assert write_predictions(tmp_path / "y.csv", predict_each(trained, iter(samples))) == 16
    first = (tmp_path / "y.csv").read_text().splitlines()[0]
    assert first == "index,features.0,features.1,features.2,features.3,value"
    with pytest.raises(RequestError, match="holds one array, but the model returns features"):
        write_predictions(tmp_path / "y.npy", predict_each(trained, iter(samples)))
    assert not (tmp_path / "y.npy").exists()


def test_nothing_is_written_where_a_later_line_does_not_fit(line, digits, images, tmp_path):
    images.write_text(images.read_text() + "1,2,3\n")
    target = tmp_path / "y.jsonl"
    code, out, err = line("predict", digits.path, images, "--output", target, "--batch-size", 1)
    assert (code, out) == (2, "")
    assert f"{images}:4: 3 columns, expected 64" in err
    assert not target.exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("x.csv", "--output", "y.parquet"), "predictions are not written as .parquet"),
        (("x.csv", "--batch-size", "0"), "--batch-size is 0, expected at least 1"),
        (("absent.csv",), "there is no such file"),
        # A number is an index here, and not how many GPUs.
        (("x.csv", "--device", "99"), "devices is 'cuda:99', but "),
    ],
)
def test_a_wrong_request_is_refused(line, digits, images, words, said):
    code, _, err = line("predict", digits.path, *words)
    assert code == 2
    assert said in err
