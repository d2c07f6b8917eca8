"""Files that are written whole."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tarmac.node.durable import replace_file


def test_two_threads_may_write_one_file_at_once(tmp_path, monkeypatch):
    both_have_written = threading.Barrier(2)
    replace = Path.replace

    def last_step(self, target):
        both_have_written.wait(60)
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", last_step)
    path = tmp_path / "file"
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda content: replace_file(path, content), (b"1" * 9999, b"2" * 9999)))
    assert path.read_bytes() in {b"1" * 9999, b"2" * 9999}
    assert [*tmp_path.iterdir()] == [path]
