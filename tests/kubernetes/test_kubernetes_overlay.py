"""`options.kubernetes.pod`: merged as kubectl merges, refused with its place in the job file."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest
import render_pod_fields
from made_pods import runner_template, task_template

from tarmac.errors import RequestError
from tarmac.jobs import parse_job
from tarmac.kubernetes import merged

# By kubectl 1.37.1: `kubectl patch --local -f BASE --type strategic -p OVERLAY -o json`.
RECORDED = Path(__file__).parent / "recordings/overlay.json"


def unordered(value):
    """Return an object whose lists of named items are sorted: kubectl keeps no order of these."""
    if isinstance(value, dict):
        return {key: unordered(part) for key, part in value.items()}
    if isinstance(value, list):
        items = [unordered(item) for item in value]
        is_named = bool(items) and all(isinstance(item, dict) and "name" in item for item in items)
        return sorted(items, key=lambda item: item["name"]) if is_named else items
    return value


def test_the_fields_of_a_pod_are_those_of_the_schema():
    assert render_pod_fields.FILE.read_text() == render_pod_fields.render(), (
        "run: python tests/kubernetes/render_pod_fields.py"
    )


def test_an_overlay_is_merged_as_kubectl_merges_it():
    recorded = json.loads(RECORDED.read_text())
    base = copy.deepcopy(recorded["base"])
    found = merged(base, recorded["overlay"])
    assert unordered(found) == unordered(recorded["merged"])
    assert base == recorded["base"]


def test_a_pod_gets_what_no_option_says(tmp_path):
    template = task_template(
        tmp_path,
        pod={
            "metadata": {"labels": {"team": "vision"}},
            "spec": {
                "hostNetwork": True,
                "containers": [
                    {
                        "name": "task",
                        "resources": {"limits": {"rdma/hca": 1}},
                        "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}},
                        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                    }
                ],
                "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
            },
        },
    )
    assert template["metadata"]["labels"] == {
        "tarmac.dev/run": "01234567",
        "tarmac.dev/job": "tarmac",
        "team": "vision",
    }
    spec = template["spec"]
    (container,) = spec["containers"]
    assert spec["hostNetwork"]
    assert spec["restartPolicy"] == "Never"
    assert container["resources"]["limits"] == {"rdma/hca": 1}
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["IPC_LOCK"]}
    assert [each["mountPath"] for each in container["volumeMounts"]][-1] == "/data"
    assert {each["name"] for each in spec["volumes"]} == {"chunk", "run", "data"}


def test_the_affinities_of_an_overlay_and_of_a_session_that_avoids_nodes_both_hold(tmp_path):
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    zones = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [z]}]} for z in "ab"]
    spread = {"topologyKey": "rack", "labelSelector": {"matchLabels": {"team": "vision"}}}
    affinity = {
        "nodeAffinity": {required: {"nodeSelectorTerms": zones}},
        "podAntiAffinity": {required: [spread]},
    }
    spec = task_template(tmp_path, nodes=2, excluded=("n1",), pod={"spec": {"affinity": affinity}})[
        "spec"
    ]
    terms = spec["affinity"]["nodeAffinity"][required]["nodeSelectorTerms"]
    # Any term is enough for the scheduler.
    avoided = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["n1"]}
    assert [term["matchExpressions"][0]["values"] for term in terms] == [["a"], ["b"]]
    assert all(term["matchExpressions"][-1] == avoided for term in terms)
    apart = spec["affinity"]["podAntiAffinity"][required]
    assert [each["topologyKey"] for each in apart] == ["rack", "kubernetes.io/hostname"]


def test_a_preference_of_nodes_leaves_what_the_session_avoids(tmp_path):
    wish = {"weight": 1, "preference": {"matchExpressions": [{"key": "z", "operator": "Exists"}]}}
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    affinity = {"nodeAffinity": {preferred: [wish]}}
    spec = task_template(tmp_path, excluded=("n1",), pod={"spec": {"affinity": affinity}})["spec"]
    merged_affinity = spec["affinity"]["nodeAffinity"]
    assert merged_affinity.pop(preferred) == [wish]
    assert "n1" in str(merged_affinity)


@pytest.mark.parametrize(
    ("pod", "words"),
    [
        ("{spec: {tolerationz: []}}", "did you mean 'tolerations'"),
        ("{spec: {nodeSelector: {gpu: 1}}}", "expected a text"),
        ("{spec: {hostNetwork: 'yes'}}", "expected true or false"),
        ("{spec: {priority: high}}", "expected a whole number"),
        ("{spec: {priority: true}}", "expected a whole number"),
        ("{spec: {volumes: {name: x}}}", "expected a list"),
        ("{spec: {volumes: [{emptyDir: {}}]}}", "name is missing"),
        ("{spec: {volumes: [null]}}", "is empty"),
        ("{spec: {affinity: [x]}}", "expected keys and their values"),
        ("{spec: {$patch: replace}}", "directive of kubectl"),
        ("{spec: {volumes: null}}", "only securityContext can be removed"),
        ("{spec: null}", "can be removed from the pod"),
        ("{kind: Pod}", "is no field of PodTemplateSpec"),
        ("[spec]", "expected keys and their values"),
        ("{spec: {restartPolicy: Always}}", "`retries`"),
        ("{spec: {activeDeadlineSeconds: 60}}", "`timeout`"),
        ("{spec: {terminationGracePeriodSeconds: 60}}", "10 s"),
        ("{spec: {hostname: a}}", "several nodes"),
        ("{spec: {subdomain: a}}", "several nodes"),
        ("{metadata: {name: a}}", "labels and annotations"),
        ("{metadata: {labels: {tarmac.dev/run: a}}}", "pods of a run"),
        ("{metadata: {labels: {job-name: a}}}", "pods of a Job"),
        ("{metadata: {labels: {kueue.x-k8s.io/queue-name: a}}}", "kubernetes.queue`"),
        ("{metadata: {annotations: {batch.kubernetes.io/x: a}}}", "Tarmac sets it"),
        ("{spec: {volumes: [{name: run, emptyDir: {}}]}}", "choose another name"),
        ("{spec: {containers: [{name: web}]}}", "restartPolicy: Always"),
        ("{spec: {containers: [{name: task, image: b}]}}", "environment: {image"),
        ("{spec: {containers: [{name: task, command: [a]}]}}", "`command` of the task"),
        ("{spec: {containers: [{name: task, args: [a]}]}}", "`command` of the task"),
        (
            "{spec: {containers: [{name: task, resources: {limits: {memory: 1Gi}}}]}}",
            "resources: {memory",
        ),
        (
            "{spec: {containers: [{name: task, resources: {requests: {cpu: 1}}}]}}",
            "resources: {cpus",
        ),
        (
            "{spec: {containers: [{name: task, resources: {limits: {nvidia.com/gpu: 1}}}]}}",
            "resources: {gpus",
        ),
        (
            "{spec: {containers: [{name: task, env: [{name: TARMAC_X, value: a}]}]}}",
            "Tarmac sets it itself",
        ),
        (
            "{spec: {containers: [{name: task, volumeMounts: [{mountPath: /tarmac/run/}]}]}}",
            "choose another path",
        ),
        ("{spec: {initContainers: [{name: check, image: b}]}}", "environment: {image"),
    ],
)
def test_what_is_wrong_in_an_overlay_is_said_with_its_place(pod, words):
    job = f"{{name: x, command: 'true', options: {{kubernetes: {{pod: {pod}}}}}}}"
    with pytest.raises(RequestError) as refused:
        parse_job(job)
    place, _, message = refused.value.message.partition(": options.kubernetes.pod")
    column = int(place.removeprefix("job:1:"))
    assert column >= job.index("pod:") + 1
    assert words in message


def test_each_line_of_a_file_with_faults_is_named():
    job = """\
name: x
command: "true"
options:
  kubernetes:
    volume: {claim: runs, path: /runs/}
    pod:
      spec:
        restartPolicy: Never
        containers:
          - name: task
            volumeMounts: [{name: a, mountPath: /runs}]
"""
    with pytest.raises(RequestError) as refused:
        parse_job(job)
    assert refused.value.message.startswith("job:8:9: options.kubernetes.pod.spec.restartPolicy: ")
    assert "job:11:38: options.kubernetes.pod.spec.containers[0].volumeMounts[0].mountPath" in (
        refused.value.hint
    )


def test_a_job_made_in_python_is_told_the_path(tmp_path):
    with pytest.raises(RequestError, match=r"task 'x': options\.kubernetes\.pod\.spec\.hostname"):
        task_template(tmp_path, pod={"spec": {"hostname": "a"}})


def test_a_runners_pod_has_a_part_of_its_own(tmp_path):
    part = {"metadata": {"labels": {"team": "vision"}}, "spec": {"priorityClassName": "high"}}
    template = runner_template(tmp_path, runner={"pod": part})
    assert template["metadata"]["labels"]["team"] == "vision"
    assert "tarmac.dev/job" in template["metadata"]["labels"]
    assert template["spec"]["priorityClassName"] == "high"
    job = (
        "{name: x, command: 'true', options: {kubernetes: {runner: {pod: {spec: {hostname: a}}}}}}"
    )
    with pytest.raises(RequestError, match=r"options\.kubernetes\.runner\.pod\.spec\.hostname"):
        parse_job(job)
