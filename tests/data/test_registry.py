"""Datasets are known by name, and can be brought by hand."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import io
import pickle
import tarfile

import numpy as np
import pytest

from hostile import each_name
from tarmac import RequestError, TarmacError, data
from tarmac.data import sources as _sources


def test_digits_are_embedded_with_a_fixed_split():
    digits = data.load("digits")
    assert digits.train.inputs.shape == (1438, 8, 8)
    assert digits.test.inputs.shape == (359, 8, 8)
    assert digits.train.inputs.max() == 16
    assert digits.fingerprint == "6f56af1f71baca0f"
    assert data.verify("digits") == []
    with pytest.raises(RequestError, match="nothing to fetch"):
        data.fetch("digits")


def test_mnist_is_the_published_one(mnist):
    loaded = data.load("mnist")
    assert loaded.train.inputs.shape == (60_000, 28, 28)
    assert loaded.test.inputs.shape == (10_000, 28, 28)
    assert all(status.ok for status in data.verify("mnist"))


def test_an_unknown_dataset_lists_the_valid_ones():
    with pytest.raises(RequestError, match="did you mean 'fashion-mnist'") as caught:
        data.load("fashion_mnist")
    assert "cifar10" in caught.value.hint


def test_the_state_of_each_dataset_is_described(tmp_path, origin):
    states = {status.name: status.state for status in data.describe(tmp_path)}
    assert states == {
        "digits": "embedded",
        "diabetes": "embedded",
        "noise224": "embedded",
        "mnist": "absent",
        "fashion-mnist": "absent",
        "cifar10": "absent",
        "tinyshakespeare": "absent",
    }
    data.add("mnist", origin, tmp_path)
    (tmp_path / "mnist" / "t10k-labels-idx1-ubyte").unlink()
    assert {s.name: s.state for s in data.describe(tmp_path)}["mnist"] == "partial"


@pytest.mark.parametrize("form", ["plain", "gz", "dotted", "in a folder"])
def test_files_are_taken_over_in_any_form(tmp_path, origin, small, form):
    if form == "gz":
        for path in list(origin.iterdir()):
            path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
            path.unlink()
    if form == "dotted":
        for path in list(origin.iterdir()):
            path.rename(path.with_name(path.name.replace("-idx", ".idx")))
    data.add("mnist", origin.parent if form == "in a folder" else origin, tmp_path / "root")
    assert len(data.load("mnist", tmp_path / "root").train) == 200


def test_what_is_missing_is_listed_and_nothing_taken_over(tmp_path, origin):
    (origin / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(RequestError, match="lacks t10k-labels-idx1-ubyte of mnist"):
        data.add("mnist", origin, tmp_path / "root")
    assert not (tmp_path / "root").exists()


def test_a_damaged_file_is_not_taken_over(tmp_path, origin):
    (origin / "t10k-labels-idx1-ubyte").write_bytes(b"\x00\x00\x08\x01")
    with pytest.raises(TarmacError, match="t10k-labels-idx1-ubyte is damaged"):
        data.add("mnist", origin, tmp_path / "root")
    assert not (tmp_path / "root").exists()


def test_what_is_taken_over_replaces_a_damaged_file_in_another_form(tmp_path, origin, small):
    root = tmp_path / "root"
    (root / "mnist").mkdir(parents=True)
    (root / "mnist" / "t10k-labels-idx1-ubyte").write_bytes(b"damaged")
    for path in list(origin.iterdir()):
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    data.add("mnist", origin, root)
    assert len(data.load("mnist", root).test) == 50


def test_a_directory_that_is_not_there_is_named(tmp_path):
    with pytest.raises(RequestError, match="nowhere is not a directory"):
        data.add("mnist", tmp_path / "nowhere", tmp_path)


@pytest.fixture(scope="module")
def batches() -> dict[str, tuple[bytes, bytes]]:
    """Return CIFAR-10's six batches in both layouts, of random pixels."""
    rng = np.random.default_rng(0)
    names = [f"data_batch_{number}" for number in range(1, 6)] + ["test_batch"]
    found = {}
    for name in names:
        # Most images are of one shade, so that archives are packed and unpacked in no time.
        pixels = np.repeat(rng.integers(0, 256, (10_000, 1), dtype=np.uint8), 3072, axis=1)
        pixels[:100] = rng.integers(0, 256, (100, 3072))
        labels = rng.integers(0, 10, 10_000)
        pickled = pickle.dumps({b"data": pixels, b"labels": labels.tolist()}, protocol=2)
        binary = np.concatenate([labels.astype(np.uint8)[:, None], pixels], axis=1).tobytes()
        found[name] = (pickled, binary)
    return found


def archive(files: dict[str, bytes], folder: str) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz", compresslevel=1) as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return stream.getvalue()


@pytest.fixture
def cifar(monkeypatch, batches, mirror):
    source = _sources.SOURCES["cifar10"]
    layout = tuple(
        dataclasses.replace(file, md5=hashlib.md5(batches[file.name][0]).hexdigest())
        for file in source.layouts[0]
    )
    changed = dataclasses.replace(
        source, layouts=(layout, source.layouts[1]), mirrors=(mirror.url,)
    )
    monkeypatch.setitem(_sources.SOURCES, "cifar10", changed)
    monkeypatch.delenv("TARMAC_MIRROR", raising=False)
    python = {name: pickled for name, (pickled, _) in batches.items()}
    mirror.files = {"cifar-10-python.tar.gz": archive(python, "cifar-10-batches-py")}
    return mirror


def test_cifar10_is_fetched_as_an_archive(tmp_path, cifar):
    loaded = data.load("cifar10", tmp_path)
    assert loaded.train.inputs.shape == (50_000, 3, 32, 32)
    assert loaded.test.inputs.shape == (10_000, 3, 32, 32)
    assert not list(tmp_path.rglob("*.tar.gz"))
    assert all(status.ok for status in data.verify("cifar10", tmp_path))


def test_cifar10_in_every_layout_is_the_same_data(tmp_path, cifar, batches):
    # Python's batches in an archive are what is fetched, in the test above.
    unpacked, packed = tmp_path / "unpacked", tmp_path / "packed"
    folder = unpacked / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    packed.mkdir()
    for name, (pickled, _) in batches.items():
        (folder / name).write_bytes(pickled)
    binary = {f"{name}.bin": content for name, (_, content) in batches.items()}
    (packed / "cifar.tar.gz").write_bytes(archive(binary, "cifar-10-batches-bin"))
    fingerprints = set()
    for origin in (unpacked, packed):
        root = tmp_path / f"root-{origin.name}"
        data.add("cifar10", origin, root)
        fingerprints.add(data.load("cifar10", root).fingerprint)
    assert len(fingerprints) == 1


@each_name
def test_datasets_lie_in_directories_of_any_name(tmp_path, origin, name):
    data.add("mnist", origin.rename(tmp_path / name), tmp_path / "root" / name)
    assert data.load("mnist", tmp_path / "root" / name).train.inputs.shape == (200, 5, 5)


def test_the_embedded_digits_are_the_published_ones_to_the_bit():
    digits = data.load("digits")
    # Of scikit-learn 1.9.1's load_digits(), split likewise, images as uint8 and targets as int64.
    sums = [
        hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
        for split in (digits.train, digits.test)
        for array in (split.inputs, split.targets)
    ]
    assert sums == [
        "c7d866edd7dd55767b097a8bbe48258c90f47027388ef42c6c2cc89aa7e9c8bd",
        "d88bc14b5455324ff8c5b13f3d3dbf61f9f2fed107c1bdae032e8506d4ff6116",
        "32db2c93c6aa3f03e1880d61f36dc1cb08ef2b7f6cf899a762ba8dc555b36538",
        "5b60d960d691c63f4e10de32b748c8dadcfa8c4000d9b6fe5efbd78200686ddc",
    ]
