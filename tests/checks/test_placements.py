"""Where each operation of a framework ran, as its probe says and as a person sees it."""

from __future__ import annotations

import importlib.util
import json
import re

import pytest
from recorded.evidence import DRIVER, H200, machine

from forked import run_python
from tarmac.checks import ProbedDevice, describe_devices
from tarmac.checks.evidence import Evidence, Inventory, Probe
from tarmac.checks.probe_result import is_result
from tarmac.checks.report.make import make_report
from tarmac.cli.views.placements import print_placements

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None,
    reason="PyTorch computes here: pip install 'tarmac-gpu[train]'",
)


def probe(*devices: dict, **result) -> Probe:
    facts = {"version": "2.21.0", "devices": list(devices), **result}
    return Probe(framework="tensorflow", where="this Python", outcome="done", result=facts)


GPU = {"name": "cuda:0", "kind": "gpu"}
CPU = {"name": "cpu", "kind": "cpu"}


QUICK = ("-m", "tarmac", "check", "torch", "--quick", "--device", "cpu")


@needs_torch
def test_pytorch_says_where_each_operation_ran():
    done = run_python(*QUICK, "--verbose", "--json", check=True)
    (found,) = json.loads(done.stdout)["probes"]
    assert found["result"]["placements"] == [
        {"device": "cpu", "operation": operation, "ran_on": "cpu"}
        for operation in ("Tensor.to", "mm", "conv2d", "Parameter", "cross_entropy", "backward")
    ]


@needs_torch
def test_a_person_sees_devices_and_operations():
    done = run_python(*QUICK, "--verbose", check=True)
    assert re.search(r"\n  device +name +compute capability +memory\n  cpu .* GiB\n", done.stdout)
    assert re.search(r"\n  operation +asked for +ran on\n", done.stdout)
    assert re.search(r"\n  mm +cpu +cpu\n", done.stdout)


def test_what_a_framework_does_not_say_of_a_gpu_the_driver_does():
    inventory = machine((H200, H200.model_copy(update={"index": 1})), driver=DRIVER)
    assert describe_devices(probe(GPU), inventory) == (
        ProbedDevice("cuda:0", "NVIDIA H200", "9.0", H200.memory_bytes),
    )
    said = GPU | {"chip": "A100", "capability": [8, 0], "memory_bytes": 2**35}
    assert describe_devices(probe(said), inventory) == (
        ProbedDevice("cuda:0", "A100", "8.0", 2**35),
    )


def test_among_several_kinds_of_gpus_nothing_is_guessed():
    other = H200.model_copy(update={"index": 1, "name": "Tesla T4"})
    assert describe_devices(probe(GPU), machine((H200, other), driver=DRIVER)) == (
        ProbedDevice("cuda:0"),
    )


def test_ranks_are_no_device():
    ranks = {"name": "2 ranks by mxnet", "kind": "cpu"}
    assert describe_devices(probe(ranks), machine((H200,))) == (ProbedDevice("2 ranks by mxnet"),)


def shown(found: Probe, inventory: Inventory, capsys) -> list[str]:
    report = make_report(Evidence(inventory=inventory, probes=(found,)), seconds=1)
    print_placements(report)
    return capsys.readouterr().out.splitlines()


def test_the_table_is_the_frameworks_own_words(capsys):
    placements = [
        {"device": "cuda:0", "operation": "MatMul", "ran_on": "/device:GPU:0"},
        {"device": "cuda:0", "operation": "Const", "ran_on": "/device:CPU:0"},
    ]
    lines = shown(probe(GPU, CPU, placements=placements), machine((H200,), driver=DRIVER), capsys)
    assert lines == [
        "tensorflow 2.21.0",
        "  device  name         compute capability  memory",
        "  cuda:0  NVIDIA H200  9.0                 140 GiB",
        "  cpu     a CPU        -                   64 GiB",
        "  operation  asked for  ran on",
        "  MatMul     cuda:0     /device:GPU:0",
        "  Const      cuda:0     /device:CPU:0",
    ]


def test_a_probe_of_another_package_need_not_say_where(capsys):
    assert shown(probe(CPU), machine(), capsys)[-1].startswith("  cpu     a CPU")
    assert shown(probe(), machine(), capsys) == []


@pytest.mark.parametrize("rows", [{}, [3], [{"device": "cpu"}], "mm"])
def test_a_result_with_odd_placements_is_none(rows):
    assert not is_result({"placements": rows})
