"""The emulator's nodes: what a kubelet and a scheduler say when a pod does not simply run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from emulator import NODE, POD, Emulator
from test_emulator_jobs import create, job, over, terminated, wait_until

pytestmark = pytest.mark.kubernetes

_LOOP = "while :; do sleep 0.05; done"


def waiting(cluster: Emulator, name: str, reason: str) -> Callable[[], Any]:
    """Return what gives the words of a container that waits for a reason."""

    def look() -> Any:
        for pod in cluster.pods(job_name=name):
            for container in pod["status"].get("containerStatuses") or ():
                state = container["state"].get("waiting", {})
                if state.get("reason") == reason:
                    return state["message"]
        return None

    return look


def phase(cluster: Emulator, name: str, wanted: str) -> Callable[[], Any]:
    """Return what gives a pod of a job in a phase."""

    def look() -> Any:
        pods = cluster.pods(job_name=name)
        return next((pod for pod in pods if pod["status"]["phase"] == wanted), None)

    return look


def test_a_pod_that_no_node_has_room_for_is_told_so(cluster: Emulator) -> None:
    limits = {"limits": {"nvidia.com/gpu": "3"}}
    create(cluster, job("big", "true", container={"resources": limits}))

    def refused() -> Any:
        for pod in cluster.pods(job_name="big"):
            for it in pod["status"].get("conditions") or ():
                if it["type"] == "PodScheduled" and it.get("reason") == "Unschedulable":
                    return it["message"]
        return None

    assert wait_until(cluster, refused) == (
        "0/1 nodes are available: 1 Insufficient nvidia.com/gpu. no new claims to deallocate, "
        "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )
    cluster.nodes.add("n2", capacity={"nvidia.com/gpu": "4"})
    wait_until(cluster, over(cluster, "big"))
    assert cluster.pods(job_name="big")[0]["spec"]["nodeName"] == "n2"


def test_pods_share_no_gpu_and_run_no_more_than_there_are(cluster: Emulator) -> None:
    limits = {"limits": {"nvidia.com/gpu": "1"}}
    script = "printf %s $NVIDIA_VISIBLE_DEVICES > /dev/termination-log; sleep 0.2"
    wanted = job("gpus", script, completions=4, parallelism=4, container={"resources": limits})
    create(cluster, wanted)
    wait_until(cluster, over(cluster, "gpus"))
    given = [terminated(pod)["message"] for pod in cluster.pods(job_name="gpus")]
    assert len(given) == 4
    assert len(set(given)) == 2
    assert all(it.startswith("GPU-") for it in given)


def test_an_image_that_is_missing_is_waited_for(cluster: Emulator) -> None:
    create(cluster, job("pull", "true", container={"image": "missing.invalid/a:1"}))
    words = wait_until(cluster, waiting(cluster, "pull", "ImagePullBackOff"))
    assert words.startswith('Back-off pulling image "missing.invalid/a:1": ErrImagePull: ')
    cluster.nodes.running["n1"].entrypoints["missing.invalid/a:1"] = []
    status = wait_until(cluster, over(cluster, "pull"))["status"]
    assert status["completedIndexes"] == "0"


@pytest.mark.parametrize(
    ("container", "reason", "words"),
    [
        ({"image": "Bad Image"}, "InvalidImageName", "couldn't parse image name"),
        ({"command": []}, "CreateContainerError", "no command specified"),
    ],
)
def test_a_container_that_cannot_be_made_waits(
    cluster: Emulator, container: dict[str, Any], reason: str, words: str
) -> None:
    create(cluster, job("odd", "true", container=container))
    assert words in wait_until(cluster, waiting(cluster, "odd", reason))


def test_a_command_that_is_not_there_is_a_start_error(cluster: Emulator) -> None:
    create(cluster, job("absent", "", container={"command": ["no-such-program"]}))
    wait_until(cluster, over(cluster, "absent"))
    ended = terminated(cluster.pods(job_name="absent")[0])
    assert (ended["reason"], ended["exitCode"]) == ("StartError", 128)
    assert 'exec: "no-such-program": executable file not found in $PATH' in ended["message"]


def test_a_container_over_its_memory_limit_is_killed(cluster: Emulator) -> None:
    wanted = job(
        "hungry",
        "",
        container={
            "command": ["python3", "-c", "b = bytearray(300 << 20); import signal; signal.pause()"],
            "resources": {"limits": {"memory": "60Mi"}},
        },
    )
    create(cluster, wanted)
    wait_until(cluster, over(cluster, "hungry"))
    ended = terminated(cluster.pods(job_name="hungry")[0])
    assert (ended["reason"], ended["exitCode"]) == ("OOMKilled", 137)


def test_a_deleted_pod_is_asked_to_end_and_then_ended(cluster: Emulator) -> None:
    script = f"trap 'echo asked; exit 7' TERM; echo ready; {_LOOP}"
    create(cluster, job("asked", script))
    pod = wait_until(cluster, phase(cluster, "asked", "Running"))
    name = pod["metadata"]["name"]
    path = f"/api/v1/namespaces/default/pods/{name}/log"
    with cluster.admin.stream("GET", path, params={"follow": "true"}) as log:
        lines = log.iter_lines()
        assert next(lines) == "ready"
        cluster.delete(POD, name)
        assert list(lines) == ["asked"]
    status = wait_until(cluster, over(cluster, "asked"))["status"]
    assert status["failedIndexes"] == "0"


def test_a_pod_that_is_evicted_for_its_own_use_fails_for_good(cluster: Emulator) -> None:
    create(cluster, job("greedy", _LOOP))
    pod = wait_until(cluster, phase(cluster, "greedy", "Running"))
    cluster.evict(pod["metadata"]["name"], disruption=False)
    assert wait_until(cluster, over(cluster, "greedy"))["status"]["failedIndexes"] == "0"
    assert cluster.pods(job_name="greedy")[0]["status"]["reason"] == "Evicted"


def test_a_pod_that_its_node_turns_away_fails(cluster: Emulator) -> None:
    cluster.nodes.running["n1"].refuse_next = "OutOfcpu"
    create(cluster, job("raced", "true"))
    pod = wait_until(cluster, phase(cluster, "raced", "Failed"))
    assert pod["status"]["reason"] == "OutOfcpu"
    assert "Node didn't have enough resource: cpu" in pod["status"]["message"]


def test_the_pods_of_a_dead_node_run_elsewhere_once_it_is_removed(
    start_cluster: Callable[..., Emulator],
) -> None:
    cluster = start_cluster(nodes=1)
    create(cluster, job("lost", f"[ $NODE = n2 ] || {_LOOP}", container={"env": [
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]}))  # fmt: skip
    pod = wait_until(cluster, phase(cluster, "lost", "Running"))
    cluster.nodes.add("n2")
    cluster.nodes.kill("n1")
    dead = cluster.store.get(POD, "default", pod["metadata"]["name"])
    assert dead is not None
    (target,) = [it for it in dead["status"]["conditions"] if it["type"] == "DisruptionTarget"]
    assert target["reason"] == "DeletionByTaintManager"
    assert "deletionTimestamp" in dead["metadata"]
    node = cluster.store.get(NODE, "", "n1")
    assert node is not None
    assert node["spec"]["taints"][0]["key"] == "node.kubernetes.io/unreachable"
    cluster.nodes.remove("n1")
    status = wait_until(cluster, over(cluster, "lost"))["status"]
    assert status["completedIndexes"] == "0"


def test_pods_of_a_job_find_each_other_by_name(cluster: Emulator) -> None:
    script = (
        "until grep -q pair-0.peers /etc/hosts && grep -q pair-1.peers /etc/hosts; "
        "do sleep 0.05; done; getent hosts pair-0.peers > /dev/termination-log; "
        "touch /claim/$JOB_COMPLETION_INDEX; "
        "until [ -e /claim/0 ] && [ -e /claim/1 ]; do sleep 0.05; done"
    )
    claim = {"name": "claim", "persistentVolumeClaim": {"claimName": "met"}}
    wanted = job(
        "pair",
        script,
        completions=2,
        parallelism=2,
        container={"volumeMounts": [{"name": "claim", "mountPath": "/claim"}]},
        pod={"subdomain": "peers", "volumes": [claim]},
    )
    create(cluster, wanted)
    wait_until(cluster, over(cluster, "pair"))
    said = {terminated(pod)["message"].split()[0] for pod in cluster.pods(job_name="pair")}
    assert len(said) == 1
    assert said.pop().startswith("127.")


def test_a_sidecar_runs_beside_and_ends_after(cluster: Emulator) -> None:
    shared = [{"name": "shared", "mountPath": "/shared"}]
    sidecar = {
        "name": "keep",
        "image": "busybox",
        "restartPolicy": "Always",
        "command": ["sh", "-c", f"trap 'cat /shared/result; exit' TERM; touch /shared/up; {_LOOP}"],
        "volumeMounts": shared,
    }
    script = "until [ -e /shared/up ]; do sleep 0.05; done; echo 42 > /shared/result"
    wanted = job(
        "beside",
        script,
        container={"volumeMounts": shared},
        pod={"initContainers": [sidecar], "volumes": [{"name": "shared", "emptyDir": {}}]},
    )
    create(cluster, wanted)
    status = wait_until(cluster, over(cluster, "beside"))["status"]
    assert status["conditions"][-1]["type"] == "Complete"
    (pod,) = cluster.pods(job_name="beside")
    path = f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}/log"
    assert cluster.admin.get(path, params={"container": "keep"}).text == "42\n"
