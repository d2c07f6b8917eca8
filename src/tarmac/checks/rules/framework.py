"""Rules on frameworks: how they are built, what they see, and what they compute."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tarmac.machine import find_chip, is_driver_too_old, names_nothing, runs_on

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tarmac.checks.evidence import Evidence, Probe
    from tarmac.checks.rules.rule import Hits, Rule

# The shares of nominal rates under which we warn, and call it a failure. Healthy cards reach 0.7
# to 0.85 in large bf16 products and 0.9 in copies; shapes, clocks and cooling explain some of the
# rest.
_SLOW = 0.6
_VERY_SLOW = 0.3

# Bytes/s of pinned memory over PCIe 3.0 x8, the slowest link a card of today should have.
_SLOW_COPIES = 6e9

# Frameworks print a screen or two; what floods a log also hides in it what matters.
_FLOOD_BYTES = 10 * 2**20

# cuda:0, gpu(0), /device:GPU:0, cupy
_ON_GPU = re.compile("cuda|gpu|cupy|rocm", re.IGNORECASE)

# Probes of several processes, which are no device's.
_RANKS = frozenset({"all-reduce", "horovod"})


def _result(probe: Probe, *keys: str) -> Any:
    value: Any = probe.result
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _of(evidence: Evidence, framework: str) -> Iterator[Probe]:
    for probe in evidence.probes:
        if probe.framework == framework and probe.outcome != "not installed":
            yield probe


def _should_use_gpu(probe: Probe, evidence: Evidence) -> bool:
    """Whether a GPU is here and the probe was not told to keep to the CPU."""
    is_here = bool(evidence.inventory.gpus) or bool(evidence.inventory.nvidia_cards)
    return is_here and set(probe.result.get("wanted", ())) != {"cpu"}


def _torch_cpu_build(evidence: Evidence) -> Hits:
    for probe in _of(evidence, "torch"):
        build = probe.result.get("build")
        if (
            build
            and not build.get("cuda")
            and not build.get("hip")
            and _should_use_gpu(probe, evidence)
        ):
            yield probe.label, f"version {probe.result.get('version')}"


def _driver_old(evidence: Evidence) -> Hits:
    most = evidence.inventory.driver.cuda
    for probe in evidence.probes:
        built = _result(probe, "build", "cuda")
        # Probes of other frameworks say it in their own forms: "12.4", 12040, True.
        if is_driver_too_old(str(built), most):
            yield probe.label, f"built for CUDA {built}, the driver has {most}"


def _arch_missing(evidence: Evidence) -> Hits:
    for probe in _of(evidence, "torch"):
        architectures = _result(probe, "build", "architectures") or ()
        for gpu in evidence.inventory.gpus:
            if gpu.capability is not None and not runs_on(architectures, gpu.capability):
                major, minor = gpu.capability
                has = " ".join(architectures)
                yield probe.label, f"{gpu.name} is sm_{major}{minor}, the build has {has}"


def _no_visible(evidence: Evidence) -> Hits:
    value = evidence.inventory.environment.get("CUDA_VISIBLE_DEVICES")
    gpus = evidence.inventory.gpus
    if value is None or not gpus:
        return
    if names_nothing(gpus, value):
        yield "machine", f"CUDA_VISIBLE_DEVICES={value!r}, the driver has {len(gpus)}"


def _tf_cpu_build(evidence: Evidence) -> Hits:
    for probe in _of(evidence, "tensorflow"):
        if _result(probe, "build", "with_cuda") is False and _should_use_gpu(probe, evidence):
            yield probe.label, f"version {probe.result.get('version')}, built without CUDA"


def _tf_memory_all(evidence: Evidence) -> Hits:
    variables = evidence.inventory.environment
    if variables.get("TF_FORCE_GPU_ALLOW_GROWTH", "").lower() != "true":
        for probe in _of(evidence, "tensorflow"):
            if any(device["kind"] == "gpu" for device in probe.result.get("devices", ())):
                yield probe.label, "TF_FORCE_GPU_ALLOW_GROWTH is not set"


def _jax_cpu(evidence: Evidence) -> Hits:
    for probe in _of(evidence, "jax"):
        if _result(probe, "build", "plugins") == {} and _should_use_gpu(probe, evidence):
            yield probe.label, f"version {probe.result.get('version')} without a CUDA plugin"


def _jax_preallocate(evidence: Evidence) -> Hits:
    variables = evidence.inventory.environment
    if not {"XLA_PYTHON_CLIENT_PREALLOCATE", "XLA_PYTHON_CLIENT_MEM_FRACTION"} & variables.keys():
        for probe in _of(evidence, "jax"):
            if any(device["kind"] == "gpu" for device in probe.result.get("devices", ())):
                yield probe.label, "XLA_PYTHON_CLIENT_PREALLOCATE is not set"


def _ld_path_shadow(evidence: Evidence) -> Hits:
    search = evidence.inventory.environment.get("LD_LIBRARY_PATH", "")
    directories = [part.rstrip("/") for part in search.split(":") if part]
    for probe in evidence.probes:
        for path in probe.result.get("libraries", ()):
            shadows = any(path.startswith(f"{directory}/") for directory in directories)
            is_drivers = "libcuda.so" in path or "libnvidia-ml" in path
            if shadows and not is_drivers and "site-packages" not in path:
                yield probe.label, path


def _mxnet_cpu_build(evidence: Evidence) -> Hits:
    for probe in _of(evidence, "mxnet"):
        if _result(probe, "build", "with_cuda") is False and _should_use_gpu(probe, evidence):
            yield probe.label, f"version {probe.result.get('version')}, feature CUDA is off"


def _chainer_cupy(evidence: Evidence) -> Hits:
    for probe in _of(evidence, "chainer"):
        if (
            _result(probe, "build", "cupy") is None
            and "build" in probe.result
            and _should_use_gpu(probe, evidence)
        ):
            yield probe.label, "cupy is not installed"


def _silent_cpu(evidence: Evidence) -> Hits:
    for probe, device in _measured(evidence):
        placement = str(device.get("placement") or "")
        if device["kind"] == "gpu" and placement and not _ON_GPU.search(placement):
            yield _at(probe, device), f"what it computed for this device lies on {placement}"
    if not evidence.inventory.gpus:
        return
    for probe in evidence.probes:
        devices = probe.result.get("devices", ())
        is_on_cpu = bool(devices) and all(device["kind"] == "cpu" for device in devices)
        has_reason = "cpu_because" in probe.result or not _should_use_gpu(probe, evidence)
        if probe.outcome == "done" and is_on_cpu and not has_reason:
            yield probe.label, f"the driver has {len(evidence.inventory.gpus)}, it sees none"


def _device_absent(evidence: Evidence) -> Hits:
    for probe in evidence.probes:
        wanted = set(probe.result.get("wanted", ()))
        names = [device["name"] for device in probe.result.get("devices", ())]
        absent = wanted - {*names, *(name.split(":")[0] for name in names)}
        # Ranks have names of their own.
        if probe.outcome == "done" and probe.framework not in _RANKS and absent:
            yield probe.label, f"it sees no {', '.join(sorted(absent))}"


def _at(probe: Probe, device: Mapping[str, Any]) -> str:
    return f"{probe.label} on {device['name']}"


def _measured(evidence: Evidence) -> Iterator[tuple[Probe, Mapping[str, Any]]]:
    for probe in evidence.probes:
        for device in probe.result.get("devices", ()):
            yield probe, device


def _wrong_result(evidence: Evidence) -> Hits:
    for probe, device in _measured(evidence):
        for kind in ("matmul", "convolution"):
            judged = device.get(kind)
            if judged is not None and not judged["ok"]:
                error = f"{judged['error']:.1e}, more than {judged['tolerance']:.0e}"
                yield _at(probe, device), f"{kind} is off by {error}"
        training = device.get("training")
        if training is not None and not training["ok"]:
            losses = ", ".join(f"{loss:.3f}" for loss in training["losses"])
            yield _at(probe, device), f"the loss does not fall: {losses}"


def _shares(evidence: Evidence) -> Iterator[tuple[str, float, str]]:
    """Yield where, which share of its nominal matrix rate a chip reaches, and that in words."""
    for probe, device in _measured(evidence):
        chip = find_chip(device.get("chip"))
        for kind in ("bf16", "fp16"):
            nominal = getattr(chip, kind) if chip else None
            rate = (device.get("flops") or {}).get(kind)
            if nominal and rate:
                words = f"{rate / 1e12:.0f} of {nominal:g} TFLOP/s in {kind}"
                yield _at(probe, device), rate / nominal / 1e12, words


def _very_slow_compute(evidence: Evidence) -> Hits:
    for where, share, words in _shares(evidence):
        if share < _VERY_SLOW:
            yield where, words


def _slow_compute(evidence: Evidence) -> Hits:
    for where, share, words in _shares(evidence):
        if _VERY_SLOW <= share < _SLOW:
            yield where, words


def _slow_memory(evidence: Evidence) -> Hits:
    for probe, device in _measured(evidence):
        chip = find_chip(device.get("chip"))
        rate = (device.get("copies") or {}).get("memory")
        if chip and rate and rate < _SLOW * chip.bandwidth * 1e9:
            words = f"{rate / 1e9:.0f} of {chip.bandwidth:g} GB/s"
            yield _at(probe, device), words


def _slow_copies(evidence: Evidence) -> Hits:
    for probe, device in _measured(evidence):
        copies = device.get("copies") or {}
        for direction in ("to_device", "from_device"):
            rate = copies.get(direction)
            if rate and rate < _SLOW_COPIES and copies.get("pinned", True):
                words = direction.replace("_", " the ")
                yield _at(probe, device), f"{rate / 1e9:.1f} GB/s {words}"


def _probe_crashed(evidence: Evidence) -> Hits:
    for probe in evidence.probes:
        if probe.outcome == "crashed":
            yield probe.label, probe.detail


def _probe_hung(evidence: Evidence) -> Hits:
    for probe in evidence.probes:
        if probe.outcome == "hung" and "all_reduce" not in probe.result:
            yield probe.label, probe.detail


def _probe_no_result(evidence: Evidence) -> Hits:
    for probe in evidence.probes:
        if probe.outcome == "no result":
            yield probe.label, probe.detail


def _probe_left_processes(evidence: Evidence) -> Hits:
    for probe in evidence.probes:
        # What is ended before its time has no chance to end what it started.
        if probe.left_behind and probe.outcome != "hung":
            yield probe.label, f"{probe.left_behind} still ran"


def _probe_flood(evidence: Evidence) -> Hits:
    for probe in evidence.probes:
        if probe.printed_bytes > _FLOOD_BYTES:
            yield probe.label, f"{probe.printed_bytes / 2**20:.0f} MiB"


def _import_failed(evidence: Evidence) -> Hits:
    for probe in evidence.probes:
        if probe.outcome == "failed" and probe.result.get("stage") == "import":
            yield probe.label, probe.detail


def _probe_failed(evidence: Evidence) -> Hits:
    for probe in evidence.probes:
        if probe.outcome == "failed" and probe.result.get("stage") != "import":
            yield probe.label, probe.detail


RULES: Mapping[str, Rule] = {
    "torch-cpu-build": _torch_cpu_build,
    "driver-old": _driver_old,
    "arch-missing": _arch_missing,
    "no-visible": _no_visible,
    "tf-cpu-build": _tf_cpu_build,
    "tf-memory-all": _tf_memory_all,
    "jax-cpu": _jax_cpu,
    "jax-preallocate": _jax_preallocate,
    "ld-path-shadow": _ld_path_shadow,
    "mxnet-cpu-build": _mxnet_cpu_build,
    "chainer-cupy": _chainer_cupy,
    "silent-cpu": _silent_cpu,
    "device-absent": _device_absent,
    "wrong-result": _wrong_result,
    "very-slow-compute": _very_slow_compute,
    "slow-compute": _slow_compute,
    "slow-memory": _slow_memory,
    "slow-copies": _slow_copies,
    "probe-crashed": _probe_crashed,
    "probe-hung": _probe_hung,
    "probe-no-result": _probe_no_result,
    "probe-left-processes": _probe_left_processes,
    "probe-flood": _probe_flood,
    "import-failed": _import_failed,
    "probe-failed": _probe_failed,
}
