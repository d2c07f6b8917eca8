"""The emulator's Jobs and pods: they run, end and are counted as Kubernetes does it."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from emulator import JOB, POD, SECRET, Emulator, Outcome

from waiting import limit_s


def job(name: str, script: str, **spec: Any) -> dict[str, Any]:
    """Return an Indexed Job of shell scripts, each of whose indexes may fail alone."""
    pod = spec.pop("pod", {})
    container = {"name": "main", "image": "busybox", "command": ["sh", "-c", script]}
    container |= spec.pop("container", {})
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "completions": 1,
            "parallelism": 1,
            "completionMode": "Indexed",
            "backoffLimitPerIndex": 0,
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": {
                "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]
            },
            "template": {
                "spec": {"restartPolicy": "Never", "containers": [container]} | pod,
            },
        }
        | spec,
    }


def wait_until(cluster: Emulator, is_so: Callable[[], Any], timeout_s: float = 30) -> Any:
    """Return what a condition gives once it is true, looking after every change."""
    ends = time.monotonic() + limit_s(timeout_s)
    with cluster.store.changed:
        while not (found := is_so()):
            left = ends - time.monotonic()
            assert left > 0, [pod["status"] for pod in cluster.pods()]
            cluster.store.changed.wait(left)
    return found


def pipe_in_claim(cluster: Emulator) -> Path:
    """Make a named pipe in the claim ``c``, through which a program says that it can be asked."""
    path = cluster.claim("c") / "up"
    os.mkfifo(path)
    return path


def over(cluster: Emulator, name: str) -> Callable[[], Any]:
    """Return what gives a job once it is over."""

    def is_over() -> Any:
        found = cluster.get(JOB, name)
        conditions = (found or {}).get("status", {}).get("conditions") or ()
        return found if any(it["type"] in ("Complete", "Failed") for it in conditions) else None

    return is_over


def create(cluster: Emulator, thing: dict[str, Any]) -> dict[str, Any]:
    """Create an object as the administrator does, over HTTP."""
    prefix = "/apis/batch/v1" if thing["kind"] == "Job" else "/api/v1"
    path = f"{prefix}/namespaces/{cluster.namespace}/{thing['kind'].lower()}s"
    answer = cluster.admin.post(path, json=thing)
    assert answer.status_code == 201, answer.text
    return answer.json()


def terminated(pod: dict[str, Any]) -> dict[str, Any]:
    """Return how a pod's container ended."""
    return pod["status"]["containerStatuses"][0]["state"]["terminated"]


def test_each_index_ends_on_its_own_and_is_counted(cluster: Emulator) -> None:
    script = "echo index $JOB_COMPLETION_INDEX on $(hostname); exit $JOB_COMPLETION_INDEX"
    create(cluster, job("parts", script, completions=3, parallelism=2))
    status = wait_until(cluster, over(cluster, "parts"))["status"]
    assert (status["completedIndexes"], status["failedIndexes"]) == ("0", "1,2")
    assert (status["succeeded"], status["failed"]) == (1, 2)
    assert [it["type"] for it in status["conditions"]] == ["FailureTarget", "Failed"]
    pods = cluster.pods(job_name="parts")
    assert sorted(terminated(pod)["exitCode"] for pod in pods) == [0, 1, 2]
    first = next(pod for pod in pods if terminated(pod)["exitCode"] == 0)
    assert first["metadata"]["name"].startswith("parts-0-")
    assert "finalizers" not in first["metadata"] or not first["metadata"]["finalizers"]
    path = f"/api/v1/namespaces/default/pods/{first['metadata']['name']}/log"
    assert cluster.admin.get(path).text == "index 0 on parts-0\n"


def test_a_pod_sees_its_volumes_and_nothing_of_them_stays_on_the_machine(cluster: Emulator) -> None:
    cluster.create_secret("login", password="hunter2")
    script = "cat /etc/deep/secret/password; grep -c $(hostname) /etc/hosts;"
    script += f"ls {shlex.quote(str(cluster.kubeconfig))} 2>/dev/null || echo hidden;"
    script += "printf kept > $MESSAGE"
    wanted = job(
        "volumes",
        script,
        container={
            "volumeMounts": [{"name": "secret", "mountPath": "/etc/deep/secret"}],
            "env": [{"name": "MESSAGE", "value": "/dev/termination-log"}],
        },
        pod={"volumes": [{"name": "secret", "secret": {"secretName": "login"}}]},
    )
    create(cluster, wanted)
    wait_until(cluster, over(cluster, "volumes"))
    (pod,) = cluster.pods(job_name="volumes")
    assert terminated(pod)["message"] == "kept"
    name = pod["metadata"]["name"]
    text = cluster.admin.get(f"/api/v1/namespaces/default/pods/{name}/log").text
    assert text == "hunter21\nhidden\n"


def test_a_secret_that_comes_late_is_waited_for(cluster: Emulator) -> None:
    source = {"secretKeyRef": {"name": "late", "key": "word"}}
    create(
        cluster,
        job("late", "echo $WORD", container={"env": [{"name": "WORD", "valueFrom": source}]}),
    )

    def waiting() -> Any:
        for pod in cluster.pods(job_name="late"):
            for it in pod["status"].get("containerStatuses") or ():
                if it["state"].get("waiting", {}).get("reason") == "CreateContainerConfigError":
                    return it["state"]["waiting"]["message"]
        return None

    assert wait_until(cluster, waiting) == 'secret "late" not found'
    cluster.create_secret("late", word="now")
    status = wait_until(cluster, over(cluster, "late"))["status"]
    assert status["completedIndexes"] == "0"
    assert cluster.get(SECRET, "late")


@pytest.mark.parametrize("how", ["evict", "preempt"])
def test_a_pod_that_ends_for_others_needs_is_made_again(
    how: str, start_cluster: Callable[..., Emulator]
) -> None:
    cluster = start_cluster()
    up = pipe_in_claim(cluster)
    create(cluster, job("moved", "trap 'exit 3' TERM; [ -e /claim/again ] && exit 0; "
        "touch /claim/again; echo > /claim/up; while :; do sleep 0.05; done",
        container={"volumeMounts": [{"name": "claim", "mountPath": "/claim"}]},
        pod={"volumes": [{"name": "claim", "persistentVolumeClaim": {"claimName": "c"}}]},
    ))  # fmt: skip
    up.read_text()
    running = wait_until(cluster, lambda: _running(cluster, "moved"))
    getattr(cluster, how)(running["metadata"]["name"])
    status = wait_until(cluster, over(cluster, "moved"))["status"]
    assert status["conditions"][-1]["type"] == "Complete"
    assert not status.get("failed")
    assert cluster.store.get(POD, "default", running["metadata"]["name"]) is None


@pytest.mark.parametrize(
    ("script", "spec", "reason"),
    [
        (
            "trap exit TERM; while :; do sleep 0.05; done",
            # It may be asked before it has set the trap.
            {"activeDeadlineSeconds": 1, "pod": {"terminationGracePeriodSeconds": 1}},
            "DeadlineExceeded",
        ),
        ("false", {"completions": 3, "maxFailedIndexes": 0}, "MaxFailedIndexesExceeded"),
    ],
)
def test_a_job_that_may_not_go_on_fails_and_says_why(
    script: str, spec: dict[str, Any], reason: str, start_cluster: Callable[..., Emulator]
) -> None:
    cluster = start_cluster()
    create(cluster, job("ended", script, **spec))
    status = wait_until(cluster, over(cluster, "ended"))["status"]
    assert status["conditions"][-1]["type"] == "Failed"
    assert status["conditions"][-1]["reason"] == reason


def test_a_job_that_is_long_over_is_removed_with_its_pods(
    start_cluster: Callable[..., Emulator],
) -> None:
    cluster = start_cluster()
    create(cluster, job("swept", "true", ttlSecondsAfterFinished=1))
    wait_until(cluster, over(cluster, "swept"))
    wait_until(cluster, lambda: not cluster.get(JOB, "swept") and not cluster.pods())


def _running(cluster: Emulator, name: str) -> Any:
    for pod in cluster.pods(job_name=name):
        if pod["status"]["phase"] == "Running":
            return pod
    return None


def test_thousands_of_pods_are_counted_without_a_process(
    start_cluster: Callable[..., Emulator],
) -> None:
    cluster = start_cluster(nodes=0)
    cluster.hollow.add("h1", {}, lambda pod: Outcome(int(index(pod) == "7")))
    create(cluster, job("many", "true", completions=1000, parallelism=200))
    status = wait_until(cluster, over(cluster, "many"), timeout_s=120)["status"]
    assert status["completedIndexes"] == "0-6,8-999"
    assert status["failedIndexes"] == "7"


def index(pod: dict[str, Any]) -> str:
    """Return which index of its job a pod is."""
    return str(pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"])


def test_a_job_of_a_queue_waits_begins_is_evicted_and_begins_again(cluster: Emulator) -> None:
    up = pipe_in_claim(cluster)
    wanted = job("queued", "trap exit TERM; [ -e /claim/go ] && exit; echo > /claim/up; "
        "while :; do sleep 0.05; done",
        container={"volumeMounts": [{"name": "claim", "mountPath": "/claim"}]},
        pod={"volumes": [{"name": "claim", "persistentVolumeClaim": {"claimName": "c"}}]},
    )  # fmt: skip
    wanted["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "team"}
    create(cluster, wanted)

    def is_suspended() -> Any:
        conditions = (cluster.get(JOB, "queued") or {})["status"].get("conditions") or ()
        return any(it["type"] == "Suspended" and it["status"] == "True" for it in conditions)

    wait_until(cluster, is_suspended)
    assert cluster.pods(job_name="queued") == []
    cluster.kueue.admit("queued")
    up.read_text()
    wait_until(cluster, lambda: _running(cluster, "queued"))
    cluster.kueue.evict("queued")
    wait_until(cluster, lambda: is_suspended() and not cluster.pods(job_name="queued"))
    (cluster.claim("c") / "go").touch()
    cluster.kueue.admit("queued")
    status = wait_until(cluster, over(cluster, "queued"))["status"]
    assert status["completedIndexes"] == "0"
    assert "failed" not in status
