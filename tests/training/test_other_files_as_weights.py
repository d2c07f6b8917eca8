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
    ],
)
def test_a_file_of_another_kind_is_named_for_what_it_is(tmp_path, content, said):
    path = tmp_path / "page.pt"
    path.write_bytes(content)
    with pytest.raises(TarmacError) as caught:
        read_weights(path)
    assert said in str(caught.value)
    assert "run code" not in str(caught.value)
