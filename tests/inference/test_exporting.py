"""Models as files of other forms: they take raw samples, and answer as the model does."""

from __future__ import annotations

import dataclasses
import json
import os
from importlib import metadata

import numpy as np
import pytest
import torch
from inference_models import pair
from torch import nn

import tarmac
from forked import run_python
from tarmac import RequestError, TarmacError, data, training
from tarmac.inference import exporting
from tarmac.workloads import find_workload

onnx = pytest.mark.skipif(
    not {"onnx", "onnxruntime", "onnxscript"} <= {d.name for d in metadata.distributions()},
    reason="needs pip install 'tarmac-gpu[export]'",
)


def test_a_program_of_torch_takes_any_number_of_raw_samples(digits, tmp_path):
    made = tarmac.export(digits, "torch", file=tmp_path / "m.pt2")
    assert made.inputs == {"inputs": "uint8 [batch, 8, 8]"}
    assert made.difference <= 1e-6
    program = torch.export.load(made.path).module()
    images = data.load("digits").test.inputs
    said = tarmac.predict(digits, images[:7], device="cpu")
    found = program(torch.tensor(images[:7])).detach().numpy()
    assert np.allclose(found, said.outputs["output"], atol=1e-5)
    assert program(torch.tensor(images[:1])).shape == (1, 10)
    assert [path.name for path in tmp_path.iterdir()] == ["m.pt2"]


@onnx
def test_onnx_answers_as_the_model_does(line, digits, tmp_path):
    import onnxruntime

    path = tmp_path / "m.onnx"
    code, out, err = line("export", digits.path, "--to", "onnx", "--output", path)
    assert (code, err) == (0, "")
    assert "takes    inputs: uint8 [batch, 8, 8]" in out
    assert out.endswith(f"model    {path}\n")
    session = onnxruntime.InferenceSession(path)
    images = data.load("digits").test.inputs[:5]
    (found,) = session.run(None, {"inputs": images})
    said = tarmac.predict(digits, images, device="cpu")
    assert np.allclose(found, said.outputs["output"], atol=1e-5)
    assert session.get_modelmeta().custom_metadata_map["tarmac.run"] == digits.record.id


def graph_of(directory):
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator",
        reason="needs pip install 'tarmac-gpu[tensorboard]'",
    )
    events = accumulator.EventAccumulator(str(directory))
    events.Reload()
    assert events.Tags()["graph"]
    return {node.name: node for node in events.Graph().node}


def test_tensorboard_draws_each_module_with_shapes_and_weights(line, digits):
    pytest.importorskip("tensorboard")
    code, out, err = line("export", digits.path, "--to", "tensorboard")
    assert (code, err) == (0, "")
    assert out.endswith(f"graph    {digits.path / 'events.graph.tfevents'}\n")
    assert "checked" not in out
    nodes = graph_of(digits.path)
    linear = nodes["model/1/linear"]
    assert linear.op == "aten.linear.default"
    assert {"model/1/weight", "model/1/bias"} < {*linear.input}
    (shape,) = linear.attr["_output_shapes"].list.shape
    assert [size.size for size in shape.dim] == [-1, 128]
    assert all(source in nodes for node in nodes.values() for source in node.input)


def test_a_graph_of_named_columns_has_an_input_for_each(parts, tmp_path):
    path = tmp_path / "a.tfevents"
    made = tarmac.export(parts, "tensorboard", file=path, workload=pair)
    assert (made.num_samples, made.difference) == (0, None)
    assert {"inputs_words", "inputs_age"} <= {*graph_of(tmp_path)}


def test_a_graph_that_tensorboard_would_not_read_is_refused(line, digits, tmp_path):
    pytest.importorskip("tensorboard")
    path = tmp_path / "graph.bin"
    code, _, err = line("export", digits.path, "--to", "tensorboard", "--output", path)
    assert (code, path.exists()) == (2, False)
    assert "it reads files with tfevents in their names" in err


@onnx
def test_weights_beyond_what_one_file_holds_lie_beside_it(digits, tmp_path, monkeypatch):
    import onnxruntime

    monkeypatch.setattr(exporting, "_MAX_BYTES", 0)
    path = tmp_path / "m.onnx"
    for _ in range(2):
        tarmac.export(digits, "onnx", file=path)
        assert sorted(file.name for file in tmp_path.iterdir()) == ["m.onnx", "m.onnx.data"]
    assert path.stat().st_size < (tmp_path / "m.onnx.data").stat().st_size
    images = data.load("digits").test.inputs[:5]
    (found,) = onnxruntime.InferenceSession(path).run(None, {"inputs": images})
    said = tarmac.predict(digits, images, device="cpu")
    assert np.allclose(found, said.outputs["output"], atol=1e-5)


@onnx
def test_a_run_below_a_path_that_is_no_utf_8_is_read_like_any_other(line, tmp_path):
    directory = tmp_path / os.fsdecode(b"r\xff")
    run = tarmac.train("digits-mlp", epochs=1, output=directory)
    for words in (
        ("eval", run.path),
        ("export", run.path, "--to", "onnx"),
        ("export", run.path, "--to", "torch"),
        ("train", "digits-mlp", "--epochs", 1, "--init-from", run.path),
    ):
        code, _, err = line(*words)
        assert code == 0, err


@onnx
def test_several_inputs_and_outputs_keep_their_names(parts, tmp_path):
    import onnxruntime

    made = tarmac.export(parts, "onnx", file=tmp_path / "m.onnx", workload=pair)
    assert made.inputs == {"words": "uint16 [batch, 5]", "age": "float32 [batch]"}
    assert made.outputs == ["features", "value"]
    session = onnxruntime.InferenceSession(made.path)
    assert {node.name: node.type for node in session.get_inputs()} == {
        "words": "tensor(int32)",
        "age": "tensor(float)",
    }
    assert [node.name for node in session.get_outputs()] == ["features", "value"]


def test_the_file_lies_in_the_run_by_default(line, digits):
    code, out, _ = line("export", digits.path, "--to", "torch", "--json")
    assert code == 0
    said = json.loads(out)
    assert said["path"] == str(digits.path / "model.pt2")
    assert said["num_samples"] == 64
    assert said["difference"] <= said["tolerance"]
    (digits.path / "model.pt2").unlink()


class Deciding(nn.Module):
    """Does something else where the values say so, which no export can follow."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(64, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.head(images.flatten(1))
        return found * 2 if found.sum() > 0 else found


def test_a_model_that_cannot_be_exported_is_said_so(tmp_path):
    own = dataclasses.replace(
        find_workload("digits-mlp"), name="deciding", model=Deciding, expectation=None
    )
    run = training.train(own, epochs=1, train_size=64, output=tmp_path, device="cpu")
    with pytest.raises(TarmacError, match=r"deciding cannot be exported: \w+: \S") as caught:
        tarmac.export(run, "torch", workload=own)
    assert "decisions by their values" in caught.value.hint
    assert not (run.path / "model.pt2").exists()


def test_what_does_not_agree_is_not_written(digits, tmp_path, monkeypatch):
    monkeypatch.setattr(exporting, "TOLERANCE", -1.0)
    with pytest.raises(TarmacError, match="does not agree with the original: output differs by"):
        tarmac.export(digits, "torch", file=tmp_path / "m.pt2")
    assert not [*tmp_path.iterdir()]


_EXPORT_ON_A_FULL_DISK = """
import resource, sys
import tarmac
from tarmac.files import StorageError
from pathlib import Path
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
try:
    tarmac.export(Path(sys.argv[1]), sys.argv[2], file=sys.argv[3])
except StorageError as error:
    print(error)
"""


@pytest.mark.parametrize("to", ["torch", pytest.param("onnx", marks=onnx)])
def test_a_full_disk_is_said_and_nothing_is_left(digits, tmp_path, to):
    file = tmp_path / f"model.{to}"
    done = run_python("-c", _EXPORT_ON_A_FULL_DISK, digits.path, to, file)
    assert f"{file} would be larger than a file may be here" in done.stdout, done.stderr
    assert done.returncode == 0
    assert not [*tmp_path.iterdir()]


def test_a_device_is_no_place_for_a_file(digits, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for place in (tmp_path, pipe):
        with pytest.raises(RequestError, match="expected the name of a file"):
            tarmac.export(digits, "torch", file=place)
    assert pipe.is_fifo()


def test_what_is_missing_is_named(line, digits, monkeypatch):
    import importlib.util

    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "onnx" else find(name)
    )
    code, _, err = line("export", digits.path, "--to", "onnx")
    assert code == 2
    assert "tarmac-gpu[export]" in err


def test_a_test_set_of_one_sample_is_enough(tmp_path):
    whole = data.load("digits")
    one = data.Split(whole.test.inputs[:1], whole.test.targets[:1])
    own = dataclasses.replace(
        find_workload("digits-mlp"),
        dataset=lambda: dataclasses.replace(whole, test=one),
        expectation=None,
    )
    run = training.train(own, epochs=1, train_size=64, output=tmp_path, device="cpu")
    made = tarmac.export(run, "torch", workload=own)
    assert torch.export.load(made.path).module()(torch.zeros(3, 8, 8, dtype=torch.uint8)).shape == (
        3,
        10,
    )
