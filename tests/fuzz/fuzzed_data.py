"""Readers of data: tables, arrays, images, archives, weights, answers' inputs."""

from __future__ import annotations

import functools
import gzip
import io
import lzma
import pickle
import struct
import tarfile
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from fuzzed_readers import Reader, Samples, of_file

from tarmac.data import TableColumns, read_image
from tarmac.data.cifar import parse_python_batch
from tarmac.data.idx import parse_idx
from tarmac.data.own.arrays import read_arrays
from tarmac.data.own.store import load_own, own_names
from tarmac.data.own.tables import read_tables
from tarmac.data.own.taking import Taking, take_over
from tarmac.data.text import parse_text
from tarmac.inference.parts import Part
from tarmac.inference.reading import read_samples
from tarmac.tasks.inputs import _unpack

CSV = b"rooms,street,old,price\n3,High,true,100.5\n4,Low,false,150\n2,,true,60\n5,Low,false,210\n"
IDX = bytes([0, 0, 8, 3]) + struct.pack(">3I", 2, 3, 4) + bytes(24)


def npy(array) -> bytes:
    """Return an array as a file."""
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def npz(inputs: bytes, name: str = "inputs.npy") -> bytes:
    """Return an archive of arrays with a file as its inputs."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(name, inputs)
        archive.writestr("targets.npy", npy(np.array([0, 1] * 3)))
    return file.getvalue()


def _image(form: str) -> Samples:
    file = io.BytesIO()
    pixels = np.arange(300, dtype=np.uint8).reshape(10, 10, 3)
    pytest.importorskip("PIL.Image").fromarray(pixels).save(file, form)
    return {f"a.{form.lower()}": file.getvalue()}


def _parquet() -> Samples:
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet as files

    file = io.BytesIO()
    table = arrow.table({"rooms": [1, 2, 3, 4], "price": [0.5, 1, 2, 3]})
    files.write_table(table, file)
    return {"a.parquet": file.getvalue()}


def _tar() -> Samples:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        member = tarfile.TarInfo("a/b.txt")
        member.size = 250
        archive.addfile(member, io.BytesIO(b"hello" * 50))
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "a"
        archive.addfile(link)
    return {"a.tar": file.getvalue()}


def _unpacked(name: str):
    return of_file(name, lambda path: _unpack(path, "a", path.parent / "to"))


def read_own_arrays(path: Path) -> None:
    """Read arrays as `tarmac data add` does."""
    read_arrays(path, test_share=0.3, as_values=False)


def _read_table(path: Path) -> None:
    pytest.importorskip("pyarrow")
    columns = TableColumns(targets=("price",), categorical=("street",), fill="median")
    read_tables(path, None, columns, test_share=0.3)


def _read_plain_table(path: Path) -> None:
    pytest.importorskip("pyarrow")
    read_tables(path, None, TableColumns(targets=("price",), as_values=True), test_share=0.3)


def _read_rows(path: Path) -> None:
    list(read_samples(path, [Part("", (2,), np.dtype(np.float32))], 10))


@functools.cache
def _own_record() -> Samples:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "a.npz").write_bytes(npz(npy(np.arange(12.0).reshape(6, 2))))
        take_over("mine", root / "a.npz", Taking(), root)
        (record,) = (root / "mine").glob("*.json")
        return {record.name: record.read_bytes()}


def _read_own_record(content: bytes, directory: Path) -> None:
    if not (directory / "mine").exists():
        (directory / "a.npz").write_bytes(npz(npy(np.arange(12.0).reshape(6, 2))))
        take_over("mine", directory / "a.npz", Taking(), directory)
    (name,) = _own_record()
    (directory / "mine" / name).write_bytes(content)
    own_names(directory)
    load_own("mine", directory)


def _weights() -> Samples:
    torch = pytest.importorskip("torch")
    safetensors = pytest.importorskip("safetensors.torch")
    state = {"linear.weight": torch.ones(3, 2), "linear.bias": torch.zeros(3)}
    file = io.BytesIO()
    torch.save(state, file)
    return {"a.safetensors": safetensors.save(state), "a.pt": file.getvalue()}


def _read_weights(suffix: str):
    def read(path: Path) -> None:
        from tarmac.training.initial import read_weights

        read_weights(path)

    return of_file(f"weights{suffix}", read)


def _only(samples: Samples, suffix: str) -> Samples:
    return {name: content for name, content in samples.items() if name.endswith(suffix)}


def _cifar() -> Samples:
    batch = {"data": b"\1" * 3072 * 2, "labels": [1, 2], "batch_label": "x"}
    return {"data_batch_1": pickle.dumps(batch, protocol=2)}


READERS = {
    "arrays": Reader(
        lambda: {"a.npz": npz(npy(np.arange(12.0).reshape(6, 2)))},
        of_file("a.npz", read_own_arrays),
        share=2,
    ),
    "members of arrays": Reader(
        lambda: {"inputs.npy": npy(np.arange(12.0).reshape(6, 2))},
        of_file("a.npz", read_own_arrays),
        share=2,
        wrap=npz,
    ),
    "tables": Reader(lambda: {"a.csv": CSV}, of_file("a.csv", _read_table), share=2),
    "tables of numbers": Reader(
        lambda: {"b.csv": b"rooms,price\n3,100.5\n4,150\n2,60\n5,210\n"},
        of_file("b.csv", _read_plain_table),
        share=2,
    ),
    "packed tables": Reader(
        lambda: {"a.csv": CSV}, of_file("a.csv.gz", _read_table), share=2, wrap=gzip.compress
    ),
    "Parquet": Reader(_parquet, of_file("a.parquet", _read_plain_table), share=2),
    "PNG": Reader(
        lambda: _image("PNG"),
        of_file("a.png", lambda path: read_image(path, size=None, grey=False)),
    ),
    "JPEG": Reader(
        lambda: _image("JPEG"),
        of_file("a.jpeg", lambda path: read_image(path, size=(4, 4), grey=True)),
    ),
    "IDX": Reader(lambda: {"a.idx": IDX}, lambda content, _: parse_idx(content, "a.idx", 3)),
    "batches of CIFAR": Reader(
        _cifar,
        lambda content, _: parse_python_batch(content, "data_batch_1"),
        # A whole one is of 30 MB.
        is_refused=True,
    ),
    "texts": Reader(
        lambda: {"a.txt": "First Citizen:\nnaïve ☃\n".encode()},
        lambda content, _: parse_text(content, "a.txt"),
    ),
    "ZIP": Reader(lambda: {"a.zip": npz(b"a" * 99)}, _unpacked("a.zip"), share=2),
    "tar": Reader(_tar, _unpacked("a.tar.xz"), share=2, wrap=lzma.compress),
    "records of datasets": Reader(_own_record, _read_own_record, share=1),
    "safetensors": Reader(
        lambda: _only(_weights(), ".safetensors"), _read_weights(".safetensors"), share=2
    ),
    "files of torch.save": Reader(lambda: _only(_weights(), ".pt"), _read_weights(".pt"), share=1),
    "rows of CSV": Reader(
        lambda: {"rows.csv": b"a,b\n1,2\n3,4\n"}, of_file("rows.csv", _read_rows)
    ),
    "rows of JSON": Reader(
        lambda: {"rows.json": b"[[1, 2], [3, 4]]"}, of_file("rows.json", _read_rows)
    ),
    "lines of JSON": Reader(
        lambda: {"rows.jsonl": b"[1, 2]\n[3, 4]\n"}, of_file("rows.jsonl", _read_rows)
    ),
    "rows of arrays": Reader(
        lambda: {"rows.npy": npy(np.ones((3, 2), np.float32))}, of_file("rows.npy", _read_rows)
    ),
}
