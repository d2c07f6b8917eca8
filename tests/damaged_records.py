"""Runs of every kind as they lie on the disk, and what may befall their files there."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from tarmac.files import append_lines
from tarmac.jobs import JOB, Job, create_run, plan_tasks
from tarmac.jobs.record import read_record, write_record
from tarmac.runs import TRAINING, Best, Layer, Predictions, Replica, Run, Session, write_layers
from tarmac.studies import SEARCH

KINDS = {"training": TRAINING, "job": JOB, "pipeline": JOB, "study": SEARCH}
BY_NAME = {kind.name: kind for kind in KINDS.values()}

# What readers of runs read, by the kind of run.
FILES = (
    ("training", "run.json"),
    ("training", "metrics.jsonl"),
    ("training", "samples.jsonl"),
    ("training", "predictions.json"),
    ("training", "layers.json"),
    ("job", "job-run.json"),
    ("job", "journal.jsonl"),
    ("job", "runner.json"),
    ("job", "tasks/000002-train_seed=2_/attempt-1.json"),
    ("pipeline", "job-run.json"),
    ("pipeline", "journal.jsonl"),
    ("study", "study.json"),
    ("study", "journal.log"),
)

_OLD_STUDY = Path(__file__).parent / "studies" / "old" / "completed"

_BEGAN_AT = datetime(2026, 11, 20, 12, tzinfo=UTC).timestamp()


def make_training(output: Path, name: str) -> Path:
    """Make a completed training of two ranks."""
    run = Run.create(
        output,
        workload="mnist-mlp",
        command=["tarmac", "train", "mnist-mlp"],
        configuration={"workload": "mnist-mlp", "epochs": 3, "settings": {"hidden": 512}},
        dataset={"name": "mnist", "num_train": 60000, "sample_shape": [28, 28]},
        device={"type": "cuda", "index": 0, "name": "NVIDIA H100", "memory_bytes": 80 * 2**30},
        versions={"python": "3.12.1"},
        seed=7,
        git=None,
        expectation=None,
        name=name,
    )
    began = run.record.created_at
    ranks = [
        Replica(
            rank=rank,
            host="node-1",
            device={"name": "NVIDIA H100"},
            samples_per_s=9.0,
            waiting_s=0.5,
        )
        for rank in range(2)
    ]
    run.update(
        status="completed",
        elapsed_s=40.0,
        ended_at=began + timedelta(seconds=40),
        sessions=[Session(started_at=began, pid=11).model_dump()],
        parallel={
            "strategy": "ddp",
            "world_size": 2,
            "backend": "nccl",
            "replicas": [one.model_dump() for one in ranks],
        },
        metrics={"test_accuracy": 0.984, "test_loss": 0.05},
        best=Best(epoch=3, metric="val_accuracy", value=0.9, file="checkpoints/best").model_dump(),
        expectation={"text": "accuracy at least 0.98", "met": True},
        energy_joules=1200.0,
        throttled_s={"power": 1.0},
        mfu=0.3,
        tracked={"wandb": "https://example.org/1"},
    )
    for number in (1, 2, 3):
        run.append_metrics(
            {
                "epoch": number,
                "loss": 1 / number,
                "accuracy": 0.9,
                "val_loss": 1.1 / number,
                "val_accuracy": 0.9,
                "learning_rate": 0.001,
                "samples_per_s": 1000.0,
                "seconds": 10.0,
                "at_s": 10.0 * number,
                "data_wait_s": 2.0,
            }
        )
    gpu = {"uuid": "GPU-1", "index": 0, "name": "NVIDIA H100", "memory_total_bytes": 2**36}
    row = {"utilization_ratio": 0.9, "power_watts": 600.0, "throttle_reasons": ["sw_power_cap"]}
    session = {"kind": "session", "at_s": 0.0, "host": "node-1", "cpu_count": 8.0, "gpus": [gpu]}
    points = [
        {"kind": "sample", "at_s": 5.0 * n, "cpu_ratio": 0.5, "steps": n, "gpus": {"GPU-1": row}}
        for n in range(4)
    ]
    append_lines(run.path / "samples.jsonl", [session, *points])
    answers = Predictions(
        num_samples=4, num_test=4, confusion=((1, 1), (0, 2)), sample_shape=(2, 2), mistakes=()
    )
    (run.path / "predictions.json").write_text(answers.model_dump_json())
    write_layers(run.path, [Layer(name="0", kind="Linear", shape=(10,), parameters=7850)])
    (run.path / "logs").mkdir()
    (run.path / "logs" / "rank-0").write_text("epoch 1\n")
    return run.path


def make_job(output: Path, name: str) -> Path:
    """Make a job's run that a killed runner left: one task ended well, one failed, one runs."""
    job = Job.model_validate(
        {
            "name": "sweep",
            "tasks": [
                {"name": "prepare", "command": "true"},
                {
                    "name": "train",
                    "needs": ["prepare"],
                    "command": "false",
                    "retries": {"count": 1},
                    "sweep": {"grid": {"seed": [1, 2]}},
                },
            ],
        }
    )
    run = create_run(job, output, tuple(plan_tasks(job, output)), output)
    ended = {"exit_code": 0, "seconds": 1.5, "attempts": 1, "problems": [], "cause": None}
    first, second, third = (
        {"task": task.index, "name": task.name, "attempt": 1} for task in run.tasks
    )
    events = [
        {"event": "started", **first, "cpus": 1, "gpus": ["GPU-1"]},
        {"event": "ended", **first, **ended, "outcome": "succeeded", "reason": "", "host": ""},
        {"event": "queued", **second, "place": "80_1"},
        {"event": "waiting", **second, "reason": "Resources"},
        {"event": "requeued", **second, "cause": "preempted", "reason": "preempted"},
        {"event": "started", **second, "host": "node-1", "cpus": 1},
        {"event": "retried", **second, "reason": "exit code 1", "cause": "exit"},
        {"event": "started", **second, "attempt": 2},
        {"event": "ended", **second, **ended, "outcome": "failed", "reason": "exit code 1"},
        {"event": "started", **third, "host": "node-1", "place": "80_2"},
        {"event": "noted", **third, "reason": "no sign of its node"},
    ]
    return _finish_job(run.path, name, events)


def make_pipeline(output: Path, name: str) -> Path:
    """Make the run of an HKube pipeline that has ended."""
    nodes = [{"nodeName": "green", "algorithmName": "green-alg", "input": [1]}]
    job = Job.model_validate({"name": "p", "pipeline": {"name": "p", "nodes": nodes}})
    run = create_run(job, output, (), output)
    write_record(run.path, read_record(run.path).model_copy(update={"outcome": "succeeded"}))
    task = {"task": 0, "name": "green"}
    events = [
        {"event": "started", **task, "attempt": 1, "directory": "instances/green-alg-1"},
        {
            "event": "ended",
            **task,
            "outcome": "succeeded",
            "reason": "",
            "exit_code": None,
            "seconds": 0.25,
            "attempts": 1,
            "problems": [],
            "why": "",
            "input": "a" * 64,
            "result": [0, 12],
        },
    ]
    return _finish_job(run.path, name, events)


def make_study(output: Path, name: str) -> Path:
    """Make a completed search."""
    return Path(shutil.copytree(_OLD_STUDY, output / name))


MAKERS: dict[str, Callable[[Path, str], Path]] = {
    "training": make_training,
    "job": make_job,
    "pipeline": make_pipeline,
    "study": make_study,
}


def make_good_runs(output: Path) -> Path:
    """Make a directory with a run of each kind: ``good-training`` and so on."""
    output.mkdir()
    for kind, make in MAKERS.items():
        make(output, f"good-{kind}")
    return output


def _finish_job(path: Path, name: str, events: list[dict[str, Any]]) -> Path:
    lines = [event | {"at": _BEGAN_AT + place} for place, event in enumerate(events)]
    append_lines(path / "journal.jsonl", lines)
    for place in ("tasks/000000-prepare", "instances/green-alg-1"):
        (path / place).mkdir(parents=True)
        (path / place / "stdout").write_text("hello\n")
    third = path / "tasks" / "000002-train_seed=2_"
    third.mkdir()
    (third / "attempt-1.json").write_text('{"schema": 1, "nonce": "1", "state": "began"}')
    process = {"pid": 1, "start_ticks": 1, "boot_id": "before", "host": "node-1"}
    (path / "runner.json").write_text(json.dumps(process))
    return path.rename(path.with_name(name))


def records(run: Path) -> list[Path]:
    """Return the files of a run that are read as records."""
    return sorted(
        path
        for path in run.rglob("*")
        if path.suffix in (".json", ".jsonl") or "journal" in path.name
    )


DEPTH = 100_000

# A file or a line that nothing can be read of.
UNREADABLE = {
    "empty": b"",
    "nested too deeply": b"[" * DEPTH,
    "nested deeper than is written": b'{"schema_version": 1, "dataset": '
    + b'{"a":' * 300
    + b"1"
    + b"}" * 301,
    "nested objects": b'{"a":' * DEPTH,
    "nested and closed": b"[" * DEPTH + b"]" * DEPTH,
    "binary": bytes(range(256)),
    "UTF-16": '{"schema_version": 1}'.encode("utf-16"),
    "not UTF-8": b'{"event": "\xff\xfe"}',
    "another value": b"[1]",
    "null": b"null",
    "too large a number": b"1" * 5000,
}

# Instead of a value.
_ODD: tuple[object, ...] = (
    None,
    True,
    -1,
    0.5,
    10**300,
    10**20,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "text",
    "[/bold]\x1b[31m",
    "../../../etc/passwd",
    "/etc",
    "\ud800",
    "\0",
    "n" * 3000,
    [],
    [[]],
    [None, 1, "a"],
    {},
    {"a": []},
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59-14:00",
    "2026-11-20T12:00:00",
    json.loads("[" * 400 + "]" * 400),
)


def damaged(content: bytes, random: Random) -> bytes:
    """Return what a file of records is after one of many mishaps."""
    way = random.randrange(4)
    if way == 0 and content:
        place = random.randrange(len(content))
        flipped = content[place] ^ 1 << random.randrange(8)
        return content[:place] + bytes([flipped]) + content[place + 1 :]
    lines = content.splitlines(keepends=True) if content[-2:-1] == b"}" else []
    is_lines = len(lines) > 1 and lines[0].rstrip().endswith(b"}")
    place = random.randrange(len(lines)) if is_lines else 0
    if way == 1:
        odd = random.choice([*UNREADABLE.values()])
        return b"".join([*lines[:place], odd + b"\n", *lines[place + 1 :]]) if is_lines else odd
    if not is_lines:
        return json.dumps(_changed(json.loads(content), random)).encode()
    lines[place] = json.dumps(_changed(json.loads(lines[place]), random)).encode() + b"\n"
    return b"".join(lines)


def _changed(value: Any, random: Random) -> Any:
    """Return a value of JSON with one thing in it changed or taken away."""
    places = [*_places(value)]
    if not places:
        return random.choice(_ODD)
    above, key = random.choice(places)
    if random.random() < 0.25:
        del above[key]
    else:
        above[key] = random.choice(_ODD)
    return value


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, dict | list):
        for key in [*value] if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _places(value[key])
