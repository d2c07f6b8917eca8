"""Every row of what Kubernetes says of pods, Jobs and requests."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tarmac.kubernetes import (
    DISRUPTIONS,
    ENDS,
    UNFIT,
    WAITS,
    Refused,
    Right,
    explain_creation,
    explain_job,
    explain_pod,
    explain_quota,
    explain_refusal,
    role_for,
)


def pod(**status: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a"}, "spec": {"nodeName": "n1"}, "status": status}


def held(reason: str, message: str = "") -> dict[str, Any]:
    waiting = {"reason": reason, "message": message}
    return pod(phase="Pending", containerStatuses=[{"name": "main", "state": {"waiting": waiting}}])


def ended(code: int, reason: str = "Error", **status: Any) -> dict[str, Any]:
    over = {"exitCode": code, "reason": reason, "message": status.pop("said", "")}
    phase = status.pop("phase", "Succeeded" if code == 0 else "Failed")
    state = [{"name": "main", "state": {"terminated": over}}]
    return pod(phase=phase, containerStatuses=state, **status)


def disrupted(reason: str) -> dict[str, Any]:
    return {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": "so"}


def test_a_program_that_ended_says_how() -> None:
    done = explain_pod(ended(0, "Completed", said='{"x": 1}'))
    assert (done.phase, done.cause, done.exit_code, done.message) == ("over", None, 0, '{"x": 1}')
    failed = explain_pod(ended(3))
    assert (failed.cause, failed.exit_code, failed.host) == ("exit", 3, "n1")
    assert explain_pod(ended(143)).words == "was ended by signal 15"
    assert explain_pod(ended(143)).cause == "signal"
    assert explain_pod(ended(129)).words == "was ended by signal 1"
    assert explain_pod(ended(128)).words == "ended with exit code 128"
    assert explain_pod(ended(137, "OOMKilled")).cause == "memory"
    assert explain_pod(ended(137)).cause == "signal"


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("PreemptionByScheduler", "preempted"),
        ("EvictionByEvictionAPI", "evicted"),
        ("DeletionByTaintManager", "node"),
        ("DeletionByPodGC", "node"),
        ("TerminationByKubelet", "evicted"),
        ("SomethingNew", "evicted"),
    ],
)
def test_a_disruption_is_a_disturbance(reason: str, cause: str) -> None:
    state = explain_pod(ended(143, conditions=[disrupted(reason)]))
    assert (state.phase, state.cause, state.is_disturbance) == ("over", cause, True)


def test_a_program_that_ended_well_while_it_was_disrupted_has_ended_well() -> None:
    state = explain_pod(ended(0, conditions=[disrupted("PreemptionByScheduler")]))
    assert (state.phase, state.cause) == ("over", None)


def test_an_eviction_for_its_own_limit_is_a_failure() -> None:
    words = "Pod ephemeral local storage usage exceeds the total limit of containers 10Gi."
    disk = explain_pod(ended(137, reason="") | {})
    assert disk.cause == "signal"
    state = explain_pod(pod(phase="Failed", reason="Evicted", message=words))
    assert (state.cause, state.is_disturbance) == ("exit", False)
    assert "10Gi" in state.words
    memory = "Memory-backed volume usage exceeds the memory limit"
    assert explain_pod(pod(phase="Failed", reason="Evicted", message=memory)).cause == "memory"


@pytest.mark.parametrize(
    "reason",
    ["OutOfcpu", "OutOfmemory", "OutOfnvidia.com/gpu", "NodeAffinity", "UnexpectedAdmissionError"],
)
def test_a_race_for_a_node_is_a_disturbance(reason: str) -> None:
    state = explain_pod(pod(phase="Failed", reason=reason, message="0 left"))
    assert (state.cause, state.is_disturbance) == ("evicted", True)


@pytest.mark.parametrize("reason", ["StartError", "ContainerCannotRun"])
def test_a_command_that_cannot_start_says_why(reason: str) -> None:
    state = explain_pod(ended(128, reason, said='exec: "nothing": not found in $PATH'))
    assert state.cause == "start"
    assert "nothing" in state.words


def test_a_wrong_image_is_waited_for_five_minutes() -> None:
    state = explain_pod(held("ErrImagePull", "manifest for x:1 not found: manifest unknown"))
    assert (state.phase, state.matter, state.cause, state.limit_s) == (
        "waiting",
        "image",
        "start",
        300,
    )
    assert "tag of `image`" in state.words
    login = explain_pod(held("ImagePullBackOff", "ErrImagePull: 401 unauthorized"))
    assert login.limit_s == 300
    assert "docker-registry" in login.words


def test_a_busy_registry_is_waited_for() -> None:
    state = explain_pod(held("ErrImagePull", "429 toomanyrequests: slow down"))
    assert (state.matter, state.limit_s, state.cause) == ("image", None, None)


def test_a_back_off_takes_the_registrys_words_from_events() -> None:
    events = [
        {"reason": "Failed", "message": 'Failed to pull image "x": repository does not exist'},
        {"reason": "Failed", "message": "Error: ImagePullBackOff"},
    ]
    state = explain_pod(held("ImagePullBackOff", 'Back-off pulling image "x"'), events=events)
    assert "does not exist" in state.words


@pytest.mark.parametrize(
    "reason", ["InvalidImageName", "CreateContainerError", "RunContainerError"]
)
def test_what_can_never_start_fails_at_once(reason: str) -> None:
    state = explain_pod(held(reason, "no such command"))
    assert (state.phase, state.cause, state.limit_s) == ("waiting", "start", 0)


def test_a_missing_secret_may_still_come() -> None:
    state = explain_pod(held("CreateContainerConfigError", 'secret "token" not found'))
    assert (state.matter, state.cause, state.limit_s) == ("configuration", "start", 120)
    assert state.words.endswith('secret "token" not found; create it, in the same namespace')
    missing = "couldn't find key PASSWORD in Secret default/token"
    other = explain_pod(held("CreateContainerConfigError", missing))
    assert other.words.endswith(f"{missing}; create it, in the same namespace")
    assert "create it" not in explain_pod(held("CreateContainerConfigError", "denied")).words
    cache = "failed to sync secret cache: timed out waiting for the condition"
    assert explain_pod(held("CreateContainerConfigError", cache)).limit_s is None


def test_no_room_is_told_in_the_schedulers_words() -> None:
    message = (
        "0/12 nodes are available: 12 Insufficient nvidia.com/gpu. preemption: 0/12 nodes are "
        "available: 12 No preemption victims found for incoming pod."
    )
    at = "2026-11-01T00:00:00Z"
    scheduled = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": message,
        "lastTransitionTime": at,
    }
    state = explain_pod(pod(phase="Pending", conditions=[scheduled]))
    sentence = "0/12 nodes: 12 Insufficient nvidia.com/gpu"
    assert state.words == f"waits for a node with free resources: {sentence}"
    assert (state.matter, state.since, state.limit_s) == ("room", at, None)


def test_a_node_that_does_not_answer_is_given_time() -> None:
    lost = pod(
        phase="Running",
        conditions=[disrupted("DeletionByTaintManager")],
        containerStatuses=[{"name": "main", "state": {"running": {}}}],
    )
    lost["metadata"]["deletionTimestamp"] = "2026-11-01T00:00:00Z"
    for each in (lost, pod(phase="Unknown")):
        state = explain_pod(each)
        assert (state.phase, state.matter, state.cause) == ("running", "node", "node")
        assert state.limit_s == 600


def test_a_failed_check_is_its_nodes_fault() -> None:
    def prepared(name: str, code: int = UNFIT) -> dict[str, Any]:
        state = {"terminated": {"exitCode": code, "reason": "Error", "message": "GPU 0 fell off"}}
        main = {"name": "main", "state": {"waiting": {"reason": "PodInitializing"}}}
        return pod(
            phase="Failed",
            initContainerStatuses=[{"name": name, "state": state}],
            containerStatuses=[main],
        )

    check = explain_pod(prepared("check"))
    assert (check.cause, check.is_disturbance, check.is_unfit) == ("node", True, True)
    assert "GPU 0 fell off" in check.words
    assert explain_pod(prepared("stage")).cause == "start"
    # An image without Tarmac says nothing of its node.
    without = explain_pod(prepared("check", 1))
    assert (without.cause, without.is_disturbance, without.is_unfit) == ("start", False, False)


def test_a_pod_that_says_nothing_of_its_end_has_not_succeeded() -> None:
    assert explain_pod(pod(phase="Failed")).cause == "lost"
    assert explain_pod({"metadata": {}}).phase == "waiting"
    assert explain_pod(ended(0, phase="Failed")).cause == "exit"


def test_every_row_ends_or_waits_as_it_says() -> None:
    for reason, wait in WAITS.items():
        if wait.matter not in ("", "room"):
            assert explain_pod(held(reason)).matter == wait.matter, reason
    for reason, end in ENDS.items():
        assert explain_pod(ended(137, reason)).cause == end.cause, reason
    for reason, end in DISRUPTIONS.items():
        assert explain_pod(ended(137, conditions=[disrupted(reason)])).words.startswith(end.words)


def test_a_quota_is_told_in_numbers() -> None:
    message = (
        'Error creating: pods "a-0" is forbidden: exceeded quota: team, requested: '
        "requests.nvidia.com/gpu=1,cpu=2, used: requests.nvidia.com/gpu=8,cpu=3, limited: "
        "requests.nvidia.com/gpu=8,cpu=4"
    )
    words = explain_quota(message)
    assert words is not None
    assert words.startswith("quota team: 8 of 8 requests.nvidia.com/gpu are in use, 1 more")
    event = {"reason": "FailedCreate", "message": message}
    assert explain_creation([event]) == words
    assert explain_creation([event, {"reason": "SuccessfulCreate"}]) is None


def test_each_try_to_make_a_pod_says_the_same_words() -> None:
    said = 'violates PodSecurity "restricted:latest": runAsNonRoot != true'
    tries = [
        {"reason": "FailedCreate", "message": f'Error creating: pods "{pod}" is forbidden: {said}'}
        for pod in ("a-0-r8g9k", "a-0-22l22")
    ]
    assert [explain_creation([event]) for event in tries] == [said, said]


def test_a_job_says_how_it_ended() -> None:
    def job(kind: str, reason: str = "", **spec: Any) -> dict[str, Any]:
        condition = {"type": kind, "status": "True", "reason": reason, "message": "quoted"}
        return {"spec": spec, "status": {"conditions": [condition]}}

    assert explain_job(job("Complete")).phase == "completed"
    state = explain_job(job("Failed", "DeadlineExceeded"))
    assert state.phase == "failed"
    assert "quoted" in state.words
    assert explain_job(job("FailureTarget", "MaxFailedIndexesExceeded")).phase == "failed"
    assert explain_job(job("Suspended", suspend=True)).phase == "held"
    assert explain_job({"spec": {}}).phase == "running"


def test_a_right_that_lacks_comes_with_its_role() -> None:
    message = (
        'jobs.batch is forbidden: User "system:serviceaccount:team:bot" cannot create resource '
        '"jobs" in API group "batch" in the namespace "team"'
    )
    told = explain_refusal(Refused(403, "Forbidden", message), "team")
    assert told.words == "system:serviceaccount:team:bot may not create jobs in namespace team"
    role, binding = yaml.safe_load_all(told.hint.partition("\n")[2])
    assert role["rules"] == [{"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create"]}]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "bot", "namespace": "team"}]
    text = role_for([Right("get", "pods/log"), Right("list", "pods")], "team")
    assert len(yaml.safe_load(text)["rules"]) == 2


@pytest.mark.parametrize(
    ("message", "advice"),
    [
        ('namespaces "tema" not found', "kubectl get namespaces"),
        ('admission webhook "policy.example" denied the request: no', "policy"),
        ('Internal error occurred: failed calling webhook "x"', "does not answer"),
        ('pods "a" is forbidden: violates PodSecurity "restricted:latest": x', "profile"),
        ('pods "a" is forbidden: failed quota: q: must specify limits.cpu', "cpus"),
        ('strict decoding error: unknown field "spec.x"', "1.29"),
        ("something new", "Forbidden"),
    ],
)
def test_a_refusal_says_what_to_do(message: str, advice: str) -> None:
    assert advice in explain_refusal(Refused(403, "Forbidden", message), "team").hint
