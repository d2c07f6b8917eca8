"""A text is fetched and checked like other data, and cut into windows of characters."""

from __future__ import annotations

import dataclasses
import hashlib

import numpy as np
import pytest

from tarmac import RequestError, TarmacError, data
from tarmac.data import sources as _sources

CONTENT = ("To be, or not to be: that is the question.\n" * 40).encode()


@pytest.fixture
def play(monkeypatch, mirror):
    """Put a short text in the place of Shakespeare's, on one mirror."""
    monkeypatch.delenv("TARMAC_MIRROR", raising=False)
    file = _sources.DataFile("input.txt", md5=hashlib.md5(CONTENT).hexdigest())
    source = dataclasses.replace(
        _sources.SOURCES["tinyshakespeare"], layouts=((file,),), mirrors=(mirror.url,)
    )
    monkeypatch.setitem(_sources.SOURCES, "tinyshakespeare", source)
    mirror.files = {"input.txt": CONTENT}
    return mirror


def test_a_text_is_fetched_uncompressed_and_numbered_by_code_points(tmp_path, play):
    text = data.load_text("tinyshakespeare", tmp_path)
    assert [name for name, _ in play.requests] == ["input.txt"]
    assert text.vocabulary == "".join(sorted(set(CONTENT.decode())))
    tokens = np.concatenate([text.train, text.test])
    assert "".join(text.vocabulary[token] for token in tokens) == CONTENT.decode()
    assert len(text.train) == int(len(tokens) * 0.9)
    assert all(status.ok for status in data.verify("tinyshakespeare", tmp_path))


def test_its_windows_are_followed_by_what_comes_next(tmp_path, play):
    text = data.load_text("tinyshakespeare", tmp_path)
    dataset = text.windows("play", 8, stride=3)
    assert (
        dataset.train.inputs.shape
        == dataset.train.targets.shape
        == (len(text.train[:-8]) // 3 + (len(text.train[:-8]) % 3 > 0), 8)
    )
    assert (dataset.train.inputs[5] == text.train[15:23]).all()
    assert (dataset.train.targets[5] == text.train[16:24]).all()
    assert (dataset.test.inputs[1] == text.test[8:16]).all()
    assert np.shares_memory(dataset.train.inputs, text.train)


def test_a_dataset_of_windows_is_loaded_by_its_name(monkeypatch, tmp_path, play):
    source = dataclasses.replace(_sources.SOURCES["tinyshakespeare"], sample_shape=(16,))
    monkeypatch.setitem(_sources.SOURCES, "tinyshakespeare", source)
    dataset = data.load("tinyshakespeare", tmp_path)
    assert (dataset.sample_shape, dataset.num_classes) == ((16,), None)
    assert dataset.train.inputs.dtype == np.int32


@pytest.mark.parametrize("content", [b"", b"\xff" * 100, CONTENT + b"!"])
def test_a_text_that_is_another_is_refused(tmp_path, play, content):
    directory = tmp_path / "tinyshakespeare"
    directory.mkdir()
    (directory / "input.txt").write_bytes(content)
    with pytest.raises(TarmacError, match=r"input\.txt is damaged") as caught:
        data.load_text("tinyshakespeare", tmp_path)
    assert "tarmac data fetch tinyshakespeare" in caught.value.hint


def test_images_are_no_text(tmp_path):
    with pytest.raises(RequestError, match="'mnist' is not a text"):
        data.load_text("mnist", tmp_path)
