"""Recordings, and showing them again."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from watched_machine import SNAPSHOT, Given, later

from tarmac.files import StorageError
from tarmac.monitor import (
    SCHEMA_VERSION,
    Recorder,
    RecordingError,
    ReplayFeed,
    TappedFeed,
    to_json,
)

MOMENTS = [SNAPSHOT, later(1), later(11)]


@pytest.fixture
def recording(tmp_path):
    path = tmp_path / "night.jsonl"
    recorder = Recorder(path)
    for snapshot in MOMENTS:
        recorder.take(snapshot)
    recorder.close()
    return path


class Time:
    """Time that passes only when somebody waits."""

    def __init__(self) -> None:
        self.now = 100.0
        self.waited: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.waited.append(round(seconds, 6))
        self.now += seconds

    def clock(self) -> float:
        return self.now


def shown(feed) -> list:
    found = []
    with contextlib.closing(feed), contextlib.suppress(StopIteration):
        while True:
            found.append(feed.next())
    return found


def test_a_recording_shows_what_was_seen(recording):
    assert shown(ReplayFeed(recording, speed=None)) == MOMENTS


@pytest.mark.parametrize(("speed", "waited"), [(1.0, [1.0, 10.0]), (10.0, [0.1, 1.0])])
def test_a_recording_keeps_its_time_or_passes_faster(recording, speed, waited):
    time = Time()
    shown(ReplayFeed(recording, speed=speed, sleep=time.sleep, clock=time.clock))
    assert time.waited == waited


def test_what_took_long_to_show_is_not_waited_for_again(recording):
    time = Time()
    feed = ReplayFeed(recording, sleep=time.sleep, clock=time.clock)
    feed.next()
    time.now += 0.75
    feed.next()
    assert time.waited == [0.25]


def test_a_recording_that_was_cut_off_is_shown_as_far_as_it_goes(recording):
    recording.write_bytes(recording.read_bytes()[:-100])
    assert shown(ReplayFeed(recording, speed=None)) == MOMENTS[:2]


@pytest.mark.parametrize(
    "damage",
    [
        b"half a line\n",
        b"\n",
        b"\xff\xfe\n",
        b'{"schema_version":1}\n',
        b"[1]\n",
        b"[" * 100_000 + b"\n",
    ],
)
def test_a_damaged_line_is_passed_over(recording, damage):
    first, rest = recording.read_bytes().split(b"\n", 1)
    recording.write_bytes(damage + first + b"\n" + damage + rest)
    assert shown(ReplayFeed(recording, speed=None)) == MOMENTS


@pytest.mark.parametrize("content", [b"", b"half", b"\n\n"])
def test_a_recording_without_a_snapshot_is_refused(tmp_path, content):
    path = tmp_path / "empty.jsonl"
    path.write_bytes(content)
    with pytest.raises(RecordingError, match="holds no snapshot"):
        ReplayFeed(path)


def test_a_recording_of_a_newer_version_is_refused(tmp_path):
    path = tmp_path / "new.jsonl"
    path.write_text(json.dumps(to_json(SNAPSHOT) | {"schema_version": 2**10}) + "\n")
    with pytest.raises(RecordingError, match="schema_version 1024"):
        ReplayFeed(path)


def test_a_line_of_a_newer_version_behind_others_is_passed_over(recording):
    first, rest = recording.read_bytes().split(b"\n", 1)
    newer = json.dumps(to_json(SNAPSHOT) | {"schema_version": 2**10}).encode()
    recording.write_bytes(first + b"\n" + newer + b"\n" + rest)
    assert shown(ReplayFeed(recording, speed=None)) == MOMENTS


def test_recordings_of_each_version_so_far_are_read():
    recordings = sorted((Path(__file__).parent / "recordings").glob("version-*.jsonl"))
    assert [path.stem for path in recordings] == [
        f"version-{number}" for number in range(1, SCHEMA_VERSION + 1)
    ]
    for path in recordings:
        assert shown(ReplayFeed(path, speed=None)) == [SNAPSHOT, later(5)]


def test_a_recording_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(StorageError, match="No such file"):
        ReplayFeed(tmp_path / "none.jsonl")


def test_a_recording_goes_on_behind_a_line_that_was_cut_off(recording):
    recording.write_bytes(recording.read_bytes()[:-100])
    Recorder(recording).take(later(20))
    assert shown(ReplayFeed(recording, speed=None)) == [*MOMENTS[:2], later(20)]


def test_a_full_disk_is_shown_and_stops_nothing(small_disk):
    path = small_disk("64k") / "night.jsonl"
    count = 60
    feed = TappedFeed(Given(*(later(i) for i in range(count))), [Recorder(path)])
    problems = [finding for s in shown(feed) for finding in s.hosts[0].findings[1:]]
    assert problems
    assert "no space left" in problems[0].text
    kept = len(shown(ReplayFeed(path, speed=None)))
    assert kept + len(problems) == count
