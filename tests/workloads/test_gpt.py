"""The transformer has nanoGPT's size and first weights, and looks at nothing that comes later."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch

import tarmac
from tarmac import RequestError, TarmacError
from tarmac.data import Dataset, data_root, load_tokens, windows
from tarmac.data.text import cut_text, parse_text
from tarmac.training.planning.flops import count_forward_flops
from tarmac.training.planning.make import make_plan
from tarmac.training.planning.options import Options
from tarmac.training.shares import order_of
from tarmac.workloads import find_workload
from tarmac.workloads.gpt import GPT


def test_it_has_as_many_parameters_as_nanogpt_prints():
    model = find_workload("char-gpt-small").model()
    # nanoGPT leaves positions out, and prints 0.80M.
    positions = model.positions.weight.numel()
    assert sum(p.numel() for p in model.parameters()) - positions == 795_904


def test_its_weights_begin_as_gpt_2s_and_its_loss_as_that_of_a_guess():
    torch.manual_seed(0)
    model = find_workload("char-gpt-small").model()
    block = model.blocks[0]
    assert math.isclose(block.perceptron.hidden.weight.std().item(), 0.02, rel_tol=0.02)
    assert math.isclose(block.perceptron.out.weight.std().item(), 0.02 / 8**0.5, rel_tol=0.02)
    tokens = torch.randint(0, 65, (4, 64))
    others = torch.randint(0, 65, (4, 64))
    loss = torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), others.flatten())
    assert math.isclose(loss.item(), math.log(65), rel_tol=0.02)


def test_what_follows_a_token_changes_nothing_before_it():
    torch.manual_seed(0)
    model = find_workload("char-gpt-small").model().eval()
    tokens = torch.randint(0, 65, (2, 64))
    changed = tokens.clone()
    changed[:, 40:] = 0
    with torch.no_grad():
        before, after = model(tokens), model(changed)
    torch.testing.assert_close(before[:, :40], after[:, :40])
    assert not torch.equal(before[:, 41], after[:, 41])


def test_heads_that_do_not_divide_the_width_are_refused():
    with pytest.raises(RequestError, match="width is 10, expected a multiple of the 4 heads"):
        GPT(vocabulary=5, length=4, num_layers=1, num_heads=4, width=10, dropout=0.0)


def test_it_learns_a_sentence_and_goes_on_after_a_stop_to_the_bit(tmp_path):
    tokens = np.tile(np.arange(30, dtype=np.int32), 60)
    dataset = Dataset("counting", windows(tokens, 16, stride=7), windows(tokens, 16))
    small = find_workload("char-gpt-small")
    workload = dataclasses.replace(
        small,
        dataset=lambda: dataset,
        model=lambda: GPT(
            vocabulary=30, length=16, num_layers=2, num_heads=2, width=32, dropout=0.1
        ),
        recipe=dataclasses.replace(small.recipe, epochs=6, samples_per_epoch=None),
        expectation=None,
    )
    options = {"devices": "cpu", "precision": "fp32"}
    whole = tarmac.train(workload, output=tmp_path / "whole", **options)
    assert whole.metrics["test_loss"] < 2.0
    asked = iter(range(10_000))
    stopped = tarmac.train(
        workload, output=tmp_path / "cut", interrupted=lambda: next(asked) > 60, **options
    )
    assert stopped.record.status == "interrupted"
    resumed = tarmac.resume(stopped.path, workload=workload)
    assert resumed.model.read_bytes() == whole.model.read_bytes()


def test_flops_are_those_of_palms_formula():
    model = find_workload("char-gpt-small").model()
    flops, _ = count_forward_flops(model, torch.zeros(3, 64, dtype=torch.long))
    matrices = sum(
        value.numel()
        for name, value in model.named_parameters()
        if name != "positions.weight" and value.ndim == 2
    )
    # Chowdhery et al., 2022, appendix B: 6 N + 12 layers x width x tokens, for each token.
    assert 3 * flops == 3 * 64 * (6 * matrices + 12 * 4 * 128 * 64)


def test_an_epoch_of_some_windows_draws_others_each_time(tmp_path):
    counted = Dataset("counting", *[windows(np.arange(200) % 30, 16, stride=1)] * 2)
    workload = dataclasses.replace(
        find_workload("char-gpt-small"), dataset=lambda: counted, expectation=None
    )
    recipe = dataclasses.replace(workload.recipe, batch_size=10, samples_per_epoch=25, epochs=2)
    workload = dataclasses.replace(workload, recipe=recipe)
    plan = make_plan(workload, "w", Options(devices="cpu"))
    assert (plan.num_steps, plan.train_size) == (3, 184)
    first, second = (order_of(0, epoch, plan.train_size)[:25].tolist() for epoch in range(2))
    assert len({*first}) == 25
    assert first != second
    run = tarmac.train(workload, devices="cpu", output=tmp_path)
    assert [row["samples_per_s"] * row["seconds"] for row in run.history] == pytest.approx([25, 25])


def test_there_are_as_many_random_windows_as_nanogpts_steps_take():
    small, large = find_workload("char-gpt-small").recipe, find_workload("char-gpt").recipe
    assert small.samples_per_epoch == 2000 * 12
    assert large.samples_per_epoch * large.epochs == 5000 * 64


@pytest.fixture
def short_play(tmp_path, monkeypatch):
    """Give the workloads a short text for Shakespeare's, of as many different characters."""
    characters = np.arange(65).repeat(2) + 33
    content = "".join(map(chr, characters)) * 40
    text = cut_text(parse_text(content.encode(), "play"))
    monkeypatch.setattr("tarmac.data.load_text", lambda _name: text)


def test_the_setting_for_gpus_does_its_first_steps(tmp_path, short_play):
    run = tarmac.train(
        "char-gpt", steps=2, batch_size=2, devices="cpu", precision="fp32", output=tmp_path
    )
    assert run.metrics["tokens_per_s"] == pytest.approx(256 * run.metrics["samples_per_s"])
    # From here on it learns; at first it guesses.
    assert run.metrics["train_loss"] == pytest.approx(math.log(65), rel=0.1)


@pytest.mark.gpu
def test_the_setting_for_gpus_comes_near_the_published_loss(tmp_path):
    if not (data_root() / "tinyshakespeare" / "input.txt").is_file():
        pytest.skip("the text is not here: tarmac data fetch tinyshakespeare, and set TARMAC_DATA")

    def stop(row):
        return "its published loss is the best on the way" if row["epoch"] == 8 else None

    run = tarmac.train("char-gpt", devices="cuda:0", stop=stop, output=tmp_path)
    assert run.metrics["test_loss"] < 1.52, "nanoGPT's README: 1.4697"


def test_gpt_2_has_its_size_and_says_that_tokens_are_random(tmp_path, monkeypatch):
    monkeypatch.setenv("TARMAC_DATA", str(tmp_path))
    workload = find_workload("gpt2-124m")
    model = workload.model()
    # GPT-2's 124,439,808, without biases, with 47 tokens more.
    assert sum(p.numel() for p in model.parameters()) == 124_439_808 - 102_144 + 47 * 768
    dataset = workload.dataset()
    assert dataset.note.startswith("RANDOM TOKENS, because there is no openwebtext in")
    assert dataset.sample_shape == (1024,)


def test_a_trial_on_random_tokens_says_so_in_its_record(tmp_path):
    workload = dataclasses.replace(
        find_workload("gpt2-124m"),
        dataset=lambda: load_tokens("openwebtext", 16, vocabulary=50, root=tmp_path),
        model=lambda: GPT(
            vocabulary=50, length=16, num_layers=1, num_heads=1, width=8, dropout=0.0
        ),
    )
    run = tarmac.train(workload, steps=1, devices="cpu", precision="fp32", output=tmp_path)
    assert run.record.dataset["name"] == "random tokens"
    assert run.record.dataset["note"].startswith("RANDOM TOKENS")
    assert run.record.configuration["batch_size"] == 1, "what a CPU takes unasked"
    asked = make_plan(workload, "w", Options(devices="cpu", batch_size=2))
    assert asked.workload.recipe.batch_size == 2


def test_files_of_tokens_are_mapped_and_checked(tmp_path):
    directory = tmp_path / "openwebtext"
    directory.mkdir()
    np.arange(100, dtype=np.uint16).tofile(directory / "train.bin")
    with pytest.raises(TarmacError, match=r"val\.bin cannot be read"):
        load_tokens("openwebtext", 8, vocabulary=100, root=tmp_path)
    np.arange(30, dtype=np.uint16).tofile(directory / "val.bin")
    dataset = load_tokens("openwebtext", 8, vocabulary=100, root=tmp_path)
    assert (dataset.name, dataset.note) == ("openwebtext", "")
    assert (dataset.train.targets[1] == np.arange(9, 17)).all()
    (directory / "val.bin").write_bytes(b"123")
    with pytest.raises(TarmacError, match=r"val\.bin has 3 bytes, expected tokens of 2 bytes"):
        load_tokens("openwebtext", 8, vocabulary=100, root=tmp_path)
