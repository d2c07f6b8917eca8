"""Jobs of a queue of Kueue's: held, admitted, evicted, and what is said of them meanwhile."""

from __future__ import annotations

import contextlib

import pytest
from emulator.kinds import BY_PLURAL, JOB, Kind

from tarmac.executors import Waiting
from tarmac.executors.kubernetes import KubernetesExecutor, admission
from tarmac.jobs import Silent, Site, parse_job, plan_tasks, run_tasks
from tarmac.kubernetes import explain_workload, job_of_workload

WORKLOAD = Kind("Workload", "workloads", "kueue.x-k8s.io", "v1beta1")
QUOTA = "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor x"


class Progress(Silent):
    """Keeps what is said, and acts on it."""

    def __init__(self, act):
        self.ends = {}
        self.said = []
        self.act = act

    def told(self, event):
        if isinstance(event, Waiting):
            self.said.append(event.reason)

    def ended(self, ended):
        self.ends[ended.task.name] = ended

    def waited(self):
        self.act(self)


@pytest.fixture
def run_queued(start_cluster, tmp_path, monkeypatch):
    """Return a function that runs a job of a queue; `.cluster` is where."""
    monkeypatch.setattr("tarmac.jobs.retries.disturbed_pause_s", lambda _: 0.1)
    cluster = start_cluster(capacity={"cpu": "8", "memory": "8Gi"})
    run = tmp_path / "run"
    (run / "tasks").mkdir(parents=True)
    options = {
        "kubeconfig": str(cluster.kubeconfig),
        "image": "python:3.12-slim",
        "queue": "team",
        "queue_priority": "high",
    }

    def take(job, act):
        parsed = parse_job(job).model_copy(update={"options": {"kubernetes": options}})
        tasks = [*plan_tasks(parsed, tmp_path)]
        site = Site(tasks=tasks, run=run, base=tmp_path, shared=run / "shared", fake_gpus=0)
        progress = Progress(act)
        with contextlib.closing(KubernetesExecutor(site)) as executor:
            run_tasks(tasks, run, executor, progress)
        return progress

    take.cluster = cluster
    take.run = run
    return take


@pytest.mark.kubernetes
def test_a_job_of_a_queue_waits_with_words_until_it_is_admitted(run_queued):
    cluster, seen = run_queued.cluster, []

    def admit(progress):
        if progress.said and not seen:
            (job,) = cluster.store.list(JOB, cluster.namespace)
            seen.append((job, [*cluster.pods()]))
            cluster.kueue.admit(job["metadata"]["name"])

    progress = run_queued("{name: x, command: 'echo ran'}", admit)
    assert progress.said[0] == "waits in the queue team"
    ((job, pods),) = seen
    assert job["spec"]["suspend"]
    assert job["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] == "high"
    assert not pods
    end = progress.ends["x"]
    assert (end.outcome, end.reason) == ("succeeded", "")


@pytest.mark.kubernetes
def test_what_a_queue_evicts_waits_again_and_has_not_failed(run_queued):
    cluster, steps = run_queued.cluster, []

    def act(_):
        jobs = cluster.store.list(JOB, cluster.namespace)
        # Until its Python has started, the first process of a container hears no signal.
        has_begun = any(path.read_text() for path in run_queued.run.glob("tasks/*/stdout"))
        if not steps and jobs:
            steps.append("admitted")
            cluster.kueue.admit(jobs[0]["metadata"]["name"])
        elif len(steps) == 1 and has_begun:
            steps.append("evicted")
            cluster.kueue.evict(jobs[0]["metadata"]["name"])
        elif len(steps) == 2 and not cluster.pods():
            steps.append("admitted again")
            cluster.kueue.admit(jobs[0]["metadata"]["name"])

    job = "{name: x, command: 'echo began; sleep 5; echo done', timeout: 60}"
    progress = run_queued(job, act)
    assert steps == ["admitted", "evicted", "admitted again"]
    end = progress.ends["x"]
    assert (end.outcome, end.reason) == ("succeeded", "")
    (stdout,) = run_queued.run.glob("tasks/*/stdout")
    assert stdout.read_text().endswith("began\ndone\n")


@pytest.fixture
def explaining(run_queued, monkeypatch):
    """Return a function that has Kueue say why it holds the first Job."""
    monkeypatch.setattr(admission, "_FIRST_S", 0.0)
    monkeypatch.setitem(BY_PLURAL, ("kueue.x-k8s.io", "workloads"), WORKLOAD)
    cluster = run_queued.cluster

    def explain(job):
        owner = {"apiVersion": "batch/v1", "kind": "Job"}
        owner |= {key: job["metadata"][key] for key in ("name", "uid")}
        about = {
            "name": f"job-{owner['name']}",
            "namespace": cluster.namespace,
            "uid": "7",
            "ownerReferences": [owner],
        }
        reason = {"type": "QuotaReserved", "status": "False", "message": QUOTA}
        cluster.store.put(WORKLOAD, {"metadata": about, "status": {"conditions": [reason]}})

    return explain


@pytest.mark.kubernetes
def test_why_a_job_is_not_admitted_is_said_in_kueues_words(run_queued, explaining):
    cluster = run_queued.cluster

    def act(progress):
        jobs = cluster.store.list(JOB, cluster.namespace)
        if jobs and not cluster.store.list(WORKLOAD):
            explaining(jobs[0])
        if f"waits in the queue team: {QUOTA}" in progress.said and jobs:
            cluster.kueue.admit(jobs[0]["metadata"]["name"])

    progress = run_queued("{name: x, command: 'true'}", act)
    assert progress.ends["x"].outcome == "succeeded"


@pytest.mark.kubernetes
@pytest.mark.parametrize("answer", ["forbidden", "absent"])
def test_who_may_not_see_why_sees_that_it_waits_and_asks_once(run_queued, explaining, answer):
    cluster = run_queued.cluster
    if answer == "forbidden":
        cluster.access.deny("list", "workloads", "kueue.x-k8s.io")
    else:
        del BY_PLURAL["kueue.x-k8s.io", "workloads"]
    looks = []

    def act(progress):
        jobs = cluster.store.list(JOB, cluster.namespace)
        if jobs and progress.said:
            explaining(jobs[0])
            looks.append(jobs)
            if len(looks) == 3:
                cluster.kueue.admit(jobs[0]["metadata"]["name"])

    progress = run_queued("{name: x, command: 'true'}", act)
    assert progress.ends["x"].outcome == "succeeded"
    assert {it for it in progress.said if "queue" in it} == {"waits in the queue team"}
    # The emulator counts no request for what it does not know.
    assert cluster.requests.count("list", "workloads") == (answer == "forbidden")


def test_an_admitted_or_evicted_workload_says_so():
    def says(*conditions):
        names = ("type", "status", "message")
        return explain_workload(
            {"status": {"conditions": [dict(zip(names, it, strict=True)) for it in conditions]}}
        )

    reserved = ("QuotaReserved", "True", "Quota reserved in ClusterQueue gpus")
    assert says(reserved, ("Admitted", "True", "The workload is admitted")) == ""
    assert says(reserved, ("Admitted", "False", "waits for checks")) == "waits for checks"
    assert says(("Evicted", "True", "Preempted by another")) == "Preempted by another"
    assert says() == ""
    assert explain_workload({}) == job_of_workload({}) == ""
