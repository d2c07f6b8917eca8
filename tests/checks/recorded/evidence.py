"""Evidence in short: what the recorded failures are written with."""

from __future__ import annotations

from typing import Any

from tarmac.checks.evidence import (
    Container,
    Driver,
    Evidence,
    Host,
    Inventory,
    PciCard,
    Probe,
)
from tarmac.machine import Gpu

HOST = Host(
    cpu="a CPU", cores=8, memory_bytes=2**36, disk_free_bytes=2**36, kernel="6.1", system="Linux"
)
H200 = Gpu(
    index=0,
    name="NVIDIA H200",
    uuid="GPU-7d3c132a",
    memory_bytes=150754820096,
    capability=(9, 0),
    persistence=True,
)
DRIVER = Driver(version="580.126.20", cuda="13.0", modules=("nvidia", "nvidia_uvm"), library="x")
ABSENT = Driver(nvml_error="NVML: NVML Shared Library Not Found")
CARD = PciCard(address="0000:19:00.0", vendor="nvidia", device="0x2335")
OTHER_CARD = PciCard(address="0000:19:00.0", vendor="amd", device="0x74a1", driver="amdgpu")
DOCKER = Container(kind="docker")


def machine(gpus: tuple[Gpu, ...] = (), **facts: Any) -> Inventory:
    return Inventory(host=HOST, gpus=gpus, **facts)


def with_gpu(**facts: Any) -> Inventory:
    return machine((H200,), driver=DRIVER, cards=(CARD,), **facts)


def gpu(**facts: Any) -> Evidence:
    return Evidence(inventory=machine((H200.model_copy(update=facts),), driver=DRIVER))


def said(framework: str, text: str, inventory: Inventory | None = None) -> Evidence:
    """Return what a failed probe leaves whose error is a text."""
    error = {"type": "RuntimeError", "message": text, "traceback": text}
    probe = Probe(
        framework=framework,
        where="this Python",
        outcome="failed",
        detail="RuntimeError",
        result={"stage": "devices", "error": error},
    )
    return Evidence(inventory=inventory or with_gpu(), probes=(probe,))


def done(framework: str, inventory: Inventory | None = None, **result: Any) -> Evidence:
    cpu = {"name": "cpu", "kind": "cpu"}
    probe = Probe(
        framework=framework,
        where="this Python",
        outcome="done",
        result={"stage": "done", "version": "1.0", "devices": [cpu]} | result,
    )
    return Evidence(inventory=inventory or with_gpu(), probes=(probe,))


def on_gpu(framework: str, **facts: Any) -> Evidence:
    device = {"name": "cuda:0", "kind": "gpu", "chip": "NVIDIA H200"} | facts
    return done(framework, devices=[device])


def ended(outcome: Any, detail: str, stage: str = "devices") -> Evidence:
    result = {"stage": stage}
    probe = Probe(
        framework="torch", where="this Python", outcome=outcome, detail=detail, result=result
    )
    return Evidence(inventory=machine(), probes=(probe,))


def text(line: str) -> Evidence:
    return Evidence(inventory=machine(), texts=(line,))
