"""Job files that are no regular files, and bytes that are no text."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from tarmac.errors import RequestError
from tarmac.formats import read_paths

JOB = b"name: piped\ntasks: [{name: a, command: 'true'}]\n"
CREDENTIALS = b"credentials: {batch: {account_key: sesame}}\n"


@pytest.fixture
def pipe(tmp_path):
    """Makes a pipe that holds some bytes once, as `<(...)` does."""
    writers = []

    def make(content: bytes) -> Path:
        path = tmp_path / f"pipe-{len(writers)}.yaml"
        os.mkfifo(path)
        writers.append(threading.Thread(target=path.write_bytes, args=(content,), daemon=True))
        writers[-1].start()
        return path

    yield make
    for writer in writers:
        writer.join()


def test_a_pipe_is_read_once(pipe):
    ((reading, _),) = read_paths([pipe(JOB)])
    assert [job.name for job in reading.jobs] == ["piped"]


def test_what_is_wrong_in_a_pipe_is_told_without_its_secrets(pipe):
    with pytest.raises(RequestError) as raised:
        read_paths([pipe(CREDENTIALS + b"  - {\n")])
    assert "sesame" not in str(raised.value)
    assert "cannot be read as YAML or JSON" in raised.value.message


def test_a_device_without_an_end_is_refused():
    with pytest.raises(RequestError, match="more than 16 MiB"):
        read_paths([Path("/dev/zero")])


def test_the_place_of_a_byte_that_is_no_text_is_told(tmp_path):
    path = tmp_path / "it's.yaml"
    path.write_bytes("name: ü\n".encode() + b"# \xe9t\xe9\n")
    with pytest.raises(RequestError, match=r"it's\.yaml:2:3: is not UTF-8") as raised:
        read_paths([path])
    assert "iconv -f latin1 -t utf-8 '" in raised.value.hint
