"""What is refused, and what is shown, before a run begins on Kubernetes: no pod is needed."""

from __future__ import annotations

import pytest
import yaml
from emulator import JOB, NODE, QUOTA, Emulator

from tarmac.errors import RequestError
from tarmac.jobs import Site, find_executor, parse_job, plan_tasks
from tarmac.kubernetes.nodes import read_node

GPU = "nvidia.com/gpu"


@pytest.fixture
def cluster(tmp_path):
    """Yield a cluster without nodes."""
    with Emulator(tmp_path / "cluster", nodes=0) as made:
        yield made


@pytest.fixture
def tasks_of(cluster, tmp_path):
    """Return a function that plans a job's tasks for the cluster."""

    def plan(job, **options):
        options = {"kubeconfig": str(cluster.kubeconfig), "image": "i"} | options
        parsed = parse_job(job).model_copy(update={"options": {"kubernetes": options}})
        return [*plan_tasks(parsed, tmp_path)]

    return plan


@pytest.fixture
def refuse(tasks_of):
    """Return a function that says why a job is refused; None where it is not."""

    def ask(job, **options):
        try:
            find_executor("kubernetes").refuse(tasks_of(job, **options), 0)
        except RequestError as error:
            return error
        return None

    return ask


def add_node(cluster, name, labels=None, **amounts):
    cluster.hollow.add(name, amounts, lambda _: None)
    node = cluster.objects.read(NODE, "", name)
    metadata = node["metadata"] | {"labels": node["metadata"]["labels"] | (labels or {})}
    cluster.store.put(NODE, node | {"metadata": metadata})


def test_a_right_that_lacks_is_refused_with_the_role(cluster, refuse):
    cluster.access.deny("create", "secrets")
    refused = refuse("{name: x, command: 'true'}")
    assert "you may not create secrets in the namespace default" in refused.message
    assert "kind: Role" in refused.hint


@pytest.mark.parametrize(
    ("right", "options", "is_refused"),
    [
        (("create", "services", ""), {}, True),
        (("create", "services", ""), {"jobset": True}, False),
        (("create", "jobsets", "jobset.x-k8s.io"), {"jobset": True}, True),
        (("create", "jobsets", "jobset.x-k8s.io"), {}, False),
        (("get", "secrets", ""), {}, False),
        (("list", "events", ""), {}, False),
    ],
)
def test_no_right_is_asked_for_that_a_run_does_not_need(
    cluster, refuse, right, options, is_refused
):
    cluster.access.deny(*right)
    job = "{name: x, command: 'true', resources: {nodes: 2}}"
    refused = refuse(job, **options)
    assert (refused is not None) == is_refused, refused
    if is_refused:
        assert f"{right[0]} {right[1]}" in refused.message


def test_a_secret_or_a_key_that_is_not_there_is_refused(cluster, refuse):
    cluster.create_secret("hub", token="pssst-19")
    job = "{name: x, command: 'true', secrets: {B: {name: HUB, key: KEY}}}"
    assert refuse(job.replace("HUB", "hub").replace("KEY", "token")) is None
    refused = refuse(job.replace("HUB", "hub").replace("KEY", "other"))
    assert "there is no key other in the Secret hub" in refused.message
    refused = refuse(job.replace("HUB", "none").replace("KEY", "token"))
    assert "there is no Secret none in the namespace default" in refused.message
    assert "kubectl create secret generic none --from-file=token=FILE" in refused.hint
    cluster.access.deny("get", "secrets")
    refused = refuse(job.replace("HUB", "hub").replace("KEY", "token"))
    assert "get secrets" in refused.message


@pytest.mark.parametrize(
    ("resources", "words"),
    [
        ("cpus: 65", "it needs 65 of cpu, and the largest node has 64"),
        ("memory: 2TiB", "of memory, and the largest node has"),
        ("gpus: 8", f"it needs 8 of {GPU}, and the largest node has 4"),
        ("nodes: 3, gpus: 1", "it needs 3 such nodes, and 2 have enough"),
        ("gpus: {count: 3, type: A100}", "and the largest node with A100 has 2"),
        ("gpus: {count: 1, type: V100}", "they have NVIDIA-A100-SXM4-80GB, NVIDIA-H100-80GB-HBM3"),
        ("cpus: 64, gpus: {count: 4, type: h100}", ""),
        ("nodes: 2, cpus: 2", ""),
    ],
)
def test_what_no_node_can_run_is_refused_in_numbers(cluster, refuse, resources, words):
    product = "nvidia.com/gpu.product"
    add_node(cluster, "a", {product: "NVIDIA-A100-SXM4-80GB"}, cpu="8", **{GPU: "2"})
    add_node(cluster, "h", {product: "NVIDIA-H100-80GB-HBM3"}, cpu="64", **{GPU: "4"})
    job = f"{{name: x, command: 'true', resources: {{{resources}}}}}"
    refused = refuse(job)
    if not words:
        assert refused is None
        return
    assert words in refused.message
    if "V100" not in resources:
        assert "options.kubernetes.autoscaling=true" in refused.hint
        assert refuse(job, autoscaling=True) is None


def test_several_kinds_of_gpu_are_to_be_chosen_from(cluster, refuse):
    add_node(cluster, "a", **{GPU: "2", "nvidia.com/mig-1g.10gb": "7"})
    job = "{name: x, command: 'true', resources: {gpus: 2}}"
    refused = refuse(job)
    assert f"several kinds of GPU: {GPU}, nvidia.com/mig-1g.10gb" in refused.message
    assert f"--set options.kubernetes.gpu_resource={GPU}" in refused.hint
    assert refuse(job, gpu_resource=GPU) is None
    assert (
        refuse("{name: x, command: 'true', resources: {gpus: {count: 7, type: mig-1g.10gb}}}")
        is None
    )


def test_what_a_quota_never_allows_is_refused(cluster, refuse):
    quota = {"metadata": {"name": "team"}, "spec": {"hard": {"pods": "0"}}}
    cluster.objects.create(QUOTA, cluster.namespace, quota)
    refused = refuse("{name: x, command: 'true'}")
    assert "the namespace default never lets it start: " in refused.message
    # Who may not see quotas is not refused for one.
    cluster.access.deny("list", "resourcequotas")
    assert refuse("{name: x, command: 'true'}") is None


def test_what_the_cluster_itself_refuses_is_said_in_its_words(cluster, refuse):
    cluster.refusals["policy.example"] = "images come from our registry"
    refused = refuse("{name: x, command: 'true'}")
    assert "images come from our registry" in refused.message
    assert "policy" in refused.hint
    cluster.refusals.clear()
    # A quota that is used up is waited for.
    quota = "exceeded quota: team"
    cluster.faults.answer(403, 1, verb="create", resource="jobs", message=quota)
    assert refuse("{name: x, command: 'true'}") is None
    cluster.faults.answer(404, 1, verb="create", resource="jobsets")
    refused = refuse("{name: x, command: 'true', resources: {nodes: 2}}", jobset=True)
    assert "has no JobSet" in refused.message
    assert "an Indexed Job does the same" in refused.hint
    assert not cluster.store.list(JOB, cluster.namespace)


def preview(tasks, tmp_path, **how):
    run = tmp_path / "run"
    site = Site(tasks=tasks, run=run, base=tmp_path, shared=run / "shared", **how)
    return [*find_executor("kubernetes").preview(site)]


def test_a_preview_shows_what_would_be_sent_and_sends_nothing(cluster, tasks_of, tmp_path):
    add_node(cluster, "a", **{GPU: "2"})
    job = "{name: x, command: 'true', sweep: {repeat: 3}, resources: {gpus: 1}}"
    (text,) = preview(tasks_of(job), tmp_path, concurrency=2)
    assert text.startswith("---\n")
    assert "#" not in text
    spec = yaml.safe_load(text)["spec"]
    assert (spec["completions"], spec["parallelism"], spec["suspend"]) == (3, 2, True)
    limits = spec["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert limits == {GPU: "1"}
    assert not cluster.store.list(JOB, cluster.namespace)
    # A queue admits Jobs whole, so each task is one.
    assert len(preview(tasks_of(job, queue="team"), tmp_path)) == 3


def test_a_preview_of_several_nodes_has_their_service(tasks_of, tmp_path):
    job = "{name: x, command: 'true', resources: {nodes: 2}}"
    kinds = [yaml.safe_load(text)["kind"] for text in preview(tasks_of(job), tmp_path)]
    assert kinds == ["Job", "Service"]
    texts = preview(tasks_of(job, jobset=True), tmp_path)
    assert [yaml.safe_load(text)["kind"] for text in texts] == ["JobSet"]


def test_a_preview_without_a_cluster_says_what_is_not_known(tasks_of, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    job = "{name: x, command: 'true', resources: {gpus: 1}}"
    (text,) = preview(tasks_of(job, kubeconfig=""), tmp_path)
    assert "# No cluster has checked this, because no kubeconfig was found" in text


TAINT = {"key": "dedicated", "value": "ml", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("toleration", "bears"),
    [
        ({"key": "dedicated", "value": "ml", "effect": "NoSchedule"}, True),
        ({"key": "dedicated", "value": "ml"}, True),
        ({"key": "dedicated", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"key": "dedicated", "value": "web"}, False),
        ({"key": "other", "value": "ml"}, False),
        ({"key": "dedicated", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"value": "ml"}, False),
    ],
)
def test_a_taint_keeps_pods_off_a_node_unless_a_toleration_bears_it(toleration, bears):
    node = {"metadata": {"name": "n"}, "spec": {"taints": [TAINT]}, "status": {}}
    apart = read_node(node, tolerations=[toleration]).apart
    words = "has the taint dedicated=ml:NoSchedule, which its tolerations do not match"
    assert apart == ("" if bears else words)
