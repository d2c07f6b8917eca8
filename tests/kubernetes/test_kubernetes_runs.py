"""Tasks on Kubernetes, without a file system that nodes and the runner share."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import textwrap

import pytest
import yaml
from emulator.kinds import JOB, POD

from tarmac.executors.kubernetes import KubernetesExecutor
from tarmac.executors.kubernetes.pods import keep_pod
from tarmac.jobs import (
    Silent,
    Site,
    find_executor,
    parse_job,
    plan_tasks,
    run_tasks,
)
from tarmac.jobs.progress import Ended
from tarmac.testing.executors import ExecutorCase
from waiting import wait_until


class Progress(Silent):
    """Keeps the ends that a run tells, by task."""

    def __init__(self, act=lambda _: None):
        self.ends: dict[str, Ended] = {}
        self.retries: list[str] = []
        self.act = act

    def retrying(self, task, reason, delay_s):
        self.retries.append(reason)

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
        tasks = [
            *plan_tasks(parsed.model_copy(update={"options": {"kubernetes": given}}), tmp_path)
        ]
        site = Site(tasks=tasks, run=run, base=tmp_path, shared=run / "shared", fake_gpus=2)
        progress = Progress(act)
        with contextlib.closing(KubernetesExecutor(site)) as executor:
            run_tasks(tasks, run, executor, progress)
        return progress

    take.run = run
    return take


def test_what_a_task_prints_and_how_it_ends_comes_back(run_job):
    progress = run_job(
        "{name: x, command: 'echo out; echo err >&2; printf rest; exit 3', timeout: 60}"
    )
    (end,) = progress.ends.values()
    assert (end.outcome, end.exit_code) == ("failed", 3)
    (directory,) = (run_job.run / "tasks").iterdir()
    assert (directory / "stdout").read_text() == "out\nrest"
    assert (directory / "stderr").read_text() == "err\n"
    assert json.loads((directory / "attempt-1.json").read_text())["host"] == "n1"


@pytest.mark.kubernetes
def test_what_goes_well_takes_few_requests_and_leaves_nothing(run_job, cluster):
    progress = run_job("{name: x, command: 'echo hi', sweep: {repeat: 5}}")
    assert {end.outcome for end in progress.ends.values()} == {"succeeded"}
    assert [d for d in sorted((run_job.run / "tasks").iterdir()) if (d / "stdout").exists()]
    # One for its log and one that deletes its pod; the Job and what it owns are the chunk's.
    assert cluster.requests.count("GET", "pods/log") <= 5
    assert cluster.requests.count("DELETE", "pods") <= 5
    assert cluster.requests.count("GET", "pods") == 0
    assert not cluster.store.list(JOB, cluster.namespace)


@pytest.mark.kubernetes
def test_secrets_are_variables_of_pods_and_in_no_file_of_the_run(run_job, cluster, monkeypatch):
    monkeypatch.setenv("VAULT", "pssst-17")
    cluster.create_secret("hub", token="pssst-18")
    job = """\
    name: x
    command: 'test "$A-$B" = "$(printf pssst; printf -- -17-pssst; printf -- -18)"'
    secrets: {A: {env: VAULT}, B: {name: hub, key: token}}
    """
    (end,) = run_job(job).ends.values()
    assert (end.outcome, end.reason) == ("succeeded", "")
    texts = [path.read_bytes() for path in run_job.run.rglob("*") if path.is_file()]
    assert not [text for text in texts if b"pssst-1" in text]


@pytest.mark.kubernetes
def test_a_restricted_namespace_runs_a_task_as_a_user_whom_its_image_does_not_know(
    run_job, cluster
):
    cluster.is_restricted = True
    job = "{name: x, command: 'id -u; echo $HOME $USER; touch ~/written && rm ~/written'}"
    (end,) = run_job(job).ends.values()
    assert (end.outcome, end.reason) == ("succeeded", "")
    (log,) = run_job.run.glob("tasks/*/stdout")
    user = os.getuid() or 65532
    assert log.read_text() == f"{user}\n/tmp tarmac\n"


@pytest.mark.kubernetes
def test_an_evicted_pod_is_begun_again_and_spends_no_retry(run_job, cluster):
    evicted = []

    def evict(_):
        running = [pod for pod in cluster.pods() if pod["status"].get("phase") == "Running"]
        if running and not evicted:
            evicted.append(running[0]["metadata"]["name"])
            cluster.evict(evicted[0])

    # The second pod of its index finds another directory, as all that a pod has is its own.
    progress = run_job(
        "{name: x, command: 'case $HOSTNAME in *) sleep 3; echo done;; esac', timeout: 60}", evict
    )
    (end,) = progress.ends.values()
    assert evicted
    assert (end.outcome, end.reason) == ("succeeded", "")


@pytest.mark.kubernetes
def test_one_that_ends_well_when_it_is_evicted_is_begun_again_all_the_same(run_job, cluster):
    evicted = []

    def evict(_):
        logs = [log.read_text() for log in run_job.run.glob("tasks/*/stdout")]
        if logs == ["at work\n"] and not evicted:
            evicted.append(cluster.pods()[0]["metadata"]["name"])
            cluster.evict(evicted[0])

    said = "trap 'exit 0' TERM; echo at work; sleep 2 & wait; echo done"
    progress = run_job(f'{{name: x, command: "{said}"}}', evict)
    (end,) = progress.ends.values()
    assert evicted
    assert (end.outcome, end.attempts, progress.retries) == ("succeeded", 1, [])
    (log,) = run_job.run.glob("tasks/*/stdout")
    assert log.read_text() == "at work\nat work\ndone\n"


@pytest.mark.kubernetes
def test_a_pod_is_heard_that_succeeds_and_is_gone_before_any_watch_shows_it(run_job, cluster):
    is_frozen = []

    def drain(_):
        logs = [log.read_text() for log in run_job.run.glob("tasks/*/stdout")]
        if logs == ["at work\n"] and not is_frozen:
            is_frozen.append(True)
            cluster.faults.freeze_watches()
        for pod in cluster.pods():
            if is_frozen and pod["status"].get("phase") == "Succeeded":
                cluster.delete(POD, pod["metadata"]["name"], grace_s=0)
        jobs = cluster.store.list(JOB, cluster.namespace)
        if is_frozen and jobs and not cluster.pods() and jobs[0]["status"].get("completedIndexes"):
            cluster.faults.clear()

    progress = run_job("{name: x, command: 'echo at work; sleep 2; echo done'}", drain)
    (end,) = progress.ends.values()
    assert (end.outcome, end.exit_code, progress.retries) == ("succeeded", 0, [])


@pytest.mark.kubernetes
def test_a_job_that_somebody_deletes_ends_its_task(run_job, cluster):
    def delete(_):
        for job in cluster.store.list(JOB, cluster.namespace):
            if [pod for pod in cluster.pods() if pod["status"].get("phase") == "Running"]:
                cluster.delete(JOB, job["metadata"]["name"], propagation="Background")

    (end,) = run_job("{name: x, command: 'sleep 60'}", delete).ends.values()
    assert end.outcome == "failed"
    assert "deleted" in end.reason


@pytest.mark.kubernetes
def test_the_last_words_of_a_pod_whose_job_is_deleted_are_kept(run_job, cluster):
    said = "trap 'echo ended; exit 0' TERM; echo at work; sleep 100 & wait"

    def delete(_):
        logs = [log.read_text() for log in run_job.run.glob("tasks/*/stdout")]
        if logs == ["at work\n"]:
            for job in cluster.store.list(JOB, cluster.namespace):
                cluster.delete(JOB, job["metadata"]["name"], propagation="Background")

    (end,) = run_job(f'{{name: x, command: "{said}"}}', delete).ends.values()
    assert (end.outcome, end.cause) == ("failed", "cancelled")
    (directory,) = [path for path in (run_job.run / "tasks").iterdir() if path.is_dir()]
    assert (directory / "stdout").read_text() == "at work\nended\n"
    record = json.loads((directory / "attempt-1.json").read_text())
    assert (record["state"], record["outcome"]) == ("ended", "interrupted")


@pytest.mark.kubernetes
@pytest.mark.parametrize("is_killed", [False, True])
def test_a_deleted_job_is_no_loss_where_its_pod_is_seen_to_end(run_job, cluster, is_killed):
    held = []

    def delete(_):
        for job in cluster.store.list(JOB, cluster.namespace):
            for pod in [pod for pod in cluster.pods() if pod["status"].get("phase") == "Running"]:
                # So it is there until after its end, as it is for a moment without.
                own = pod["metadata"]["finalizers"]
                kept = pod["metadata"] | {"finalizers": [*own, "example.com/kept"]}
                cluster.store.put(POD, pod | {"metadata": kept})
                held.append(pod["metadata"]["name"])
                cluster.delete(JOB, job["metadata"]["name"], propagation="Background")
                if is_killed:
                    node = cluster.nodes.running[pod["spec"]["nodeName"]]
                    for process in node.pods[pod["metadata"]["uid"]].processes.values():
                        process.kill()

    progress = run_job("{name: x, command: \"trap 'exit 0' TERM; sleep 100 & wait\"}", delete)
    (end,) = progress.ends.values()
    assert (end.outcome, end.cause) == ("failed", "cancelled")
    assert len(held) == 1
    assert not progress.retries


@pytest.mark.kubernetes
def test_a_job_that_is_deleted_before_any_watch_shows_it_ends_its_task(run_job, cluster):
    def delete(_):
        jobs = cluster.store.list(JOB, cluster.namespace)
        if jobs and [pod for pod in cluster.pods() if pod["status"].get("phase") == "Running"]:
            for job in jobs:
                cluster.delete(JOB, job["metadata"]["name"], propagation="Background")
            cluster.faults.clear()

    cluster.faults.freeze_watches()
    (end,) = run_job("{name: x, command: 'sleep 60'}", delete).ends.values()
    assert end.outcome == "failed"
    assert "deleted" in end.reason


@pytest.mark.kubernetes
def test_a_program_that_takes_too_much_memory_is_told_apart(run_job):
    job = """\
    name: x
    command: [python3, -c, 'x = bytearray(400 * 2**20); import signal; signal.pause()']
    resources: {memory: 100 MiB}
    """
    (end,) = run_job(job).ends.values()
    assert (end.outcome, end.cause) == ("failed", "memory")


@pytest.mark.kubernetes
def test_a_runner_that_was_killed_finds_its_pods_again(cluster, tmp_path):
    job = tmp_path / "job.yaml"
    job.write_text("{name: x, command: 'echo once; sleep 15; echo twice; exit 4'}")
    (tmp_path / "runs").mkdir()
    options = [
        *("--on", "kubernetes", "--output", str(tmp_path / "runs")),
        *("--set", f"options.kubernetes.kubeconfig={cluster.kubeconfig}"),
        *("--set", "options.kubernetes.image=python:3.12-slim"),
    ]
    command = [sys.executable, "-m", "tarmac", "run", str(job), *options]
    with subprocess.Popen(command, start_new_session=True) as runner:
        wait_until(
            lambda: [p for p in cluster.pods() if p["status"].get("phase") == "Running"],
            "the pod",
            unless=runner.poll,
        )
        runner.kill()
    (run,) = [p for p in (tmp_path / "runs").iterdir() if p.is_dir()]
    again = [sys.executable, "-m", "tarmac", "run", "--resume", str(run), "--on", "kubernetes"]
    ended = subprocess.run(again, capture_output=True, text=True, check=False)
    assert ended.returncode == 1, ended.stderr
    (stdout,) = run.glob("tasks/*/stdout")
    assert stdout.read_text() == "once\ntwice\n"
    assert len([*run.glob("tasks/*/attempt-*.json")]) == 1


@pytest.mark.kubernetes
def test_what_is_stopped_says_its_last_words_and_leaves_no_pod(cluster, tmp_path):
    job = "{name: x, command: 'trap \"echo ended; exit 7\" TERM; echo begun; sleep 100 & wait'}"
    options = {"kubeconfig": str(cluster.kubeconfig), "image": "python:3.12-slim"}
    case = ExecutorCase(find_executor("kubernetes"), tmp_path, options={"kubernetes": options})
    tasks = case.tasks(job)
    attempt = case.attempt(tasks[0])
    with case.watched(tasks) as watch:
        watch.start([attempt])
        watch.until_printed(attempt)
        watch.executor.stop()
        end = watch.finish([attempt])["x"]
    assert (end.outcome, end.cause, end.exit_code) == ("interrupted", "stop", 7)
    assert (attempt.directory / "stdout").read_text() == "begun\nended\n"
    assert not cluster.store.list(JOB, cluster.namespace)


@pytest.mark.kubernetes
def test_a_dry_run_prints_what_a_run_would_send_and_sends_nothing(cluster, tmp_path):
    job = tmp_path / "job.yaml"
    job.write_text("{name: x, command: 'true', sweep: {repeat: 3}, resources: {gpus: 1}}")
    command = [sys.executable, "-m", "tarmac", "run", str(job), "--dry-run", "--on", "kubernetes"]
    options = [
        *("--set", f"options.kubernetes.kubeconfig={cluster.kubeconfig}"),
        *("--set", "options.kubernetes.image=python:3.12-slim"),
    ]
    printed = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    assert printed.returncode == 0, printed.stderr
    _, _, text = printed.stdout.partition("---\n")
    manifest = yaml.safe_load(text)
    assert (manifest["kind"], manifest["spec"]["completions"]) == ("Job", 3)
    (container,) = manifest["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": "1"}
    assert not cluster.store.list(JOB, cluster.namespace)


@pytest.mark.kubernetes
def test_a_right_that_lacks_is_refused_with_the_role(cluster, tmp_path):
    cluster.access.deny("create", "secrets")
    job = tmp_path / "job.yaml"
    job.write_text("{name: x, command: 'true'}")
    command = [sys.executable, "-m", "tarmac", "run", str(job), "--on", "kubernetes"]
    options = [
        *("--output", str(tmp_path / "runs")),
        *("--set", f"options.kubernetes.kubeconfig={cluster.kubeconfig}"),
        *("--set", "options.kubernetes.image=python:3.12-slim"),
    ]
    refused = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "create secrets" in refused.stderr
    assert "kind: Role" in refused.stderr


@pytest.mark.kubernetes
def test_a_secret_of_the_namespaces_own_needs_no_place_on_this_machine(cluster, tmp_path):
    cluster.create_secret("hub", token="pssst-19")
    job = tmp_path / "job.yaml"
    command = [sys.executable, "-m", "tarmac", "run", str(job), "--on", "kubernetes"]
    options = [
        *("--output", str(tmp_path / "runs")),
        *("--set", f"options.kubernetes.kubeconfig={cluster.kubeconfig}"),
        *("--set", "options.kubernetes.image=python:3.12-slim"),
    ]
    ends = []
    for key in ("token", "other"):
        job.write_text(
            f"{{name: x, command: 'test ${{#B}} = 8', secrets: {{B: {{name: hub, key: {key}}}}}}}"
        )
        ends.append(
            subprocess.run([*command, *options], capture_output=True, text=True, check=False)
        )
    assert [end.returncode for end in ends] == [0, 2], ends
    assert "there is no key other in the Secret hub" in ends[1].stderr


@pytest.mark.kubernetes
def test_an_image_without_a_valid_name_fails_its_task_at_once(run_job):
    (end,) = run_job("{name: x, command: 'true'}", image="Bad Image").ends.values()
    assert (end.outcome, end.cause) == ("failed", "start")
    assert "its image has no valid name" in end.reason


@pytest.mark.kubernetes
def test_a_task_of_a_node_that_is_lost_begins_again_and_spends_no_retry(
    run_job, cluster, monkeypatch
):
    # Nobody on the node says that its pod has ended, so it is removed when it has been silent long.
    monkeypatch.setattr("tarmac.kubernetes.pods.LOST_NODE_S", 0.5)
    killed = []

    def kill(_):
        if not killed and any(p["status"].get("phase") == "Running" for p in cluster.pods()):
            killed.append("n1")
            cluster.nodes.add("n2")
            cluster.nodes.kill("n1")

    progress = run_job("{name: x, command: 'sleep 2; echo done'}", kill)
    (end,) = progress.ends.values()
    assert killed
    assert (end.outcome, end.reason) == ("succeeded", "")


def pod(**status):
    labels = {"batch.kubernetes.io/job-name": "j"}
    return {
        "metadata": {"name": "j-0-x", "labels": labels, "annotations": {}},
        "spec": {"nodeName": "n1"},
        "status": status,
    }


@pytest.mark.parametrize(
    ("reason", "message", "limit_s"),
    [
        ("CreateContainerConfigError", 'secret "x" not found', 120),
        ("CreateContainerConfigError", "failed to sync secret cache", None),
        ("ImagePullBackOff", "manifest unknown", 300),
        ("ErrImagePull", "toomanyrequests", None),
        ("CreateContainerError", "no such file", 0),
    ],
)
def test_what_keeps_a_pod_has_its_own_time(reason, message, limit_s):
    waiting = {"waiting": {"reason": reason, "message": message}}
    seen = keep_pod(pod(phase="Pending", containerStatuses=[{"name": "task", "state": waiting}]))
    assert seen.limit_s == limit_s
    assert message in seen.reason


def test_a_pod_that_succeeded_before_it_was_evicted_has_succeeded():
    evicted = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    statuses = [{"name": "task", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}]
    for phase, is_disrupted in (("Running", True), ("Succeeded", False)):
        seen = keep_pod(pod(phase=phase, conditions=[evicted], containerStatuses=statuses))
        assert (seen.disruption is not None) == is_disrupted


def test_an_eviction_for_a_pods_own_limit_is_no_end_of_its_agent():
    words = "Pod ephemeral local storage usage exceeds the total limit of containers 10Gi."
    statuses = [{"name": "task", "state": {"terminated": {"exitCode": 137}}}]
    seen = keep_pod(
        pod(phase="Failed", reason="Evicted", message=words, containerStatuses=statuses)
    )
    assert (seen.ending.cause, seen.ending.is_own_limit) == ("exit", True)
    assert seen.ending.words.startswith("it used more disk than its limit")


@pytest.mark.kubernetes
def test_what_uses_more_disk_than_its_limit_spends_its_retries(run_job, cluster):
    evicted = []

    def evict(_):
        names = {it["metadata"]["name"] for it in cluster.pods()} - {*evicted}
        logs = "".join(log.read_text() for log in run_job.run.glob("tasks/*/stdout"))
        if names and logs.count("start") > len(evicted):
            evicted.extend(names)
            cluster.evict(names.pop(), disruption=False)

    job = "{name: x, command: 'echo start; sleep 600', retries: {count: 1, backoff: 0.1}}"
    (end,) = run_job(job, evict).ends.values()
    assert (end.outcome, end.cause, end.attempts) == ("failed", "exit", 2)
    assert end.reason.startswith("it used more disk than its limit")


@pytest.mark.parametrize(
    ("ended", "cause", "words"),
    [
        ({"exitCode": 127, "message": "no Python"}, "start", "before its program began: no Python"),
        ({"exitCode": 137, "reason": "OOMKilled"}, "memory", "more memory than its limit"),
        ({"exitCode": 128, "reason": "StartError", "message": "no sh"}, "start", "no sh"),
    ],
)
def test_an_end_without_an_agents_word_is_told_by_kubernetes(ended, cause, words):
    statuses = [{"name": "task", "state": {"terminated": ended}}]
    ending = keep_pod(pod(phase="Failed", containerStatuses=statuses)).ending
    assert ending is not None
    assert ending.cause == cause
    assert words in ending.words
