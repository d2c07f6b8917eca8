"""What is said of a run's runners and of logs that are being read, by a cluster's answers alone."""

from __future__ import annotations

import contextlib
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tarmac.errors import RequestError
from tarmac.executors.kubernetes import followers, runners
from tarmac.executors.kubernetes.followers import Followed, Followers
from tarmac.executors.kubernetes.mirror import Heard
from tarmac.executors.kubernetes.runners import KubernetesRunners
from tarmac.executors.runners import RunnerJob
from tarmac.kubernetes import NoAnswer


class Answers:
    """A cluster that has one Job, and does not tell of its pods."""

    def __init__(self, job: dict[str, Any] | None) -> None:
        self._job = job

    def get(self, kind: str, name: str) -> dict[str, Any] | NoAnswer | None:
        # Which cluster this is it does not tell either.
        return self._job if (kind, name) == ("Job", "x") else NoAnswer("it is busy", since=0.0)

    def list(self, kind: str, labels: str) -> NoAnswer:
        return NoAnswer("the server is busy", since=0.0)

    def log(self, pod: str, container: str, *, follow: bool) -> bytes:
        return b""


def with_condition(kind: str, status: str = "True") -> dict[str, Any]:
    return {"status": {"conditions": [{"type": kind, "status": status}]}}


@pytest.mark.parametrize(
    ("job", "kind", "words"),
    [
        (None, "ended", "job x no longer exists"),
        (with_condition("Complete"), "ended", "job x has ended"),
        (with_condition("Complete", "False"), "waits", "its pod cannot be queried"),
        ({}, "waits", "its pod cannot be queried"),
    ],
    ids=["gone", "complete", "not yet", "new"],
)
def test_a_runner_has_ended_when_its_job_is_complete_or_gone(monkeypatch, job, kind, words):
    @contextlib.contextmanager
    def connect(run: Path, patience_s: float):
        yield Answers(job)

    monkeypatch.setattr(runners, "_connect", connect)
    state = KubernetesRunners().look(Path("/run"), 1, "x", datetime.now(UTC))
    assert state.kind == kind
    assert words in state.words


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "and there is none"),
        ({"volume": {"claim": "c", "path": "/other"}}, "/data/run is not below /other"),
        ({"volume": {"claim": "c", "path": "/data"}}, "needs an image that has Tarmac"),
    ],
    ids=["no volume", "another volume", "no image"],
)
def test_a_runner_that_could_not_see_its_run_is_refused(options, said):
    run = Path("/data/run")
    job = RunnerJob(
        run=run,
        number=1,
        num_tasks=1,
        command=["tarmac"],
        variables={},
        options=options,
        warned=run / "warned",
    )
    with pytest.raises(RequestError, match=said):
        KubernetesRunners().submit(job)


def test_an_attempts_log_is_being_read_until_its_end_and_no_other_attempts(monkeypatch):
    ends, heard = threading.Event(), threading.Event()

    def mirror_log(*_: object, log: bytes) -> Heard:
        assert ends.wait(60)
        return Heard()

    monkeypatch.setattr(followers, "mirror_log", mirror_log)
    logs = Followers(Answers(None), heard.set)
    logs.follow(Followed("pod", Path("/task"), 1), is_over=True)
    attempts = [(Path("/task"), 1), (Path("/task"), 2), (Path("/other"), 1)]
    assert [logs.is_reading_of(*attempt) for attempt in attempts] == [True, False, False]
    ends.set()
    assert heard.wait(60)
    assert not logs.is_reading_of(Path("/task"), 1)
    assert len(logs.of(Path("/task"), 1)) == 1
