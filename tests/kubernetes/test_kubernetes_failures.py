"""What goes wrong in a cluster, through the executor: nothing is lost, and nothing is run twice."""

from __future__ import annotations

import contextlib
import textwrap

import pytest
from emulator import POD, QUOTA
from emulator.kinds import JOB

from tarmac.errors import RequestError
from tarmac.executors.events import Waiting
from tarmac.executors.kubernetes import KubernetesExecutor
from tarmac.executors.kubernetes.creation import Creation
from tarmac.executors.kubernetes.pods import keep_job
from tarmac.jobs import Silent, Site, find_executor, parse_job, plan_tasks, run_tasks
from tarmac.kubernetes import WAITS, Listed, Refused
from waiting import once


class Progress(Silent):
    """Keeps what a run tells, and acts each time that it waits."""

    def __init__(self, act):
        self.ends = {}
        self.reasons = []
        self.act = act

    def told(self, event):
        if isinstance(event, Waiting):
            self.reasons.append(event.reason)

    def ended(self, ended):
        assert ended.task.name not in self.ends
        self.ends[ended.task.name] = ended

    def waited(self):
        self.act(self)


@pytest.fixture
def run_job(cluster, tmp_path, monkeypatch):
    """Return a function that takes a job's tasks through the emulator to their ends."""
    monkeypatch.setattr("tarmac.jobs.retries.disturbed_pause_s", lambda _: 0.1)
    run = tmp_path / "run"
    (run / "tasks").mkdir(parents=True)

    def take(job, act=lambda _: None, **options):
        parsed = parse_job(textwrap.dedent(job))
        given = {"kubeconfig": str(cluster.kubeconfig), "image": "python:3.12-slim", **options}
        job_with = parsed.model_copy(update={"options": {"kubernetes": given}})
        tasks = [*plan_tasks(job_with, tmp_path)]
        site = Site(tasks=tasks, run=run, base=tmp_path, shared=run / "shared", fake_gpus=2)
        progress = Progress(act)
        with contextlib.closing(KubernetesExecutor(site)) as executor:
            run_tasks(tasks, run, executor, progress)
        return progress

    take.run = run
    take.options = {"kubeconfig": str(cluster.kubeconfig), "image": "python:3.12-slim"}
    return take


def running(cluster):
    return [pod for pod in cluster.pods() if pod["status"].get("phase") == "Running"]


# Each is what a server does of its own, at the moment that it hurts most.
TROUBLES = {
    "watches that are cut": lambda c: c.faults.cut_watches(),
    "a version that is too old": lambda c: (c.compact(), c.faults.cut_watches()),
    "watches that are too many": lambda c: (
        c.faults.answer(429, 2, verb="watch", retry_after_s=1),
        c.faults.cut_watches(),
    ),
    "logs that are answered with errors": lambda c: c.faults.answer(503, 2, resource="pods/log"),
    "a token that is renewed": lambda c: (c.rotate_token(), c.faults.cut_watches()),
    "a list that is dropped": lambda c: (
        c.compact(),
        c.faults.drop(1, verb="list", resource="pods"),
        c.faults.cut_watches(),
    ),
}


@pytest.mark.kubernetes
@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_server_in_trouble_ends_no_task(trouble, run_job, cluster):
    act = once(lambda _: running(cluster), lambda: TROUBLES[trouble](cluster))
    (end,) = run_job("{name: x, command: 'echo once; sleep 2; echo twice'}", act).ends.values()
    assert (end.outcome, end.reason) == ("succeeded", "")
    (stdout,) = run_job.run.glob("tasks/*/stdout")
    assert stdout.read_text() == "once\ntwice\n"


@pytest.mark.kubernetes
@pytest.mark.parametrize(
    "fault",
    [
        lambda faults: faults.answer(429, 2, verb="create", resource="jobs", retry_after_s=1),
        lambda faults: faults.drop(1, verb="create", resource="jobs", is_done=True),
        lambda faults: faults.drop(1, verb="create", resource="jobs", is_done=False),
        lambda faults: faults.drop(1, verb="create", resource="configmaps", is_done=True),
        lambda faults: faults.drop(1, verb="patch", resource="jobs", is_done=True),
    ],
    ids=["busy", "made without an answer", "lost", "read without an answer", "started likewise"],
)
def test_an_ambiguous_answer_makes_no_second_job(fault, run_job, cluster):
    fault(cluster.faults)
    (end,) = run_job("{name: x, command: 'echo once'}").ends.values()
    assert (end.outcome, end.reason) == ("succeeded", "")
    (stdout,) = run_job.run.glob("tasks/*/stdout")
    assert stdout.read_text() == "once\n"
    assert len([*run_job.run.glob("tasks/*/attempt-*.json")]) == 1


@pytest.mark.kubernetes
def test_a_task_whose_pod_is_deleted_by_hand_begins_again(run_job, cluster):
    def delete():
        (pod, *_) = running(cluster)
        cluster.delete(POD, pod["metadata"]["name"])

    def has_begun(_):
        # Until its Python has started, the first process of a container hears no signal.
        return any(path.read_text() for path in run_job.run.glob("tasks/*/stdout"))

    act = once(has_begun, delete)
    job = "{name: x, command: 'echo begun; sleep 4; echo done'}"
    (end,) = run_job(job, act).ends.values()
    assert (end.outcome, end.reason, end.attempts) == ("succeeded", "", 2)
    (stdout,) = run_job.run.glob("tasks/*/stdout")
    assert stdout.read_text() == "begun\nbegun\ndone\n"


@pytest.mark.kubernetes
def test_a_quota_that_allows_nothing_is_told_and_waited_for(run_job, cluster):
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "team"},
        "spec": {"hard": {"pods": "0"}},
    }
    path = f"/api/v1/namespaces/{cluster.namespace}/resourcequotas"
    cluster.admin.post(path, json=quota).raise_for_status()
    act = once(
        lambda progress: any("quota team" in reason for reason in progress.reasons),
        lambda: cluster.delete(QUOTA, "team"),
    )
    progress = run_job("{name: x, command: 'true'}", act)
    (end,) = progress.ends.values()
    assert (end.outcome, end.reason) == ("succeeded", "")
    # Nobody asked before: this session's run was not prepared.
    never = "quota team never lets it start: the limit of pods is 0, and 1 is requested"
    assert any(never in reason for reason in progress.reasons)


@pytest.mark.kubernetes
def test_a_webhook_that_refuses_fails_its_task_in_its_words(run_job, cluster):
    cluster.refusals["policy.example"] = "images come from our registry"
    (end,) = run_job("{name: x, command: 'true'}").ends.values()
    assert (end.outcome, end.cause) == ("failed", "start")
    assert "images come from our registry" in end.reason
    assert not cluster.store.list(JOB, cluster.namespace)


@pytest.mark.kubernetes
def test_a_webhook_that_refuses_is_told_before_anything_starts(run_job, cluster, tmp_path):
    cluster.refusals["policy.example"] = "images come from our registry"
    job = parse_job("{name: x, command: 'true'}")
    job = job.model_copy(update={"options": {"kubernetes": run_job.options}})
    with pytest.raises(RequestError, match="images come from our registry") as told:
        find_executor("kubernetes").refuse([*plan_tasks(job, tmp_path)], 0)
    assert "policy" in (told.value.hint or "")


@pytest.mark.kubernetes
def test_an_image_that_never_comes_fails_its_task(run_job, monkeypatch):
    for word in ("ErrImagePull", "ImagePullBackOff"):
        monkeypatch.setitem(WAITS, word, WAITS[word]._replace(limit_s=0.5))
    (end,) = run_job("{name: x, command: 'true'}", image="missing.invalid/train:7").ends.values()
    assert (end.outcome, end.cause) == ("failed", "start")
    assert "its image cannot be pulled" in end.reason
    assert "missing.invalid/train:7" in end.reason


def lacking(**status):
    spec = {"completions": 4, "parallelism": 3, **status.pop("spec", {})}
    return keep_job({"metadata": {"name": "j"}, "spec": spec, "status": status})


@pytest.mark.parametrize(
    ("status", "lacks"),
    [
        ({}, True),
        ({"active": 3}, False),
        ({"active": 1, "completedIndexes": "0-2"}, False),
        ({"spec": {"suspend": True}}, False),
        ({"conditions": [{"type": "Complete", "status": "True"}]}, False),
    ],
)
def test_a_job_lacks_pods_that_it_may_have_and_has_not(status, lacks):
    assert lacking(**status).lacks_pods == lacks


class Told:
    """A cluster that says one thing of its events."""

    def __init__(self, answer):
        self.answer, self.asked = answer, 0

    def list(self, kind, *, fields):
        assert (kind, fields) == ("Event", "involvedObject.kind=Job,involvedObject.name=j")
        self.asked += 1
        return self.answer


def test_events_are_asked_for_ever_more_seldom():
    event = {"reason": "FailedCreate", "message": "no", "lastTimestamp": "2026-01-01T00:00:00Z"}
    told, now = Told(Listed((event,), "1")), [0.0]
    creation = Creation(told, lambda: now[0])
    assert creation.why(lacking()) == ""
    for second in range(600):
        now[0] = float(second)
        words = creation.why(lacking())
    assert words == "its Job creates no pod: no"
    assert told.asked < 20
    assert creation.why(lacking(active=3)) == ""


def test_who_may_not_list_events_is_not_asked_again():
    told, now = Told(Refused(403, "Forbidden", "no")), [0.0]
    creation = Creation(told, lambda: now[0])
    for second in range(100):
        now[0] = float(second)
        assert creation.why(lacking()) == ""
    assert told.asked == 1
