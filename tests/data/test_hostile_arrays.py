"""Readers of data files take mutants of real files, or refuse them in words."""

from __future__ import annotations

import gzip
import io
import lzma
import struct
import tarfile
import zipfile

import numpy as np
import pytest

from mutants import refused_mutants
from tarmac.data import TableColumns, read_image
from tarmac.data.idx import parse_idx
from tarmac.data.own.arrays import read_arrays
from tarmac.data.own.tables import read_tables
from tarmac.errors import TarmacError
from tarmac.jobs.inputs import _unpack

CSV = b"rooms,street,old,price\n3,High,true,100.5\n4,Low,false,150\n2,,true,60\n5,Low,false,210\n"
IDX = bytes([0, 0, 8, 3]) + struct.pack(">3I", 2, 3, 4) + bytes(24)


def npy(array) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def npz(inputs: bytes, name: str = "inputs.npy") -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(name, inputs)
        archive.writestr("targets.npy", npy(np.array([0, 1] * 3)))
    return file.getvalue()


def image(form: str) -> bytes:
    file = io.BytesIO()
    pixels = np.arange(300, dtype=np.uint8).reshape(10, 10, 3)
    pytest.importorskip("PIL.Image").fromarray(pixels).save(file, form)
    return file.getvalue()


def parquet() -> bytes:
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet as files

    file = io.BytesIO()
    table = arrow.table({"rooms": [1, 2, 3, 4], "price": [0.5, 1, 2, None]})
    files.write_table(table, file)
    return file.getvalue()


def tar() -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        member = tarfile.TarInfo("a/b.txt")
        member.size = 250
        archive.addfile(member, io.BytesIO(b"hello" * 50))
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "a"
        archive.addfile(link)
    return file.getvalue()


def arrays(path):
    read_arrays(path, test_share=0.3, as_values=False)


def table(path):
    columns = TableColumns(targets=("price",), categorical=("street",), fill="median")
    read_tables(path, None, columns, test_share=0.3)


def plain_table(path):
    read_tables(path, None, TableColumns(targets=("price",), as_values=True), test_share=0.3)


# By the file's name: what is mutated, how a file is made of it, and what reads that.
FILES = {
    "a.npz": (lambda: npz(npy(np.arange(12.0).reshape(6, 2))), bytes, arrays),
    "member.npz": (lambda: npy(np.arange(12.0).reshape(6, 2)), npz, arrays),
    "a.csv": (lambda: CSV, bytes, table),
    "b.csv": (lambda: CSV.replace(b"High", b"1"), bytes, plain_table),
    "a.csv.gz": (lambda: CSV, gzip.compress, table),
    "a.parquet": (parquet, bytes, plain_table),
    "a.png": (lambda: image("PNG"), bytes, lambda path: read_image(path, size=None, grey=False)),
    "a.jpeg": (lambda: image("JPEG"), bytes, lambda path: read_image(path, size=(4, 4), grey=True)),
    "a.idx": (lambda: IDX, bytes, lambda path: parse_idx(path.read_bytes(), "a.idx", 3)),
    "a.zip": (lambda: npz(b"a" * 99), bytes, lambda path: _unpack(path, "a", path.parent / "to")),
    "a.tar.xz": (tar, lzma.compress, lambda path: _unpack(path, "a", path.parent / "to")),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", FILES)
def test_a_mutant_of_a_data_file_is_read_or_refused_in_words(tmp_path, name):
    make, wrap, read = FILES[name]
    if "csv" in name:
        pytest.importorskip("pyarrow")
    path = tmp_path / name

    def read_mutant(mutant: bytes) -> None:
        path.write_bytes(wrap(mutant))
        read(path)

    assert refused_mutants(make(), name, read_mutant)


@pytest.mark.parametrize(
    "head",
    [
        "{'descr': '<f8', 'fortran_order': False, 'shape': (4000000000, 4000000), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (-3, 2), }",
        "{'descr': '|O', 'fortran_order': False, 'shape': (2,), }",
        "{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (3, 2), }",
        "((((",
        "",
    ],
)
def test_an_array_with_a_hostile_head_is_refused(tmp_path, head):
    content = b"\x93NUMPY\x01\0" + struct.pack("<H", len(head) + 1) + head.encode() + b"\n"
    path = tmp_path / "a.npz"
    path.write_bytes(npz(content + bytes(100)))
    with pytest.raises(TarmacError, match="inputs"):
        arrays(path)


def test_a_member_that_is_no_array_is_refused_by_its_name(tmp_path):
    path = tmp_path / "a.npz"
    path.write_bytes(npz(b"text", "inputs"))
    with pytest.raises(TarmacError, match=r"inputs is no array, expected inputs\.npy"):
        arrays(path)
