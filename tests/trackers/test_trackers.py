"""Trackers get what they are told by their own clients, and none of their troubles get out."""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from mlflow_stand_in import MlflowStandIn

from tarmac.distribution import MissingExtraError
from tarmac.errors import RequestError, TarmacError
from tarmac.trackers import InThread, TrackedRun, check_tracker, open_tracker
from tarmac.training import resume, train
from waiting import wait_until

# Of LevelDB's log format: the size of its blocks, and the kinds of a record that end one.
_BLOCK, _WHOLE, _LAST = 32768, 1, 4

CONFIGURATION = {"epochs": 3, "settings": {"hidden": 8}, "weight_decay": {".*bias(?!)": 0.1}}


def tracked(directory: Path, **changes) -> TrackedRun:
    values = {
        "id": "0011223344556677",
        "name": "digits-mlp-1",
        "directory": directory,
        "configuration": CONFIGURATION,
        "tags": {"workload": "digits-mlp"},
    }
    return TrackedRun(**values | changes)


@pytest.fixture
def mlflow_server(monkeypatch):
    pytest.importorskip("mlflow")
    with MlflowStandIn() as server:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", server.url)
        monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
        yield server


def records_of(path: Path) -> Iterator[bytes]:
    """Yield what is in a log of Weights & Biases' client: blocks of LevelDB's format."""
    content, start, record = path.read_bytes(), 7, b""
    while start + 7 <= len(content):
        left = _BLOCK - start % _BLOCK
        if left < 7:
            start += left
            continue
        _, size, kind = struct.unpack_from("<IHB", content, start)
        if start + 7 + size > len(content):
            # It is being written.
            return
        record += content[start + 7 : start + 7 + size]
        start += 7 + size
        if kind in (_WHOLE, _LAST):
            yield record
            record = b""


def points_of(directory: Path) -> tuple[list[dict[str, str]], dict[str, str]]:
    """Read what Weights & Biases' client keeps offline of one start: history, and the summary."""
    (path,) = directory.glob("wandb/offline-run-*/run-*.wandb")
    return points_in(path)


def points_in(path: Path) -> tuple[list[dict[str, str]], dict[str, str]]:
    """Read a file of Weights & Biases' client: history, and the summary."""
    from wandb.proto import wandb_internal_pb2

    def by_name(items) -> dict[str, str]:
        return {item.key or ".".join(item.nested_key): item.value_json for item in items}

    rows, summary = [], {}
    for content in records_of(path):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(content)
        if record.HasField("history"):
            rows.append(by_name(record.history.item))
        if record.HasField("summary"):
            summary |= by_name(record.summary.update)
    return rows, summary


def test_weights_and_biases_keeps_a_run_offline(tmp_path, monkeypatch, capfd):
    wandb = pytest.importorskip("wandb")
    # Its client keeps the mode of when it was first asked anything; what is set now counts.
    monkeypatch.delenv("WANDB_MODE", raising=False)
    # However busy the machine is.
    monkeypatch.setenv("WANDB_X_SERVICE_WAIT", "100")
    wandb.setup()
    monkeypatch.setenv("WANDB_MODE", "offline")
    tracker = open_tracker("wandb", tracked(tmp_path))
    assert Path(tracker.place).is_relative_to(tmp_path / "wandb")
    tracker.log(1, {"loss": 0.5})
    tracker.log(2, {"loss": 0.25})
    tracker.end("completed", {"test_accuracy": 0.75})
    assert tracker.problem == ""
    # Its service writes in a process of its own, which may still be at it.
    wait_until(lambda: "status" in points_of(tmp_path)[1], "its status")
    rows, summary = points_of(tmp_path)
    assert [(row["_step"], row["loss"]) for row in rows] == [("1", "0.5"), ("2", "0.25")]
    assert summary["test_accuracy"] == "0.75"
    assert summary["status"] == '"completed"'
    assert capfd.readouterr().out == "", "standard output is the command's"


def test_weights_and_biases_keeps_what_comes_in_any_order(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_X_SERVICE_WAIT", "100")
    tracker = open_tracker("wandb", tracked(tmp_path, is_ordered=False))
    for number in (2, 0, 1):
        tracker.log(number, {"loss": 0.5})
    tracker.end("completed", {})
    wait_until(lambda: "status" in points_of(tmp_path)[1], "its status")
    assert [row["number"] for row in points_of(tmp_path)[0]] == ["2", "0", "1"]


def test_a_training_that_is_resumed_goes_on_with_its_run_at_weights_and_biases(
    tmp_path, monkeypatch
):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_X_SERVICE_WAIT", "100")
    small = {"epochs": 3, "train_size": 64, "devices": "cpu", "log_to": ["wandb"]}

    def two_are_trained() -> bool:
        return any(
            len(path.read_text().splitlines()) == 2 for path in tmp_path.glob("*/metrics.jsonl")
        )

    first = train("digits-mlp", output=tmp_path, interrupted=two_are_trained, **small)
    assert first.record.status == "interrupted"
    second = resume(first.path)
    # A file for each start, of one run.
    name = f"run-{first.record.id}.wandb"
    kept = [Path(run.record.tracked["wandb"]) / name for run in (first, second)]
    assert kept[0] != kept[1]
    wait_until(lambda: "status" in points_in(kept[1])[1], "its status")
    steps = [[row["_step"] for row in points_in(path)[0] if "accuracy" in row] for path in kept]
    assert steps == [["1", "2"], ["3"]]


def test_weights_and_biases_without_a_login_is_refused_before_anything_is_asked(
    tmp_path, monkeypatch
):
    pytest.importorskip("wandb")
    for name in ("WANDB_MODE", "WANDB_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "none"))
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(RequestError, match="you are not logged in") as caught:
        open_tracker("wandb", tracked(tmp_path))
    assert "WANDB_MODE=offline" in caught.value.hint


def test_mlflow_gets_parameters_metrics_and_the_end(tmp_path, mlflow_server):
    tracker = open_tracker("mlflow", tracked(tmp_path))
    assert tracker.place == f"{mlflow_server.url}/#/experiments/1/runs/run0"
    tracker.log(1, {"loss": 0.5})
    tracker.log(2, {"loss": 0.25})
    tracker.end("interrupted", {"test_accuracy": 0.75})
    assert tracker.problem == ""
    (run,) = mlflow_server.runs.values()
    assert run["params"] == {
        "epochs": "3",
        "settings.hidden": "8",
        "weight_decay.._bias____": "0.1",
    }
    points = [(point["key"], point["value"], point["step"]) for point in run["metrics"]]
    assert points == [("loss", 0.5, 1), ("loss", 0.25, 2), ("test_accuracy", 0.75, 2)]
    assert (run["name"], run["status"]) == ("digits-mlp-1", "KILLED")


def test_an_experiment_of_mlflow_that_another_run_makes_at_the_same_time_is_shared(
    tmp_path, mlflow_server, monkeypatch
):
    def make_as_another_has(asked):
        mlflow_server.experiments[asked["name"]] = "7"
        raise ValueError("experiment exists")

    monkeypatch.setattr(mlflow_server, "_create_experiment", make_as_another_has)
    tracker = open_tracker("mlflow", tracked(tmp_path))
    assert tracker.place == f"{mlflow_server.url}/#/experiments/7/runs/run0"


def test_mlflow_goes_on_with_a_run_that_it_knows(tmp_path, mlflow_server):
    for epoch in (1, 2):
        tracker = open_tracker("mlflow", tracked(tmp_path))
        tracker.log(epoch, {"loss": 0.5})
        tracker.end("completed", {})
    open_tracker("mlflow", tracked(tmp_path, id="another")).end("failed", {})
    assert [run["status"] for run in mlflow_server.runs.values()] == ["FINISHED", "FAILED"]
    assert [point["step"] for point in mlflow_server.runs["run0"]["metrics"]] == [1, 2]


def test_what_a_server_refuses_later_is_told_and_nothing_fails(tmp_path, mlflow_server):
    tracker = open_tracker("mlflow", tracked(tmp_path))
    mlflow_server.refused_steps.add(1)
    tracker.log(1, {"loss": 0.5})
    tracker.log(2, {"loss": 0.25})
    tracker.end("completed", {})
    assert "not today" in tracker.problem
    assert [point["step"] for point in mlflow_server.runs["run0"]["metrics"]] == [2]


def test_a_server_that_is_not_there_is_said_at_once(tmp_path, mlflow_server, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    with pytest.raises(TarmacError, match="MLflow cannot be opened") as caught:
        open_tracker("mlflow", tracked(tmp_path))
    assert "--log-to" in caught.value.hint


def test_a_tracker_that_cannot_be_is_refused_in_words(monkeypatch):
    with pytest.raises(RequestError, match="unknown tracker 'wandbb', did you mean 'wandb'"):
        check_tracker("wandbb")
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(MissingExtraError) as caught:
        check_tracker("mlflow")
    assert "tarmac-gpu[mlflow]" in caught.value.hint


def test_mlflow_needs_to_know_where(monkeypatch):
    pytest.importorskip("mlflow")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with pytest.raises(RequestError, match="MLFLOW_TRACKING_URI is not set") as caught:
        check_tracker("mlflow")
    assert "mlflow server" in caught.value.hint


class Slow:
    place = "somewhere"

    def __init__(self) -> None:
        self.goes_on = threading.Event()

    def log(self, step, metrics):
        self.goes_on.wait(60)

    def end(self, status, summary):
        pass


def test_a_tracker_that_hangs_delays_the_end_only_so_long():
    slow = Slow()
    tracker = InThread("Slow", lambda: slow, ending_s=0.01)
    tracker.log(1, {})
    tracker.end("completed", {})
    assert tracker.problem == "Slow has not taken all within 0.01 s"
    slow.goes_on.set()


def test_a_tracker_that_does_not_open_in_time_is_given_up():
    never = threading.Event()
    with pytest.raises(TarmacError, match=r"Slow has not answered for 0\.01 s"):
        InThread("Slow", lambda: never.wait(60) and Slow(), opening_s=0.01)
    never.set()
