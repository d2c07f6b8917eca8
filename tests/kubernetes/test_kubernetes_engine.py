"""Runs through the engine for Kubernetes, on nodes whose pods are no processes."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import json
import random
import re
import textwrap
import time

import pytest
from emulator import CONFIG_MAP, JOB, POD, QUOTA, SECRET, Emulator
from emulator.kinds import BY_PLURAL, JOBSET, Kind
from hollow_agents import HollowAgents

from tarmac.executors.events import Waiting
from tarmac.executors.kubernetes import KubernetesExecutor, admission, creation, followers
from tarmac.executors.kubernetes.engine import KubernetesEngine
from tarmac.executors.kubernetes.mirrors import Mirrors
from tarmac.executors.kubernetes.pods import SeenJob, SeenPod
from tarmac.executors.queueing import QueueingExecutor, watch
from tarmac.jobs import Silent, Site, find_executor, parse_job, plan_tasks, run_tasks
from tarmac.kubernetes import WAITS, NoAnswer
from tarmac.kubernetes import watch as watch_of_objects
from tarmac.testing.executors.case import ExecutorCase, Watch
from waiting import once, wait_until

# A run takes a second at most.
WITHIN_S = 60.0


class Progress(Silent):
    """Keeps what a run says, and acts each time that it waits."""

    def __init__(self, act):
        self.ends, self.retries, self.waits, self.act = {}, [], [], act
        self.until = time.monotonic() + WITHIN_S

    def told(self, event):
        if isinstance(event, Waiting):
            self.waits.append(event.reason)

    def retrying(self, task, reason, delay_s):
        self.retries.append(reason)

    def ended(self, ended):
        assert ended.task.name not in self.ends
        self.ends[ended.task.name] = ended

    def waited(self):
        assert time.monotonic() < self.until, "the run does not end"
        self.act(self)


@pytest.fixture
def run_job(tmp_path, monkeypatch):
    """Return a function that takes a job's tasks to their ends on two hollow nodes."""
    monkeypatch.setattr("tarmac.jobs.retries.disturbed_pause_s", lambda _: 0.01)
    monkeypatch.setattr(watch, "_LOOK_AT_ONCE_S", 0.02)
    monkeypatch.setitem(QueueingExecutor.__init__.__kwdefaults__, "gather_s", 0.0)
    run = tmp_path / "run"
    (run / "tasks").mkdir(parents=True)
    has_seen = []

    def look(engine, chunks):
        pods, jobs = engine._pods.look(), engine._jobs.look()
        is_told = not isinstance(pods, NoAnswer) and any(
            pod.reported_disruption for pod in pods.values()
        )
        if not isinstance(jobs, NoAnswer):
            is_told |= any(job.is_suspended for job in jobs.values())
        shown = looks(engine, chunks)
        if is_told:
            has_seen.append(True)
        return shown

    looks = KubernetesEngine.look
    monkeypatch.setattr(KubernetesEngine, "look", look)
    with (
        Emulator(tmp_path / "cluster", nodes=0) as cluster,
        HollowAgents(cluster, nodes=("n1", "n2")) as agents,
    ):

        def take(
            job,
            program=lambda _: 0,
            act=lambda _: None,
            *,
            stop=lambda: False,
            concurrency=None,
            **options,
        ):
            agents.program = program
            options = {"kubeconfig": str(cluster.kubeconfig), "image": "python:3.12-slim"} | options
            parsed = parse_job(textwrap.dedent(job))
            parsed = parsed.model_copy(update={"options": {"kubernetes": options}})
            tasks = [*plan_tasks(parsed, tmp_path)]
            site = Site(
                tasks=tasks,
                run=run,
                base=tmp_path,
                shared=run / "shared",
                concurrency=concurrency,
            )
            progress = Progress(act)
            with contextlib.closing(KubernetesExecutor(site)) as executor:
                run_tasks(tasks, run, executor, progress, stop=stop)
            return progress

        def evict(is_time, which=lambda _: True, how=cluster.evict):
            """Return what evicts pods once it is time, and lets them go once that is seen."""

            def begin():
                has_seen.clear()
                for agent in filter(which, agents.running):
                    agent.heeds_term = False
                    how(agent.pod)

            def act(progress):
                first(progress)
                for agent in agents.running if has_seen else ():
                    if not agent.heeds_term:
                        agents.let_go(agent)

            first = once(is_time, begin)
            return act

        take.run, take.cluster, take.agents, take.evict = run, cluster, agents, evict
        yield take
        assert not cluster.control.failures


def printed(run_job, stream="stdout"):
    return [path.read_text() for path in sorted(run_job.run.glob(f"tasks/*/{stream}"))]


def test_what_pods_print_and_how_they_end_comes_back_in_few_requests(run_job):
    def program(agent):
        agent.print(f"out {agent.element.task}")
        agent.print("err", "stderr")
        return 3 * (agent.element.task == 1)

    progress = run_job("{name: x, command: 'true', sweep: {repeat: 4}}", program)
    ends = {end.task.index: (end.outcome, end.exit_code) for end in progress.ends.values()}
    assert ends == dict.fromkeys((0, 2, 3), ("succeeded", 0)) | {1: ("failed", 3)}
    assert printed(run_job) == [f"out {number}\n" for number in range(4)]
    assert printed(run_job, "stderr") == ["err\n"] * 4
    cluster = run_job.cluster
    assert cluster.requests.count("GET", "pods/log") <= 4
    assert cluster.requests.count("DELETE", "pods") <= 4
    assert cluster.requests.count("GET", "pods") == 0
    assert not cluster.store.list(JOB, cluster.namespace)


def goes_on(agent):
    """Print a line, and run on in the first pod; end well in the next one."""
    agent.print("at work")
    return 0 if agent.element.number > 1 else None


def goes_on_to_its_end(agent):
    """Print a line, and end well."""
    agent.print("at work")
    return 0


def delete_jobs(cluster, kind=JOB):
    for job in cluster.store.list(kind, cluster.namespace):
        cluster.delete(kind, job["metadata"]["name"], propagation="Background")


def record_of(run_job, number=1):
    (path,) = run_job.run.glob(f"tasks/*/attempt-{number}.json")
    return json.loads(path.read_text())


def test_an_evicted_pod_is_begun_again_and_spends_no_retry(run_job):
    agents = run_job.agents

    def program(agent):
        agent.print("at work")
        return 0 if len(agents.begun) > 1 else None

    act = run_job.evict(lambda _: printed(run_job))
    progress = run_job("{name: x, command: 'true'}", program, act)
    (end,) = progress.ends.values()
    assert (end.outcome, end.attempts, progress.retries) == ("succeeded", 1, [])
    assert printed(run_job) == ["at work\nat work\n"]
    record = record_of(run_job)
    assert (record["restart"], record["outcome"], record["host"]) == (1, "succeeded", "n1")


def test_a_pod_that_somebody_deletes_spends_no_retry(run_job):
    agents, cluster = run_job.agents, run_job.cluster
    act = once(lambda _: printed(run_job), lambda: cluster.delete(POD, agents.begun[0].pod))
    progress = run_job("{name: x, command: 'true'}", goes_on, act)
    (end,) = progress.ends.values()
    assert (end.outcome, end.attempts, len(progress.retries)) == ("succeeded", 2, 1)
    assert printed(run_job) == ["at work\nat work\n"]


@pytest.mark.parametrize("is_seen", [True, False])
def test_a_job_that_somebody_deletes_ends_its_task_with_its_last_words(run_job, is_seen):
    agents, cluster = run_job.agents, run_job.cluster

    def delete():
        delete_jobs(cluster)
        cluster.faults.clear()

    if not is_seen:
        cluster.faults.freeze_watches()
    act = once(lambda _: agents.running and (printed(run_job) or not is_seen), delete)
    progress = run_job("{name: x, command: 'true'}", goes_on, act)
    (end,) = progress.ends.values()
    assert (end.outcome, end.cause, progress.retries) == ("failed", "cancelled", [])
    assert "deleted" in end.reason
    if is_seen:
        record = record_of(run_job)
        assert (record["state"], record["outcome"]) == ("ended", "interrupted")


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_pod_that_is_gone_before_any_watch_shows_its_end(run_job, is_lost):
    """It is heard where its log has said it; else another attempt follows."""
    agents, cluster, frozen = run_job.agents, run_job.cluster, []

    def act(_):
        jobs = cluster.store.list(JOB, cluster.namespace)
        if printed(run_job) == ["at work\n"] and not frozen:
            frozen.append(True)
            cluster.faults.freeze_watches()
            agents.end(agents.begun[0], int(is_lost), has_record=not is_lost)
        for pod in cluster.pods() if cluster.faults.is_frozen else ():
            if pod["status"]["phase"] in ("Succeeded", "Failed"):
                cluster.delete(POD, pod["metadata"]["name"], grace_s=0)
        key = "failedIndexes" if is_lost else "completedIndexes"
        if cluster.faults.is_frozen and not cluster.pods() and jobs[0]["status"].get(key):
            cluster.faults.clear()

    progress = run_job("{name: x, command: 'true'}", goes_on, act)
    (end,) = progress.ends.values()
    assert (end.outcome, end.exit_code, end.attempts) == ("succeeded", 0, 1 + is_lost)
    assert len(progress.retries) == is_lost


def test_the_log_of_a_pod_that_is_gone_is_waited_for(run_job, monkeypatch):
    agents, cluster = run_job.agents, run_job.cluster

    def is_reading(mirrors, chunk, unit):
        is_on_its_way = reads(mirrors, chunk, unit)
        agents.begun[0].may_close_log.set()
        return is_on_its_way

    reads = Mirrors.is_reading
    monkeypatch.setattr(Mirrors, "is_reading", is_reading)

    def act(_):
        if agents.running and printed(run_job):
            cluster.faults.freeze_watches()
            agents.begun[0].may_close_log.clear()
            agents.begun[0].print("done")
            agents.end(agents.begun[0])
        for pod in cluster.pods() if cluster.faults.is_frozen else ():
            if pod["status"]["phase"] == "Succeeded":
                cluster.delete(POD, pod["metadata"]["name"], grace_s=0)
        jobs = cluster.store.list(JOB, cluster.namespace)
        is_complete = jobs and jobs[0]["status"].get("completedIndexes")
        if cluster.faults.is_frozen and is_complete and not cluster.pods():
            cluster.faults.clear()

    (end,) = run_job("{name: x, command: 'true'}", goes_on, act).ends.values()
    assert (end.outcome, end.exit_code, end.attempts) == ("succeeded", 0, 1)
    assert printed(run_job) == ["at work\ndone\n"]


def test_pods_that_see_the_runs_directory_say_all_there(run_job, tmp_path):
    """Their logs are not asked for."""
    volume = {"claim": "runs", "path": str(tmp_path)}

    def program(agent):
        agent.print(f"out {agent.element.task}")
        return 3 * (agent.element.task == 1)

    progress = run_job("{name: x, command: 'true', sweep: {repeat: 2}}", program, volume=volume)
    ends = {end.task.index: (end.outcome, end.exit_code) for end in progress.ends.values()}
    assert ends == {0: ("succeeded", 0), 1: ("failed", 3)}
    assert printed(run_job) == ["out 0\n", "out 1\n"]
    cluster = run_job.cluster
    assert not cluster.requests.count("GET", "pods/log")
    assert not cluster.requests.count("create", "configmaps")
    assert not cluster.store.list(JOB, cluster.namespace)


def test_a_task_of_a_node_that_is_lost_begins_again_and_spends_no_retry(run_job, monkeypatch):
    monkeypatch.setattr("tarmac.kubernetes.pods.LOST_NODE_S", 0.0)
    agents, cluster = run_job.agents, run_job.cluster

    def kill():
        cluster.hollow.lose("n1")
        cluster.nodes.kill("n1")

    progress = run_job("{name: x, command: 'true'}", goes_on, once(lambda _: agents.running, kill))
    (end,) = progress.ends.values()
    assert (end.outcome, end.attempts, len(progress.retries)) == ("succeeded", 2, 1)
    assert [agent.host for agent in agents.begun] == ["n1", "n2"]


def test_an_image_that_never_comes_fails_its_task(run_job, monkeypatch):
    monkeypatch.setitem(WAITS, "ErrImagePull", WAITS["ErrImagePull"]._replace(limit_s=0.0))
    cluster = run_job.cluster

    def pull(_):
        waiting = {"reason": "ErrImagePull", "message": "manifest unknown"}
        container = {"name": "task", "image": "i", "imageID": "", "state": {"waiting": waiting}}
        for pod in cluster.pods():
            if "deletionTimestamp" in pod["metadata"]:
                cluster.objects.set_status(POD, pod, pod["status"] | {"phase": "Failed"})
                cluster.delete(POD, pod["metadata"]["name"], grace_s=0)
            elif "containerStatuses" not in pod["status"]:
                status = pod["status"] | {"containerStatuses": [container]}
                cluster.objects.set_status(POD, pod, status)

    for node in ("n1", "n2"):
        cluster.hollow.lose(node)
    progress = run_job("{name: x, command: 'true'}", act=pull)
    (end,) = progress.ends.values()
    assert (end.outcome, end.cause) == ("failed", "start")
    assert "its image cannot be pulled" in end.reason
    assert "manifest unknown" in end.reason


def test_a_task_without_room_says_so_and_ends_at_its_pending_limit(run_job):
    job = "{name: x, command: 'true', resources: {cpus: 2000}}"
    progress = run_job(job, pending_limit="1s")
    (end,) = progress.ends.values()
    assert end.outcome == "failed"
    assert any("Insufficient cpu" in reason for reason in progress.waits)
    assert not run_job.cluster.store.list(JOB, run_job.cluster.namespace)


def test_what_is_stopped_says_its_last_words_and_leaves_no_pod(run_job):
    agents = run_job.agents
    progress = run_job(
        "{name: x, command: 'true', sweep: {repeat: 2}}",
        goes_on,
        stop=lambda: len(printed(run_job)) == 2,
    )
    assert len(agents.begun) == 2
    assert not progress.retries
    assert {agent.outcome.code for agent in agents.begun} == {143}
    record = json.loads(next(run_job.run.glob("tasks/*/attempt-1.json")).read_text())
    assert (record["outcome"], record["exit_code"]) == ("interrupted", -15)
    assert not run_job.cluster.pods()
    assert not run_job.cluster.store.list(JOB, run_job.cluster.namespace)


def test_no_more_tasks_run_at_once_than_are_wanted(run_job):
    agents, most = run_job.agents, []

    def program(agent):
        most.append(len(agents.running))

    def act(_):
        for agent in agents.running:
            agents.end(agent)

    progress = run_job(
        "{name: x, command: 'true', sweep: {repeat: 5}}", program, act, concurrency=2
    )
    assert [end.outcome for end in progress.ends.values()] == ["succeeded"] * 5
    assert max(most) == 2


# Each is what a server does of its own, at the moment that it hurts most.
TROUBLES = {
    "watches that are cut": lambda c: c.faults.cut_watches(),
    "a version that is too old": lambda c: (c.compact(), c.faults.cut_watches()),
    "watches that are too many": lambda c: (
        c.faults.answer(429, 1, verb="watch", retry_after_s=0),
        c.faults.cut_watches(),
    ),
    "a token that is renewed": lambda c: (c.rotate_token(), c.faults.cut_watches()),
    "a list that is dropped": lambda c: (
        c.compact(),
        c.faults.drop(1, verb="list", resource="pods"),
        c.faults.cut_watches(),
    ),
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_server_in_trouble_ends_no_task(run_job, trouble):
    agents = run_job.agents

    def act(_):
        if agents.running and printed(run_job):
            TROUBLES[trouble](run_job.cluster)
            agents.running[0].print("twice")
            agents.end(agents.running[0])

    progress = run_job("{name: x, command: 'true'}", goes_on, act)
    (end,) = progress.ends.values()
    assert (end.outcome, end.reason, end.attempts) == ("succeeded", "", 1)
    assert printed(run_job) == ["at work\ntwice\n"]


@pytest.mark.parametrize("is_over", [False, True])
def test_a_log_that_is_not_to_be_had_is_asked_for_again(run_job, monkeypatch, is_over):
    monkeypatch.setattr(followers, "_PAUSE_S", 0.01)
    run_job.cluster.faults.answer(404, 2, resource="pods/log")
    agents = run_job.agents
    act = once(lambda _: printed(run_job), lambda: agents.end(agents.begun[0]))
    program = goes_on_to_its_end if is_over else goes_on
    (end,) = run_job("{name: x, command: 'true'}", program, act).ends.values()
    assert (end.outcome, end.reason, end.attempts) == ("succeeded", "", 1)
    assert printed(run_job) == ["at work\n"]
    assert run_job.cluster.faults.num_taken == 2


@pytest.mark.parametrize(
    "fault",
    [
        lambda faults: faults.answer(429, 1, verb="create", resource="jobs", retry_after_s=0),
        lambda faults: faults.drop(1, verb="create", resource="jobs", is_done=True),
        lambda faults: faults.drop(1, verb="create", resource="jobs", is_done=False),
        lambda faults: faults.drop(1, verb="create", resource="configmaps", is_done=True),
        lambda faults: faults.drop(1, verb="patch", resource="jobs", is_done=True),
    ],
    ids=["busy", "made without an answer", "lost", "read without an answer", "started likewise"],
)
def test_an_ambiguous_answer_makes_no_second_job(run_job, fault):
    fault(run_job.cluster.faults)
    (end,) = run_job("{name: x, command: 'true'}", goes_on_to_its_end).ends.values()
    assert (end.outcome, end.reason, end.attempts) == ("succeeded", "", 1)
    assert printed(run_job) == ["at work\n"]
    assert len(run_job.agents.begun) == 1


@pytest.mark.parametrize(
    ("verb", "resource", "words"),
    [
        ("create", "jobs", "Kubernetes refuses it: no such thing here"),
        ("create", "configmaps", "Kubernetes refuses its ConfigMap: no such thing here"),
        ("patch", "jobs", "Kubernetes does not let it start: no such thing here"),
    ],
)
def test_what_a_cluster_refuses_fails_its_task_in_the_clusters_words(
    run_job, verb, resource, words
):
    message = "no such thing here"
    run_job.cluster.faults.answer(403, 1, verb=verb, resource=resource, message=message)
    (end,) = run_job("{name: x, command: 'true'}").ends.values()
    assert (end.outcome, end.cause) == ("failed", "start")
    assert words in end.reason
    assert not run_job.agents.begun
    if resource == "configmaps":
        assert not run_job.cluster.store.list(JOB, run_job.cluster.namespace)


def test_a_quota_that_allows_no_pod_is_told_and_waited_for(run_job, monkeypatch):
    monkeypatch.setattr(creation, "_FIRST_S", 0.0)
    cluster = run_job.cluster
    quota = {"metadata": {"name": "team"}, "spec": {"hard": {"pods": "0"}}}
    cluster.objects.create(QUOTA, cluster.namespace, quota)
    act = once(
        lambda progress: any("quota team" in reason for reason in progress.waits),
        lambda: cluster.delete(QUOTA, "team"),
    )
    progress = run_job("{name: x, command: 'true'}", act=act)
    (end,) = progress.ends.values()
    assert (end.outcome, end.reason) == ("succeeded", "")
    never = "quota team never lets it start: the limit of pods is 0, and 1 is requested"
    assert any(never in reason for reason in progress.waits)


def test_secrets_are_in_a_secret_of_their_own_and_in_no_file_of_the_run(run_job, monkeypatch):
    monkeypatch.setenv("VAULT", "pssst-17")
    values = []

    def program(_):
        (secret,) = run_job.cluster.store.list(SECRET, run_job.cluster.namespace)
        values.append(base64.b64decode(secret["data"]["A"]))
        return 0

    job = "{name: x, command: 'true', secrets: {A: {env: VAULT}}}"
    (end,) = run_job(job, program).ends.values()
    assert (end.outcome, end.reason, values) == ("succeeded", "", [b"pssst-17"])
    texts = [path.read_bytes() for path in run_job.run.rglob("*") if path.is_file()]
    assert not [text for text in texts if b"pssst-1" in text]


ON_TWO = "{name: x, command: 'true', resources: {nodes: 2, cpus: 1}}"


@pytest.fixture(params=[False, True], ids=["as a Job", "as a JobSet"])
def on_two(run_job, request):
    """Return `run_job` for an attempt on two nodes; `kind` is what the engine makes."""

    def take(program, act=lambda _: None, **options):
        return run_job(ON_TWO, program, act, jobset=request.param, **options)

    take.kind = JOBSET if request.param else JOB
    return take


def both(agent):
    """Print a line on both nodes, and go on in the first attempt."""
    agent.print(f"at work on {agent.rank}")
    return 0 if agent.element.number > 1 else None


def have_printed(run_job, line="at work"):
    """Whether both nodes' lines are here."""
    return len([text for text in printed(run_job, "stdout*") if line in text]) == 2


def test_pods_that_do_an_attempt_together_end_together_with_their_own_logs(on_two, run_job):
    agents, cluster = run_job.agents, run_job.cluster

    files = []

    def act(_):
        if have_printed(run_job):
            configs = cluster.store.list(CONFIG_MAP, cluster.namespace)
            files.extend({*config["binaryData"]} for config in configs)
            for agent in agents.running:
                agents.end(agent)

    (end,) = on_two(both, act).ends.values()
    assert (end.outcome, end.reason, end.attempts) == ("succeeded", "", 1)
    assert printed(run_job, "stdout*") == ["at work on 0\n", "at work on 1\n"]
    record = record_of(run_job)
    assert (record["state"], record["outcome"]) == ("ended", "succeeded")
    assert sorted(agent.host for agent in agents.begun) == ["n1", "n2"]
    # In an image without Python sh does the agent's work, but not for several pods.
    assert files[0] == {"agent.pyz", "spec.gz"}
    assert not cluster.store.list(on_two.kind, cluster.namespace)


@pytest.mark.parametrize("rank", [0, 1])
def test_an_evicted_pod_ends_the_attempt_on_both_nodes_and_spends_no_retry(on_two, run_job, rank):
    act = run_job.evict(lambda _: have_printed(run_job), lambda agent: agent.rank == rank)
    progress = on_two(both, act)
    (end,) = progress.ends.values()
    assert (end.outcome, end.reason, end.attempts, len(progress.retries)) == ("succeeded", "", 2, 1)
    assert f"node {rank}: it was evicted" in progress.retries[0]


def test_pods_of_two_nodes_are_shown_later_than_the_end_of_their_job(on_two, run_job, monkeypatch):
    hidden, looks = [], watch_of_objects.Watch.look
    monkeypatch.setattr(watch, "_LOOK_SELDOM_S", 0.05)

    def look(watch):
        found = looks(watch)
        if isinstance(found, NoAnswer):
            return found
        jobs = [thing for thing in found.values() if isinstance(thing, SeenJob)]
        hidden.extend(job.name for job in jobs if job.completed)
        # A pod that is seen and then hidden is one that is gone.
        is_late = len(hidden) < 5
        return {
            name: thing
            for name, thing in found.items()
            if not (is_late and isinstance(thing, SeenPod))
        }

    monkeypatch.setattr(watch_of_objects.Watch, "look", look)
    progress = on_two(lambda _: 0)
    (end,) = progress.ends.values()
    assert (end.outcome, end.reason, end.attempts) == ("succeeded", "", 1), progress.retries


def test_a_job_of_two_nodes_that_somebody_deletes_is_cancelled(on_two, run_job):
    cluster = run_job.cluster
    act = once(lambda _: have_printed(run_job), lambda: delete_jobs(cluster, on_two.kind))
    progress = on_two(both, act)
    (end,) = progress.ends.values()
    assert (end.outcome, end.cause, end.attempts) == ("failed", "cancelled", 1)
    assert not progress.retries


def test_a_deleted_job_is_told_though_the_jobs_watch_still_shows_it(on_two, run_job, monkeypatch):
    cluster, looks, shown, late = run_job.cluster, watch_of_objects.Watch.look, {}, []
    monkeypatch.setattr(watch, "_LOOK_SELDOM_S", 0.05)

    def look(watch):
        found = looks(watch)
        if isinstance(found, NoAnswer):
            return found
        jobs = {name: thing for name, thing in found.items() if isinstance(thing, SeenJob)}
        shown.setdefault(watch, {}).update(jobs)
        if not shown[watch] or jobs:
            return found
        late.append(watch)
        return found if len(late) > 5 else shown[watch]

    monkeypatch.setattr(watch_of_objects.Watch, "look", look)
    act = once(lambda _: have_printed(run_job), lambda: delete_jobs(cluster, on_two.kind))
    progress = on_two(both, act)
    (end,) = progress.ends.values()
    assert (end.outcome, end.cause, end.attempts) == ("failed", "cancelled", 1), progress.retries
    assert late


def test_an_agent_that_was_killed_for_its_memory_is_not_heard_of_on_the_other_node(on_two, run_job):
    """Kubernetes' word goes before the one of the first node, which knows of a loss alone."""

    def act(_):
        if have_printed(run_job) and len(run_job.agents.running) == 2:
            for agent in sorted(run_job.agents.running, key=lambda it: -it.rank):
                is_first = agent.rank == 0
                outcome = {} if is_first else {"killed_for": "OOMKilled"}
                lost = {"cause": "lost", "reason": "node 1 does not answer"}
                run_job.agents.end(agent, 1 if is_first else 137, **lost, **outcome)

    progress = on_two(both, act)
    (end,) = progress.ends.values()
    assert (end.outcome, end.cause) == ("failed", "memory")
    assert "node 1:" in end.reason


def test_a_queue_admits_both_pods_at_once_and_may_take_their_room_back(on_two, run_job):
    kueue, cluster = run_job.cluster.kueue, run_job.cluster
    kueue.is_open = True

    def take_back(_):
        (job,) = cluster.store.list(on_two.kind, cluster.namespace)
        kueue.evict(job["metadata"]["name"])

    act = run_job.evict(lambda _: have_printed(run_job), how=take_back)
    progress = on_two(both, act, queue="team-a")
    (end,) = progress.ends.values()
    assert (end.outcome, end.attempts) == ("succeeded", 2)
    assert progress.retries == ["the queue team-a has preempted it"]


def test_a_job_of_a_queue_waits_with_words_is_evicted_and_begins_again(run_job):
    agents, cluster, steps = run_job.agents, run_job.cluster, []

    def program(agent):
        agent.print("at work")
        return 0 if len(agents.begun) > 1 else None

    def take_back(_):
        (job,) = cluster.store.list(JOB, cluster.namespace)
        steps.append("evicted")
        cluster.kueue.evict(job["metadata"]["name"])

    evict = run_job.evict(lambda _: len(steps) == 1 and printed(run_job), how=take_back)

    def act(progress):
        evict(progress)
        names = [it["metadata"]["name"] for it in cluster.store.list(JOB, cluster.namespace)]
        if not steps and progress.waits:
            steps.append("admitted")
            assert not agents.begun
            cluster.kueue.admit(names[0])
        elif len(steps) == 2 and not cluster.pods():
            steps.append("admitted again")
            cluster.kueue.admit(names[0])

    progress = run_job("{name: x, command: 'true'}", program, act, queue="team")
    (end,) = progress.ends.values()
    assert (end.outcome, end.reason, progress.retries) == ("succeeded", "", [])
    assert progress.waits[0] == "waits in the queue team"
    assert printed(run_job) == ["at work\nat work\n"]


@pytest.mark.parametrize("code", [0, 3])
@pytest.mark.parametrize("is_evicted", [True, False])
def test_pods_are_shown_later_than_the_end_of_their_job(run_job, monkeypatch, is_evicted, code):
    agents, cluster, hidden, last = run_job.agents, run_job.cluster, [], 1 + is_evicted
    monkeypatch.setattr(watch, "_LOOK_SELDOM_S", 0.05)
    looks = watch_of_objects.Watch.look

    def look(watch):
        found = looks(watch)
        if isinstance(found, NoAnswer):
            return found
        jobs = [thing for thing in found.values() if isinstance(thing, SeenJob)]
        hidden.extend(job.name for job in jobs if job.completed | job.failed)
        late = [agent.pod for agent in agents.begun[last - 1 :]] if len(hidden) < 5 else ()
        return {name: thing for name, thing in found.items() if name not in late}

    monkeypatch.setattr(watch_of_objects.Watch, "look", look)

    def program(agent):
        agent.print("at work")
        return code if len(agents.begun) == last else None

    evict = run_job.evict(lambda _: is_evicted and printed(run_job))
    progress = run_job("{name: x, command: 'true'}", program, evict)
    (end,) = progress.ends.values()
    assert (end.attempts, end.exit_code, progress.retries) == (1, code, [])
    assert printed(run_job) == ["at work\n" * last]
    assert cluster.requests.count("list", "pods") < 10


def test_a_pod_that_fails_was_not_evicted_though_its_queue_is_shown_to_hold_it(
    run_job, monkeypatch
):
    cluster, looks = run_job.cluster, watch_of_objects.Watch.look

    def look(watch):
        """Show each Job as it was made."""
        found = looks(watch)
        if isinstance(found, NoAnswer):
            return found
        return {
            name: dataclasses.replace(it, is_suspended=True) if isinstance(it, SeenJob) else it
            for name, it in found.items()
        }

    monkeypatch.setattr(watch_of_objects.Watch, "look", look)
    cluster.kueue.is_open = True
    job = "{name: x, command: 'true', sweep: {repeat: 2}}"
    progress = run_job(job, lambda _: 3, queue="team")
    assert [end.exit_code for end in progress.ends.values()] == [3, 3]
    assert not progress.retries


@pytest.mark.parametrize("may_list", [True, False])
def test_why_a_queue_holds_a_job_is_said_in_kueues_words(run_job, monkeypatch, may_list):
    monkeypatch.setattr(admission, "_FIRST_S", 0.0)
    workloads = Kind("Workload", "workloads", "kueue.x-k8s.io", "v1beta1")
    monkeypatch.setitem(BY_PLURAL, ("kueue.x-k8s.io", "workloads"), workloads)
    cluster, looks = run_job.cluster, []
    if not may_list:
        cluster.access.deny("list", "workloads", "kueue.x-k8s.io")
    why = f"no quota{'!' * 400}"

    def act(progress):
        jobs = cluster.store.list(JOB, cluster.namespace)
        if jobs and not cluster.store.list(workloads):
            owner = {key: jobs[0]["metadata"][key] for key in ("name", "uid")}
            owners = [owner | {"apiVersion": "batch/v1", "kind": "Job"}]
            about = {"name": "w", "namespace": cluster.namespace, "uid": "7"}
            reason = {"type": "QuotaReserved", "status": "False", "message": why}
            thing = {"metadata": about | {"ownerReferences": owners}}
            cluster.store.put(workloads, thing | {"status": {"conditions": [reason]}})
        looks.append(bool(progress.waits))
        has_said = any("no quota" in reason for reason in progress.waits)
        if jobs and (has_said if may_list else sum(looks) > 3):
            cluster.kueue.admit(jobs[0]["metadata"]["name"])

    progress = run_job("{name: x, command: 'true'}", act=act, queue="team")
    (end,) = progress.ends.values()
    assert end.outcome == "succeeded"
    words = {reason for reason in progress.waits if "queue" in reason}
    if may_list:
        assert f"waits in the queue team: {why[:299]}…" in words
    else:
        assert words == {"waits in the queue team"}
        assert cluster.requests.count("list", "workloads") == 1


def test_tasks_that_are_too_much_for_one_job_go_as_several(run_job):
    large = base64.b64encode(random.Random(0).randbytes(75_000)).decode()
    job = {"name": "x", "command": "true", "env": {"LARGE": large}, "sweep": {"repeat": 8}}
    names = []

    def program(agent):
        names.append(agent.pod.rpartition("-")[0].rpartition("-")[0])
        return len(agent.element.variables["LARGE"]) - len(large)

    progress = run_job(json.dumps(job), program)
    assert [end.outcome for end in progress.ends.values()] == ["succeeded"] * 8
    assert len(names) == 8
    assert len({*names}) > 1


def test_a_task_that_is_too_much_alone_fails_with_what_to_do(run_job):
    large = base64.b64encode(random.Random(0).randbytes(75_000)).decode()
    env = {f"LARGE{number}": large for number in range(8)}
    (end,) = run_job(json.dumps({"name": "x", "command": "true", "env": env})).ends.values()
    assert (end.outcome, end.cause) == ("failed", "start")
    # The values twice, once for sh.
    assert re.search(r"is 1\.[0-9] MiB, and a ConfigMap takes 1 MiB", end.reason)
    assert "options.kubernetes.volume" in end.reason
    assert not run_job.agents.begun


def test_a_second_executor_takes_over_what_has_ended_and_what_runs(run_job, tmp_path):
    agents, cluster = run_job.agents, run_job.cluster
    agents.program = lambda agent: 3 if agent.element.task == 0 else agent.print("at work")
    options = {"kubeconfig": str(cluster.kubeconfig), "image": "i"}
    case = ExecutorCase(find_executor("kubernetes"), tmp_path, options={"kubernetes": options})
    tasks = case.tasks("{name: x, command: 'true', sweep: {repeat: 2}}")
    attempts = [case.attempt(task) for task in tasks]
    with case.opened(tasks) as first:
        first.attach(lambda *_: None)
        watch = Watch(first)
        watch.start(attempts)
        wait_until(lambda: watch.hear(0.02) or watch.ends, "the end of the first task")
        first.detach()
    # It ends while nobody looks.
    agents.end(agents.running[0], 4)
    with case.opened(tasks) as second:
        watch = Watch(second)
        there = watch.attach(attempts)
        ends = watch.finish([event.attempt for event in there])
    codes = {end.attempt.task.index: end.exit_code for end in ends.values()}
    assert codes[1] == 4
    assert set(codes.values()) <= {3, 4}
    assert (attempts[1].directory / "stdout").read_text() == "at work\n"
    assert len(agents.begun) == 2
