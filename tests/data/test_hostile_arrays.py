"""An archive of arrays whose members are hostile, or are none, is refused in words."""

from __future__ import annotations

import io
import struct
import zipfile

import numpy as np
import pytest

from tarmac.data.own.arrays import read_arrays
from tarmac.errors import TarmacError


def npz(inputs: bytes, name: str = "inputs.npy") -> bytes:
    targets, file = io.BytesIO(), io.BytesIO()
    np.save(targets, np.array([0, 1] * 3))
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(name, inputs)
        archive.writestr("targets.npy", targets.getvalue())
    return file.getvalue()


def arrays(path):
    read_arrays(path, test_share=0.3, as_values=False)


@pytest.mark.parametrize(
    "head",
    [
        "{'descr': '<f8', 'fortran_order': False, 'shape': (4000000000, 4000000), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (-3, 2), }",
        "{'descr': '|O', 'fortran_order': False, 'shape': (2,), }",
        "{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (3, 2), }",
        "((((",
        "{'descr': '<f8', (",
        "",
    ],
)
def test_an_array_with_a_hostile_head_is_refused(tmp_path, head):
    content = b"\x93NUMPY\x01\0" + struct.pack("<H", len(head) + 1) + head.encode() + b"\n"
    path = tmp_path / "a.npz"
    path.write_bytes(npz(content + bytes(100)))
    with pytest.raises(TarmacError, match="inputs") as raised:
        arrays(path)
    assert "EOF" not in str(raised.value)


def test_an_archive_whose_members_lie_before_its_beginning_is_damaged(tmp_path):
    path = tmp_path / "a.npz"
    content = bytearray(npz(b"text", "inputs"))
    # Where the central directory begins, in the 22 bytes that end an archive.
    content[-6:-2] = struct.pack("<I", 2**31)
    path.write_bytes(content)
    with pytest.raises(TarmacError, match=r"a\.npz: inputs cannot be read: Invalid argument"):
        arrays(path)


def test_a_member_that_is_no_array_is_refused_by_its_name(tmp_path):
    path = tmp_path / "a.npz"
    path.write_bytes(npz(b"text", "inputs"))
    with pytest.raises(TarmacError, match=r"inputs is not an array, expected inputs\.npy"):
        arrays(path)
