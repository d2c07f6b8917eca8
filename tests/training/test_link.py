"""What the launcher of workers hears of them."""

from __future__ import annotations

import socket
import threading

import pytest

import tarmac
from tarmac.training.processes.link import listen


@pytest.fixture
def short_path(tmp_path_factory):
    return tmp_path_factory.mktemp("link") / "s"


def test_a_worker_that_is_killed_in_the_middle_of_a_line_is_heard_to_end(short_path):
    events, ended = [], threading.Event()

    def receive(event):
        events.append(event)
        if event["event"] == "closed":
            ended.set()

    with listen(short_path, receive):
        with socket.socket(socket.AF_UNIX) as worker:
            worker.connect(str(short_path))
            worker.sendall(b'{"event": "connected", "rank": 3, "pid": 7}\n{"event": "step')
        assert ended.wait(60)
    assert [event["event"] for event in events] == ["connected", "closed"]
    assert events[-1]["rank"] == 3


def test_workers_start_where_temporary_files_have_long_names(tmp_path, monkeypatch):
    long = tmp_path / ("directory-of-temporary-files-" * 4)
    long.mkdir()
    monkeypatch.setenv("TMPDIR", str(long))
    monkeypatch.setattr("tempfile.tempdir", None)
    run = tarmac.train("digits-mlp", devices="cpu:2", epochs=1, output=tmp_path / "runs")
    assert run.record.status == "completed"
