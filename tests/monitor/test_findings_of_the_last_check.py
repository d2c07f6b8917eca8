"""Findings of the last check are shown while they can still be true."""

from __future__ import annotations

import pytest
from monitor_values import gpu

from tarmac.checks import read_catalogue
from tarmac.files import Fields
from tarmac.monitor.last_check import findings_of_check, is_of_machine


def report(*findings: dict, gpus: tuple[dict, ...] = (), **facts) -> Fields:
    inventory = {"gpus": [{"index": n, "uuid": f"GPU-{n}"} | own for n, own in enumerate(gpus)]}
    content = {"checked_at": "2026-11-22T10:00:00Z", "findings": [*findings]}
    return Fields(content | {"inventory": inventory} | facts)


def finding(code: str = "slow-copies", *where: str, level: str = "warning") -> dict:
    return {"code": code, "level": level, "title": code, "where": [*where]}


def codes(checked: Fields, *gpus) -> list[str]:
    return [one.code for one in findings_of_check(checked, gpus)]


def test_a_checks_failures_and_warnings_are_shown_with_what_to_type():
    checked = report(
        {
            "code": "ecc",
            "level": "failure",
            "title": "uncorrected memory errors",
            "where": ["GPU 1"],
            "evidence": "GPU 1: 3",
            "fix": ["sudo nvidia-smi -r -i 1", "or restart"],
        },
        {"code": "persistence", "level": "note", "title": "off", "where": ["GPU 0"]},
        {"code": "shm-small", "level": "warning", "where": ["machine"], "fix": []},
        gpus=({}, {}),
    )
    first, second = findings_of_check(checked, [gpu(0), gpu(1)])
    command = "sudo nvidia-smi -r -i 1"
    assert (first.code, first.gpu_uuid, first.command) == ("ecc", "GPU-1", command)
    assert first.text == "uncorrected memory errors: GPU 1: 3"
    assert first.at is not None
    assert first.is_of_check
    assert (second.text, second.command, second.gpu_uuid) == ("shm-small", "", None)


@pytest.mark.parametrize("content", [{}, {"findings": None}, {"findings": [1, {"level": 3}]}])
def test_a_check_that_is_none_finds_nothing(content):
    assert findings_of_check(Fields(content), [gpu()]) == ()


@pytest.mark.parametrize(
    ("boot_id", "driver", "is_current"),
    [("a", "580.1", True), ("b", "580.1", False), ("a", "590.2", False), ("a", None, False)],
)
def test_a_check_is_of_the_boot_and_the_driver_that_it_saw(boot_id, driver, is_current):
    inventory = {"host": {"boot_id": "a"}, "driver": {"module_version": "580.1"}}
    checked = Fields({"inventory": inventory})
    assert is_of_machine(checked, boot_id=boot_id, driver=driver) is is_current


def test_a_finding_about_a_gpu_that_was_replaced_is_dropped():
    checked = report(finding("slow-copies", "GPU 0"), gpus=({},))
    assert codes(checked, gpu(0)) == ["slow-copies"]
    assert codes(checked, gpu(0, uuid="GPU-new")) == []
    # A driver that does not start says nothing about its GPUs.
    assert codes(checked) == ["slow-copies"]


def test_a_finding_of_a_framework_is_about_the_gpu_that_its_device_is():
    devices = [{"name": "cpu"}, {"name": "cuda:0", "uuid": "GPU-1"}]
    probes = [{"framework": "torch", "result": {"devices": devices}}, {"framework": "jax"}]
    place = finding("slow-memory", "jax on cuda:0")
    checked = report(place, gpus=({}, {}), probes=probes)
    assert codes(checked, gpu(1)) == ["slow-memory"]
    assert codes(checked, gpu(0)) == []
    # Without a UUID of the driver's, as PyTorch has for a slice, the finding stays.
    assert codes(report(place, gpus=({},), probes=probes), gpu(0)) == ["slow-memory"]


def test_a_gpu_that_fell_off_the_bus_need_not_be_there():
    checked = report(finding("fell-off-bus", "GPU 1", level="failure"), gpus=({}, {}))
    assert codes(checked, gpu(0)) == ["fell-off-bus"]
    assert codes(checked, gpu(0), gpu(1, error="GPU is lost")) == ["fell-off-bus"]
    assert codes(checked, gpu(0), gpu(1)) == []


def test_a_finding_stays_at_the_gpus_that_do_not_deny_it():
    checked = report(finding("throttle-thermal", "GPU 0", "GPU 1"), gpus=({}, {}))
    (one,) = findings_of_check(checked, [gpu(0), gpu(1, throttle_reasons=("sw_thermal",))])
    assert one.gpu_uuid == "GPU-1"


IDLE = {"utilization_ratio": 0.0, "power_watts": 70.0}
LIMITS = {"temperature_limits_c": {"operating": 87, "memory": 95}}
HELD = {"processes": [{"pid": 7}]}


@pytest.mark.parametrize(
    ("code", "checked", "denying", "not_denying"),
    [
        (
            "throttle-thermal",
            {},
            gpu(),
            [gpu(throttle_reasons=("hw_thermal",)), gpu(**IDLE), gpu(utilization_ratio=None)],
        ),
        (
            "throttle-hardware",
            {},
            gpu(throttle_reasons=("sw_power_cap",)),
            [gpu(throttle_reasons=("hw_power_brake",)), gpu(**IDLE)],
        ),
        (
            "too-hot",
            LIMITS,
            gpu(temperature_c=80.0, memory_temperature_c=90.0),
            [
                gpu(temperature_c=90.0),
                gpu(temperature_c=80.0, memory_temperature_c=96.0),
                gpu(temperature_c=40.0, **IDLE),
                gpu(),
            ],
        ),
        ("mem-held", HELD, gpu(0, 8), [gpu(0, 7)]),
        ("exclusive-mode", HELD, gpu(0), [gpu(0, 7), gpu(0, error="GPU is lost")]),
        (
            "mem-held-unseen",
            {},
            gpu(0, 7, memory_used_bytes=31 * 2**30),
            [gpu(0, 7, memory_used_bytes=40 * 2**30), gpu(0, memory_used_bytes=None)],
        ),
        (
            "ecc",
            {"uncorrected_errors": 2},
            gpu(uncorrected_errors=0),
            [gpu(uncorrected_errors=2), gpu(uncorrected_errors=None)],
        ),
        (
            "power-limited",
            {"default_power_watts": 700.0},
            gpu(power_limit_watts=700.0),
            [gpu(power_limit_watts=500.0), gpu(power_limit_watts=None)],
        ),
        (
            "pcie-narrow",
            {},
            gpu(pcie_width=16, max_pcie_width=16),
            [gpu(pcie_width=8, max_pcie_width=16), gpu()],
        ),
        (
            "pcie-generation",
            {},
            gpu(pcie_generation=5, max_pcie_generation=5),
            [gpu(pcie_generation=1, max_pcie_generation=5), gpu()],
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_sensors_deny_a_finding(code, checked, denying, not_denying):
    assert code in read_catalogue()
    found = report(finding(code, "GPU 0"), gpus=(checked,))
    assert codes(found, denying) == []
    for current in not_denying:
        assert codes(found, current) == [code]


@pytest.mark.parametrize("checked", [{"retired_pages_pending": True}, {"remap_failed": True}])
def test_errors_that_no_counter_shows_are_not_denied_by_one(checked):
    found = report(finding("ecc", "GPU 0"), gpus=({"uncorrected_errors": 0} | checked,))
    assert codes(found, gpu(uncorrected_errors=0)) == ["ecc"]
