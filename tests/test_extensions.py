"""What installed packages provide, by entry points."""

from __future__ import annotations

import importlib.metadata

from tarmac import extensions


def test_the_same_group_is_read_once_and_again_for_another_path(tmp_path, monkeypatch):
    reads = []

    def read(**group):
        reads.append(group)
        return importlib.metadata.entry_points(**group)

    monkeypatch.setattr(extensions, "entry_points", read)
    group = "tarmac.tests_of_extensions"
    assert [extensions.names_with_provided(group, ["own"]) for _ in range(2)] == [("own",)] * 2
    assert len(reads) == 1
    information = tmp_path / "more-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: more\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(f"[{group}]\nmore = more:value\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert extensions.names_with_provided(group, ["own"]) == ("own", "more")
