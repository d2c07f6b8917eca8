"""Rules on frameworks: their builds, and the devices that they see."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tarmac.checks.rules.rule import (
    Hits,
    Rule,
    measured_devices,
    place_of,
    probes_of,
    should_use_gpu,
    value_of,
)
from tarmac.machine import is_driver_too_old, names_nothing, runs_on
from tarmac.wording import counted

if TYPE_CHECKING:
    from tarmac.checks.evidence import Evidence

# Names of GPUs in the frameworks: cuda:0, gpu(0), /device:GPU:0, cupy.
_ON_GPU = re.compile("cuda|gpu|cupy|rocm", re.IGNORECASE)

# CUDA_VISIBLE_DEVICES that Slurm sets for a job that asked for no GPU.
_NONE_BY_SLURM = "NoDevFiles"

# Variables that slow GPUs down whatever their value, from DCGM's software diagnostic
# (checkForBadEnvVaribles).
_SLOW_VARIABLES = (
    "NSIGHT_CUDA_DEBUGGER",
    "CUDA_INJECTION32_PATH",
    "CUDA_INJECTION64_PATH",
    "CUDA_AUTO_BOOST",
    "CUDA_ENABLE_COREDUMP_ON_EXCEPTION",
    "CUDA_COREDUMP_FILE",
    "CUDA_DEVICE_WAITS_ON_EXCEPTION",
    "CUDA_PROFILE",
    "COMPUTE_PROFILE",
    "OPENCL_PROFILE",
)

# Variables that slow GPUs down at a certain value.
_SLOW_VALUES = {
    "CUDA_LAUNCH_BLOCKING": "1",
    "NCCL_DEBUG": "TRACE",
    "TORCH_DISTRIBUTED_DEBUG": "DETAIL",
}

# Probes of several processes, whose entries are no single devices.
_RANKS = frozenset({"all-reduce", "horovod"})


def _torch_cpu_build(evidence: Evidence) -> Hits:
    for probe in probes_of(evidence, "torch"):
        build = probe.result.get("build")
        if (
            build
            and not build.get("cuda")
            and not build.get("hip")
            and should_use_gpu(probe, evidence)
        ):
            yield probe.label, f"version {probe.result.get('version')}"


def _driver_old(evidence: Evidence) -> Hits:
    most = evidence.inventory.driver.cuda
    for probe in evidence.probes:
        built = value_of(probe, "build", "cuda")
        # Frameworks report the version in different forms: "12.4", 12040, True.
        if is_driver_too_old(str(built), most):
            yield probe.label, f"built for CUDA {built}, the driver has {most}"


def _arch_missing(evidence: Evidence) -> Hits:
    for probe in probes_of(evidence, "torch"):
        architectures = value_of(probe, "build", "architectures") or ()
        for gpu in evidence.inventory.gpus:
            if gpu.capability is not None and not runs_on(architectures, gpu.capability):
                major, minor = gpu.capability
                has = " ".join(architectures)
                yield probe.label, f"{gpu.name} is sm_{major}{minor}, the build has {has}"


def _no_visible(evidence: Evidence) -> Hits:
    value = evidence.inventory.environment.get("CUDA_VISIBLE_DEVICES")
    gpus = evidence.inventory.gpus
    if value is None or not gpus or value == _NONE_BY_SLURM:
        return
    if names_nothing(gpus, value):
        yield "machine", f"CUDA_VISIBLE_DEVICES={value!r}, the driver has {len(gpus)}"


def _slurm_no_gpu(evidence: Evidence) -> Hits:
    if evidence.inventory.environment.get("CUDA_VISIBLE_DEVICES") == _NONE_BY_SLURM:
        yield "machine", f"CUDA_VISIBLE_DEVICES={_NONE_BY_SLURM}"


def _tf_cpu_build(evidence: Evidence) -> Hits:
    for probe in probes_of(evidence, "tensorflow"):
        if value_of(probe, "build", "with_cuda") is False and should_use_gpu(probe, evidence):
            yield probe.label, f"version {probe.result.get('version')}, built without CUDA"


def _tf_memory_all(evidence: Evidence) -> Hits:
    variables = evidence.inventory.environment
    if variables.get("TF_FORCE_GPU_ALLOW_GROWTH", "").lower() != "true":
        for probe in probes_of(evidence, "tensorflow"):
            if any(device["kind"] == "gpu" for device in probe.result.get("devices", ())):
                yield probe.label, "TF_FORCE_GPU_ALLOW_GROWTH is not set"


def _jax_cpu(evidence: Evidence) -> Hits:
    for probe in probes_of(evidence, "jax"):
        if value_of(probe, "build", "plugins") == {} and should_use_gpu(probe, evidence):
            yield probe.label, f"version {probe.result.get('version')} without a CUDA plugin"


def _jax_preallocate(evidence: Evidence) -> Hits:
    variables = evidence.inventory.environment
    if not {"XLA_PYTHON_CLIENT_PREALLOCATE", "XLA_PYTHON_CLIENT_MEM_FRACTION"} & variables.keys():
        for probe in probes_of(evidence, "jax"):
            if any(device["kind"] == "gpu" for device in probe.result.get("devices", ())):
                yield probe.label, "XLA_PYTHON_CLIENT_PREALLOCATE is not set"


def _jax_bad_libraries(evidence: Evidence) -> Hits:
    chips = [gpu.capability for gpu in evidence.inventory.gpus if gpu.capability]
    for probe in probes_of(evidence, "jax"):
        # A wheel's version is its library's and a build number: 12.8.4.1 is cuBLAS 12.8.4.
        cublas = _version(value_of(probe, "build", "cublas"))
        cudnn = _version(value_of(probe, "build", "cudnn"))
        # From JAX's own checks: jax_plugins/cuda/__init__.py, _check_cuda_versions.
        if (12, 8) <= cublas < (13, 2) and any((10, 0) <= chip < (12, 0) for chip in chips):
            yield probe.label, f"cuBLAS {_dotted(cublas)} frees memory twice on this chip"
        elif () < cudnn < (9, 10, 1) and cublas >= (12, 9) and len(chips) > 1:
            yield probe.label, f"cuDNN {_dotted(cudnn)} with cuBLAS {_dotted(cublas)}, several GPUs"


def _version(text: str | None) -> tuple[int, ...]:
    """Return a version's first three numbers; empty where the version is unknown."""
    return tuple(int(part) for part in re.findall(r"\d+", text or "")[:3])


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


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
    for probe in probes_of(evidence, "mxnet"):
        if value_of(probe, "build", "with_cuda") is False and should_use_gpu(probe, evidence):
            yield probe.label, f"version {probe.result.get('version')}, feature CUDA is off"


def _chainer_cupy(evidence: Evidence) -> Hits:
    for probe in probes_of(evidence, "chainer"):
        if (
            value_of(probe, "build", "cupy") is None
            and "build" in probe.result
            and should_use_gpu(probe, evidence)
        ):
            yield probe.label, "cupy is not installed"


def _silent_cpu(evidence: Evidence) -> Hits:
    for probe, device in measured_devices(evidence):
        placement = str(device.get("placement") or "")
        if device["kind"] == "gpu" and placement and not _ON_GPU.search(placement):
            yield place_of(probe, device), f"its result for this device is on {placement}"
    if not evidence.inventory.gpus:
        return
    for probe in evidence.probes:
        devices = probe.result.get("devices", ())
        is_on_cpu = bool(devices) and all(device["kind"] == "cpu" for device in devices)
        has_reason = "cpu_because" in probe.result or not should_use_gpu(probe, evidence)
        if probe.outcome == "done" and is_on_cpu and not has_reason:
            gpus = counted(len(evidence.inventory.gpus), "GPU")
            yield probe.label, f"the driver has {gpus}, the framework has none"


def _no_avx(evidence: Evidence) -> Hits:
    lacking = evidence.inventory.missing_instructions
    for probe in evidence.probes:
        if probe.outcome == "crashed" and probe.detail.startswith("SIGILL") and "avx" in lacking:
            yield probe.label, f"{probe.detail}; the CPU lacks {', '.join(lacking)}"


def _slow_variables(evidence: Evidence) -> Hits:
    variables = evidence.inventory.environment
    names = [name for name in _SLOW_VARIABLES if variables.get(name)]
    names += [name for name, slow in _SLOW_VALUES.items() if variables.get(name) == slow]
    if names and (evidence.inventory.gpus or evidence.inventory.cards):
        yield "machine", ", ".join(f"{name}={variables[name]}" for name in names)


def _device_absent(evidence: Evidence) -> Hits:
    for probe in evidence.probes:
        wanted = set(probe.result.get("wanted", ()))
        names = [device["name"] for device in probe.result.get("devices", ())]
        absent = wanted - {*names, *(name.split(":")[0] for name in names)}
        # Entries of ranks are not named like devices.
        if probe.outcome == "done" and probe.framework not in _RANKS and absent:
            yield probe.label, f"the framework has no {', '.join(sorted(absent))}"


RULES: Mapping[str, Rule] = {
    "torch-cpu-build": _torch_cpu_build,
    "driver-old": _driver_old,
    "arch-missing": _arch_missing,
    "no-visible": _no_visible,
    "slurm-no-gpu": _slurm_no_gpu,
    "tf-cpu-build": _tf_cpu_build,
    "tf-memory-all": _tf_memory_all,
    "jax-cpu": _jax_cpu,
    "jax-preallocate": _jax_preallocate,
    "jax-bad-libraries": _jax_bad_libraries,
    "ld-path-shadow": _ld_path_shadow,
    "mxnet-cpu-build": _mxnet_cpu_build,
    "chainer-cupy": _chainer_cupy,
    "silent-cpu": _silent_cpu,
    "device-absent": _device_absent,
    "no-avx": _no_avx,
    "slow-variables": _slow_variables,
}
