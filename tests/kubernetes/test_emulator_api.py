"""The emulator's API answers, refuses and watches as the real server does."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import kubernetes_validate
import pytest
from emulator import CONFIG_MAP, EVENT, JOB, Emulator
from emulator.kinds import NAMESPACE
from emulator.patches import patched
from emulator.real import RealCluster
from test_emulator_jobs import create, job

_JOBS = "/apis/batch/v1/namespaces/default/jobs"
_MAPS = "/api/v1/namespaces/default/configmaps"
_STRICT = {"fieldValidation": "Strict", "dryRun": "All"}


@pytest.fixture
def bare(start_cluster: Callable[..., Emulator]) -> Emulator:
    """Return a cluster without nodes."""
    return start_cluster(nodes=0)


@pytest.fixture
def user(bare: Emulator) -> Iterator[httpx.Client]:
    """Yield a client with the token of the kubeconfig."""
    headers = {"Authorization": f"Bearer {bare.token}"}
    with httpx.Client(base_url=bare.url, headers=headers, trust_env=False, timeout=20) as client:
        yield client


def config_map(name: str, **labels: str) -> dict[str, Any]:
    """Return a config map."""
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "b"}}


def watched(user: httpx.Client, path: str, count: int, **query: str) -> list[dict[str, Any]]:
    """Return the first events of a watch."""
    with user.stream("GET", path, params={"watch": "true"} | query) as answer:
        return [json.loads(line) for line in itertools.islice(answer.iter_lines(), count)]


def test_a_second_creation_is_refused_and_a_dry_run_stores_nothing(user: httpx.Client) -> None:
    assert user.post(_JOBS, json=job("one", "true"), params=_STRICT).status_code == 201
    assert user.get(f"{_JOBS}/one").json()["message"] == 'jobs.batch "one" not found'
    assert user.post(_JOBS, json=job("one", "true")).status_code == 201
    again = user.post(_JOBS, json=job("one", "true"))
    assert (again.status_code, again.json()["reason"]) == (409, "AlreadyExists")
    assert again.json()["message"] == 'jobs.batch "one" already exists'


def test_what_the_emulator_stores_is_right_by_the_official_schemas(
    bare: Emulator, user: httpx.Client
) -> None:
    wanted = job("one", "true", maxFailedIndexes=1)
    stored = user.post(_JOBS, json=wanted, params={"fieldValidation": "Strict"}).json()
    with bare.store.changed:
        while not (pods := bare.pods(job_name="one")):
            assert bare.store.changed.wait(20)
    for version in ("1.35", "1.36", "1.37"):
        for thing in (wanted, stored, *({"apiVersion": "v1", "kind": "Pod"} | it for it in pods)):
            kubernetes_validate.validate(thing, version, strict=True)


def test_a_watch_goes_on_where_a_list_ended(bare: Emulator, user: httpx.Client) -> None:
    user.post(_MAPS, json=config_map("a", run="1"))
    listed = user.get(_MAPS, params={"labelSelector": "run=1"}).json()
    assert [it["metadata"]["name"] for it in listed["items"]] == ["a"]
    user.post(_MAPS, json=config_map("other", run="2"))
    user.post(_MAPS, json=config_map("b", run="1"))
    user.delete(f"{_MAPS}/a")
    query = {"labelSelector": "run=1", "resourceVersion": listed["metadata"]["resourceVersion"]}
    events = watched(user, _MAPS, 3, allowWatchBookmarks="true", **query)
    assert [it["type"] for it in events] == ["ADDED", "DELETED", "BOOKMARK"]
    revision = events[-1]["object"]["metadata"]["resourceVersion"]
    assert int(revision) >= int(events[1]["object"]["metadata"]["resourceVersion"])


def test_a_watch_from_a_forgotten_revision_is_told_410(bare: Emulator, user: httpx.Client) -> None:
    user.post(_MAPS, json=config_map("a"))
    bare.compact()
    (event,) = watched(user, _MAPS, 1, resourceVersion="2")
    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")


def test_a_change_of_an_older_revision_is_a_conflict(user: httpx.Client) -> None:
    first = user.post(_MAPS, json=config_map("a")).json()
    assert user.put(f"{_MAPS}/a", json=first | {"data": {"a": "c"}}).status_code == 200
    answer = user.put(f"{_MAPS}/a", json=first | {"data": {"a": "d"}})
    assert (answer.status_code, answer.json()["reason"]) == (409, "Conflict")
    assert "the object has been modified" in answer.json()["message"]


def test_tokens_and_rights_are_asked_for(bare: Emulator, user: httpx.Client) -> None:
    bare.access.deny("create", "jobs", "batch")
    answer = user.post(_JOBS, json=job("one", "true"))
    assert answer.json()["message"] == (
        'jobs.batch is forbidden: User "system:serviceaccount:default:runner" cannot create '
        'resource "jobs" in API group "batch" in the namespace "default"'
    )
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "create", "resource": "jobs", "group": "batch"}},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    assert user.post(path, json=review).json()["status"] == {"allowed": False}
    bare.rotate_token()
    assert (user.get(_JOBS).status_code, user.get(_JOBS).json()["reason"]) == (401, "Unauthorized")


def test_faults_are_for_the_user_alone_and_are_counted(bare: Emulator, user: httpx.Client) -> None:
    bare.faults.answer(429, 1)
    bare.faults.answer(500, 1, verb="list")
    bare.faults.drop(1, verb="create", is_done=True)
    busy = user.get(_MAPS)
    assert (busy.status_code, busy.headers["Retry-After"]) == (429, "1")
    assert bare.admin.get(_MAPS).status_code == 200
    assert user.get(_MAPS).status_code == 500
    with pytest.raises(httpx.TransportError):
        user.post(_MAPS, json=config_map("a"))
    assert bare.get(CONFIG_MAP, "a") is not None
    assert bare.requests.count("list") == 2
    assert bare.requests.count("create", "configmaps") == 1


def test_a_quota_refuses_pods_and_the_job_says_so(bare: Emulator) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "small"},
        "spec": {"hard": {"pods": "1"}},
    }
    create(bare, quota)
    create(bare, job("two", "true", completions=2, parallelism=2))
    with bare.store.changed:
        while not (told := _events(bare, "FailedCreate")):
            assert bare.store.changed.wait(20)
    assert told[0].endswith(
        "is forbidden: exceeded quota: small, requested: pods=1, used: pods=1, limited: pods=1"
    )
    assert len(bare.pods(job_name="two")) == 1


def test_a_webhook_refuses_in_its_own_words(bare: Emulator, user: httpx.Client) -> None:
    bare.refusals["policy.example"] = "images must come from registry.example"
    answer = user.post(_JOBS, json=job("one", "true"), params=_STRICT)
    assert answer.status_code == 403
    assert answer.json()["message"] == (
        'admission webhook "policy.example" denied the request: images must come from '
        "registry.example"
    )


def test_what_a_job_owns_goes_with_it_unless_it_is_orphaned(bare: Emulator) -> None:
    for name, how in (("gone", "Background"), ("kept", None)):
        create(bare, job(name, "true"))
        with bare.store.changed:
            while not bare.pods(job_name=name):
                assert bare.store.changed.wait(20)
        bare.delete(JOB, name, propagation=how)
    with bare.store.changed:
        while bare.pods(job_name="gone") or bare.get(JOB, "kept"):
            assert bare.store.changed.wait(20)
    (kept,) = bare.pods(job_name="kept")
    assert kept["metadata"]["ownerReferences"] == []


def test_patches_merge_lists_by_their_keys_where_they_are_strategic() -> None:
    before = {"status": {"conditions": [{"type": "A", "status": "True"}]}}
    patch = {"status": {"conditions": [{"type": "B", "status": "True"}]}}
    merged = patched(before, patch, "application/strategic-merge-patch+json")
    assert [it["type"] for it in merged["status"]["conditions"]] == ["A", "B"]
    plain = patched(before, patch, "application/merge-patch+json")
    assert [it["type"] for it in plain["status"]["conditions"]] == ["B"]
    steps = [{"op": "replace", "path": "/status/conditions/0/type", "value": "C"}]
    assert patched(before, steps, "application/json-patch+json")["status"]["conditions"] == [
        {"type": "C", "status": "True"}
    ]


def _events(cluster: Emulator, reason: str) -> list[str]:
    return [it["message"] for it in cluster.store.list(EVENT, "default") if it["reason"] == reason]


def test_a_real_cluster_is_asked_in_a_namespace_of_its_own(
    start_cluster: Callable[..., Emulator], tmp_path: Path
) -> None:
    # The emulator stands for the real one here: over TLS, as those are.
    other = start_cluster(nodes=0, tls=True)
    text = other.kubeconfig.read_text(encoding="utf-8")
    text = text.replace(other.token, other.access.admin_token)
    other.kubeconfig.write_text(text, encoding="utf-8")
    real = RealCluster(other.kubeconfig, tmp_path)
    path = f"/apis/batch/v1/namespaces/{real.namespace}/jobs"
    assert real.admin.post(path, json=job("one", "true")).status_code == 201
    with pytest.raises(pytest.skip.Exception, match="'faults' is a knob of the emulator"):
        real.faults.clear()
    real.stop()
    assert other.store.get(NAMESPACE, "", real.namespace) is None
