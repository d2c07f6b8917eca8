"""The copy of a run in an object store, on a real server of its protocol."""

from __future__ import annotations

import json
import socket
import threading
import warnings
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("obstore", reason="object stores are an extra")

import tarmac
from tarmac import RequestError, TarmacError
from tarmac.files import put_object, write_bytes
from tarmac.runs import Run
from tarmac.training import Silent, fetch_run, uploaded
from tarmac.training.session import record, upload
from tarmac.training.session.checkpoint import set_damaged_aside
from waiting import limit_s

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

LONG_S = 60.0
ASKED: dict[str, Any] = {"devices": "cpu", "precision": "fp32", "train_size": 64}


class Store:
    """The store as the upload sees it: says what has arrived, and fails where it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fails: Callable[[str], bool] = lambda _uri: False
        self.after: Callable[[str], None] = lambda _uri: None
        self.arrived: list[str] = []
        self._changed = threading.Condition()
        for name in ("write_object", "delete_object"):
            monkeypatch.setattr(upload, name, self._noting(name, getattr(upload, name)))
        monkeypatch.setattr(upload, "LOOK_INTERVAL_S", 0.01)

    def wait_for(self, name: str) -> None:
        with self._changed:
            assert self._changed.wait_for(
                lambda: any(uri.endswith(name) for uri in self.arrived), limit_s(LONG_S)
            ), self.arrived

    def _noting(self, name: str, real: Callable[..., None]) -> Callable[..., None]:
        def call(uri: str, *others: Any) -> None:
            if self.fails(uri):
                raise TarmacError(f"{uri}: no answer")
            real(uri, *others)
            self.after(uri)
            with self._changed:
                self.arrived.append(uri if name == "write_object" else f"-{uri}")
                self._changed.notify_all()

        return call


@pytest.fixture
def store(s3, monkeypatch, tmp_path) -> Store:
    monkeypatch.setenv("TARMAC_RUNS", str(tmp_path / "runs"))
    return Store(monkeypatch)


class Hook(Silent):
    """Calls a function at the end of each epoch."""

    def __init__(self, call: Callable[[int], None]) -> None:
        self._call = call

    def epoch_done(self, row: Mapping[str, float]) -> None:
        self._call(int(row["epoch"]))


def names(s3, prefix: str) -> list[str]:
    """Return the names of a run's objects."""
    found = s3.list_objects_v2(Bucket="bucket", Prefix=prefix).get("Contents", [])
    return [entry["Key"].removeprefix(prefix) for entry in found]


def body(s3, key: str) -> bytes:
    return s3.get_object(Bucket="bucket", Key=key)["Body"].read()


def checkpoint(epoch: int) -> str:
    return f"checkpoints/epoch-{epoch:05d}-step-0000000.safetensors"


def test_each_epoch_is_in_the_store_while_the_training_goes_on(s3, store, tmp_path):
    seen: list[tuple[int, list[str], int, str]] = []

    def look(epoch: int) -> None:
        store.wait_for(checkpoint(epoch))
        if epoch > 1:
            there = [name for name in names(s3, "a/t/") if name.startswith("checkpoints/")]
            lines = body(s3, "a/t/metrics.jsonl").splitlines()
            record = json.loads(body(s3, "a/t/run.json"))
            seen.append((epoch, there, len(lines), record["status"]))

    run = tarmac.train(
        "digits-mlp", epochs=4, output="s3://bucket/a", name="t", reporter=Hook(look), **ASKED
    )
    assert [epoch for epoch, *_ in seen] == [2, 3, 4]
    for epoch, there, lines, status in seen:
        assert checkpoint(epoch) in there
        assert len(there) <= 3
        assert (lines, status) == (epoch, "running")
    # At the end it is the run's directory, nothing less and nothing more.
    here = {
        path.relative_to(run.path).as_posix(): path.read_bytes()
        for path in run.path.rglob("*")
        if path.is_file() and not path.name.startswith(".")
    }
    assert {name: body(s3, f"a/t/{name}") for name in names(s3, "a/t/")} == here
    assert f"-s3://bucket/a/t/{checkpoint(1)}" in store.arrived


def test_the_record_that_says_completed_comes_after_all_that_it_speaks_of(s3, store):
    there: dict[str, list[str]] = {}

    def note(uri: str) -> None:
        if uri.endswith("/run.json"):
            status = json.loads(body(s3, "a/t/run.json"))["status"]
            there.setdefault(status, names(s3, "a/t/"))

    store.after = note
    tarmac.train("digits-mlp", epochs=3, output="s3://bucket/a", name="t", **ASKED)
    assert {"model.safetensors", checkpoint(3), "metrics.jsonl"} <= {*there["completed"]}


def test_a_training_does_not_wait_for_its_store_and_the_newest_checkpoint_goes_first(s3, store):
    may_go = threading.Event()
    threads: list[str] = []

    def hold(uri: str) -> bool:
        threads.append(threading.current_thread().name)
        if threads[-1] == "tarmac-upload":
            may_go.wait(limit_s(LONG_S))
        return False

    def done(epoch: int) -> None:
        if epoch == 5:
            may_go.set()
            store.wait_for(checkpoint(5))

    store.fails = hold
    tarmac.train(
        "digits-mlp", epochs=6, output="s3://bucket/a", name="t", reporter=Hook(done), **ASKED
    )
    arrived = [uri for uri in store.arrived if "checkpoints/epoch-" in uri]
    assert [uri for uri in arrived if uri.endswith((checkpoint(2), checkpoint(3)))] == []
    assert checkpoint(6) in names(s3, "a/t/")


def test_a_store_that_fails_is_warned_of_once_and_ends_no_training(s3, store):
    failures = threading.Semaphore(0)

    def fail(uri: str) -> bool:
        if "checkpoints" in uri:
            failures.release()
            return True
        return False

    def done(epoch: int) -> None:
        assert failures.acquire(timeout=limit_s(LONG_S))
        if epoch == 3:
            store.fails = lambda _uri: False
            store.wait_for(checkpoint(3))

    store.fails = fail
    with pytest.warns(UserWarning, match="the run could not be copied, trying again") as caught:
        run = tarmac.train(
            "digits-mlp", epochs=3, output="s3://bucket/a", name="t", reporter=Hook(done), **ASKED
        )
    assert len(caught) == 1
    assert run.status == "completed"
    assert "model.safetensors" in names(s3, "a/t/")


def test_a_store_that_fails_to_the_end_fails_the_call_and_the_run_is_whole_here(store, tmp_path):
    store.fails = lambda _uri: True
    warnings.simplefilter("ignore")
    with pytest.raises(TarmacError, match="no answer") as caught:
        tarmac.train("digits-mlp", epochs=1, output="s3://bucket/a", name="t", **ASKED)
    assert str(tmp_path / "runs" / "t") in str(caught.value)
    assert Run.open(tmp_path / "runs" / "t").status == "completed"


def test_a_run_goes_on_elsewhere_from_what_any_moment_left_in_the_store(
    s3, store, tmp_path, monkeypatch
):
    """A kill leaves what the bucket has at that moment: it is copied after each object."""
    prefixes: list[str] = []
    # From the second checkpoint to the fourth, in the order in which the objects go up.
    first, last = checkpoint(2), checkpoint(4)

    def freeze(uri: str) -> None:
        nonlocal first, last
        if uri.endswith(first):
            first = ""
        if first or not last:
            return
        if uri.endswith(last):
            last = ""
        prefixes.append(f"moment-{len(prefixes)}")
        for key in names(s3, "a/t/"):
            source = {"Bucket": "bucket", "Key": f"a/t/{key}"}
            s3.copy_object(Bucket="bucket", Key=f"{prefixes[-1]}/t/{key}", CopySource=source)

    store.after = freeze
    options = {"epochs": 5, "validation_size": 16, **ASKED}
    whole = tarmac.train(
        "digits-mlp",
        output="s3://bucket/a",
        name="t",
        reporter=Hook(lambda epoch: store.wait_for(checkpoint(epoch))),
        **options,
    )
    first_epochs = []
    for prefix in prefixes:
        monkeypatch.setenv("TARMAC_RUNS", str(tmp_path / prefix))
        epochs: list[int] = []
        run = tarmac.resume("t", output=f"s3://bucket/{prefix}", reporter=Hook(epochs.append))
        first_epochs.append(epochs[0])
        assert run.path == tmp_path / prefix / "t"
        assert run.model.read_bytes() == body(s3, f"{prefix}/t/model.safetensors")
        assert run.model.read_bytes() == whole.model.read_bytes()
        assert [row["loss"] for row in run.history] == [row["loss"] for row in whole.history]
        assert run.record.best == whole.record.best
    assert {*first_epochs} == {3, 4, 5}


def test_a_run_that_is_in_the_store_is_not_begun_over(s3, store, tmp_path, monkeypatch):
    tarmac.train("digits-mlp", epochs=1, output="s3://bucket/a", name="t", **ASKED)
    monkeypatch.setenv("TARMAC_RUNS", str(tmp_path / "elsewhere"))
    with pytest.raises(RequestError, match="there is a run t in s3://bucket/a already"):
        tarmac.train("digits-mlp", epochs=1, output="s3://bucket/a", name="t", **ASKED)
    assert not (tmp_path / "elsewhere" / "t").exists()


@pytest.fixture
def interrupted(store, tmp_path) -> Run:
    """Return a run that was stopped in its second epoch, and is in the store."""
    steps: list[int] = []
    return tarmac.train(
        "digits-mlp",
        epochs=3,
        output="s3://bucket/a",
        name="t",
        interrupted=lambda: len(steps) == 3 or steps.append(1) is not None,
        **ASKED,
    )


@pytest.mark.parametrize("is_rank", [False, True], ids=["alone", "as a rank"])
def test_a_later_attempt_copies_no_checkpoint_that_is_damaged(is_rank, s3, store, monkeypatch):
    monkeypatch.setenv("TARMAC_LAUNCH", "a task")
    asked: dict[str, Any] = {"epochs": 3, "output": "s3://bucket/a", "name": "t", **ASKED}
    steps: list[int] = []
    run = tarmac.train(
        "digits-mlp",
        interrupted=lambda: len(steps) == 3 or steps.append(1) is not None,
        **asked,
    )
    newest = max(run.checkpoints.iterdir())
    newest.write_bytes(newest.read_bytes()[:1000])
    copying = []

    def set_aside(directory: Path) -> None:
        copying.extend(thread for thread in threading.enumerate() if "upload" in thread.name)
        set_damaged_aside(directory)

    monkeypatch.setattr(record, "set_damaged_aside", set_aside)
    if is_rank:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        here = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        for name, value in {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", **here}.items():
            monkeypatch.setenv(name, value)
    with pytest.warns(UserWarning, match=f"{newest.name} is damaged: .*; it is kept as"):
        run = tarmac.train("digits-mlp", **asked)
    assert run.status == "completed"
    assert copying == []
    assert body(s3, "a/t/model.safetensors") == run.model.read_bytes()


def test_what_is_newer_in_the_store_takes_the_place_of_what_is_here(interrupted, s3, tmp_path):
    older = Run.open(interrupted.path)
    assert not fetch_run("s3://bucket/a/t", older.path)
    newer = f"a/t/{checkpoint(3)}"
    s3.put_object(Bucket="bucket", Key=newer, Body=b"newer")
    assert fetch_run("s3://bucket/a/t", older.path)
    assert (older.path / checkpoint(3)).read_bytes() == b"newer"
    # Another run of the same name is left alone.
    s3.put_object(Bucket="bucket", Key=f"a/t/{checkpoint(4)}", Body=b"newer")
    record = json.loads((older.path / "run.json").read_text()) | {"id": "another"}
    (older.path / "run.json").write_text(json.dumps(record))
    assert not fetch_run("s3://bucket/a/t", older.path)


def test_a_checkpoint_in_shards_is_whole_in_the_store_or_not_taken(
    interrupted, s3, store, tmp_path
):
    run = interrupted
    shards = run.checkpoints / "epoch-00002-step-0000000.dcp"
    for name in ("__0_0.distcp", ".metadata", "position.json", "__1_0.distcp"):
        write_bytes(shards / name, b"{}")
    with uploaded() as begin:
        begin(run)
    sent = [uri for uri in store.arrived if ".dcp/" in uri]
    assert sent[-1].endswith("/position.json")
    assert any(uri.endswith("/.metadata") for uri in sent)
    # Another attempt writes it anew: its mark goes first, and comes last.
    store.arrived.clear()
    write_bytes(shards / "__0_0.distcp", b"other")
    with uploaded() as begin:
        begin(run)
    sent = [uri for uri in store.arrived if ".dcp/" in uri]
    assert sent[0].startswith("-")
    assert sent[-1].endswith("/position.json")
    s3.delete_object(Bucket="bucket", Key=f"a/t/checkpoints/{shards.name}/position.json")
    assert fetch_run("s3://bucket/a/t", tmp_path / "new" / "t")
    assert not (tmp_path / "new" / "t" / "checkpoints" / shards.name).exists()


def test_large_files_go_up_from_the_disk(interrupted, s3, store, monkeypatch):
    paths = []
    monkeypatch.setattr(upload, "_MAX_READ_BYTES", 1)
    monkeypatch.setattr(
        upload, "put_object", lambda path, *others: (paths.append(path), put_object(path, *others))
    )
    with uploaded() as begin:
        begin(interrupted)
    assert interrupted.path / "metrics.jsonl" in paths
