"""Datasets and loaders of PyTorch as a feed: the same samples on any devices, resumed exactly."""

from __future__ import annotations

import dataclasses
import multiprocessing
from collections.abc import Callable
from typing import Any

import loader_cases
import numpy as np
import pytest
import torch
from loader_cases import INPUTS, TARGETS, Noisy, Stateful, Stream
from torch.utils import data as torch_data

from tarmac import RequestError, TarmacError
from tarmac.data import Dataset, Loaded, Split, Subset, samples_from
from tarmac.machine import find_devices
from tarmac.runs import Run
from tarmac.testing.strategies import assert_close, weights_of
from tarmac.training import resume, train
from tarmac.training.engine.loader_feed import LoaderFeed, explain_loader_error
from tarmac.training.engine.loader_samples import BadSampleError, Kind
from tarmac.training.engine.loader_stream import Stream as LoaderStream
from tarmac.training.engine.loader_stream import end_workers
from tarmac.training.planning.feed import choose_feed


def arrays() -> Split:
    return Split(INPUTS, TARGETS)


def tensors() -> torch_data.TensorDataset:
    return torch_data.TensorDataset(torch.tensor(INPUTS), torch.tensor(TARGETS))


def by_workers(dataset: Any, count: int = 2, **options: Any) -> Callable[[], Any]:
    return lambda: torch_data.DataLoader(dataset, 7, num_workers=count, **options)


def sized_stream() -> Loaded:
    return samples_from(Stream(), num_samples=len(INPUTS))


def streaming_workers() -> Loaded:
    loader = torch_data.DataLoader(Stream(), 7, num_workers=2)
    return samples_from(loader, num_samples=len(INPUTS))


def shuffled() -> torch_data.DataLoader[Any]:
    draws = torch.Generator().manual_seed(5)
    sampler = torch_data.WeightedRandomSampler([1.0] * 60, 60, generator=draws)
    return torch_data.DataLoader(Noisy(), 7, sampler=sampler)


def stateful() -> Loaded:
    return samples_from(Stateful(), num_samples=len(INPUTS))


def weighted() -> torch_data.DataLoader[Any]:
    sampler = torch_data.WeightedRandomSampler([1.0] * 30 + [3.0] * 30, 60)
    return torch_data.DataLoader(Noisy(), 7, sampler=sampler)


def trained(tmp_path: Any, make: Callable[[], Any], **options: Any) -> Run:
    options = {"devices": "cpu", "output": tmp_path, "score_test": False} | options
    return train(loader_cases.workload(make), **options)


def test_a_dataset_trains_as_its_arrays_do(tmp_path):
    arrays_, dataset, loader = (
        train(loader_cases.workload(make, make), devices="cpu", output=tmp_path, validation_size=9)
        for make in (arrays, tensors, by_workers(tensors()))
    )
    scores = {name: value for name, value in arrays_.metrics.items() if "loss" in name}
    for run in (dataset, loader):
        assert run.model.read_bytes() == arrays_.model.read_bytes()
        assert {name: run.metrics[name] for name in scores} == pytest.approx(scores, rel=1e-12)


def test_what_samples_draw_does_not_depend_on_workers(tmp_path):
    own, by_two, by_one = (
        trained(tmp_path, make).model.read_bytes()
        for make in (Noisy, by_workers(Noisy()), by_workers(Noisy(), 1))
    )
    assert own == by_two == by_one
    assert own != trained(tmp_path, tensors).model.read_bytes()


@pytest.mark.parametrize("make", [Noisy, sized_stream, by_workers(Noisy())])
def test_two_devices_take_the_samples_of_one(tmp_path, make):
    workload = loader_cases.workload(make, arrays)
    workload = dataclasses.replace(workload, model=loader_cases.plain_network)
    options: dict[str, Any] = {"precision": "fp64", "strategy": "towers", "output": tmp_path}
    two = train(workload, devices="cpu:2", **options)
    one = train(workload, devices="cpu", accumulate=2, **options | {"strategy": "auto"})
    assert_close(weights_of(two), weights_of(one), 1e-10, "two devices")


@pytest.mark.parametrize(
    "make",
    [Noisy, by_workers(Noisy()), sized_stream, streaming_workers, weighted, shuffled, stateful],
    ids=["dataset", "workers", "stream", "stream-workers", "sampler", "generator", "stateful"],
)
@pytest.mark.parametrize("stop_at", [4, 6])
def test_a_training_goes_on_to_the_same_bits(tmp_path, make, stop_at):
    whole = trained(tmp_path, make)
    looks = iter([False] * (stop_at - 1) + [True] * 9)
    stopped = trained(tmp_path, make, interrupted=lambda: next(looks))
    assert stopped.record.status == "interrupted"
    resumed = resume(stopped.path, workload=loader_cases.workload(make))
    assert resumed.record.status == "completed"
    assert resumed.model.read_bytes() == whole.model.read_bytes()


def test_a_stream_that_cannot_be_put_where_it_was_is_read_from_its_beginning():
    class TellsOnly(torch_data.DataLoader):
        def state_dict(self):
            return {}

    class Both(TellsOnly):
        def load_state_dict(self, state):
            pass

    tells, both = (
        samples_from(kind(Stream(), 7), num_samples=60).loading for kind in (TellsOnly, Both)
    )
    assert tells.loader is None
    assert isinstance(both.loader, Both)


def test_workers_of_a_stream_are_told_of_the_epoch(tmp_path):
    class Epochs(Stream):
        epoch = 0

        def set_epoch(self, epoch):
            self.epoch = epoch

        def __iter__(self):
            info = torch_data.get_worker_info()
            for index in range(7 if info is None or not info.id else 0):
                yield INPUTS[index] * 0, TARGETS[index] * 0 + self.epoch

    loader = torch_data.DataLoader(Epochs(), 7, num_workers=2)
    kind = Kind.of(samples_from(loader, num_samples=7), None)
    stream = LoaderStream(kind, 7, 0, {"num_workers": 2, "persistent_workers": True})
    seen = []
    for epoch in (0, 1):
        stream.begin(epoch)
        seen += stream.take(0, 7)[1].unique().tolist()
    end_workers(stream.reading)
    assert seen == [0, 1]


def test_steps_make_an_epoch_of_a_stream_that_does_not_say_how_long_it_is(tmp_path):
    run = trained(tmp_path, lambda: samples_from(Stream(), steps_per_epoch=5))
    assert run.record.dataset["num_train"] == 80
    assert len(run.history) == 3


@pytest.mark.parametrize("count", [0, 2])
@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (loader_cases.raises, "sample 33 (from 0): ValueError: no such picture: 33.png"),
        (loader_cases.not_finite, "inputs hold a value that is not finite in sample 33"),
        (loader_cases.whole, "inputs are torch.int64 in sample 33 (from 0), and torch.float32"),
        (loader_cases.too_long, "inputs are of shape [5] in sample 33 (from 0), and [4]"),
    ],
)
def test_a_bad_sample_is_named(tmp_path, spoil, said, count):
    with pytest.raises(TarmacError) as caught:
        trained(tmp_path, by_workers(Noisy(spoil), count))
    assert said in caught.value.message
    assert caught.value.message.startswith("dataset 'loaded': train")
    assert ("in worker" in caught.value.message) == bool(count)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_values_whose_sum_is_beyond_their_type_are_no_bad_samples(dtype):
    most = np.full(4, np.finfo(dtype).max, dtype)
    kind = Kind({"inputs": (4,)}, {"inputs": np.dtype(dtype)}, None, samples_from(Noisy()).loading)
    (batch,) = kind.gather([most, -most, most], [0, 1, 2])
    assert batch.tolist() == [most.tolist(), (-most).tolist(), most.tolist()]
    with pytest.raises(BadSampleError, match="not finite in sample 7"):
        kind.gather([most, most * np.nan], [5, 7])


def test_a_killed_worker_is_told_of_and_the_run_goes_on(tmp_path):
    with pytest.raises(TarmacError, match=r"a worker of its loader is gone") as lost:
        trained(tmp_path, by_workers(Noisy(loader_cases.dies)))
    assert "num_workers" in str(lost.value.hint)
    (path,) = tmp_path.iterdir()
    assert resume(path, workload=loader_cases.workload(Noisy)).record.status == "completed"


def test_a_batch_that_is_lost_with_its_worker_is_told_as_a_worker_that_is_gone():
    ours, theirs = multiprocessing.Pipe()
    theirs.close()
    with pytest.raises(EOFError) as cut:
        ours.recv()
    lost = explain_loader_error("train", cut.value)
    assert (
        lost.message == "train: a worker of its loader is gone: it ended before it delivered its "
        "batch"
    )
    with pytest.raises(EOFError) as read:
        raise EOFError("the file is short")
    assert "reading fails: EOFError: the file is short" in str(
        explain_loader_error("x", read.value)
    )


def test_a_dictionary_is_taken_apart_by_names():
    rows = [
        {"x": [1.0, 2.0], "more": 3, "y": 1, "w": 0.5},
        {"x": [1, 4], "more": 5, "y": 0, "w": 1},
    ]
    several = samples_from(rows, targets="y", weights="w")
    assert set(several.columns) == {"inputs.x", "inputs.more", "targets", "weights"}
    one = samples_from(rows[:1], inputs="x", targets="y")
    assert (one.inputs.dtype, one.inputs.shape, one.targets.dtype) == (np.float32, (1, 2), np.int64)
    with pytest.raises(RequestError, match="no part 'label'; it has x, more, y, w"):
        samples_from(rows, targets="label")


@pytest.mark.parametrize(
    ("source", "options", "said"),
    [
        (3, {}, "it is a int, expected a Split of arrays, a PyTorch dataset or a DataLoader"),
        ([], {}, "it has no samples"),
        (iter([1.0]), {"num_samples": 1}, "is iterable, but not an IterableDataset"),
        ([("a", 1)], {}, "inputs are <U1 in sample 0, expected numbers"),
        ([np.zeros(2), np.zeros(3)], {}, "inputs are of shape (3,) in sample 1 (from 0)"),
        (Noisy(), {"steps_per_epoch": 3}, "steps_per_epoch is given, which is for streams"),
        (Noisy(), {"num_workers": -1}, "num_workers is -1, expected at least 0"),
        ([(1, 2, 3, 4)], {}, "a sample has 4 parts"),
        ([{}], {"targets": "y"}, "a sample has no part 'y'"),
    ],
)
def test_what_cannot_be_read_is_refused_in_words(source, options, said):
    with pytest.raises(RequestError) as caught:
        samples_from(source, **options)
    assert said in caught.value.message


@pytest.mark.parametrize(
    ("make", "options", "said"),
    [
        (Stream, {}, "train is a stream of unknown length, Stream"),
        (sized_stream, {"validation_size": 5}, "a stream, which has no end to hold out"),
        (Noisy, {"feed": "resident"}, "feed is resident, which needs arrays"),
    ],
)
def test_what_such_data_cannot_do_is_refused_before_anything_starts(tmp_path, make, options, said):
    with pytest.raises(RequestError) as caught:
        trained(tmp_path, make, **options)
    assert said in caught.value.message
    assert not list(tmp_path.iterdir())


def test_a_stream_that_ends_early_says_after_how_many_samples(tmp_path):
    with pytest.raises(TarmacError, match="ends after 60 samples, expected 100"):
        trained(tmp_path, lambda: samples_from(Stream(), num_samples=100))


def test_classes_are_looked_at_as_they_come():
    labels = torch.tensor([0, 1, 5])
    dataset = torch_data.TensorDataset(torch.zeros(3, 1), labels)
    loaded = Dataset("x", dataset, dataset, num_classes=3).train
    assert len(loaded) == 3
    with pytest.raises(RequestError, match="needs all samples as arrays"):
        _ = loaded.arrays
    feed = LoaderFeed(
        "x: train", Subset.whole(loaded), 3, torch.device("cpu"), seed=0, num_classes=3
    )
    with pytest.raises(TarmacError, match=r"targets are 5 in sample 2 \(from 0\), expected 0 to 2"):
        list(feed.batches(torch.arange(3), [(0, 3)]))


@pytest.mark.parametrize("stay", [False, True])
def test_a_loader_that_cannot_be_gone_on_with_exactly_is_said_to(stay):
    sampler = torch_data.WeightedRandomSampler([1.0] * 60, 60)
    loader = torch_data.DataLoader(
        Noisy(), 7, sampler=sampler, num_workers=1, persistent_workers=stay
    )
    _, words = choose_feed("auto", Subset(samples_from(loader), range(60)), find_devices("cpu")[0])
    assert "a resumed run reads it again up to that point" in words
    assert ("not bit for bit" in words) == stay
