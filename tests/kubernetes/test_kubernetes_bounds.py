"""What a namespace can never let start is said before anything starts."""

from __future__ import annotations

import pytest

from tarmac.errors import RequestError
from tarmac.jobs import Job, prepare
from tarmac.kubernetes import explain_quota, why_out_of_bounds


def pod(*resources):
    return {"containers": [{"name": f"c{n}", "resources": it} for n, it in enumerate(resources)]}


def quota(hard, **spec):
    return {"metadata": {"name": "team"}, "spec": {"hard": hard, **spec}}


def bound(kind="Container", **limits):
    limit = {"type": kind, **limits}
    return {"metadata": {"name": "sizes"}, "spec": {"limits": [limit]}}


ASKED = {"requests": {"cpu": "2", "memory": "2Gi"}, "limits": {"memory": "2Gi", "x/gpu": "2"}}


@pytest.mark.parametrize(
    ("hard", "words"),
    [
        ({"requests.cpu": "2"}, ""),
        ({"requests.cpu": "1500m"}, "it asks for 2 of requests.cpu, and 1500m is the limit"),
        ({"cpu": "1"}, "it asks for 2 of cpu, and 1 is the limit (quota team)"),
        ({"limits.memory": "1Gi"}, "it asks for 2Gi of limits.memory, and 1Gi is the limit"),
        ({"memory": "2Gi"}, ""),
        ({"limits.x/gpu": "1"}, "2 of limits.x/gpu"),
        ({"pods": "0"}, "it asks for 1 of pods, and 0 is the limit"),
        ({"count/pods": "1"}, ""),
        ({"secrets": "0", "count/jobs.batch": "0"}, ""),
        ({"limits.cpu": "8"}, "quota team requires limits.cpu of every container"),
        ({"requests.ephemeral-storage": "1Gi"}, "requires requests.ephemeral-storage"),
        ({"requests.nvidia.com/gpu": "0"}, ""),
    ],
)
def test_more_than_a_quota_has_in_all_never_starts(hard, words):
    found = why_out_of_bounds(pod(ASKED), 1, [quota(hard)], [])
    assert (found == "") if not words else (words in found)


def test_pods_of_several_nodes_count_together():
    hard = {"requests.cpu": "3"}
    assert why_out_of_bounds(pod(ASKED), 1, [quota(hard)], []) == ""
    assert "it asks for 4 of requests.cpu" in why_out_of_bounds(pod(ASKED), 2, [quota(hard)], [])
    assert "2 of pods" in why_out_of_bounds(pod(ASKED), 2, [quota({"pods": "1"})], [])


def test_a_quota_of_a_scope_is_for_some_pods_only():
    scoped = quota({"pods": "0"}, scopes=["BestEffort"])
    classes = quota({"pods": "0"}, scopeSelector={"matchExpressions": []})
    assert why_out_of_bounds(pod(ASKED), 1, [scoped, classes], []) == ""


@pytest.mark.parametrize("default", ["default", "max"])
def test_a_range_gives_what_a_quota_wants_of_every_container(default):
    ranges = [bound(**{default: {"cpu": "4"}})]
    assert why_out_of_bounds(pod(ASKED), 1, [quota({"limits.cpu": "8"})], ranges) == ""


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        (bound(max={"cpu": "2"}), ""),
        (bound(max={"cpu": "1"}), "it asks for 2 of cpu, and 1 is the most (limit range sizes"),
        (bound(max={"memory": "1Gi"}), "it asks for 2Gi of memory, and 1Gi is the most"),
        (bound(min={"cpu": "4"}), "it asks for 2 of cpu, and 4 is the least"),
        (bound(min={"ephemeral-storage": "1Gi"}), ""),
        (bound("Pod", max={"cpu": "3"}), "it asks for 4 of cpu, and 3 is the most"),
        (bound("Container", max={"cpu": "3"}), ""),
        (bound("PersistentVolumeClaim", max={"storage": "1Gi"}), ""),
    ],
)
def test_more_or_less_than_a_limit_range_allows_never_starts(limit, words):
    found = why_out_of_bounds(pod(ASKED, ASKED), 1, [], [limit])
    assert (found == "") if not words else (words in found)


def test_an_event_of_a_quota_that_is_too_small_says_so():
    said = (
        'pods "a" is forbidden: exceeded quota: team, requested: requests.cpu=4, '
        "used: requests.cpu=0, limited: requests.cpu=2"
    )
    assert explain_quota(said) == (
        "quota team never lets it start: the limit of requests.cpu is 2, and 4 is requested"
    )
    assert "in use" in explain_quota(said.replace("requests.cpu=4", "requests.cpu=1"))


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (
            {"kind": "ResourceQuota", "spec": {"hard": {"requests.cpu": "1"}}},
            "never lets it start: it asks for 4 of requests.cpu, and 1 is the limit (quota a)",
        ),
        (
            {"kind": "LimitRange", "spec": {"limits": [{"type": "Pod", "max": {"cpu": "2"}}]}},
            "never lets it start: it asks for 4 of cpu, and 2 is the most (limit range a, per pod)",
        ),
    ],
)
def test_a_run_is_refused_before_anything_starts(start_cluster, tmp_path, made, words):
    cluster = start_cluster(nodes=0)
    plural = {"ResourceQuota": "resourcequotas", "LimitRange": "limitranges"}[made["kind"]]
    path = f"/api/v1/namespaces/{cluster.namespace}/{plural}"
    thing = {"apiVersion": "v1", "metadata": {"name": "a"}, **made}
    assert cluster.admin.post(path, json=thing).status_code == 201
    given = {"kubeconfig": str(cluster.kubeconfig), "image": "i"}
    job = Job(name="x", command=("true",), resources={"cpus": 4}, options={"kubernetes": given})
    with pytest.raises(RequestError, match="task 'x'") as refused:
        prepare(job, tmp_path, executor="kubernetes")
    assert words in refused.value.message
    # Who may not look is not told.
    for right in ("resourcequotas", "limitranges"):
        cluster.access.deny("list", right)
    prepare(job, tmp_path, executor="kubernetes")
