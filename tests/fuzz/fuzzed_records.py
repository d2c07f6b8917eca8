"""Readers of what Tarmac has written: records, journals, indexes, leases, recordings."""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from fuzzed_readers import Reader, Samples, of_file

from damaged_records import BY_NAME, FILES, KINDS, MAKERS
from tarmac.checks import probe_result
from tarmac.checks.report.stored import SCHEMA_VERSION, read_report
from tarmac.errors import TarmacError
from tarmac.files import Readings, parse_line, read_lease, read_lines
from tarmac.hkube.clusters.node_tasks import NodeTaskSpec
from tarmac.hkube.values import pack, unpack
from tarmac.jobs.history import read_history
from tarmac.jobs.record import read_record as read_job_record
from tarmac.jobs.status import read_status
from tarmac.monitor.plain import from_json
from tarmac.monitor.recording import ReplayFeed
from tarmac.node.records import parse_attempt
from tarmac.run_kinds import load_glance
from tarmac.runs import Run, RunIndex, read_layers, read_predictions
from tarmac.runs.record import read_record
from tarmac.runs.samples import read_samples
from tarmac.studies.study.record import read_study_record

_TESTS = Path(__file__).parents[1]
_ATTEMPT = {
    "schema": 1,
    "nonce": "1",
    "state": "ended",
    "host": "node-1",
    "gpus": ["GPU-1"],
    "process": {"pid": 1, "start_ticks": 1, "boot_id": "x", "host": "node-1"},
    "exit_code": 0,
    "seconds": 1.5,
    "outcome": "succeeded",
}


@functools.cache
def _made_runs() -> Path:
    """Return a directory with a run of each kind, named after it."""
    root = Path(tempfile.mkdtemp(prefix="fuzzed-runs-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    for kind, make in MAKERS.items():
        make(root, kind)
    return root


def _samples_of(folder: str, pattern: str) -> Callable[[], Samples]:
    paths = sorted((_TESTS / folder).glob(pattern))
    assert paths, f"{folder} has no {pattern}"
    return lambda: {path.name: path.read_bytes() for path in paths}


def _look(kind: str, run: Path) -> None:
    """Look at a run as lists, `ps`, `top` and `--resume` do."""
    looks: list[Callable[[], object]] = [lambda: KINDS[kind].summarize(run)]
    if kind == "training":
        looks += [
            lambda: Run.open(run).history,
            lambda: read_samples(run / "samples.jsonl"),
            lambda: read_predictions(run),
            lambda: read_layers(run),
        ]
    elif kind != "study":
        looks += [lambda: read_status(run), lambda: read_history(run / "journal.jsonl")]
    for look in looks:
        with contextlib.suppress(TarmacError):
            look()
    load_glance(KINDS[kind].name)(run, Readings())


def _of_run(kind: str, file: str) -> Callable[[bytes, Path], object]:
    def read(content: bytes, directory: Path) -> None:
        run = directory / kind
        if not run.exists():
            shutil.copytree(_made_runs() / kind, run)
        (run / file).write_bytes(content)
        _look(kind, run)

    return read


def _index() -> Samples:
    store = _made_runs() / ".index.json"
    RunIndex(tuple(BY_NAME), BY_NAME.__getitem__, _made_runs(), store).summaries()
    return {"index.json": store.read_bytes()}


def _read_index(path: Path) -> None:
    index = RunIndex(tuple(BY_NAME), BY_NAME.__getitem__, _made_runs(), path)
    summaries, broken = index.summaries()
    assert {run.path.name for run in summaries} == set(MAKERS), broken


def _replay(path: Path) -> None:
    feed = ReplayFeed(path, speed=None)
    try:
        while True:
            feed.next()
    except StopIteration:
        feed.close()


def _errand() -> Samples:
    work = {"index": 0, "name": "a", "task_id": "t", "algorithm": "one", "job_id": "j"}
    work |= {"pipeline": "p", "node": "a", "input": [1, 2**70, b"x", {"a": None}]}
    algorithm = {"name": "one", "protocol": "hkube", "env": "python", "options": {}}
    values = {"work": work, "algorithm": algorithm, "base": "/", "fake_gpus": 0}
    return {"errand.msgpack": pack(values | {"job": {"name": "one", "command": "true"}})}


def _report() -> Samples:
    path = _TESTS / "checks" / "logs" / "clean" / "tarmac-check-json.log"
    # Its host's name was taken out, and a letter of others with it.
    facts = json.loads(path.read_text().replace("nhostl", "nvml"))
    return {"good.json": json.dumps(facts | {"schema_version": SCHEMA_VERSION}).encode()}


READERS = {
    **{
        f"{file.rpartition('/')[2]} of a {kind}": Reader(
            lambda kind=kind, file=file: {file: (_made_runs() / kind / file).read_bytes()},
            _of_run(kind, file),
            share=1,
        )
        for kind, file in FILES
    },
    "run.json": Reader(
        _samples_of("runs/samples", "run-schema-*.json"), of_file("run.json", read_record), share=2
    ),
    "job-run.json": Reader(
        _samples_of("jobs/samples", "job-run-schema-*.json"),
        of_file("job-run.json", lambda path: read_job_record(path.parent)),
        share=2,
    ),
    "study.json": Reader(
        _samples_of("studies/old", "*/study.json"),
        of_file("study.json", read_study_record),
        share=2,
    ),
    "journals": Reader(
        lambda: {"journal.jsonl": (_made_runs() / "job" / "journal.jsonl").read_bytes()},
        of_file("journal.jsonl", read_lines),
    ),
    "lines of journals": Reader(
        lambda: {"line": (_made_runs() / "job" / "journal.jsonl").read_bytes().partition(b"\n")[0]},
        lambda content, _: parse_line(content),
        raises=(ValueError,),
    ),
    "attempts": Reader(
        lambda: {"attempt-1.json": json.dumps(_ATTEMPT).encode()},
        lambda content, _: parse_attempt(content),
    ),
    "leases": Reader(
        lambda: {
            "lock.lease": json.dumps(
                {
                    "host": "n",
                    "kernel": "k",
                    "pid": 7,
                    "start_ticks": 5,
                    "nonce": "a",
                    "beat": 3,
                    "beat_s": 5.0,
                }
            ).encode()
        },
        of_file("lock.lease", read_lease),
        raises=(OSError,),
    ),
    "indexes of runs": Reader(_index, of_file("index.json", _read_index), share=1),
    "recordings": Reader(
        _samples_of("monitor/recordings", "*.jsonl"), of_file("top.jsonl", _replay), share=2
    ),
    "snapshots": Reader(
        _samples_of("monitor/recordings", "*.jsonl"),
        lambda content, _: from_json(json.loads(content.partition(b"\n")[0])),
        raises=(ValueError, RecursionError),
    ),
    "results of pipelines": Reader(_errand, lambda content, _: unpack(content)),
    "errands": Reader(_errand, of_file("errand.msgpack", NodeTaskSpec.read)),
    "results of probes": Reader(
        lambda: {
            "result.json": json.dumps(
                {
                    "devices": [{"name": "x", "kind": "cpu"}],
                    "placements": [{"device": "cpu", "operation": "matmul", "ran_on": "cpu"}],
                    "notes": ["a"],
                    "build": {"cuda": "12.8"},
                }
            ).encode()
        },
        of_file("result.json", probe_result.read_result),
    ),
    "reports of checks": Reader(_report, of_file("good.json", read_report), share=1),
}
