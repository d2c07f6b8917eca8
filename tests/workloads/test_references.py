"""References beyond classes of small images: a table, an autoencoder, and a ResNet for speed."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import tarmac
from tarmac import data
from tarmac.data import Dataset, Split
from tarmac.testing import workloads as conformance
from tarmac.training.planning.flops import count_forward_flops
from tarmac.workloads import find_workload
from tarmac.workloads.resnet50 import Normalise, model


@pytest.mark.parametrize("check", conformance.CHECKS)
@pytest.mark.parametrize("name", ["diabetes-mlp", "table-mlp", "digits-autoencoder"])
def test_a_regression_conforms(name, check, tmp_path):
    workload = find_workload(name)
    whole = data.load(workload.dataset) if isinstance(workload.dataset, str) else workload.dataset()
    targets = None if whole.train.targets is None else whole.train.targets[:24]
    split = Split(whole.train.inputs[:24], targets)
    check(workload, Dataset("small", split, split), tmp_path)


@pytest.mark.parametrize("name", ["diabetes-mlp", "digits-autoencoder"])
def test_a_regression_reaches_what_is_expected_of_it(name, tmp_path):
    run = tarmac.train(name, output=tmp_path, devices="cpu", sampling=False)
    assert run.record.expectation["met"] is True
    assert run.record.judged_by.metric == "loss"


def test_the_embedded_table_is_the_published_one():
    table = data.load("diabetes")
    assert table.train.inputs.shape == (354, 10)
    assert table.test.inputs.shape == (88, 10)
    np.testing.assert_allclose(table.train.inputs.mean(0), 0, atol=1e-6)
    np.testing.assert_allclose(table.train.inputs.std(0), 1, rtol=1e-5)
    assert [*table.train.targets[:4], table.test.targets[0]] == [151, 75, 141, 206, 135]
    both = np.concatenate([table.train.targets, table.test.targets])
    assert (both.min(), both.max()) == (25, 346)
    assert both.mean() == pytest.approx(152.13348)


def test_the_table_is_that_of_scikit_learn():
    sklearn = pytest.importorskip("sklearn.datasets")
    published = sklearn.load_diabetes(scaled=False)
    table = data.load("diabetes")
    is_test = np.arange(442) % 5 == 4
    assert np.array_equal(table.train.targets, published.target[~is_test].astype(np.float32))
    wanted = published.data[~is_test]
    wanted = (wanted - wanted.mean(0)) / wanted.std(0)
    np.testing.assert_allclose(table.train.inputs, wanted, rtol=1e-5, atol=1e-6)


def test_resnet50_is_the_published_network():
    workload = find_workload("resnet50")
    with torch.device("meta"):
        network = model(num_classes=1000)
        assert network(torch.empty(2, 3, 224, 224)).shape == (2, 1000)
    # torchvision's documentation of ResNet50_Weights.
    assert sum(p.numel() for p in network.parameters()) == 25_557_032
    # He et al.'s table 1 has 3.8e9 multiply-adds for strides in the 1x1 convolutions.
    flops, _ = count_forward_flops(model(num_classes=1000), torch.zeros(1, 3, 224, 224))
    assert flops == 2 * 4_089_184_256
    assert workload.expectation is None
    rates = [workload.recipe.schedule.factor(epoch / 90) for epoch in (5, 29, 31, 61)]
    assert rates == pytest.approx([1, 1, 0.1, 0.01])


def test_images_are_normalised_and_half_of_them_mirrored():
    raw = torch.randint(0, 256, (64, 3, 4, 4), dtype=torch.uint8)
    plain = Normalise()(raw, training=False, dtype=torch.float32)
    mean = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
    std = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)
    torch.testing.assert_close(plain, (raw / 255 - mean) / std)
    torch.manual_seed(0)
    drawn = Normalise()(raw, training=True, dtype=torch.float32)
    same = (drawn == plain).flatten(1).all(1)
    assert torch.equal(drawn[~same], plain.flip(3)[~same])
    assert 16 < same.sum() < 48


def test_resnet50_trains_on_images_of_ones_own(tmp_path, monkeypatch):
    monkeypatch.setenv("TARMAC_DATA", str(tmp_path / "data"))
    rng = np.random.default_rng(0)
    images = {
        "train_inputs": rng.integers(0, 256, (8, 3, 32, 32), dtype=np.uint8),
        "train_targets": np.arange(8) % 2,
        "test_inputs": rng.integers(0, 256, (4, 3, 32, 32), dtype=np.uint8),
        "test_targets": np.arange(4) % 2,
    }
    np.savez(tmp_path / "mine.npz", **images)
    data.take_over("mine", tmp_path / "mine.npz", data.Taking(), tmp_path / "data")
    run = tarmac.train(
        "resnet50",
        output=tmp_path,
        devices="cpu",
        epochs=1,
        batch_size=4,
        precision="fp32",
        settings={"dataset": "mine", "width": 8},
    )
    assert run.record.dataset["name"] == "mine"


def test_noise_says_what_it_is():
    noise = data.load("noise224")
    assert noise.train.inputs.shape == (2048, 3, 224, 224)
    assert noise.train.targets.max() < 1000
    assert "RANDOM PIXELS" in noise.note
