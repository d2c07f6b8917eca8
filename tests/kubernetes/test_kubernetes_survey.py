"""`tarmac check --on kubernetes`: what pods on the nodes say of them, and what is no answer."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from click.testing import CliRunner

from tarmac.cli.commands.check import command
from tarmac.errors import RequestError, TarmacError
from tarmac.kubernetes import Look, connect, survey_cluster
from tarmac.kubernetes.look import look_manifest
from tarmac.kubernetes.nodes import read_node
from tarmac.kubernetes.survey import read_answer

GPUS = {"nvidia.com/gpu": "2", "cpu": "8", "memory": "8Gi"}

# In the place of a Python with Tarmac, as nothing can be computed on a stand-in's GPU. Its answer
# is as `tarmac.checks.pod_look` writes it.
_LOOKS = """\
#!/bin/sh
test "$1 $2 $3" = "-P -m tarmac.checks.pod_look" || exit 9
cat > "$5" <<EOF
{"python": "3.12.4", "tarmac": "1.0", "driver": "570.1", "gpus": {"H100": $4},
 "failures": FAILURES, "unseen": UNSEEN}
EOF
"""


@pytest.fixture
def image():
    """Yield a directory that pods see, who have a /tmp of their own."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
        yield Path(place)


@pytest.fixture
def check(tmp_path, monkeypatch, image):
    """Return a function that looks at a cluster's nodes by the command, with such options."""

    def run(cluster, *words, python=None, script="", **options: Any):
        if python is None:
            python = image / "python"
            python.write_text(script)
            python.chmod(0o755)
        options = {
            "kubeconfig": str(cluster.kubeconfig),
            "image": "python:3.12-slim",
            "python": str(python),
        } | options
        settings = tmp_path / "settings.toml"
        settings.write_text(
            "[kubernetes]\n"
            + "".join(f"{name} = {json.dumps(value)}\n" for name, value in options.items())
        )
        monkeypatch.setenv("TARMAC_SETTINGS_FILE", str(settings))
        return CliRunner().invoke(command, ["--on", "kubernetes", *words])

    return run


def says(failures: list[str] | None = None, unseen: list[str] | None = None) -> str:
    """Return a Python with Tarmac that finds these."""
    found = json.dumps(failures or []), json.dumps(unseen or [])
    return _LOOKS.replace("FAILURES", found[0]).replace("UNSEEN", found[1])


def jobs_left(cluster) -> list[Any]:
    return cluster.admin.get("/apis/batch/v1/namespaces/default/jobs").json()["items"]


# By https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/.
@pytest.mark.parametrize(
    ("toleration", "bears"),
    [
        ({"key": "team", "value": "a", "effect": "NoSchedule"}, True),
        ({"key": "team", "value": "a"}, True),
        ({"key": "team", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"key": "team", "value": "a", "effect": "NoExecute"}, False),
        ({"key": "team", "value": "b", "effect": "NoSchedule"}, False),
        ({"key": "other", "operator": "Exists"}, False),
    ],
)
def test_a_toleration_bears_the_taints_that_kubernetes_says_it_does(toleration, bears):
    taint = {"key": "team", "value": "a", "effect": "NoSchedule"}
    node = {"metadata": {"name": "n1"}, "spec": {"taints": [taint]}}
    apart = read_node(node, tolerations=[toleration]).apart
    words = "has the taint team=a:NoSchedule, which its tolerations do not match"
    assert apart == ("" if bears else words)


@pytest.mark.kubernetes
def test_each_node_is_looked_at_by_tarmac_in_a_pod(start_cluster, check):
    cluster = start_cluster(nodes=2, capacity={"cpu": "4", "memory": "8Gi"})
    done = check(cluster, "--json", python=sys.executable)
    first, second = json.loads(done.stdout)
    assert (first["node"], second["node"]) == ("n1", "n2")
    for node in (first, second):
        assert (node["state"], node["words"], node["unseen"]) == ("looked", [], [])
        assert node["is_fit"]
        assert (node["cpus"], node["memory_bytes"]) == (4, 8 * 2**30)
        assert node["python"] == sys.version.split()[0]
        assert (node["gpus"], node["seen_gpus"]) == ({}, {})
    assert done.exit_code == 0
    assert jobs_left(cluster) == []


def test_people_get_one_table(start_cluster, check):
    cluster = start_cluster(capacity=GPUS)
    done = check(cluster, script=says())
    head, row = done.stdout.splitlines()
    assert head.split() == [
        *("NODE", "STATE", "CPUS", "MEMORY", "GPUS", "SEEN", "DRIVER", "PYTHON", "TARMAC")
    ]
    # Both GPUs of the node were the pod's.
    assert row.split() == [
        *("n1", "fit", "8", "8", "GiB", "nvidia.com/gpu:2", "2", "H100", "570.1", "3.12.4", "1.0")
    ]
    assert done.exit_code == 0


def test_a_gpu_that_is_not_fit_is_said_and_fails_the_check(start_cluster, check):
    done = check(start_cluster(capacity=GPUS), script=says(["GPU 0: uncorrected memory errors"]))
    assert done.stdout.splitlines()[1].split()[:2] == ["n1", "unfit"]
    assert done.stdout.splitlines()[2] == "n1: GPU 0: uncorrected memory errors"
    assert done.exit_code == 1


def test_what_was_not_looked_at_is_no_success(start_cluster, check):
    done = check(start_cluster(capacity=GPUS), script=says(unseen=["nothing was computed there"]))
    assert done.stdout.splitlines()[1].split()[:2] == ["n1", "unseen"]
    assert done.exit_code == 3


def test_gpus_of_another_maker_are_neither_fit_nor_unfit(start_cluster, check):
    cluster = start_cluster(capacity=GPUS | {"nvidia.com/gpu": "0", "amd.com/gpu": "8"})
    (node,) = json.loads((done := check(cluster, "--json", script=says())).stdout)
    assert (node["state"], node["words"]) == ("unseen", [])
    assert node["unseen"] == ["8 amd.com/gpu not looked at: only NVIDIA's GPUs are checked"]
    assert done.exit_code == 3


def test_an_image_without_tarmac_is_no_answer(start_cluster, check):
    script = "#!/bin/sh\necho 'No module named tarmac' >&2\nexit 1\n"
    cluster = start_cluster(capacity=GPUS)
    (node,) = json.loads((done := check(cluster, "--json", script=script)).stdout)
    assert node["state"] == "blind"
    (words,) = node["words"]
    assert "exit code 1: No module named tarmac; name an image" in words
    assert done.exit_code == 1
    assert jobs_left(cluster) == []


def test_a_node_whose_gpus_are_in_use_waits(start_cluster, check):
    cluster = start_cluster(capacity=GPUS)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "busy"},
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "image": "python:3.12-slim",
                    "command": ["sleep", "600"],
                    "resources": {"limits": {"nvidia.com/gpu": "1"}},
                }
            ]
        },
    }
    pods = "/api/v1/namespaces/default/pods"
    cluster.admin.post(pods, json=pod).raise_for_status()
    done = check(cluster, "--json", "--timeout", "2", script=says())
    # A real cluster keeps this namespace for the tests that follow.
    cluster.admin.request("DELETE", f"{pods}/busy", json={"gracePeriodSeconds": 0})
    (node,) = json.loads(done.stdout)
    assert node["state"] == "waits"
    assert not node["is_fit"]
    assert "1 Insufficient nvidia.com/gpu" in node["words"][0]
    assert done.exit_code == 3
    assert jobs_left(cluster) == []


def test_a_node_whose_job_a_queue_holds_waits(start_cluster, check):
    cluster = start_cluster(capacity=GPUS)
    assert cluster.kueue, "who holds it"
    done = check(cluster, "--json", "--timeout", "1", script=says(), queue="team")
    (node,) = json.loads(done.stdout)
    assert (node["state"], node["words"]) == ("waits", ["its Job waits in the queue team"])
    assert done.exit_code == 3
    assert jobs_left(cluster) == []


def test_a_check_that_does_not_end_is_no_success(start_cluster, check):
    done = check(
        start_cluster(capacity=GPUS),
        *("--json", "--timeout", "3"),
        script="#!/bin/sh\nexec sleep 600\n",
    )
    (node,) = json.loads(done.stdout)
    # As which, depends on how soon it has begun.
    assert not node["is_fit"]
    assert done.exit_code != 0


def test_nodes_where_no_pod_can_begin_are_said_to_be_so(start_cluster, check):
    cluster = start_cluster(nodes=2, capacity=GPUS)
    cluster.admin.patch(
        "/api/v1/nodes/n2",
        content='{"spec": {"unschedulable": true}}',
        headers={"Content-Type": "application/merge-patch+json"},
    ).raise_for_status()
    done = check(cluster, "--json", script=says())
    first, second = json.loads(done.stdout)
    assert first["is_fit"]
    assert (second["state"], second["words"]) == (
        "failed",
        ["is cordoned: kubectl uncordon lets pods start there again"],
    )
    assert done.exit_code == 3


def test_a_node_with_a_taint_that_tasks_do_not_bear_stands_apart(start_cluster, check):
    cluster = start_cluster(nodes=2, capacity=GPUS)
    taint = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
    cluster.admin.patch(
        "/api/v1/nodes/n1",
        content=json.dumps({"spec": {"taints": [taint]}}),
        headers={"Content-Type": "application/merge-patch+json"},
    ).raise_for_status()
    done = check(cluster, "--json", script=says())
    second, first = json.loads(done.stdout)
    assert second["is_fit"]
    assert first["state"] == "apart"
    assert "has the taint node-role.kubernetes.io/control-plane:NoSchedule" in first["words"][0]
    assert done.exit_code == 0


def test_who_may_not_see_nodes_is_told_which_role_to_apply(start_cluster, check):
    cluster = start_cluster(capacity=GPUS)
    cluster.access.deny("list", "nodes")
    error = check(cluster, script=says()).exception
    assert isinstance(error, RequestError)
    assert "system:serviceaccount:default:runner may not list nodes" in str(error)
    said, _, manifests = str(error.hint).partition("\n")
    assert said == "Let an administrator apply this:"
    role, binding = yaml.safe_load_all(manifests)
    assert (role["kind"], binding["kind"]) == ("ClusterRole", "ClusterRoleBinding")
    for manifest in (role, binding):
        kubernetes_validate.validate(manifest, "1.36", strict=True)
        assert "namespace" not in manifest["metadata"]
    assert role["rules"] == [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}]
    assert binding["roleRef"]["kind"] == "ClusterRole"


def test_who_may_not_make_jobs_is_told_which_role_to_apply(start_cluster, check):
    cluster = start_cluster(capacity=GPUS)
    cluster.access.deny("create", "jobs", "batch")
    error = check(cluster, script=says()).exception
    assert isinstance(error, RequestError)
    assert "may not create jobs in the namespace default" in str(error)
    assert "kind: Role" in str(error.hint)


def test_a_cluster_that_does_not_answer_is_no_success(start_cluster, check):
    cluster = start_cluster(nodes=0)
    cluster.access.rotate()
    error = check(cluster, script=says()).exception
    assert isinstance(error, TarmacError)
    assert "does not accept this login any more (401 Unauthorized)" in str(error)


def test_a_refused_job_is_said_with_what_to_do(start_cluster, check):
    cluster = start_cluster(capacity=GPUS)
    cluster.refusals["policy.example"] = "images come from our registry"
    done = check(cluster, "--json", script=says())
    (node,) = json.loads(done.stdout)
    assert node["state"] == "failed"
    assert node["words"][0].startswith("its Job is refused: admission webhook")
    assert "A policy of the cluster refuses it" in node["words"][0]
    assert done.exit_code == 3


def test_pods_that_are_not_shown_are_no_success_and_nothing_of_them_is_left(start_cluster, check):
    cluster = start_cluster(capacity=GPUS)
    cluster.faults.answer(503, 100, verb="list", resource="pods", message="etcd has no leader")
    done = check(cluster, "--json", "--timeout", "2", script=says())
    (node,) = json.loads(done.stdout)
    assert node["state"] == "failed"
    assert not node["is_fit"]
    assert done.exit_code == 3
    assert jobs_left(cluster) == []


def test_of_many_nodes_one_of_each_kind_is_looked_at(start_cluster, image):
    cluster = start_cluster(nodes=2, capacity={"cpu": "4", "memory": "8Gi"})
    python = image / "python"
    python.write_text(says())
    python.chmod(0o755)
    look = Look(image="python:3.12-slim", python=str(python))
    with connect(kubeconfig=cluster.kubeconfig) as connected:
        (one,) = survey_cluster(connected, look, most=1)
    assert (one.name, one.state, one.alike) == ("n1", "looked", ("n2",))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--quick"], "--on does not go with --quick"),
        (["--image", "a", "--image", "b"], "takes one --image, but 2 were given"),
        (["--timeout", "0"], "timeout is 0, expected above 0 seconds"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_asked(start_cluster, check, words, said):
    error = check(start_cluster(nodes=0), *words, script="").exception
    assert isinstance(error, RequestError)
    assert said in str(error)


def test_an_image_has_to_be_named(start_cluster, check):
    error = check(start_cluster(nodes=0), image="", script="").exception
    assert isinstance(error, RequestError)
    assert "no image is named" in str(error)


@pytest.mark.parametrize("version", ["1.35", "1.36", "1.37"])
def test_the_job_is_valid_and_goes_to_its_node_alone(version):
    amounts = {"cpu": "64", "memory": "1Ti", "nvidia.com/gpu": "4", "nvidia.com/mig-1g.10gb": "7"}
    node = read_node({"metadata": {"name": "n7"}, "status": {"allocatable": amounts}})
    look = Look(
        image="registry.example/tarmac:1",
        queue="team",
        tolerations=[{"key": "spot", "operator": "Exists"}],
        pull_secrets=["login"],
        priority_class="low",
        service_account="runner",
    )
    job = look_manifest("tarmac-look-1-0", "1", node, look, 120.0)
    kubernetes_validate.validate(job, version, strict=True)
    spec = job["spec"]["template"]["spec"]
    terms = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert terms["nodeSelectorTerms"][0]["matchFields"][0]["values"] == ["n7"]
    assert "nodeName" not in spec
    limits = spec["containers"][0]["resources"]["limits"]
    assert (limits["nvidia.com/gpu"], limits["nvidia.com/mig-1g.10gb"]) == ("4", "7")
    assert spec["containers"][0]["command"][-2:] == ["11", "/dev/termination-log"]
    assert job["spec"]["ttlSecondsAfterFinished"]


def test_of_gpus_that_pods_take_turns_on_one_is_looked_at():
    about = {"name": "n7", "labels": {"nvidia.com/gpu.replicas": "10"}}
    node = read_node({"metadata": about, "status": {"allocatable": {"nvidia.com/gpu": "40"}}})
    job = look_manifest("tarmac-look-1-0", "1", node, Look(image="tarmac"), 120.0)
    container = job["spec"]["template"]["spec"]["containers"][0]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "1"
    answer = {"python": "3.12", "tarmac": "1", "driver": "", "gpus": {}}
    found = read_answer(node, json.dumps(answer | {"failures": [], "unseen": []}))
    assert found.state == "unseen"
    assert list(found.unseen) == ["pods take turns on its GPUs: 1 of 40 nvidia.com/gpu looked at"]


@pytest.mark.parametrize("message", ["", "{}", "[1]", "null", '{"failures": [], "unseen": [], "'])
def test_an_answer_that_is_not_understood_is_none(message):
    node = read_node({"metadata": {"name": "n7"}})
    found = read_answer(node, message)
    assert found.state == "blind"
    assert not found.is_fit
