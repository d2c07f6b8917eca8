"""`resources.gpus` as `{type, count}`, on every engine."""

from __future__ import annotations

import dataclasses
import json

import pytest

from tarmac.errors import RequestError
from tarmac.executors.kubernetes.demand import demand_of
from tarmac.executors.kubernetes.manifests import Unit, job_manifest
from tarmac.executors.kubernetes.nodes import KnownNode, why_never, with_gpus
from tarmac.executors.ray import demand as ray_demand
from tarmac.executors.slurm.engine import shape_of
from tarmac.jobs import (
    RunRequest,
    create_run,
    find_executor,
    find_run,
    parse_job,
    plan_tasks,
    prepare,
)
from tarmac.kubernetes import Listed, Refused
from tarmac.machine import GpuInfo, fitting_names, is_of_type
from tarmac.slurm import Limits, SlurmCommands, read_gres, request_gpus
from tarmac.slurm.site import SlurmNode
from tarmac.tasks.machine import Machine
from tarmac.tasks.model import Resources

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def task_of(tmp_path, gpus="{type: a100, count: 2}", more=""):
    job = f"{{name: x, command: 'true', resources: {{gpus: {gpus}}}{more}}}"
    (task,) = plan_tasks(parse_job(job), tmp_path)
    return task


@pytest.mark.parametrize(
    ("name", "gpu_type", "is_so"),
    [
        ("NVIDIA A100-SXM4-80GB", "a100", True),
        ("NVIDIA A100-SXM4-80GB", "A100-80GB", True),
        ("NVIDIA A100-SXM4-40GB", "a100-80gb", False),
        ("NVIDIA A100-SXM4-80GB", "a10", False),
        ("NVIDIA A10", "a100", False),
        ("NVIDIA H100 80GB HBM3", "h100", True),
        ("NVIDIA H200", "h100", False),
        ("NVIDIA L40S", "l4", False),
        ("NVIDIA L40S", "l40s", True),
        ("NVIDIA GeForce RTX 4090", "rtx4090", True),
        ("NVIDIA GeForce RTX 4090", "rtx-4090", True),
        ("NVIDIA GeForce RTX 4090", "4090", True),
        ("NVIDIA GeForce RTX 4080", "rtx4090", False),
        ("Tesla V100-SXM2-16GB", "v100", True),
        ("Tesla T4", "t4", True),
        ("nvidia-tesla-a100", "A100", True),
        ("AMD Instinct MI300X", "mi300x", True),
        ("NVIDIA GH200 480GB", "h200", False),
        ("NVIDIA B200", "b200", True),
        ("fake", "a100", True),
        ("", "a100", False),
    ],
)
def test_a_kind_fits_the_names_of_makers_and_sites(name, gpu_type, is_so):
    assert is_of_type(name, gpu_type) is is_so


def test_a_name_that_is_written_alike_goes_before_longer_ones():
    assert fitting_names(["A100", "A100-80G", "T4"], "a100") == ["A100"]
    assert fitting_names(["A100-40G", "A100-80G"], "a100") == ["A100-40G", "A100-80G"]
    assert fitting_names(["T4"], "a100") == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2", (2, "")),
        ("0.5", (0.5, "")),
        ("{type: a100, count: 2}", (2, "a100")),
        ("{type: H100}", (1, "H100")),
        ("{type: a100, count: 0.5}", (0.5, "a100")),
    ],
)
def test_gpus_are_read_as_a_number_or_as_a_kind_with_a_number(tmp_path, text, expected):
    needs = task_of(tmp_path, text).resources
    assert (needs.gpus, needs.gpu_type) == expected


@pytest.mark.parametrize(
    ("text", "named", "words"),
    [
        ("{type: a100, count: 1.5}", "gpus", "a whole number of GPUs"),
        ("{type: a100, count: 0}", "count", "expected more than 0"),
        ("{type: a100, count: two}", "count", "expected a number"),
        ("{count: 2}", "gpus", "type: is missing"),
        ("{type: '', count: 2}", "type", "is empty"),
        ("{type: a100, number: 2}", "number", "unknown key"),
        ("[a100]", "gpus", "expected a number"),
    ],
)
def test_gpus_that_are_no_number_and_no_kind_are_refused_with_their_place(text, named, words):
    job = f"{{name: x, command: 'true', resources: {{gpus: {text}}}}}"
    with pytest.raises(RequestError) as refused:
        parse_job(job)
    place, _, message = refused.value.message.partition(": ")
    assert place == f"job:1:{job.index(named) + 1}"
    assert words in message


def test_a_kind_stays_in_the_record_of_a_run(tmp_path):
    job = parse_job("{name: x, command: 'true', resources: {gpus: {type: a100, count: 2}}}")
    tasks = prepare(job, tmp_path, RunRequest(fake_gpus=2))
    made = create_run(job, tmp_path, tasks, tmp_path / "runs")
    again = find_run(str(made.path), None)
    assert again.tasks[0].resources == Resources(gpus=2, gpu_type="a100")
    assert json.loads((made.path / "job-run.json").read_text())["schema_version"] == 4


def test_a_machine_gives_gpus_of_the_kind_by_their_names(tmp_path):
    names = ["NVIDIA A100-SXM4-80GB", "NVIDIA A10", "NVIDIA A100-SXM4-80GB"]
    gpus = [GpuInfo(f"GPU-{n}", name, 2**35) for n, name in enumerate(names)]
    machine = Machine(cpus=8, memory=2**36, gpus=gpus, leases=None)
    needs = task_of(tmp_path).resources
    assert machine.take(needs).gpus == ("GPU-0", "GPU-2")
    assert machine.take(needs) is None
    machine.refuse_what_never_fits([task_of(tmp_path)])
    with pytest.raises(RequestError, match=r"3 GPUs of type 'a100', this machine has 2 of NVIDIA"):
        machine.refuse_what_never_fits([task_of(tmp_path, "{type: a100, count: 3}")])
    with pytest.raises(RequestError, match="1 GPU of type 'h100', this machine has 0"):
        machine.refuse_what_never_fits([task_of(tmp_path, "{type: h100}")])


def slurm_nodes(*gres):
    return [
        SlurmNode(
            name=f"n{n}",
            partition="main",
            is_default=True,
            state="idle",
            cpus=8,
            memory_bytes=2**33,
            gres=read_gres(words),
        )
        for n, words in enumerate(gres)
    ]


def test_slurm_gets_the_kind_as_its_nodes_have_it(tmp_path):
    shape = shape_of(task_of(tmp_path, "{type: A100, count: 2}"))
    nodes = slurm_nodes("gpu:a100:4", "gpu:h100:8")
    assert request_gpus(nodes, shape.gpus, kind=shape.gpu_type) == "gpu:a100:2"
    nodes = slurm_nodes("gpu:nvidia_a100_80gb:4")
    assert request_gpus(nodes, shape.gpus, kind=shape.gpu_type) == "gpu:nvidia_a100_80gb:2"
    with pytest.raises(RequestError, match="kind of GPU 'A100'"):
        request_gpus(slurm_nodes("gpu:h100:4"), 2, kind="A100")


def test_a_partition_with_gpus_is_named_where_slurm_refuses_that_of_the_site(tmp_path, monkeypatch):
    nodes = slurm_nodes("", "gpu:4")
    nodes[1] = dataclasses.replace(nodes[1], partition="big", is_default=False)
    words = "allocation failure: Requested node configuration is not available"
    answers = {
        "limits": lambda _: Limits(version="22.05"),
        "nodes": lambda _: nodes,
        "test": lambda _, script: words,
    }
    for name, answer in answers.items():
        monkeypatch.setattr(SlurmCommands, name, answer)
    with pytest.raises(RequestError, match="Slurm refuses it") as refused:
        find_executor("slurm").refuse([task_of(tmp_path, "1")], 0)
    assert "GPUs are in the partitions big: `partition`" in refused.value.hint


def test_an_option_of_the_site_goes_before_the_kind(tmp_path):
    more = ", options: {slurm: {gpu_type: a100_40}}"
    assert shape_of(task_of(tmp_path, more=more)).gpu_type == "a100_40"


class Nodes:
    """A cluster of which only nodes are asked."""

    title = "test"

    def __init__(self, *labels, resource="nvidia.com/gpu", is_refused=False):
        self.items = tuple(
            {"metadata": {"labels": each}, "status": {"allocatable": {resource: "4", "cpu": "8"}}}
            for each in labels
        )
        self.is_refused = is_refused

    def list(self, kind):
        assert kind == "Node"
        return Refused(403, "Forbidden", "no") if self.is_refused else Listed(self.items, "1")


def kubernetes_demand(tmp_path, gpus="{type: a100, count: 2}"):
    task = task_of(tmp_path, gpus)
    return demand_of(dataclasses.replace(task, options={"kubernetes": {"image": "i"}}))


def test_kubernetes_chooses_nodes_by_the_labels_of_their_gpus(tmp_path):
    cluster = Nodes(
        {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"},
        {"nvidia.com/gpu.product": "NVIDIA-A100-PCIE-40GB"},
        {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"},
        {"cloud.google.com/gke-accelerator": "nvidia-tesla-a100"},
    )
    demand = with_gpus(kubernetes_demand(tmp_path), cluster)
    # As a chunk's record has it.
    demand = dataclasses.replace(
        demand, gpu_labels=json.loads(json.dumps(dataclasses.asdict(demand)))["gpu_labels"]
    )
    unit = Unit("x-01234567-0000", "01234567", "nonce", 1, ("sh",))
    spec = job_manifest(unit, demand, excluded=("n9",))["spec"]["template"]["spec"]
    terms = spec["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    kinds = {term["matchExpressions"][0]["key"]: term["matchExpressions"][0] for term in terms}
    assert kinds["nvidia.com/gpu.product"]["values"] == [
        "NVIDIA-A100-PCIE-40GB",
        "NVIDIA-A100-SXM4-80GB",
    ]
    assert kinds["cloud.google.com/gke-accelerator"]["values"] == ["nvidia-tesla-a100"]
    assert all(term["matchExpressions"][1]["values"] == ["n9"] for term in terms)
    assert spec["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "2"}


def test_a_part_of_a_partitioned_gpu_is_a_resource_of_its_own_name(tmp_path):
    cluster = Nodes({}, resource="nvidia.com/mig-3g.40gb")
    for kind in ("mig-3g.40gb", "MIG-3g.40gb", "nvidia.com/mig-3g.40gb"):
        demand = with_gpus(kubernetes_demand(tmp_path, f"{{type: {kind}}}"), cluster)
        assert (demand.gpu_resource, demand.gpu_labels) == ("nvidia.com/mig-3g.40gb", {})


def test_a_kind_that_no_node_has_is_refused_with_those_that_there_are(tmp_path):
    demand = kubernetes_demand(tmp_path)
    with pytest.raises(RequestError, match="of type 'a100': they have NVIDIA-H100"):
        with_gpus(demand, Nodes({"nvidia.com/gpu.product": "NVIDIA-H100"}))
    for cluster in (Nodes({}), Nodes(is_refused=True)):
        with pytest.raises(RequestError, match="no label names their GPUs") as refused:
            with_gpus(demand, cluster)
        assert "node_selector" in refused.value.hint


def test_the_largest_node_is_one_with_the_kind(tmp_path):
    label = "nvidia.com/gpu.product"
    demand = dataclasses.replace(
        kubernetes_demand(tmp_path, "{type: a100, count: 8}"),
        gpu_resource="nvidia.com/gpu",
        gpu_labels={label: ["A100"]},
    )
    nodes = [
        KnownNode({"nvidia.com/gpu": 4, "cpu": 8}, {label: "A100"}),
        KnownNode({"nvidia.com/gpu": 8, "cpu": 8}, {label: "H100"}),
    ]
    assert why_never(demand, nodes) == (
        "it needs 8 of nvidia.com/gpu, and the largest node with a100 has 4"
    )


def ray_node(*kinds, gpus=4.0):
    total = {"CPU": 8.0, "GPU": gpus} | {f"accelerator_type:{kind}": 1.0 for kind in kinds}
    return ray_demand.RayNode("id", "n1", total)


def test_ray_gets_its_own_name_of_the_kind(tmp_path):
    demand = ray_demand.demand_of(task_of(tmp_path))
    nodes = [ray_node("A100"), ray_node("H100")]
    found = ray_demand.with_ray_type(demand, nodes)
    assert found.to_options()["accelerator_type"] == "A100"
    assert found.amounts()["accelerator_type:A100"] == 0.001
    assert ray_demand.why_never(found, nodes) == ""
    assert ray_demand.num_slots(found, nodes) == 2


def test_ray_says_which_kinds_there_are(tmp_path):
    demand = ray_demand.demand_of(task_of(tmp_path))
    nodes = [ray_node("H100"), ray_node("T4")]
    found = ray_demand.with_ray_type(demand, nodes)
    assert ray_demand.why_never(found, nodes) == (
        "no node has GPUs of type 'a100'; there are H100, T4"
    )
    with pytest.raises(RequestError, match="may be A100-40G, A100-80G"):
        ray_demand.with_ray_type(demand, [ray_node("A100-40G"), ray_node("A100-80G")])
