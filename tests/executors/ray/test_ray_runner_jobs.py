"""Runners as jobs of Ray's: what a dashboard gets, and what its answers say of a runner."""

from __future__ import annotations

import http.server
import json
import subprocess
import threading
from datetime import UTC, datetime, timedelta

import pytest

from tarmac.errors import TarmacError
from tarmac.executors.queueing import run_code
from tarmac.executors.ray import runners as module
from tarmac.executors.ray.runners import RayRunners
from tarmac.executors.runners import RunnerJob
from tarmac.tasks.runner_notes import note_runner_place, reserve_runner


class Dashboard(http.server.ThreadingHTTPServer):
    """Answers as Ray's Jobs interface does.

    Attributes:
        jobs: By name, what Ray says of each.
        asked: Verb, path and body of each request.
        failures: Status and text of the next submissions, in the place of their answers.
        status: Of all answers, where it is not 200.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.address = f"http://127.0.0.1:{self.server_address[1]}"
        self.jobs: dict[str, dict[str, object]] = {}
        self.asked: list[tuple[str, str, dict[str, object]]] = []
        self.failures: list[tuple[int, str]] = []
        self.status = 200

    def calls(self) -> list[str]:
        """Return verbs and paths that were asked, and forget them."""
        calls = [f"{verb} {path}" for verb, path, _ in self.asked]
        self.asked.clear()
        return calls


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Dashboard

    def do_GET(self) -> None:
        if self.path == "/api/version":
            self._answer({"ray_version": "2.60.0"})
            return
        name = self.path.rpartition("/")[2]
        job = self.server.jobs.get(name)
        if job is None:
            self._answer(f"Job {name} does not exist", 404)
        else:
            self._answer(job)

    def do_POST(self) -> None:
        if self.path.endswith("/stop"):
            self._answer({"stopped": True})
        elif self.server.failures:
            status, text = self.server.failures.pop(0)
            self._answer(text, status)
        else:
            self._answer({"submission_id": "ignored"})

    def _answer(self, value: object, status: int = 200) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        said = (self.command, self.path, json.loads(body) if body else {})
        self.server.asked.append(said)
        text = value if isinstance(value, str) else json.dumps(value)
        self.send_response(status if self.server.status == 200 else self.server.status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def dashboard(monkeypatch, tmp_path):
    """Serve a dashboard that this process's variables lead to."""
    monkeypatch.setattr(module, "_AGAIN_AFTER_S", (0.0, 0.0))
    monkeypatch.setenv("TARMAC_SPOOL", str(tmp_path / "spool"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with Dashboard() as server:
        monkeypatch.setenv("RAY_API_SERVER_ADDRESS", server.address)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def run(tmp_path):
    run = tmp_path / "it's x-20261122-090000-abc"
    run.mkdir()
    return run


@pytest.fixture
def job_of(run):
    def make(*command: str, **changes) -> RunnerJob:
        values = {
            "run": run,
            "number": 2,
            "num_tasks": 10,
            "command": command or ["true"],
            "variables": {"COLOUR": "red"},
            "options": {},
            "warned": run / "2.warned",
        }
        return RunnerJob(**{**values, **changes})

    return make


def now() -> datetime:
    return datetime.now(UTC)


def test_a_submitted_runner_works_in_its_runs_directory(dashboard, job_of, run):
    runners = RayRunners()
    job = job_of("sh", "-c", 'echo ran in "$PWD"', secrets={"TOKEN": "hunter2hunter2"})
    name = f"it-s-x-{run_code(run)}-2"
    assert runners.submit(job) == f"{name} at {dashboard.address}"
    (_, (verb, path, body)) = dashboard.asked
    assert (verb, path, body["submission_id"]) == ("POST", "/api/jobs/", name)
    assert body["runtime_env"] == {"env_vars": {"COLOUR": "red"}}
    assert body["metadata"] == {"tarmac_run": str(run), "tarmac_job": "it-s-x"}
    assert "hunter2" not in f"{body}"
    assert runners.secrets(run) == {"TOKEN": "hunter2hunter2"}
    entry = body["entrypoint"]
    subprocess.run(["bash", "-c", entry], check=True)
    assert (run / "runner.log").read_text() == f"ran in {run}\n"
    (run / "runner.log").unlink()
    run.rmdir()
    done = subprocess.run(["bash", "-c", entry], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout == f"the head does not see the directory {run}\n"


def test_the_options_name_another_dashboard(dashboard, job_of, monkeypatch):
    monkeypatch.setenv("RAY_API_SERVER_ADDRESS", "http://127.0.0.1:9")
    place = RayRunners().submit(job_of(options={"dashboard": dashboard.address}))
    assert place.endswith(f" at {dashboard.address}")


def test_a_submission_without_an_answer_is_made_again(dashboard, job_of, run):
    dashboard.failures = [(503, "busy"), (503, "busy")]
    assert RayRunners().submit(job_of())
    assert dashboard.calls() == ["GET /api/version", *["POST /api/jobs/"] * 3]
    dashboard.failures = [(503, "busy")] * 3
    with pytest.raises(TarmacError, match="does not say whether it has the runner") as silent:
        RayRunners().submit(job_of(secrets={"TOKEN": "x"}))
    assert silent.value.hint == f"Look for it: ray job status it-s-x-{run_code(run)}-2"
    # It may be there, and needs them.
    assert RayRunners().secrets(run) == {"TOKEN": "x"}


def test_a_refused_runner_leaves_no_secret(dashboard, job_of, run):
    dashboard.failures = [(400, "ValueError: no such thing")]
    with pytest.raises(TarmacError, match="Ray refuses the runner: ValueError: no such") as refused:
        RayRunners().submit(job_of(secrets={"TOKEN": "x"}))
    assert refused.value.hint == "Start it on this machine: --runner here"
    assert RayRunners().secrets(run) == {}
    dashboard.status = 401
    with pytest.raises(TarmacError, match=r"Ray refuses the runner: .* asks for a token") as asked:
        RayRunners().submit(job_of())
    assert "RAY_AUTH_TOKEN" in asked.value.hint


def test_a_dashboard_that_is_not_there_is_said_with_how_to_name_it(dashboard, job_of):
    dashboard.status = 503
    with pytest.raises(TarmacError, match="Ray's dashboard does not answer") as silent:
        RayRunners().submit(job_of())
    assert "RAY_API_SERVER_ADDRESS" in silent.value.hint
    assert "--runner here" in silent.value.hint


@pytest.mark.parametrize(
    ("said", "kind", "words"),
    [
        ({"status": "RUNNING"}, "runs", "runs on the head"),
        ({"status": "SUCCEEDED", "driver_exit_code": 0}, "ended", "has ended"),
        ({"status": "FAILED", "driver_exit_code": 3}, "ended", "has failed, exit code 3"),
        ({"status": "FAILED", "message": "no node"}, "ended", "has failed: no node"),
        ({"status": "STOPPED", "message": "by a user"}, "ended", "was stopped"),
    ],
)
def test_what_ray_says_of_a_runner_is_said_in_words(dashboard, run, said, kind, words):
    dashboard.jobs["x-1"] = said
    found = RayRunners().look(run, 1, f"x-1 at {dashboard.address}", now())
    assert (found.kind, found.words) == (kind, f"job x-1 {words}")


def test_a_runner_that_waits_is_quiet_then_says_why_and_is_stopped_in_the_end(dashboard, run):
    dashboard.jobs["x-1"] = {"status": "PENDING", "message": "no CPU is free"}
    place = f"x-1 at {dashboard.address}"

    def look(waits_s: float):
        found = RayRunners().look(run, 1, place, now() - timedelta(seconds=waits_s))
        return found.kind, found.words

    assert look(10) == ("waits", "job x-1 waits for its turn")
    assert look(120) == ("waits", "job x-1 waits: no CPU is free")
    assert "POST /api/jobs/x-1/stop" not in dashboard.calls()
    kind, words = look(700)
    assert kind == "ended"
    assert words == (
        "job x-1 was stopped, because it had not started within 10 minutes: no CPU is free"
    )
    assert dashboard.calls()[-1] == "POST /api/jobs/x-1/stop"


def test_a_job_that_ray_does_not_know_has_ended_and_silence_is_no_end(dashboard, run):
    place = f"x-1 at {dashboard.address}"
    gone = RayRunners().look(run, 1, place, now())
    assert (gone.kind, gone.words) == (
        "ended",
        "job x-1 is no longer known to Ray: its head was restarted",
    )
    dashboard.status = 503
    silent = RayRunners().look(run, 1, place, now())
    assert silent.kind == "unknown"
    assert silent.words.startswith(f"job cannot be queried: {dashboard.address}: 503")


def test_a_token_that_cannot_be_read_is_no_end(dashboard, run, monkeypatch, tmp_path):
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "none"))
    found = RayRunners().look(run, 1, f"x-1 at {dashboard.address}", now())
    assert found.kind == "unknown"
    assert "the token for Ray cannot be read" in found.words


def test_only_runners_that_wait_are_stopped_by_a_cancellation(dashboard, run, job_of):
    runners = RayRunners()
    runners.submit(job_of(secrets={"TOKEN": "x"}))
    for name in ("x-1", "x-2"):
        note_runner_place(run, reserve_runner(run), f"{name} at {dashboard.address}")
    unanswered = reserve_runner(run)
    dashboard.jobs = {"x-1": {"status": "RUNNING"}, "x-2": {"status": "PENDING"}}
    dashboard.calls()
    runners.cancel(run, [1, 2, unanswered])
    assert dashboard.calls() == [
        "GET /api/jobs/x-1",
        "GET /api/jobs/x-2",
        "POST /api/jobs/x-2/stop",
    ]
    assert runners.secrets(run) == {}
