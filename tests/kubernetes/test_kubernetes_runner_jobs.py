"""The Jobs of runners: made once, looked at, cancelled; their pods are no processes."""

from __future__ import annotations

import base64
import dataclasses
import datetime
import json

import pytest
from emulator import JOB, POD, SECRET, Emulator

from tarmac.errors import RequestError, TarmacError
from tarmac.executors.kubernetes import runners
from tarmac.executors.kubernetes.runners import KubernetesRunners
from tarmac.executors.runners import RunnerJob

SINCE = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)

connects = runners._connect


@pytest.fixture
def engine(tmp_path, monkeypatch):
    """Return the engine of runners, whose cluster has one hollow node; pods run on in it."""
    monkeypatch.setattr(runners, "_AGAIN_AFTER_S", (0.0, 0.0))
    run = tmp_path / "shared" / "run"
    run.mkdir(parents=True)
    with Emulator(tmp_path / "cluster", nodes=0) as cluster:
        made = KubernetesRunners()
        made.cluster, made.run = cluster, run
        yield made
        assert not cluster.control.failures


def job_of(engine, *, number=1, secrets=None, **options):
    place = {"claim": "runs", "path": str(engine.run.parent)}
    kubeconfig = str(engine.cluster.kubeconfig)
    options = {"kubeconfig": kubeconfig, "image": "i", "volume": place} | options
    return RunnerJob(
        run=engine.run,
        number=number,
        num_tasks=1,
        command=("python", "-m", "tarmac"),
        variables={"A": "b"},
        secrets=secrets or {},
        options=options,
        warned=engine.run / "warned",
    )


def state(engine, name):
    seen = engine.look(engine.run, 1, name, SINCE)
    return seen.kind, seen.words


def only(engine, kind):
    (thing,) = engine.cluster.store.list(kind, engine.cluster.namespace)
    return thing


def wait_for_pod(engine):
    store = engine.cluster.store
    with store.changed:
        assert store.changed.wait_for(engine.cluster.pods, timeout=60)
    return only(engine, POD)


def set_status(engine, kind, **status):
    """Give a Job or a pod a status, and have its controller make no other of it."""
    engine.cluster.control.stop()
    thing = only(engine, kind)
    engine.cluster.objects.set_status(kind, thing, {**thing["status"], **status})


def test_a_runner_is_one_job_with_its_secrets_in_a_secret_of_its_own(engine):
    name = engine.submit(job_of(engine, secrets={"KEY": "hunter2"}))
    job, secret = only(engine, JOB), only(engine, SECRET)
    assert name == job["metadata"]["name"] == secret["metadata"]["name"]
    assert base64.b64decode(secret["data"]["KEY"]) == b"hunter2"
    assert secret["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]
    assert "hunter2" not in json.dumps(job)
    assert engine.secrets(engine.run) == {}
    # What a silence hid, and another submission of the same number, is the same Job.
    assert engine.submit(job_of(engine)) == name
    assert only(engine, JOB)["metadata"]["uid"] == job["metadata"]["uid"]
    # A second runner has another name.
    assert engine.submit(job_of(engine, number=2)) != name


@pytest.mark.parametrize("is_done", [False, True])
def test_a_runner_whose_creation_had_no_answer_is_made_once(engine, monkeypatch, is_done):
    monkeypatch.setattr(runners, "_connect", lambda run: connects(run, patience_s=0.0))
    engine.cluster.faults.drop(1, verb="create", resource="jobs", is_done=is_done)
    name = engine.submit(job_of(engine))
    assert only(engine, JOB)["metadata"]["name"] == name


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (403, "Kubernetes refuses the runner: nobody may"),
        (503, "Kubernetes does not say whether it has the runner"),
    ],
)
def test_a_cluster_that_does_not_take_a_runner_is_told_with_what_to_do(
    engine, monkeypatch, code, words
):
    monkeypatch.setattr(runners, "_connect", lambda run: connects(run, patience_s=0.0))
    engine.cluster.faults.answer(code, 9, verb="create", resource="jobs", message="nobody may")
    with pytest.raises(TarmacError, match=words) as refused:
        engine.submit(job_of(engine))
    assert "--runner here" in refused.value.hint
    assert not engine.cluster.store.list(JOB, engine.cluster.namespace)


def test_a_runner_whose_secrets_are_refused_leaves_no_job(engine):
    engine.cluster.faults.answer(403, 1, verb="create", resource="secrets", message="no secrets")
    with pytest.raises(TarmacError, match="no secrets"):
        engine.submit(job_of(engine, secrets={"KEY": "hunter2"}))
    assert not engine.cluster.store.list(JOB, engine.cluster.namespace)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"volume": None}, "needs a volume with the run's directory, and there is none"),
        ({"volume": {"claim": "runs", "path": "/elsewhere"}}, "run is not below /elsewhere"),
        ({"image": ""}, "needs an image that has Tarmac"),
    ],
)
def test_a_run_that_no_pod_can_work_on_is_refused_with_what_to_do(engine, options, words):
    with pytest.raises(RequestError, match=words) as refused:
        engine.submit(job_of(engine, **options))
    assert "--runner here" in refused.value.hint
    assert not engine.cluster.store.list(JOB, engine.cluster.namespace)


def test_an_image_of_the_runners_own_will_do(engine):
    engine.submit(job_of(engine, image="", runner={"image": "own"}))
    spec = only(engine, JOB)["spec"]["template"]["spec"]
    assert spec["containers"][0]["image"] == "own"


def test_a_run_with_tasks_on_another_cluster_is_not_handed_to_a_runner_here(engine):
    files = runners.ChunkFiles(engine.run)
    record = files.make({}, [(0, 1)], 1)
    with runners.connect_to(str(engine.cluster.kubeconfig), "", "") as cluster:
        elsewhere = dataclasses.replace(runners.cluster_of(cluster), uid="another")
    files.write(record.model_copy(update={"cluster": elsewhere, "state": "submitted"}))
    with pytest.raises(RequestError, match=r"are on the Kubernetes cluster .* \(another\)"):
        engine.submit(job_of(engine))


def test_a_runner_waits_runs_and_ends(engine):
    name = engine.submit(job_of(engine))
    wait_for_pod(engine)
    kind, words = state(engine, name)
    assert kind == "waits"
    assert words.startswith(f"job {name} waits: ")
    assert "no nodes available" in words
    engine.cluster.hollow.add("n1", {}, lambda _: None)
    store = engine.cluster.store
    with store.changed:
        assert store.changed.wait_for(
            lambda: only(engine, POD)["status"]["phase"] == "Running", timeout=60
        )
    assert state(engine, name) == ("runs", f"job {name} runs on n1")
    # Who may not list pods sees that the Job is there.
    engine.cluster.access.deny("list", "pods")
    expected = f"job {name} exists, but its pod cannot be queried"
    assert state(engine, name) == ("waits", expected)
    set_status(engine, JOB, conditions=[{"type": "Complete", "status": "True"}])
    assert state(engine, name) == ("ended", f"job {name} has ended")


def test_a_runner_whose_pod_is_to_come_waits_for_a_node(engine):
    engine.cluster.control.stop()
    name = engine.submit(job_of(engine))
    assert state(engine, name) == ("waits", f"job {name} waits for a node")


def test_why_a_runner_has_failed_is_said(engine):
    name = engine.submit(job_of(engine))
    wait_for_pod(engine)
    failed = {"type": "Failed", "status": "True", "message": "has reached its limit"}
    set_status(engine, JOB, conditions=[{"type": "Complete", "status": "False"}, failed])
    engine.cluster.objects.set_status(POD, only(engine, POD), {"phase": "Pending"})
    assert state(engine, name) == ("ended", f"job {name} has failed: was just created")
    ended = {"exitCode": 1, "reason": "Error"}
    statuses = [{"name": "task", "state": {"terminated": ended}}]
    set_status(engine, POD, phase="Failed", containerStatuses=statuses)
    kind, words = state(engine, name)
    assert (kind, words) == ("ended", f"job {name} has failed: ended with exit code 1")
    engine.cluster.store.remove(POD, only(engine, POD))
    assert state(engine, name) == ("ended", f"job {name} has failed: has reached its limit")


def test_a_runner_that_nobody_can_ask_for_is_unknown(engine, monkeypatch):
    monkeypatch.setattr(runners, "_ANSWERS_WITHIN_S", 0.0)
    name = engine.submit(job_of(engine))
    assert state(engine, "gone") == ("ended", "job gone no longer exists")
    engine.cluster.access.deny("get", "jobs", "batch")
    kind, words = state(engine, name)
    assert kind == "unknown"
    assert words.startswith("job cannot be queried: ")
    assert name not in words.partition("jobs.batch")[0]
    engine.cluster.kubeconfig.unlink()
    kind, words = state(engine, name)
    assert (kind, words.partition(": ")[0]) == ("unknown", "job cannot be queried")
    # Nothing is to be done about it here.
    engine.cancel(engine.run, [1])


@pytest.mark.parametrize("is_running", [False, True])
def test_a_cancel_deletes_the_jobs_that_have_not_begun(engine, is_running):
    if is_running:
        engine.cluster.hollow.add("n1", {}, lambda _: None)
    engine.submit(job_of(engine))
    store = engine.cluster.store
    wait_for_pod(engine)
    with store.changed:
        phase = "Running" if is_running else "Pending"
        assert store.changed.wait_for(
            lambda: only(engine, POD)["status"]["phase"] == phase, timeout=60
        )
    engine.cancel(engine.run, [1, 2])
    # One that works ends by itself, as the run's directory says.
    assert len(store.list(JOB, engine.cluster.namespace)) == is_running
