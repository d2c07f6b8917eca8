"""Every failure of the catalogue is found in evidence as it was recorded."""

from __future__ import annotations

import re

import pytest
from recorded import CLOSE, RECORDED
from recorded.evidence import CARD, DRIVER, H200, done, machine, on_gpu, said, with_gpu

from tarmac.checks.evidence import Container, Driver, Evidence, Limits, Probe
from tarmac.checks.report.make import make_report
from tarmac.checks.rules.catalogue import find_failure, read_catalogue
from tarmac.checks.rules.findings import find
from tarmac.checks.rules.patterns import find_in
from tarmac.checks.rules.table import RULES
from tarmac.machine import MigDevice

_COUNTED = [code for code, failure in read_catalogue().items() if not failure.harmless]


def test_there_are_at_least_40_failures_each_with_recorded_evidence():
    assert len(read_catalogue()) >= 40
    assert read_catalogue().keys() == RECORDED.keys()


def test_every_rule_belongs_to_a_failure_that_asks_for_it():
    assert RULES.keys() == {code for code, f in read_catalogue().items() if f.rule}


@pytest.mark.parametrize("failure", read_catalogue().values(), ids=lambda f: f.code)
def test_an_entry_is_whole(failure):
    assert failure.is_printed or failure.rule
    assert failure.cause.endswith(".")
    assert failure.fix
    assert failure.source.startswith("https://")
    assert set(failure.hides) <= read_catalogue().keys()
    assert failure.code not in failure.hides


@pytest.mark.parametrize(
    ("code", "evidence"),
    [(code, evidence) for code in _COUNTED for evidence in RECORDED[code]],
    ids=[f"{code}-{n}" for code in _COUNTED for n in range(len(RECORDED[code]))],
)
def test_a_recorded_failure_is_found(code, evidence):
    found = {finding.code: finding for finding in find(evidence)}
    assert code in found, f"found {list(found)}"
    finding = found[code]
    assert finding.evidence
    assert "{" not in finding.cause
    assert not any(re.search(r"(?<!\$)\{\w+\}", line) for line in finding.fix)


@pytest.mark.parametrize("code", RECORDED.keys() - {*_COUNTED})
def test_what_is_harmless_is_found_by_no_check(code):
    assert not [finding for evidence in RECORDED[code] for finding in find(evidence)]


def test_a_code_that_was_renamed_is_known_by_its_old_name():
    renamed = {old: new for new, failure in read_catalogue().items() for old in failure.formerly}
    assert renamed["torch-driver-missing"] == "libcuda-missing"
    assert not renamed.keys() & read_catalogue().keys()
    for old, new in renamed.items():
        assert find_failure(old).code == new


def test_every_rule_has_something_that_comes_close():
    assert RULES.keys() <= CLOSE.keys() <= read_catalogue().keys()


@pytest.mark.parametrize(
    ("code", "evidence"),
    [(code, evidence) for code, cases in CLOSE.items() for evidence in cases],
    ids=[f"{code}-{n}" for code, cases in CLOSE.items() for n in range(len(cases))],
)
def test_what_comes_close_is_not_found(code, evidence):
    assert code not in {finding.code for finding in find(evidence)}
    # Nor is it hidden by another finding.
    assert not list(RULES[code](evidence) if code in RULES else ())


def test_a_healthy_machine_has_no_findings():
    healthy = on_gpu(
        "torch",
        matmul={"error": 1e-7, "tolerance": 1e-3, "ok": True},
        flops={"bf16": 780e12},
        copies={"to_device": 52e9, "from_device": 52e9, "memory": 4300e9},
    )
    assert find(healthy) == ()
    assert find(Evidence(inventory=machine())) == ()


def test_a_chip_that_is_not_known_is_measured_without_a_verdict():
    device = {"name": "cuda:0", "kind": "gpu", "chip": "Fast 9000", "flops": {"bf16": 1e9}}
    assert find(done("torch", devices=[device])) == ()


def test_a_framework_without_a_gpu_may_say_so_and_fails_only_where_it_was_to_use_one():
    words = "Could not find cuda drivers on your machine, GPU will not be used."
    assert find(done("tensorflow", machine(), notes=[words])) == ()
    (finding,) = find(done("tensorflow", machine(cards=(CARD,)), notes=[words]))
    assert finding.code == "libcuda-missing"
    assert [f.code for f in find(said("tensorflow", words, machine()))] == ["libcuda-missing"]


@pytest.mark.parametrize(
    ("cause", "consequence", "text"),
    [
        (
            "rank-unreachable",
            "nccl-generic",
            "NCCL WARN socketProgress: Connection closed by remote peer node1<57557>\n"
            "NCCL error: remote process exited or there was a network error, NCCL version 2.14.3",
        ),
        (
            "shm-small",
            "nccl-generic",
            "NCCL WARN Error: failed to extend /dev/shm/nccl-fjwOOB to 5967876 bytes\n"
            "NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)",
        ),
        (
            "nccl-interface",
            "rank-unreachable",
            "include/socket.h:409 NCCL WARN Connect to 172.17.0.1<41235> failed : timed out",
        ),
        (
            "cudnn-version",
            "cudnn-init",
            "Loaded runtime CuDNN library: 8.7.0 but source was compiled with: 8.9.4.\n"
            "FAILED_PRECONDITION: DNN library initialization failed.",
        ),
        (
            "tf-dlopen",
            "library-missing",
            "Could not load dynamic library 'libcudnn.so.8'; dlerror: libcudnn.so.8: cannot open "
            "shared object file: No such file or directory",
        ),
        (
            "arch-missing",
            "arch-unlisted",
            "Found GPU0 NVIDIA GeForce RTX 5060 Ti which is of compute capability (CC) 12.0.\n"
            "with CUDA capability sm_120 is not compatible with the current PyTorch installation.",
        ),
    ],
)
def test_what_a_message_follows_from_is_shown_instead_of_it(cause, consequence, text):
    assert consequence in find_in(text)
    evidence = Evidence(inventory=machine(), texts=(text,))
    assert [finding.code for finding in find(evidence)] == [cause]


def test_causes_come_before_their_consequences_and_hide_them():
    evidence = done(
        "torch",
        machine(
            (H200,),
            driver=DRIVER,
            environment={"CUDA_VISIBLE_DEVICES": ""},
            limits=Limits(shm_bytes=2**26),
        ),
        build={"cuda": "13.0", "architectures": ["sm_90"]},
    )
    assert [finding.code for finding in find(evidence)] == ["no-visible", "shm-small"]


def test_one_cause_at_several_places_is_one_finding():
    hot = [
        H200.model_copy(update={"index": n, "slowdowns": ("sw_thermal",), "temperature_c": 88})
        for n in range(8)
    ]
    (finding,) = find(Evidence(inventory=machine(tuple(hot), driver=DRIVER)))
    assert finding.where == tuple(f"GPU {n}" for n in range(8))
    assert finding.evidence == "sw_thermal at 88 °C"
    words = "CUDA unknown error"
    both = [said(name, words).probes[0] for name in ("torch", "chainer")]
    (finding,) = find(Evidence(inventory=with_gpu(), probes=tuple(both)))
    assert (finding.code, finding.where) == ("uvm-missing", ("torch", "chainer"))


def test_a_fault_of_one_framework_does_not_hide_that_of_another():
    torch = done("torch", build={"cuda": None, "hip": None}).probes[0]
    jax = done("jax", build={"plugins": {"jax-cuda13-plugin": "0.10.2"}, "cuda": "13"}).probes[0]
    found = find(Evidence(inventory=with_gpu(), probes=(torch, jax)))
    assert [(f.code, f.where) for f in found] == [
        ("torch-cpu-build", ("torch",)),
        ("silent-cpu", ("jax",)),
    ]


def test_each_place_of_a_framework_has_its_own_finding():
    bad = done("torch", build={"cuda": None, "hip": None}).probes[0]
    other = {"where": "/opt/a/bin/python", "result": on_gpu("torch").probes[0].result}
    evidence = Evidence(inventory=with_gpu(), probes=(bad, bad.model_copy(update=other)))
    report = make_report(evidence, seconds=1)
    assert [(v.name, v.answer) for v in report.frameworks] == [
        ("torch", "failure"),
        ("torch (/opt/a/bin/python)", "ok"),
    ]


def test_a_hint_does_not_stand_for_a_failure():
    probe = Probe(
        framework="tensorflow",
        where="this Python",
        outcome="failed",
        detail="InternalError during training on cuda:0: something else",
        result={"stage": "training on cuda:0", "devices": [{"name": "cuda:0", "kind": "gpu"}]},
    )
    found = find(Evidence(inventory=with_gpu(), probes=(probe,)))
    assert {finding.code for finding in found} == {"probe-failed", "tf-memory-all"}


def test_why_no_gpu_was_used_is_said_where_one_is_here():
    evidence = done(
        "torch",
        with_gpu(environment={"CUDA_VISIBLE_DEVICES": ""}),
        build={"cuda": "13.0", "architectures": ["sm_90"]},
    )
    (verdict,) = make_report(evidence, seconds=1).frameworks
    assert verdict.answer == "cpu only"
    assert "no GPU was used, because CUDA_VISIBLE_DEVICES hides the GPUs" in verdict.text


def test_ranks_that_are_more_than_gpus_are_no_failure():
    why = "2 ranks need a GPU each, and 1 can be seen"
    evidence = done("all-reduce", cpu_because=why)
    report = make_report(evidence, seconds=1)
    assert report.findings == ()
    assert why in report.frameworks[0].text


def test_another_makers_driver_does_not_stand_for_nvidias():
    driver = Driver(nvml_error="NVML: NVML Shared Library Not Found", modules=("amdgpu",))
    found = find(Evidence(inventory=machine(cards=(CARD,), driver=driver)))
    assert [finding.code for finding in found] == ["no-driver"]


def test_a_node_that_cuda_makes_at_its_first_use_is_not_missed():
    nodes = Container(device_nodes=("nvidia0", "nvidiactl"))
    assert find(Evidence(inventory=with_gpu(container=nodes))) == ()


@pytest.mark.parametrize(
    ("built", "is_newer"),
    [("13.0", False), ("14", True), (True, False), ("64_112", True), ("", False), (None, False)],
)
def test_a_builds_version_is_read_whatever_its_form(built, is_newer):
    found = find(done("odd", build={"cuda": built}))
    assert ("driver-old" in {finding.code for finding in found}) == is_newer


@pytest.mark.parametrize(
    "name",
    [
        "NVIDIA H200 MIG 1g.18gb",
        "NVIDIA A10-24Q",
        "GRID T4-16C",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
    ],
)
def test_parts_of_chips_are_not_measured_against_the_whole(name):
    device = {"name": "cuda:0", "kind": "gpu", "chip": name, "flops": {"bf16": 1e12}}
    assert find(done("torch", devices=[device])) == ()


def test_copies_of_ordinary_memory_are_not_judged_as_pinned():
    copies = {"to_device": 4e9, "from_device": 4e9, "pinned": False}
    assert {f.code for f in find(on_gpu("jax", copies=copies))} == {"jax-preallocate"}


@pytest.mark.parametrize(
    ("value", "is_found"),
    [
        ("MIG-1000", False),
        ("MIG-1001,MIG-1000", False),
        # Drivers before 470 name a partition by its GPU.
        ("MIG-GPU-7d3c132a/1/0", False),
        ("MIG-GPU-ffffffff/1/0", True),
        ("MIG-1002", True),
        ("GPU-7d3c132a", False),
        ("0", False),
    ],
)
def test_partitions_are_known_by_their_names(value, is_found):
    devices = tuple(MigDevice(uuid=uuid) for uuid in ("MIG-1000", "MIG-1001"))
    card = H200.model_copy(update={"mig": True, "mig_devices": devices})
    inventory = machine((card,), driver=DRIVER, environment={"CUDA_VISIBLE_DEVICES": value})
    assert ("no-visible" in {f.code for f in find(Evidence(inventory=inventory))}) == is_found


def test_a_frameworks_own_words_are_better_than_that_it_failed():
    evidence = said("torch", "RuntimeError: CUDA error: device-side assert triggered")
    assert [finding.code for finding in find(evidence)] == ["device-assert"]


@pytest.mark.parametrize(
    ("driver", "capability", "index"),
    [
        ("13.0", (9, 0), "cu132"),
        ("12.8", (9, 0), "cu129"),
        ("12.4", (9, 0), "cu129"),
        ("13.0", (6, 0), "cu126"),
    ],
)
def test_the_advice_names_a_build_that_suits_driver_and_chip(driver, capability, index):
    card = H200.model_copy(update={"capability": capability})
    inventory = machine((card,), driver=DRIVER.model_copy(update={"cuda": driver}))
    (finding,) = find(done("torch", inventory, build={"cuda": None, "hip": None}))
    assert index in finding.fix[0]
