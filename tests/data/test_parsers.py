"""The parsers take what the authors publish, and refuse anything else in words."""

from __future__ import annotations

import contextlib
import dataclasses
import pickle
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from tarmac import RequestError, TarmacError
from tarmac.data import Dataset, Split
from tarmac.data.cifar import parse_binary_batch, parse_python_batch
from tarmac.data.idx import parse_idx


def idx(array: np.ndarray) -> bytes:
    header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.tobytes()


@given(npst.arrays(np.uint8, npst.array_shapes(max_dims=3, max_side=6)))
def test_idx_gives_back_any_array(array):
    parsed = parse_idx(idx(array), "file", array.ndim)
    assert np.array_equal(parsed, array)
    assert parsed.flags.writeable


@given(
    npst.arrays(np.uint8, npst.array_shapes(min_dims=3, max_dims=3, max_side=4)),
    st.data(),
)
def test_idx_cut_anywhere_is_refused(array, draw):
    content = idx(array)
    cut = draw.draw(st.integers(0, len(content) - 1))
    with pytest.raises(TarmacError, match=r"^file "):
        parse_idx(content[:cut], "file", 3)


@given(st.binary(max_size=64))
def test_idx_never_fails_in_another_way(content):
    with contextlib.suppress(TarmacError):
        parse_idx(content, "file", 1)


def python_batch(size: int) -> bytes:
    rng = np.random.default_rng(0)
    batch = {
        b"data": rng.integers(0, 256, (size, 3072), dtype=np.uint8),
        b"labels": rng.integers(0, 10, size).tolist(),
    }
    return pickle.dumps(batch, protocol=2)


def test_both_cifar_layouts_give_the_same_arrays():
    content = python_batch(10_000)
    batch = pickle.loads(content)
    labels = np.array(batch[b"labels"], np.uint8)[:, None]
    binary = np.concatenate([labels, batch[b"data"]], axis=1).tobytes()
    from_python = parse_python_batch(content, "py")
    from_binary = parse_binary_batch(binary, "bin")
    assert from_python[0].shape == (10_000, 3, 32, 32)
    for ours, theirs in zip(from_python, from_binary, strict=True):
        assert np.array_equal(ours, theirs)
        assert ours.dtype == theirs.dtype


class Attack:
    def __reduce__(self):
        return (print, ("pwned",))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (pickle.dumps(Attack(), protocol=2), "print is not allowed in a data file"),
        (python_batch(10)[:5000], "not a CIFAR-10 batch"),
        (b"", "not a CIFAR-10 batch"),
        (pickle.dumps({b"labels": []}, protocol=2), "not a CIFAR-10 batch"),
        (pickle.dumps([1, 2]), "not a CIFAR-10 batch"),
    ],
)
def test_a_pickle_of_anything_else_is_refused(content, message, capsys):
    with pytest.raises(TarmacError, match=message):
        parse_python_batch(content, "data_batch_1")
    assert "pwned" not in capsys.readouterr().out


def test_a_short_binary_batch_is_refused():
    with pytest.raises(TarmacError, match="bin has 3 bytes, expected 30730000"):
        parse_binary_batch(b"abc", "bin")


def split(inputs=(4, 2), targets=(0, 1, 2, 1), dtype=np.uint8) -> Split:
    return Split(np.zeros(inputs, dtype), np.array(targets, np.int64))


@pytest.mark.parametrize(
    ("train", "message"),
    [
        (split(dtype=np.float32), "inputs are float32 in train and uint8 in test"),
        (split(inputs=(3, 2)), "3 inputs and 4 targets"),
        (split(inputs=(0, 2), targets=()), "train has no samples"),
        (split(targets=(0, 1, 2, 3)), r"targets are 3 in sample 3 \(from 0\), expected 0 to 2"),
        (split(targets=(0, 1, -1, 2)), r"targets are -1 in sample 2 \(from 0\)"),
        (split(inputs=(4, 3)), r"samples are \(3,\) in train and \(2,\) in test"),
        (Split(np.zeros((4, 2), np.uint8), np.zeros(4)), "expected integers"),
    ],
)
def test_arrays_that_do_not_fit_together_are_refused(train, message):
    with pytest.raises(RequestError, match=message):
        Dataset(name="own", train=train, test=split(), num_classes=3)


@pytest.mark.parametrize("kind", ["u1", "i2", "i4", "u8", "?"])
def test_classes_of_any_integers_become_int64(kind):
    narrow = Split(np.zeros((4, 2), np.uint8), np.array([0, 1, 1, 0]).astype(kind))
    dataset = Dataset(name="own", train=narrow, test=split(targets=(0, 1, 1, 0)), num_classes=2)
    assert dataset.train.targets.dtype == np.int64
    assert dataset.train.targets.tolist() == [0, 1, 1, 0]


@pytest.mark.parametrize("kind", ["f8", "f2", "i8", "u1", "?"])
def test_weights_of_any_numbers_become_float32(kind):
    weighted = dataclasses.replace(split(), weights=np.array([1, 0, 1, 1]).astype(kind))
    dataset = Dataset(name="own", train=weighted, test=split(), num_classes=3)
    assert dataset.train.weights.dtype == np.float32
    assert dataset.train.weights.tolist() == [1, 0, 1, 1]


def test_a_class_beyond_all_int64_is_named():
    huge = Split(np.zeros((2, 2), np.uint8), np.array([0, 2**63 + 1], np.uint64))
    with pytest.raises(RequestError, match=f"are {2**63 + 1} in sample 1"):
        Dataset(name="own", train=huge, test=huge, num_classes=3)


def test_the_fingerprint_changes_with_any_byte():
    first = Dataset(name="own", train=split(), test=split(), num_classes=3)
    other = split()
    other.inputs[2, 1] = 1
    second = Dataset(name="own", train=other, test=split(), num_classes=3)
    assert first.fingerprint != second.fingerprint
    assert (
        first.fingerprint
        == Dataset(name="again", train=split(), test=split(), num_classes=3).fingerprint
    )
