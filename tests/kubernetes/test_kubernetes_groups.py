"""Attempts on several nodes of Kubernetes: begun, and ended, together."""

from __future__ import annotations

import contextlib
import textwrap
import threading

import pytest
from emulator.kinds import JOB, JOBSET, SERVICE

from tarmac.errors import RequestError
from tarmac.executors.kubernetes import KubernetesExecutor
from tarmac.executors.kubernetes.groups import Group
from tarmac.executors.kubernetes.mirror import mirror_log
from tarmac.executors.kubernetes.mirrors import Mirrors
from tarmac.executors.kubernetes.pods import SeenPod
from tarmac.executors.queueing import Ending
from tarmac.jobs import (
    Silent,
    Site,
    find_executor,
    parse_job,
    plan_tasks,
    run_tasks,
)


class Progress(Silent):
    def __init__(self, act):
        self.ends, self.retries, self._act = {}, [], act

    def retrying(self, task, reason, delay_s):
        self.retries.append(reason)

    def ended(self, ended):
        self.ends[ended.task.name] = ended

    def waited(self):
        self._act()


@pytest.fixture(params=["by the API", "by a volume", "as a JobSet"])
def on_two(start_cluster, tmp_path, monkeypatch, request):
    """Return a function that takes a job's tasks to their ends on a cluster of two nodes."""
    monkeypatch.setattr("tarmac.jobs.retries.disturbed_pause_s", lambda _: 0.1)
    cluster = start_cluster(nodes=2, capacity={"cpu": "4", "memory": "8Gi"})
    shared = cluster.claim("runs")
    options = {"kubeconfig": str(cluster.kubeconfig), "image": "python:3.12-slim"}
    run = tmp_path / "run"
    if request.param == "as a JobSet":
        if cluster.admin.get("/apis/jobset.x-k8s.io/v1alpha2").status_code == 404:
            pytest.skip("the cluster has no JobSet: https://jobset.sigs.k8s.io")
        options["jobset"] = True
    if request.param == "by a volume":
        options["volume"] = {"claim": "runs", "path": str(shared)}
        run = shared / "run"
    (run / "tasks").mkdir(parents=True)

    def take(job, act=lambda: None, given=None, **how):
        parsed = parse_job(textwrap.dedent(job))
        parsed = parsed.model_copy(update={"options": {"kubernetes": options | (given or {})}})
        tasks = [*plan_tasks(parsed, tmp_path)]
        site = Site(tasks=tasks, run=run, base=tmp_path, shared=run / "shared")
        progress = Progress(act)
        with contextlib.closing(KubernetesExecutor(site)) as executor:
            run_tasks(tasks, run, executor, progress, **how)
        return progress

    take.cluster, take.run, take.options = cluster, run, options
    take.kind = JOBSET if "jobset" in options else JOB
    return take


def only_directory(run):
    (directory,) = [path for path in (run / "tasks").iterdir() if path.is_dir()]
    return directory


@pytest.mark.kubernetes
def test_all_nodes_find_the_first_and_each_says_its_own(on_two):
    progress = on_two("""
        name: x
        command: 'echo $NODE_RANK of $NNODES at $MASTER_ADDR; getent hosts ${MASTER_ADDR%%:*} >&2'
        resources: {nodes: 2, cpus: 1}
        """)
    (end,) = progress.ends.values()
    assert (end.outcome, end.reason) == ("succeeded", "")
    directory = only_directory(on_two.run)
    said = [(directory / name).read_text() for name in ("stdout", "stdout.node-1")]
    (address,) = {line.split()[-1] for line in said}
    assert said == [f"{rank} of 2 at {address}\n" for rank in (0, 1)]
    # The Job's own name for its first pod, as the service without an address gives it.
    pod, _, service = address.partition(".")
    assert pod == (f"{service}-0" if on_two.kind is JOB else f"{service}-nodes-0-0")
    store, namespace = on_two.cluster.store, on_two.cluster.namespace
    assert not store.list(on_two.kind, namespace)
    # What it owns the garbage collector deletes a moment later.
    for kind in (JOB, SERVICE):
        with store.changed:
            assert store.changed.wait_for(lambda: not store.list(kind, namespace), timeout=60)  # noqa: B023 - asked here


# Each rank says that it is at work, and goes on only in the second attempt.
_TWICE = """
    name: x
    command: 'echo at work; [ $TARMAC_ATTEMPT = 2 ] || exec sleep 100'
    resources: {nodes: 2, cpus: 1}
    """


def when_at_work(on_two, act):
    """Return what, once both ranks of the first attempt are at work, does something, once."""
    done = []

    def look():
        logs = [*on_two.run.glob("tasks/*/stdout*")]
        if not done and len([log for log in logs if "at work" in log.read_text()]) == 2:
            done.append(True)
            act({pod["metadata"]["name"]: pod for pod in on_two.cluster.pods()})

    return look


@pytest.mark.kubernetes
@pytest.mark.parametrize("rank", [0, 1])
def test_an_evicted_pod_ends_the_attempt_on_all_nodes_and_spends_no_retry(on_two, rank):
    def evict(pods):
        (name,) = [name for name in pods if name.split("-")[-2] == str(rank)]
        on_two.cluster.evict(name)

    progress = on_two(_TWICE, when_at_work(on_two, evict))
    (end,) = progress.ends.values()
    assert (end.outcome, end.attempts) == ("succeeded", 2), end.reason
    assert len(progress.retries) == 1
    assert f"node {rank}: it was evicted" in progress.retries[0]


@pytest.mark.kubernetes
def test_a_node_that_is_lost_ends_the_attempt_and_another_takes_its_place(on_two, monkeypatch):
    monkeypatch.setattr("tarmac.kubernetes.pods.LOST_NODE_S", 0.5)

    def kill(pods):
        (pod,) = [pod for name, pod in pods.items() if name.split("-")[-2] == "1"]
        on_two.cluster.nodes.add("n3", capacity={"cpu": "4", "memory": "8Gi"})
        on_two.cluster.nodes.kill(pod["spec"]["nodeName"])

    progress = on_two(_TWICE, when_at_work(on_two, kill))
    (end,) = progress.ends.values()
    assert (end.outcome, end.attempts) == ("succeeded", 2), end.reason
    assert len(progress.retries) == 1


@pytest.mark.kubernetes
def test_a_job_that_somebody_deletes_ends_the_attempt_on_all_nodes(on_two):
    def delete(_):
        for job in on_two.cluster.store.list(on_two.kind, on_two.cluster.namespace):
            on_two.cluster.delete(on_two.kind, job["metadata"]["name"], propagation="Background")

    progress = on_two(_TWICE, when_at_work(on_two, delete))
    (end,) = progress.ends.values()
    assert (end.outcome, end.cause, end.attempts) == ("failed", "cancelled", 1), end.reason
    assert not progress.retries


@pytest.mark.kubernetes
def test_a_failure_on_one_node_is_the_attempts_with_its_words(on_two):
    progress = on_two("""
        name: x
        command: '[ $NODE_RANK = 0 ] && exec sleep 100; sleep 1; echo it broke >&2; exit 3'
        resources: {nodes: 2, cpus: 1}
        """)
    (end,) = progress.ends.values()
    assert (end.outcome, end.exit_code) == ("failed", 3)
    assert "(node 1): exit code 3" in end.reason
    assert "it broke" in (only_directory(on_two.run) / "stderr").read_text()


@pytest.mark.kubernetes
def test_a_stop_ends_the_programs_of_all_nodes(on_two):
    said = "trap 'echo ended; exit 0' TERM; echo at work; sleep 100 & wait"
    stopped = []

    def stop(_):
        stopped.append(True)

    look = when_at_work(on_two, stop)
    progress = on_two(
        f'{{name: x, command: "{said}", resources: {{nodes: 2, cpus: 1}}}}',
        look,
        stop=lambda: bool(stopped),
    )
    assert not progress.retries
    logs = [*on_two.run.glob("tasks/*/stdout*")]
    assert [log.read_text() for log in logs] == ["at work\nended\n"] * 2
    assert not on_two.cluster.store.list(on_two.kind, on_two.cluster.namespace)


@pytest.mark.kubernetes
def test_the_end_of_pods_that_are_gone_waits_for_what_they_printed_last(on_two, monkeypatch):
    is_gone, is_looked_at = threading.Event(), threading.Event()

    def late(*followed, log):
        if followed[3] == 0:
            return mirror_log(*followed, log=log)
        return mirror_log(*followed, log=slow(log))

    def slow(log):
        for piece in log:
            if b"ended" in piece:
                assert is_looked_at.wait(60)
            yield piece

    def end_group(self, chunk, unit, group):
        is_over = ends(self, chunk, unit, group)
        if len(group.gone) == 2 and self._followers.of(*self._place(chunk, unit)):
            # The first one is heard, and the second one is not.
            is_looked_at.set()
        return is_over

    ends = Mirrors.end_group
    monkeypatch.setattr("tarmac.executors.kubernetes.followers.mirror_log", late)
    monkeypatch.setattr(Mirrors, "end_group", end_group)
    said = "trap 'echo ended; exit 0' TERM; echo at work; sleep 100 & wait"
    look = when_at_work(on_two, lambda _: is_gone.set())
    job = f'{{name: x, command: "{said}", resources: {{nodes: 2, cpus: 1}}}}'
    on_two(job, look, stop=is_gone.is_set)
    logs = [*on_two.run.glob("tasks/*/stdout*")]
    assert [log.read_text() for log in logs] == ["at work\nended\n"] * 2


@pytest.mark.kubernetes
def test_more_nodes_than_there_are_is_refused_in_numbers(on_two):
    tasks = [
        *plan_tasks(
            parse_job("{name: x, command: 'true', resources: {nodes: 3, cpus: 1}}").model_copy(
                update={"options": {"kubernetes": on_two.options}}
            ),
            on_two.run,
        )
    ]
    with pytest.raises(RequestError, match="it needs 3 such nodes, and 2 have enough"):
        find_executor("kubernetes").refuse(tasks, 0)


@pytest.mark.kubernetes
def test_a_cluster_without_jobset_says_so_and_what_to_do(start_cluster, tmp_path):
    cluster = start_cluster(nodes=2)
    cluster.faults.answer(404, 1, verb="create", resource="jobsets")
    job = parse_job("{name: x, command: 'true', resources: {nodes: 2, cpus: 1}}")
    options = {"kubeconfig": str(cluster.kubeconfig), "image": "python:3.12-slim", "jobset": True}
    tasks = [*plan_tasks(job.model_copy(update={"options": {"kubernetes": options}}), tmp_path)]
    with pytest.raises(RequestError, match="has no JobSet") as refused:
        find_executor("kubernetes").refuse(tasks, 0)
    assert "leave out options.kubernetes.jobset: an Indexed Job does the same" in refused.value.hint


@pytest.mark.kubernetes
def test_a_queue_admits_all_pods_at_once_and_may_take_their_room_back(on_two):
    kueue, store = on_two.cluster.kueue, on_two.cluster.store

    def take_back(_):
        (job,) = store.list(on_two.kind, on_two.cluster.namespace)
        kueue.evict(job["metadata"]["name"])

    kueue.is_open = True
    progress = on_two(_TWICE, when_at_work(on_two, take_back), {"queue": "team-a"})
    (end,) = progress.ends.values()
    assert (end.outcome, end.attempts) == ("succeeded", 2), end.reason
    assert progress.retries == ["the queue team-a has preempted it"]


def seen(rank, phase, ending=None, **more):
    return SeenPod(f"j-{rank}-x", "j", rank, "", phase, f"n{rank + 1}", ending=ending, **more)


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        # What the first one says is the attempt's.
        ((Ending("start", "no sh"), Ending(None, "Completed")), ("start", "no sh")),
        # Its agent only knows that another one is lost, and Kubernetes why.
        ((Ending("start", "1"), Ending("memory", "too much")), ("memory", "node 1: too much")),
        (
            (Ending("start", "1"), Ending("node", "unfit", bad_host="n2")),
            ("node", "node 1: unfit"),
        ),
        ((Ending(None, "Completed"), Ending(None, "Completed")), (None, "Completed")),
    ],
)
def test_one_end_is_that_of_all(ends, expected):
    group = Group(2)
    group.see({0: seen(0, "Running"), 1: seen(1, "Pending", reason="no room")})
    assert (group.phase, group.reason, group.host) == ("waiting", "node 1: no room", "n1,n2")
    group.see({0: seen(0, "Running"), 1: seen(1, "Running")})
    assert group.phase == "running"
    group.see({0: seen(0, "Failed", ends[0]), 1: seen(1, "Running")})
    # It ends by itself, as it misses the first one.
    assert group.phase == "running"
    group.see({0: seen(0, "Failed", ends[0]), 1: seen(1, "Failed", ends[1])})
    assert group.phase == "over"
    assert (group.ending().cause, group.ending().words) == expected


def test_pods_that_are_gone_are_over_and_nobody_knows_how():
    group = Group(2)
    group.see({0: seen(0, "Running"), 1: seen(1, "Running")})
    group.see({})
    assert (group.phase, group.ending().cause) == ("over", "lost")
