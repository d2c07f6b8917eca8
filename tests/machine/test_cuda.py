"""GPUs that PyTorch sees, described by a stand-in for NVIDIA's management library."""

from __future__ import annotations

import json

import pytest

from forked import run_python

# PyTorch says what it sees; its look at free memory would make a CUDA context.
_PROGRAM = """
import json, sys, types
seen, cuda, request = json.loads(sys.argv[1])
class Cuda:
    contexts = 0
    is_available = staticmethod(lambda: bool(seen))
    device_count = staticmethod(lambda: len(seen))
    get_arch_list = staticmethod(lambda: ["sm_75", "sm_80", "sm_90"])
    memory_reserved = staticmethod(lambda index: seen[index].get("reserved", 0))
    memory_allocated = staticmethod(lambda index: seen[index].get("allocated", 0))
    @classmethod
    def mem_get_info(cls, index):
        cls.contexts += 1
        return 2**30, 2**31
    @staticmethod
    def get_device_properties(index):
        facts = {"name": "NVIDIA H200", "major": 9, "minor": 0} | seen[index]
        return types.SimpleNamespace(**facts)
torch = types.SimpleNamespace(
    __version__="2.13.0", version=types.SimpleNamespace(cuda=cuda, hip=None), cuda=Cuda
)
sys.modules["torch"] = torch
from tarmac import RequestError
from tarmac.machine import find_devices, name_left_out, why_on_cpu
answer = {"devices": [], "error": "", "hint": ""}
try:
    found = find_devices(request)
    answer["devices"] = [
        [d.torch_name, d.uuid, d.memory_bytes, d.available_bytes, d.held_by] for d in found
    ]
    answer["why"] = why_on_cpu()
    answer["left_out"] = name_left_out()
except RequestError as error:
    answer |= {"error": error.message, "hint": error.hint}
print(json.dumps(answer | {"contexts": Cuda.contexts}))
"""

UUID = "7d3c132a-675f-077e-3bf7-99d79213d062"
TOTAL = 150754820096

# Of `healthy`: what the driver holds of it.
RESERVED = 640_000_000


@pytest.fixture
def found(on_machine):
    """Return a function that finds devices on a machine by its name."""

    def find(machine, *seen, request="auto", cuda="13.0", **environment):
        words = ("-c", _PROGRAM, json.dumps([seen, cuda, request]))
        done = run_python(*words, env=on_machine(machine, **environment), check=True)
        return json.loads(done.stdout)

    return find


@pytest.fixture
def machine_of(tmp_path):
    """Return a function that writes a machine's file and returns its path."""

    def write(*lines: str) -> str:
        path = tmp_path / "machine.txt"
        path.write_text("\n".join(("driver 580.1", "cuda 13000", "count 1", *lines)) + "\n")
        return str(path)

    return write


def test_a_look_at_gpus_makes_no_context(found):
    answer = found("healthy", {"uuid": UUID})
    assert answer["devices"] == [["cuda:0", f"GPU-{UUID}", TOTAL, TOTAL - RESERVED, ""]]
    assert answer["contexts"] == 0


def test_memory_that_the_own_cache_holds_unused_is_free(found):
    answer = found("exclusive", {"uuid": UUID, "reserved": 5_000_000_000, "allocated": 10**9})
    assert answer["devices"][0][3] == TOTAL - 9_000_000_000 + 4_000_000_000


def test_an_instance_has_its_own_name_and_memory(found, machine_of):
    machine = machine_of(
        "0.name NVIDIA H200",
        f"0.uuid GPU-{UUID}",
        f"0.memory {TOTAL}",
        "0.mig 1 1",
        "0.mig_devices 1",
        "999.uuid MIG-1111",
        "999.name NVIDIA H200 MIG 1g.18gb",
        "999.memory 18000000000",
        "999.used 1000000000",
    )
    # Since CUDA 11.4 an instance's UUID is its own, before its GPU's.
    for uuid in ("1111", UUID):
        answer = found("mig", {"uuid": uuid}, NVML_STAND_IN=machine)
        expected = ["cuda:0", "MIG-1111", 18_000_000_000, 17_000_000_000, ""]
        assert (answer["devices"], answer["contexts"]) == ([expected], 0)


def test_a_gpu_that_the_driver_does_not_describe_is_asked_itself(found):
    answer = found("healthy", {"uuid": "other"})
    assert answer["devices"] == [["cuda:0", "GPU-other", 2**31, 2**30, ""]]


def test_who_holds_memory_is_known(found, machine_of):
    machine = machine_of(f"0.uuid GPU-{UUID}", "0.name x", "0.mig 0 0", "0.process 4242 9000000000")
    (device,) = found("held", {"uuid": UUID}, NVML_STAND_IN=machine)["devices"]
    assert device[4].endswith("4242 holds 8.4 GiB")


@pytest.mark.parametrize(
    ("machine", "facts", "text", "hint"),
    [
        (
            "healthy",
            {"major": 7, "minor": 0, "name": "Tesla V100"},
            "Tesla V100 is sm_70, and PyTorch 2.13.0 (CUDA 13.0) has code for sm_75 sm_80 sm_90",
            "pip install --force-reinstall torch --index-url "
            "https://download.pytorch.org/whl/cu126",
        ),
        (
            "exclusive",
            {},
            "NVIDIA H200 is in compute mode EXCLUSIVE_PROCESS, and process 4242 holds 8.4 GiB",
            "Wait for it to end, or let processes share the GPU: sudo nvidia-smi -i 0 -c DEFAULT",
        ),
        (
            "prohibited",
            {},
            "NVIDIA H200 is in compute mode PROHIBITED",
            "Let programs compute on it: sudo nvidia-smi -i 0 -c DEFAULT",
        ),
    ],
)
def test_a_gpu_that_cannot_be_computed_on_is_refused_or_left_alone(
    found, machine, facts, text, hint
):
    seen = {"uuid": UUID} | facts
    asked = found(machine, seen, request="cuda:0")
    assert asked["error"] == f"devices is 'cuda:0', but cuda:0 cannot be computed on: {text}"
    assert asked["hint"] == hint
    left = found(machine, seen)
    assert [device[0] for device in left["devices"]] == ["cpu"]
    assert left["why"] == f"the GPUs here cannot be used: {text}. {hint}"
    assert (asked["contexts"], left["contexts"]) == (0, 0)


def test_of_several_gpus_those_are_taken_that_can_be_computed_on(found):
    old = {"uuid": "a", "major": 7, "minor": 0, "name": "Tesla V100"}
    good = {"uuid": UUID}
    taken = found("healthy", old, good)
    assert [d[0] for d in taken["devices"]] == ["cuda:1"]
    assert taken["left_out"].startswith("without cuda:0: Tesla V100 is sm_70, and PyTorch 2.13.0")
    assert found("healthy", good)["left_out"] == ""
    assert [d[0] for d in found("healthy", old, good, request="1")["devices"]] == ["cuda:1"]
    refused = found("healthy", old, good, request="2")
    assert refused["error"].startswith(
        "devices is '2', but this machine has 2: cuda:0 (Tesla V100), cuda:1 (NVIDIA H200); "
        "not cuda:0: Tesla V100 is sm_70"
    )


def test_an_exclusive_gpu_that_this_process_computes_on_is_its_own(found):
    seen = {"uuid": UUID, "reserved": 2**21, "allocated": 2**20}
    assert found("exclusive", seen)["devices"][0][0] == "cuda:0"


@pytest.mark.parametrize(
    ("cuda", "environment", "text", "hint"),
    [
        (
            "14.0",
            {},
            "PyTorch 2.13.0 (CUDA 14.0) needs a newer driver: this one runs CUDA 13.0 at most",
            "https://download.pytorch.org/whl/cu132",
        ),
        (None, {}, "PyTorch 2.13.0 is built without CUDA", "pip install --force-reinstall torch"),
        (
            "13.0",
            {"CUDA_VISIBLE_DEVICES": "GPU-none"},
            "CUDA_VISIBLE_DEVICES is 'GPU-none', and the first name in it that no GPU here has",
            f"Unset it, or name some of: 0 (GPU-{UUID})",
        ),
        (
            "13.0",
            {"CUDA_VISIBLE_DEVICES": ""},
            "CUDA_VISIBLE_DEVICES is empty, which hides all GPUs",
            "Unset it",
        ),
        ("13.0", {}, "PyTorch 2.13.0 (CUDA 13.0) sees none of 1 GPU", "tarmac check"),
    ],
)
def test_why_pytorch_sees_no_gpu_is_said_with_what_to_do(found, cuda, environment, text, hint):
    asked = found("healthy", request="cuda:0", cuda=cuda, **environment)
    assert text in asked["error"]
    assert hint in asked["hint"]
    left = found("healthy", cuda=cuda, **environment)
    assert [device[0] for device in left["devices"]] == ["cpu"]
    assert text in left["why"]
    assert hint in left["why"]


def test_a_driver_that_does_not_answer_is_said(found):
    asked = found("unknown-error", request="2")
    assert (
        asked["error"] == "devices is '2', but NVIDIA's driver does not answer: NVML: Unknown Error"
    )
