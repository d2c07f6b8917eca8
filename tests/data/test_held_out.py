"""Which samples are held out, as a function of seed, sizes and classes."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tarmac.data import Dataset, Split, Subset, hold_out, samples_from, windows
from tarmac.errors import RequestError


def labelled(counts, *, shuffled=False, **fields) -> Dataset:
    """Samples sorted by class, so many of each; a sample's input is its position."""
    labels = np.repeat(np.arange(len(counts)), counts)
    if shuffled:
        labels = np.random.default_rng(0).permutation(labels)
    split = Split(np.arange(len(labels), dtype=np.float32)[:, None], labels)
    return Dataset("own", split, split, num_classes=len(counts), **fields)


def rows(subset: Subset) -> list[int]:
    return [*map(int, subset.rows)]


def counts(dataset: Dataset, subset: Subset) -> list[int]:
    labels = dataset.train.targets[subset.rows]
    return np.bincount(labels, minlength=dataset.num_classes).tolist()


@pytest.mark.parametrize("shuffled", [False, True])
def test_each_class_is_held_out_by_its_share(shuffled):
    dataset = labelled([600, 300, 90, 10], shuffled=shuffled)
    held = hold_out(dataset, validation_size=100, train_size=200, seed=3)
    assert counts(dataset, held.validation) == [60, 30, 9, 1]
    assert counts(dataset, held.train) == [120, 60, 18, 2]
    assert held.split == "random"


@given(
    st.lists(st.integers(2, 40), min_size=1, max_size=8),
    st.floats(0.01, 0.5),
    st.integers(0, 2**44),
)
@example([2, 2, 2, 26], 0.1875, 0)
def test_held_out_samples_depend_on_the_seed_and_not_on_what_is_trained_on(sizes, share, seed):
    dataset = labelled(sizes)
    total = sum(sizes)
    size = max(1, int(share * total))
    held = hold_out(dataset, validation_size=size, seed=seed)
    validation, train = rows(held.validation), rows(held.train)
    assert sorted(validation + train) == [*range(total)]
    assert validation == sorted(validation)
    for have, of_all in zip(counts(dataset, held.validation), sizes, strict=True):
        # A class is cut within half a sample of its share, and so is where the cut is made, once
        # for each class.
        assert abs(have - of_all * size / total) <= 0.5 + len(sizes) * of_all / total / 2
    few = hold_out(dataset, validation_size=size, train_size=1, seed=seed)
    assert rows(few.validation) == validation
    assert rows(few.train)[0] in train


def test_another_seed_draws_others():
    dataset = labelled([50, 50])
    drawn = {
        tuple(rows(hold_out(dataset, validation_size=20, seed=s).validation)) for s in range(5)
    }
    assert len(drawn) == 5


def test_the_draw_stays_what_it_was():
    """Runs go on with it, whatever NumPy's version."""
    held = hold_out(labelled([6, 6, 6]), validation_size=6, train_size=6, seed=2**40 + 7)
    assert (rows(held.train), rows(held.validation)) == (
        [1, 3, 6, 11, 15, 16],
        [2, 4, 7, 10, 12, 13],
    )
    values = dataclasses.replace(labelled([18]), num_classes=None)
    assert rows(hold_out(values, validation_size=4, seed=1).validation) == [9, 13, 15, 17]


def test_nothing_is_drawn_where_all_samples_are_trained_on():
    held = hold_out(labelled([5, 5]))
    assert held.train.rows == range(10)
    assert not len(held.validation)


def test_the_last_samples_are_held_out_where_that_is_asked_for():
    held = hold_out(
        labelled([50, 50], shuffled=True), validation_size=10, train_size=30, split="last"
    )
    assert (held.train.rows, held.validation.rows) == (range(30), range(90, 100))


@pytest.mark.parametrize("stride", [1, 4, 8])
def test_windows_of_a_text_are_held_out_from_its_end(stride):
    tokens = windows(np.arange(400), 4, stride=stride)
    dataset = Dataset("text", tokens, tokens)
    held = hold_out(dataset, validation_size=10)
    assert (held.split, held.validation.rows) == ("last", range(len(tokens) - 10, len(tokens)))
    drawn = hold_out(dataset, validation_size=10, split="random")
    assert drawn.split == "random"
    assert rows(drawn.validation) != rows(held.validation)


def test_samples_of_the_datasets_own_judge_where_it_has_some():
    own = Split(np.zeros((6, 1), np.float32), np.array([0, 0, 0, 1, 1, 1]))
    dataset = labelled([50, 50], validation=own)
    whole = hold_out(dataset)
    assert (whole.split, whole.validation.split, rows(whole.validation)) == (
        "own",
        dataset.validation,
        [*range(6)],
    )
    assert whole.train.rows == range(100)
    some = hold_out(dataset, validation_size=2, train_size=20)
    assert np.bincount(dataset.validation.targets[some.validation.rows]).tolist() == [1, 1]
    assert counts(dataset, some.train) == [10, 10]
    assert hold_out(dataset, validation_size=0).split == "random"
    held = hold_out(dataset, validation_size=20, split="random")
    assert held.validation.split is dataset.train
    assert dataset.fingerprint != labelled([50, 50]).fingerprint


def test_a_split_of_its_own_must_be_of_the_same_kind():
    with pytest.raises(RequestError, match=r"samples are \(1,\) in train and \(2,\) in validation"):
        labelled([5, 5], validation=Split(np.zeros((4, 2), np.float32), np.zeros(4, np.int64)))
    with pytest.raises(RequestError, match=r"validation\.targets are 2 in sample 0"):
        labelled([5, 5], validation=Split(np.zeros((1, 1), np.float32), np.array([2])))


def test_samples_that_are_read_one_by_one_are_drawn_without_a_look_at_their_classes():
    pairs = [(np.float32([number]), number // 50) for number in range(100)]
    dataset = Dataset("pairs", samples_from(pairs), samples_from(pairs), num_classes=2)
    held = hold_out(dataset, validation_size=40, seed=5)
    assert 10 < sum(row >= 50 for row in rows(held.validation)) < 30
    held.check_classes(dataset)


@pytest.mark.parametrize(
    ("counts", "fields", "message", "hint"),
    [
        (
            [30, 30, 30],
            {"validation_size": 30, "split": "last"},
            "class 2 of own",
            "--validation-split random",
        ),
        (
            [30, 30, 30],
            {"validation_size": 60, "split": "last"},
            "classes 1, 2 of own",
            "--validation-split random",
        ),
        (
            [30, 30, 30],
            {"validation_size": 30, "train_size": 2},
            "of own would be",
            "--train-size N",
        ),
        (
            [99, 1],
            {"validation_size": 80},
            "class 1 of own would be scored but not trained on: 80 samples",
            "--validation-size N",
        ),
    ],
)
def test_a_class_that_would_be_held_out_whole_is_refused(counts, fields, message, hint):
    dataset = labelled(counts)
    held = hold_out(dataset, **fields)
    with pytest.raises(RequestError) as caught:
        held.check_classes(dataset)
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_classes_that_the_whole_training_set_lacks_are_not_the_splits_fault():
    own = Split(np.zeros((2, 1), np.float32), np.array([0, 2]))
    dataset = Dataset(
        "own",
        Split(np.zeros((4, 1), np.float32), np.array([0, 0, 1, 1])),
        own,
        num_classes=3,
        validation=own,
    )
    hold_out(dataset).check_classes(dataset)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"split": "first"}, "validation_split is 'first', expected auto, random, last or own"),
        ({"split": "own"}, "validation_split is own, and own has no validation samples of its own"),
        ({"validation_size": 10}, "which leaves none of the 10 samples of own to train on"),
        (
            {"validation_size": 4, "train_size": 7},
            r"has 6 samples to train on \(4 more are held out\)",
        ),
    ],
)
def test_what_cannot_be_split_is_refused(fields, message):
    with pytest.raises(RequestError, match=message):
        hold_out(labelled([5, 5]), **fields)
