"""What a cluster gets, against the schemas of the three newest versions of Kubernetes."""

from __future__ import annotations

import dataclasses

import kubernetes_validate
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tarmac.errors import RequestError
from tarmac.executors.kubernetes.demand import Demand, demand_of
from tarmac.executors.kubernetes.manifests import (
    Unit,
    config_manifest,
    job_manifest,
    secret_manifest,
    service_manifest,
)
from tarmac.executors.kubernetes.pods import keep_job
from tarmac.jobs import parse_job, plan_tasks

NEWEST = sorted(
    {tuple(map(int, name.split(".")[:2])) for name in kubernetes_validate.utils.all_versions()}
)[-3:]

NAMES = st.from_regex(r"\A[a-z]([a-z0-9-]{0,20}[a-z0-9])?\Z")

DEMANDS = st.builds(
    Demand,
    image=st.sampled_from(["python:3.12-slim", "registry.example/team/x@sha256:" + "0" * 64]),
    cpus=st.floats(0.001, 256),
    memory=st.none() | st.integers(1, 2**42),
    shm=st.none() | st.integers(1, 2**36),
    gpus=st.integers(0, 16),
    gpu_resource=st.sampled_from(["nvidia.com/gpu", "amd.com/gpu", "nvidia.com/mig-3g.40gb"]),
    user=st.sampled_from(["", "1000", "1000:100"]),
    claim=st.sampled_from(["", "runs"]),
    path=st.just("/runs"),
    queue=st.just("") | NAMES,
    node_selector=st.dictionaries(NAMES, NAMES, max_size=3),
    tolerations=st.lists(
        st.fixed_dictionaries({"key": NAMES, "operator": st.just("Exists")}), max_size=2
    ).map(tuple),
    priority_class=st.just("") | NAMES,
    pull_secrets=st.lists(NAMES, max_size=2).map(tuple),
    secrets=st.dictionaries(st.sampled_from(["TOKEN", "KEY"]), st.tuples(NAMES, NAMES), max_size=2),
    secrets_from_here=st.lists(st.sampled_from(["VAULT", "PASSWORD"]), unique=True, max_size=2).map(
        tuple
    ),
    queue_priority=st.just("") | NAMES,
    service_account=st.just("") | NAMES,
    check_image=st.just("") | st.just("registry.example/tarmac:1"),
)


def check(manifest):
    for version in NEWEST:
        text = ".".join(map(str, version))
        kubernetes_validate.validate(manifest, text, strict=True)


@settings(max_examples=40)
@given(DEMANDS, st.integers(1, 1000), st.none() | st.integers(1, 2000), st.lists(NAMES, max_size=2))
def test_every_manifest_is_valid(demand, size, most_at_once, excluded):
    unit = Unit("tarmac-01234567-0000", "01234567", "nonce", size, ("sh", "-c", "true"))
    job = job_manifest(unit, demand, most_at_once=most_at_once, excluded=excluded)
    check(job)
    made = {**job, "metadata": {**job["metadata"], "uid": "u-1"}}
    check(config_manifest(made, {"agent.pyz": b"x"}))
    check(secret_manifest(made, {"TOKEN": b"x"}))
    limits = job["spec"]["template"]["spec"]["containers"][0]["resources"].get("limits", {})
    requests = job["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]
    assert limits.items() <= requests.items()
    if demand.memory is not None:
        assert int(limits["memory"]) >= demand.memory + (demand.shm or 0)


@settings(max_examples=40)
@given(DEMANDS, st.integers(2, 1000))
def test_pods_that_are_one_attempt_are_valid_and_end_together(demand, nodes):
    unit = Unit("tarmac-01234567-0000", "01234567", "nonce", 1, ("sh",), nodes)
    job = job_manifest(unit, demand)
    check(job)
    service = service_manifest({**job, "metadata": {**job["metadata"], "uid": "u-1"}})
    check(service)
    spec = job["spec"]
    assert (spec["completions"], spec["parallelism"], spec["backoffLimit"]) == (nodes, nodes, 0)
    assert spec["template"]["spec"]["subdomain"] == service["metadata"]["name"]
    env = spec["template"]["spec"]["containers"][0]["env"]
    (meeting,) = [each["value"] for each in env if each["name"] == "TARMAC_RENDEZVOUS"]
    port, token, first = meeting.split()
    assert 20_000 <= int(port) < 30_000
    assert (token, first) == ("nonce", "tarmac-01234567-0000-0.tarmac-01234567-0000")


def test_no_value_of_a_secret_is_in_a_job(tmp_path):
    job = "{name: x, command: 'true', secrets: {A: {env: VAULT}, B: {name: hub, key: token}}}"
    (task,) = plan_tasks(parse_job(job), tmp_path)
    demand = demand_of(with_image(task))
    unit = Unit("tarmac-01234567-0000", "01234567", "nonce", 1, ("true",))
    manifest = job_manifest(unit, demand)
    env = manifest["spec"]["template"]["spec"]["containers"][0]["env"]
    sources = {each["name"]: each["valueFrom"] for each in env if "secretKeyRef" in str(each)}
    assert sources == {
        "A": {"secretKeyRef": {"name": "tarmac-01234567-0000", "key": "A"}},
        "B": {"secretKeyRef": {"name": "hub", "key": "token"}},
    }


def with_image(task, **options):
    given = {"image": "python:3.12-slim", **options}
    return dataclasses.replace(task, options={"kubernetes": given})


@pytest.mark.parametrize(
    ("job", "words"),
    [
        ("{name: x, command: 'true', resources: {gpus: 0.5}}", "whole GPUs"),
        ("{name: x, command: 'true', inputs: [{from: a.txt}]}", "needs a volume on Kubernetes"),
        ("{name: x, command: 'true', outputs: [{path: a, to: b}]}", "needs a volume on Kubernetes"),
        (
            "{name: x, command: 'true', environment: {requirements: [six]}}",
            "packages, which is not possible",
        ),
        (
            "{name: x, command: 'true', "
            "environment: {image: x, mounts: [{source: /a, target: /b}]}}",
            "environment.mounts has no meaning",
        ),
        ("{name: x, environment: {image: x}}", "no command"),
        ("{name: x, workload: digits-mlp}", "it trains without a volume: its run"),
        ("{name: x, command: 'true', environment: {image: x, user: me}}", "only a number"),
    ],
)
def test_what_has_no_place_is_refused(job, words, tmp_path):
    (task,) = plan_tasks(parse_job(job), tmp_path)
    with pytest.raises(RequestError, match=words):
        demand_of(with_image(task))


def test_a_task_without_an_image_is_refused(tmp_path):
    (task,) = plan_tasks(parse_job("{name: x, command: 'true'}"), tmp_path)
    with pytest.raises(RequestError, match="no image") as refused:
        demand_of(task)
    assert "options.kubernetes.image" in refused.value.hint


def test_indexes_are_read_as_kubernetes_writes_them():
    job = {
        "metadata": {"name": "x"},
        "status": {"completedIndexes": "1,3-5,7", "failedIndexes": "0"},
    }
    seen = keep_job(job)
    assert (seen.completed, seen.failed) == ({1, 3, 4, 5, 7}, {0})
