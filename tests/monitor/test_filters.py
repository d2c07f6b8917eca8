"""Narrowing what is shown."""

import dataclasses

import pytest
from monitor_values import NOW, gpu

from tarmac.machine import LiveHost
from tarmac.monitor.filters import filtered
from tarmac.monitor.options import WatchOptions
from tarmac.monitor.snapshot import Finding, HostSnapshot, ProcessRow, Work

HOST = HostSnapshot(
    at=NOW,
    host=LiveHost("here"),
    gpus=(gpu(0), gpu(1), gpu(1, uuid="MIG-7", parent_uuid="GPU-1")),
    gpu_states={"GPU-0": "busy", "GPU-1": "held"},
    gpu_idle_s={"GPU-1": 5.0},
    processes=(
        ProcessRow(10, "GPU-0", user="ada", work="night/a"),
        ProcessRow(20, "GPU-1", user="bob"),
    ),
    work=(
        Work("night", "job", "/r/night", "running", user="ada", gpu_uuids=("GPU-0",)),
        Work(
            "night/a", "task", "/r/a", "running", parent="night", user="ada", gpu_uuids=("GPU-0",)
        ),
        Work("night/b", "task", "/r/b", "running", parent="night", user="ada"),
        Work("other", "training", "/r/other", "running", user="eve", is_own=False, pids=(30,)),
    ),
    findings=(Finding("ecc", "failure", "x", gpu_uuid="GPU-1"), Finding("shm", "warning", "y")),
)


def shown(environment=None, **options):
    found = filtered(HOST, WatchOptions(**options), "ada", environment or {})
    return (
        [one.uuid for one in found.gpus],
        [one.id for one in found.work],
        [one.pid for one in found.processes],
    )


ALL_GPUS = ["GPU-0", "GPU-1", "MIG-7"]
NIGHT = ["night", "night/a", "night/b"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, (ALL_GPUS, [*NIGHT, "other"], [10, 20])),
        ({"gpu": ("0",)}, (["GPU-0"], ["night", "night/a"], [10])),
        ({"gpu": ("GPU-1",)}, (["GPU-1", "MIG-7"], [], [20])),
        ({"gpu": ("7",)}, ([], [], [])),
        ({"gpu": ("0", "1")}, (ALL_GPUS, ["night", "night/a"], [10, 20])),
        ({"run": ("night",)}, (["GPU-0"], NIGHT, [10])),
        ({"run": ("night/a",)}, (["GPU-0"], ["night", "night/a"], [10])),
        ({"run": ("none",)}, ([], [], [])),
        ({"mine": True}, (ALL_GPUS, NIGHT, [10])),
        ({"user": ("bob", "eve")}, (ALL_GPUS, ["other"], [20])),
        ({"pid": (10,)}, (ALL_GPUS, ["night", "night/a"], [10])),
        ({"pid": (30,)}, (ALL_GPUS, ["other"], [])),
        ({"user": ("ada",), "gpu": ("1",)}, (["GPU-1", "MIG-7"], [], [])),
    ],
)
def test_what_is_asked_for_is_kept(options, expected):
    assert shown(**options) == expected


@pytest.mark.parametrize(
    ("variable", "expected"), [("0", ["GPU-0"]), ("GPU-0, MIG-7", ["GPU-0", "MIG-7"]), ("", [])]
)
def test_visible_gpus_are_those_of_the_environment(variable, expected):
    assert shown({"CUDA_VISIBLE_DEVICES": variable}, visible=True)[0] == expected


def test_without_the_variable_all_gpus_are_visible():
    assert shown(visible=True)[0] == ALL_GPUS


def test_on_a_machine_without_a_gpu_no_work_is_on_one_that_is_asked_for():
    host = dataclasses.replace(HOST, gpus=())
    assert filtered(host, WatchOptions(gpu=("0",)), "ada", {}).work == ()


def test_states_and_findings_of_other_gpus_are_left_out():
    found = filtered(HOST, WatchOptions(gpu=("0",)), "ada", {})
    assert found.gpu_states == {"GPU-0": "busy"}
    assert found.gpu_idle_s == {}
    assert [one.code for one in found.findings] == ["shm"]
