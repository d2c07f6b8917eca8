"""``--init-from`` of files that are no weights at all."""

from __future__ import annotations

import pytest

from tarmac.errors import TarmacError

read_weights = pytest.importorskip(
    "tarmac.training.initial", reason="needs pip install 'tarmac-gpu[train]'"
).read_weights


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"<!DOCTYPE html><html></html>", "an HTML page"),
        (b"\xef\xbb\xbf\n <?xml version='1.0'?>", "an HTML page or XML"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0", "git lfs pull"),
        (b'{"error": "Not found"}', "JSON"),
        (b"\x89HDF\r\n\x1a\n\0", "HDF5, as Keras saves weights"),
        (b"GGUF\3\0\0\0", "GGUF"),
        (b"\x1f\x8b\x08\0", "compressed by gzip"),
        (b"", "an empty file"),
    ],
)
@pytest.mark.parametrize("name", ["page.pt", "page.safetensors"])
def test_a_file_of_another_kind_is_named_for_what_it_is(tmp_path, content, said, name):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(TarmacError) as caught:
        read_weights(path)
    assert said in str(caught.value)
    # An error that is chained is looked up in the catalogue of failures, which knows another cause.
    assert caught.value.__suppress_context__ or not content
    assert "run code" not in str(caught.value)


@pytest.mark.parametrize("content", [b"\x7fELF\2\1\1", bytes(range(1, 200)), b"Not Found"])
def test_bytes_that_are_no_pickle_are_not_taken_for_one(tmp_path, content):
    path = tmp_path / "weights.pt"
    path.write_bytes(content)
    with pytest.raises(
        TarmacError, match=r"weights\.pt (are|cannot be read: it is) not a file of torch"
    ):
        read_weights(path)
