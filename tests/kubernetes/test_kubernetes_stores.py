"""Inputs from and outputs to an object store, where pods share no files with this machine."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import gzip
import json
import sys
import textwrap
from pathlib import Path

import pytest
from emulator.kinds import CONFIG_MAP

from tarmac.errors import RequestError
from tarmac.executors.kubernetes import KubernetesExecutor
from tarmac.executors.kubernetes.demand import demand_of
from tarmac.executors.queueing import run_code
from tarmac.jobs import Silent, Site, parse_job, plan_tasks, run_tasks
from tarmac.tasks.receipts import receipt_of

pytest.importorskip("obstore", reason="needs pip install 'tarmac-gpu[objects]'")

KEYS = {"AWS_ACCESS_KEY_ID": "pod-key", "AWS_SECRET_ACCESS_KEY": "pssst-pssst-pssst"}


class Progress(Silent):
    """Keeps what a run tells."""

    def __init__(self, act):
        self.ends, self.retries, self.act = {}, [], act

    def retrying(self, task, reason, delay_s):
        self.retries.append(reason)

    def ended(self, ended):
        self.ends[ended.task.name] = ended

    def waited(self):
        self.act()


def take_to_its_end(cluster, run, base, job, act=lambda: None, **options):
    """Take a job's task to its end, in pods whose image has Tarmac where this machine has it."""
    given = {
        "kubeconfig": str(cluster.kubeconfig),
        "image": "registry.example/tarmac:7",
        "python": sys.executable,
        "store_secret": "keys",
        **options,
    }
    parsed = parse_job(textwrap.dedent(job))
    changed = parsed.model_copy(update={"options": {"kubernetes": given}})
    tasks = [*plan_tasks(changed, base)]
    (run / "tasks").mkdir(parents=True, exist_ok=True)
    site = Site(tasks=tasks, run=run, base=base, shared=run / "shared")
    progress = Progress(act)
    with contextlib.closing(KubernetesExecutor(site)) as executor:
        run_tasks(tasks, run, executor, progress)
    return progress


@pytest.fixture
def run_job(cluster, s3, tmp_path, monkeypatch):
    """Return a function that takes a task to its end; only pods have keys of the store."""
    monkeypatch.setattr("tarmac.jobs.retries.disturbed_pause_s", lambda _: 0.1)
    for name in KEYS:
        monkeypatch.delenv(name)
    cluster.create_secret("keys", **KEYS)

    def take(job, act=lambda: None, **options):
        return take_to_its_end(cluster, take.run, tmp_path, job, act, **options)

    take.run = tmp_path / "run"
    return take


def keys_of(s3, prefix=""):
    found = s3.list_objects_v2(Bucket="bucket", Prefix=prefix).get("Contents", ())
    return [each["Key"] for each in found]


def body(s3, key):
    return s3.get_object(Bucket="bucket", Key=key)["Body"].read()


COPIES = """
name: x
command: mkdir out && cp data.txt out/copy.txt && cat deep/*
inputs: [{from: "s3://bucket/in/data.txt"}, {from: "s3://bucket/in/deep"}]
outputs: [{path: out, to: "s3://bucket/results/"}]
"""


@pytest.mark.kubernetes
def test_inputs_come_from_a_store_and_outputs_go_there_before_the_pod_ends(run_job, s3):
    s3.put_object(Bucket="bucket", Key="in/data.txt", Body=b"data")
    s3.put_object(Bucket="bucket", Key="in/deep/a.txt", Body=b"below\n")
    (end,) = run_job(COPIES).ends.values()
    assert (end.outcome, end.reason, end.problems) == ("succeeded", "", ())
    assert body(s3, "results/out/copy.txt") == b"data"
    (log,) = run_job.run.glob("tasks/*/stdout")
    assert log.read_text() == "below\n"


@pytest.mark.kubernetes
def test_keys_are_the_secrets_and_none_of_this_machine_goes_to_the_cluster(
    run_job, s3, cluster, monkeypatch
):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "pssst-of-this-machine")
    seen = []

    def look():
        seen.append(json.dumps(cluster.store.list(CONFIG_MAP, cluster.namespace)))

    job = """
    name: x
    command: 'echo $AWS_ACCESS_KEY_ID > who'
    outputs: [{path: who, to: "s3://bucket/results"}]
    """
    (end,) = run_job(job, look).ends.values()
    assert (end.outcome, end.reason) == ("succeeded", "")
    assert body(s3, "results/who") == b"pod-key\n"
    files = [path.read_bytes() for path in run_job.run.rglob("*") if path.is_file()]
    assert files
    assert not [content for content in files if b"pssst" in content]
    told = b"".join(map(packed_of, seen))
    assert b"S3_ENDPOINT" in told
    assert b"pssst" not in told


def packed_of(config_maps):
    """Return what the pods of ConfigMaps are told."""
    return b"".join(
        gzip.decompress(base64.b64decode(each["binaryData"]["spec.gz"]))
        for each in json.loads(config_maps)
        if "spec.gz" in each.get("binaryData", {})
    )


@pytest.mark.kubernetes
def test_a_tasks_own_secrets_do_for_keys(run_job, s3, monkeypatch):
    monkeypatch.setenv("MINE", "pssst-17")
    job = """
    name: x
    command: 'echo $AWS_ACCESS_KEY_ID > who'
    secrets: {AWS_ACCESS_KEY_ID: {env: MINE}, AWS_SECRET_ACCESS_KEY: {env: MINE}}
    outputs: [{path: who, to: "s3://bucket/results"}]
    """
    (end,) = run_job(job, store_secret="").ends.values()
    assert (end.outcome, end.reason) == ("succeeded", "")
    assert body(s3, "results/who") == b"pssst-17\n"


@pytest.mark.kubernetes
def test_a_failed_attempt_keeps_nothing_and_the_next_one_all(run_job, s3):
    job = """
    name: x
    retries: {count: 1, backoff: 1ms}
    command: 'echo $TARMAC_ATTEMPT > number; test $TARMAC_ATTEMPT = 2'
    outputs: [{path: number, to: "s3://bucket/results"}]
    """
    versions(s3)
    (end,) = run_job(job).ends.values()
    assert (end.outcome, end.attempts) == ("succeeded", 2)
    assert body(s3, "results/number") == b"2\n"
    assert num_versions(s3, "results/number") == 1


def versions(s3):
    s3.put_bucket_versioning(Bucket="bucket", VersioningConfiguration={"Status": "Enabled"})


def num_versions(s3, key):
    return len(s3.list_object_versions(Bucket="bucket", Prefix=key)["Versions"])


@pytest.mark.kubernetes
def test_what_is_evicted_is_kept_once_by_the_attempt_that_ends(run_job, s3, cluster):
    versions(s3)
    evicted = []

    def evict():
        running = [pod for pod in cluster.pods() if pod["status"].get("phase") == "Running"]
        if running and not evicted:
            evicted.append(running[0]["metadata"]["name"])
            cluster.evict(evicted[0])

    job = """
    name: x
    command: 'sleep 2; echo done > out'
    outputs: [{path: out, to: "s3://bucket/results"}]
    """
    (end,) = run_job(job, evict).ends.values()
    assert evicted
    assert (end.outcome, end.reason) == ("succeeded", "")
    assert num_versions(s3, "results/out") == 1


@pytest.mark.kubernetes
def test_the_last_of_all_is_a_receipt_that_names_the_others(run_job, s3):
    s3.put_object(Bucket="bucket", Key="in/data.txt", Body=b"data")
    s3.put_object(Bucket="bucket", Key="in/deep/a.txt", Body=b"below\n")
    run_job(COPIES)
    (key,) = keys_of(s3, "results/.tarmac/")
    receipt = json.loads(body(s3, key))
    assert receipt["files"] == [{"uri": "s3://bucket/results/out/copy.txt", "size_bytes": 4}]
    assert (receipt["task"], receipt["attempt"]) == ("x", 1)


@pytest.mark.kubernetes
def test_what_an_attempt_did_whose_end_was_lost_is_not_done_again(run_job, s3):
    job = """
    name: x
    command: 'echo again > out'
    outputs: [{path: out, to: "s3://bucket/results"}]
    """
    run = f"{run_job.run.name}-{run_code(run_job.run)}"
    s3.put_object(Bucket="bucket", Key="results/out", Body=b"once")
    (output,) = plan_outputs(job)
    receipt = receipt_of([output], run=run, task="x", index=0, attempt=1)
    content = json.dumps({"run": run, "task": "x", "attempt": 1, "files": []})
    key = receipt.uri.removeprefix("s3://bucket/")
    s3.put_object(Bucket="bucket", Key=key, Body=content.encode())
    (end,) = run_job(job).ends.values()
    assert (end.outcome, end.reason) == ("succeeded", "")
    assert body(s3, "results/out") == b"once"
    assert [note for note in end.notes if receipt.uri in note]


def plan_outputs(job):
    return parse_job(textwrap.dedent(job)).outputs


@pytest.mark.kubernetes
def test_another_tasks_receipt_means_nothing(run_job, s3):
    job = """
    name: x
    command: 'echo again > out'
    outputs: [{path: out, to: "s3://bucket/results"}]
    """
    run = f"{run_job.run.name}-{run_code(run_job.run)}"
    content = json.dumps({"run": run, "task": "y"})
    s3.put_object(Bucket="bucket", Key=f"results/.tarmac/{run}/000000.json", Body=content.encode())
    (end,) = run_job(job).ends.values()
    assert (end.outcome, end.reason) == ("succeeded", "")
    assert body(s3, "results/out") == b"again\n"


@pytest.mark.kubernetes
def test_a_directory_of_results_is_an_input_without_its_receipts(run_job, s3):
    s3.put_object(Bucket="bucket", Key="results/.tarmac/run/000000.json", Body=b"{}")
    s3.put_object(Bucket="bucket", Key="results/a.txt", Body=b"a")
    job = "{name: x, command: 'find . -type f', inputs: [{from: 's3://bucket/results', to: .}]}"
    (end,) = run_job(job).ends.values()
    assert (end.outcome, end.reason) == ("succeeded", "")
    (log,) = run_job.run.glob("tasks/*/stdout")
    assert log.read_text() == "./a.txt\n"


@pytest.mark.kubernetes
def test_an_input_that_is_not_there_says_so(run_job):
    job = "{name: x, command: 'true', inputs: [{from: 's3://bucket/nothing.txt'}]}"
    (end,) = run_job(job).ends.values()
    assert (end.outcome, end.cause) == ("failed", "start")
    assert "s3://bucket/nothing.txt" in end.reason


@pytest.mark.kubernetes
def test_a_bucket_for_outputs_that_is_not_there_is_told_before_the_program_begins(run_job):
    job = """
    name: x
    command: 'echo begun; touch out'
    outputs: [{path: out, to: "s3://nothing/results"}]
    """
    (end,) = run_job(job).ends.values()
    assert (end.outcome, end.cause) == ("failed", "start")
    assert "there is no bucket nothing" in end.reason
    assert not [*run_job.run.glob("tasks/*/stdout")]


@pytest.mark.kubernetes
@pytest.mark.parametrize(
    ("python", "words"),
    [
        ("/no/python", "the image's interpreter /no/python is not on n1"),
        (str(Path(sys.executable).resolve()), "has no Tarmac"),
    ],
)
def test_an_image_without_tarmac_says_so_before_the_program_begins(run_job, s3, python, words):
    job = """
    name: x
    command: 'echo begun'
    outputs: [{path: out, to: "s3://bucket/results"}]
    """
    (end,) = run_job(job, python=python).ends.values()
    assert (end.outcome, end.cause) == ("failed", "start")
    assert words in end.reason
    assert "options.kubernetes.python" in end.reason
    assert not [*run_job.run.glob("tasks/*/stdout")]


@pytest.mark.kubernetes
def test_an_image_without_python_says_so(run_job):
    job = "{name: x, command: 'true', inputs: [{from: 's3://bucket/a'}]}"
    (end,) = run_job(job, image="plain.invalid/tools").ends.values()
    assert (end.outcome, end.cause) == ("failed", "start")
    assert "its image has no Python" in end.reason


@pytest.mark.kubernetes
def test_each_of_several_nodes_has_the_inputs_and_the_first_keeps_the_outputs(
    start_cluster, s3, tmp_path, monkeypatch
):
    cluster = start_cluster(nodes=2, capacity={"cpu": "4", "memory": "8Gi"})
    cluster.create_secret("keys", **KEYS)
    s3.put_object(Bucket="bucket", Key="in/data.txt", Body=b"data\n")
    job = """
    name: x
    command: 'cat data.txt; echo $TARMAC_NODE_RANK > out'
    resources: {nodes: 2}
    inputs: [{from: "s3://bucket/in/data.txt"}]
    outputs: [{path: out, to: "s3://bucket/results"}]
    """
    run = tmp_path / "run"
    progress = take_to_its_end(cluster, run, tmp_path, job)
    (end,) = progress.ends.values()
    assert (end.outcome, end.reason) == ("succeeded", "")
    assert body(s3, "results/out") == b"0\n"
    logs = sorted(path.name for path in run.glob("tasks/*/stdout*"))
    assert logs == ["stdout", "stdout.node-1"]
    assert {path.read_text() for path in run.glob("tasks/*/stdout*")} == {"data\n"}


def test_an_address_with_a_password_is_refused_and_not_said(tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://me:pssst@store.example")
    job = "{name: x, command: 'true', outputs: [{path: o, to: 's3://bucket/o'}]}"
    (task,) = plan_tasks(parse_job(job), tmp_path)
    with pytest.raises(RequestError, match="AWS_ENDPOINT_URL holds a password") as refused:
        demand_of(dataclasses.replace(task, options={"kubernetes": {"image": "x"}}))
    assert "pssst" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "is_refused"),
    [
        ("https://me:pssst@example.com/a", True),
        ("https://example.com/a?X-Amz-Signature=pssst", True),
        ("https://example.com/a?token=pssst", True),
        ("https://example.com/a?download=1", False),
    ],
)
def test_a_url_with_a_secret_is_refused_and_none_without(tmp_path, url, is_refused):
    job = f"{{name: x, command: 'true', inputs: [{{from: '{url}'}}]}}"
    (task,) = plan_tasks(parse_job(job), tmp_path)
    task = dataclasses.replace(task, options={"kubernetes": {"image": "x"}})
    if not is_refused:
        assert demand_of(task).image == "x"
        return
    with pytest.raises(RequestError, match="holds a password or a signature") as refused:
        demand_of(task)
    assert "pssst" not in str(refused.value)


@pytest.mark.kubernetes
def test_with_a_volume_the_secret_has_the_keys_too(cluster, s3, tmp_path, monkeypatch):
    for name in KEYS:
        monkeypatch.delenv(name)
    cluster.create_secret("keys", **KEYS)
    shared = cluster.claim("runs")
    job = """
    name: x
    command: 'echo $AWS_ACCESS_KEY_ID > who'
    outputs: [{path: who, to: "s3://bucket/results"}, {path: who, to: "run:kept"}]
    """
    volume = {"claim": "runs", "path": str(shared)}
    progress = take_to_its_end(cluster, shared / "run", tmp_path, job, volume=volume)
    (end,) = progress.ends.values()
    assert (end.outcome, end.reason, end.problems) == ("succeeded", "", ())
    assert keys_of(s3) == ["results/who"]
    assert (shared / "run" / "shared" / "kept" / "who").read_text() == "pod-key\n"
