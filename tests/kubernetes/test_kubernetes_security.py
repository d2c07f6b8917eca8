"""Who pods run as, and that a namespace of the restricted Pod Security Standard admits them."""

from __future__ import annotations

import os

import pytest
from emulator.pod_security import violations
from made_pods import runner_template, task_template

from tarmac.errors import RequestError
from tarmac.jobs import parse_job, prepare
from tarmac.kubernetes import Look, check_daemon_set, connect
from tarmac.kubernetes.look import look_manifest
from tarmac.kubernetes.nodes import read_node

VOLUME = {"claim": "runs", "path": "/runs"}


@pytest.fixture(params=[0, 1234])
def uid(request, monkeypatch):
    """Be root, or a user."""
    monkeypatch.setattr(os, "getuid", lambda: request.param)
    monkeypatch.setattr(os, "getgid", lambda: request.param)
    return request.param


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("check", ["off", "quick"])
@pytest.mark.parametrize("user", ["", ", user: '1000:100'"])
def test_a_restricted_namespace_admits_the_pods_of_tasks(uid, tmp_path, nodes, check, user):
    job = f"{{name: x, command: 'true', environment: {{image: i{user}}}, resources: {{gpus: 1}}}}"
    pod = task_template(tmp_path, job, nodes=nodes, check=check)["spec"]
    assert [*violations(pod)] == []


def test_a_restricted_namespace_admits_the_pods_that_look_at_nodes_and_check_them():
    node = read_node({"metadata": {"name": "n7"}, "status": {"allocatable": {}}})
    look = look_manifest("tarmac-look-1-0", "1", node, Look(image="tarmac"), 120.0)
    assert [*violations(look["spec"]["template"]["spec"])] == []
    daemons = check_daemon_set("team-a", "tarmac")
    assert [*violations(daemons["spec"]["template"]["spec"])] == []


def test_a_restricted_namespace_admits_the_pod_of_a_runner_whose_user_is_not_root(
    monkeypatch, tmp_path
):
    monkeypatch.setattr(os, "getuid", lambda: 1234)
    pod = runner_template(tmp_path)["spec"]
    assert [*violations(pod)] == []
    assert pod["securityContext"]["runAsUser"] == 1234


def test_pods_run_as_this_machines_user_and_without_a_volume_never_as_root(uid, tmp_path):
    pod = task_template(tmp_path)["spec"]
    expected = uid or 65532
    assert pod["securityContext"]["runAsUser"] == expected
    assert pod["securityContext"]["runAsGroup"] == expected
    # The image does not know this user.
    env = {each["name"]: each.get("value") for each in pod["containers"][0]["env"]}
    assert (env["HOME"], env["USER"]) == ("/tmp", "tarmac")


def test_what_root_has_on_a_volume_is_written_by_the_images_user(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "getuid", lambda: 0)
    pod = task_template(tmp_path, volume=VOLUME)["spec"]
    assert "securityContext" not in pod
    assert "HOME" not in str(pod["containers"][0]["env"])


@pytest.mark.parametrize("volume", [None, VOLUME])
def test_baseline_leaves_user_and_capabilities_to_the_image(uid, tmp_path, volume):
    pod = task_template(tmp_path, pod_security="baseline", volume=volume)["spec"]
    assert "securityContext" not in pod
    assert pod["containers"][0]["securityContext"] == {"allowPrivilegeEscalation": False}
    assert "HOME" not in str(pod["containers"][0]["env"])


def test_root_by_name_has_roots_capabilities(tmp_path):
    job = "{name: x, command: 'true', environment: {image: i, user: '0'}}"
    pod = task_template(tmp_path, job)["spec"]
    assert pod["securityContext"] == {"runAsUser": 0}
    assert "capabilities" not in pod["containers"][0]["securityContext"]


def test_another_standard_is_refused_with_the_two_that_there_are(tmp_path):
    job = "{name: x, command: 'true', options: {kubernetes: {pod_security: privileged}}}"
    with pytest.raises(RequestError, match=r"job:1:\d+: .*'restricted' or 'baseline'"):
        parse_job(job)


@pytest.fixture
def restricted(start_cluster):
    """Yield a cluster without nodes whose namespaces enforce the restricted standard."""
    cluster = start_cluster(nodes=0)
    cluster.is_restricted = True
    return cluster


@pytest.mark.parametrize(("profile", "num_told"), [("restricted", 0), ("baseline", 1)])
def test_what_the_server_warns_of_is_told_once(restricted, tmp_path, capfd, profile, num_told):
    job = f"{{name: x, command: 'true', options: {{kubernetes: {{pod_security: {profile}}}}}}}"
    parsed = parse_job(job)
    given = {"kubeconfig": str(restricted.kubeconfig), "image": "i", "pod_security": profile}
    parsed = parsed.model_copy(update={"options": {"kubernetes": given}})
    for _ in range(2):
        prepare(parsed, tmp_path, executor="kubernetes")
    told = capfd.readouterr().err
    assert told.count('would violate PodSecurity "restricted:latest"') == num_told
    assert told.count("warning: ") == num_told


def test_a_warning_cannot_write_to_the_terminal_and_has_an_end(start_cluster, capfd):
    cluster = start_cluster(nodes=0)
    cluster.api.warnings = lambda *_: ['a "quoted" \\ text\x1b[31m', "b" * 5000]
    with connect(kubeconfig=cluster.kubeconfig, environ={}) as client:
        client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 2
    assert lines[0].endswith('warns: a "quoted" \\ text?[31m')
    assert len(lines[1]) < 1200
