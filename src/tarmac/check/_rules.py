"""From evidence to findings: pure functions, one for each code of the catalogue that needs one.

A rule yields where it applies and what shows it. `find` adds what the catalogue's patterns find in
texts, and leaves out consequences whose cause was found.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic import BaseModel, ConfigDict

from tarmac.check._catalogue import Failure, Level, read_catalogue
from tarmac.check._chips import find_chip

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tarmac.check._evidence import Evidence, Gpu, Probe

__all__ = ["RULES", "Finding", "find"]

# The shares of nominal rates under which we warn, and call it a failure. Healthy cards reach 0.7
# to 0.85 in large bf16 products and 0.9 in copies; shapes, clocks and cooling explain some of the
# rest.
_SLOW = 0.6
_VERY_SLOW = 0.3

# Bytes/s of pinned memory over PCIe 3.0 x8, the slowest link a card of today should have.
_SLOW_COPIES = 6e9

_SMALL_SHM = 512 * 2**20
_HELD_SHARE = 0.05
_ORDER: dict[str, int] = {"failure": 0, "warning": 1, "note": 2}

# What is said of a framework where nothing better is known.
_FALLBACKS = frozenset({"probe-failed", "import-failed", "probe-no-result", "probe-crashed"})

# Xids of applications' own faults, which say nothing of the card; NVIDIA's list of Xid errors.
_APPLICATION_XIDS = frozenset({13, 31, 43, 45})


class Finding(BaseModel):
    """What a check concludes.

    Attributes:
        code: Of the catalogue.
        level: ``failure``, ``warning`` or ``note``.
        title: In a few words.
        where: The device or framework, or ``machine``.
        evidence: What was seen.
        cause: In one sentence.
        mend: What to type.
        source: Who says so.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    code: str
    level: Level
    title: str
    where: str
    evidence: str
    cause: str
    mend: tuple[str, ...]
    source: str


Hits: TypeAlias = Iterator[tuple[str, str]]
Rule: TypeAlias = Callable[["Evidence"], Hits]

RULES: dict[str, Rule] = {}


def find(evidence: Evidence) -> tuple[Finding, ...]:
    """Return what the evidence says, failures first, each cause without its consequences."""
    found = []
    for code, failure in read_catalogue().items():
        hits = [*_in_texts(failure, evidence)]
        if failure.rule:
            hits += RULES[code](evidence)
        found += [_finding(failure, where, seen, evidence) for where, seen in dict(hits).items()]
    hidden = {code for finding in found for code in read_catalogue()[finding.code].hides}
    explained = {finding.where for finding in found if finding.code not in _FALLBACKS | hidden}
    kept = [
        finding
        for finding in found
        if finding.code not in hidden
        and not (finding.code in _FALLBACKS and finding.where in explained)
    ]
    return tuple(sorted(kept, key=lambda finding: _ORDER[finding.level]))


def _in_texts(failure: Failure, evidence: Evidence) -> Hits:
    texts = [("machine", text) for text in (evidence.inventory.driver.nvml_error, *evidence.texts)]
    texts += [("machine", "\n".join(evidence.inventory.kernel_log))]
    texts += [(gpu_name(gpu), gpu.error) for gpu in evidence.inventory.gpus]
    texts += [(probe.framework, probe.text) for probe in evidence.probes]
    for where, text in texts:
        line = failure.find_in(text) if text else None
        if line is not None:
            yield where, line


def _finding(failure: Failure, where: str, seen: str, evidence: Evidence) -> Finding:
    values = {"evidence": seen, **_packages(evidence)}

    def fill(text: str) -> str:
        return re.sub(r"\{(\w+)\}", lambda match: values.get(match[1], match[0]), text)

    return Finding(
        code=failure.code,
        level=failure.level,
        title=failure.title,
        where=where,
        evidence=seen,
        cause=fill(failure.cause),
        mend=tuple(fill(line) for line in failure.mend),
        source=failure.source,
    )


def _packages(evidence: Evidence) -> dict[str, str]:
    """Name the indices and extras that suit the driver and the chips.

    PyTorch 2.9 and later offer cu126, cu128 and cu130; cu126 alone has code for chips before
    Turing, and CUDA 13 needs compute capability 7.5 (https://pytorch.org/get-started/locally/).
    """
    version = evidence.inventory.driver.cuda
    cuda = tuple(map(int, version.split("."))) if version else (13, 0)
    lowest = min(
        (gpu.capability for gpu in evidence.inventory.gpus if gpu.capability), default=(9, 0)
    )
    index = "cu130" if cuda >= (13, 0) else "cu128" if cuda >= (12, 8) else "cu126"
    if lowest < (7, 5):
        index = "cu126"
    return {
        "cuda_index": index,
        "arch_index": index,
        "jax_extra": "cuda13" if index == "cu130" else "cuda12",
    }


def gpu_name(gpu: Gpu) -> str:
    """Return how a GPU is called in findings."""
    return f"GPU {gpu.index}"


def _rule(code: str) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        RULES[code] = function
        return function

    return register


def _gpu_rule(code: str) -> Callable[[Callable[[Gpu], str | None]], Callable[[Gpu], str | None]]:
    """Register a rule that looks at one GPU and returns what shows it."""

    def register(function: Callable[[Gpu], str | None]) -> Callable[[Gpu], str | None]:
        def each(evidence: Evidence) -> Hits:
            for gpu in evidence.inventory.gpus:
                seen = function(gpu) if gpu.error is None else None
                if seen is not None:
                    yield gpu_name(gpu), seen

        RULES[code] = each
        return function

    return register


def _nvidia_cards(evidence: Evidence) -> list[str]:
    return [card.address for card in evidence.inventory.cards if card.vendor == "nvidia"]


def _is_confined(evidence: Evidence) -> bool:
    return evidence.inventory.container.kind in ("docker", "podman", "kubernetes")


# --- Driver and hardware


@_rule("no-driver")
def _no_driver(evidence: Evidence) -> Hits:
    driver, cards = evidence.inventory.driver, _nvidia_cards(evidence)
    if cards and not driver.modules and driver.nvml_error and not _is_confined(evidence):
        yield "machine", f"a card at {', '.join(cards)}, no module of the driver is loaded"


@_rule("nouveau-loaded")
def _nouveau(evidence: Evidence) -> Hits:
    if "nouveau" in evidence.inventory.driver.modules and _nvidia_cards(evidence):
        yield "machine", "/proc/modules has nouveau"


@_rule("driver-mismatch")
def _driver_mismatch(evidence: Evidence) -> Hits:
    driver = evidence.inventory.driver
    if driver.version and driver.module_version and driver.version != driver.module_version:
        yield "machine", f"module {driver.module_version}, library {driver.version}"


@_rule("module-missing")
def _module_missing(evidence: Evidence) -> Hits:
    driver = evidence.inventory.driver
    is_loaded = driver.nvml_error is None or "nvidia" in driver.modules
    is_here = bool(_nvidia_cards(evidence)) and not _is_confined(evidence)
    if driver.library is not None and not is_loaded and is_here:
        yield "machine", f"{driver.library} is here, /proc/modules has no nvidia"


@_rule("uvm-missing")
def _uvm_missing(evidence: Evidence) -> Hits:
    inventory = evidence.inventory
    nodes = inventory.container.device_nodes
    if inventory.gpus and nodes and "nvidia-uvm" not in nodes:
        yield "machine", "NVML works, and there is no /dev/nvidia-uvm"


@_rule("fell-off-bus")
def _fell_off_bus(evidence: Evidence) -> Hits:
    for gpu in evidence.inventory.gpus:
        if gpu.error and "lost" in gpu.error:
            yield gpu_name(gpu), gpu.error


@_rule("xid")
def _xid(evidence: Evidence) -> Hits:
    lines = [line for line in evidence.inventory.kernel_log if "Xid" in line]
    numbers = {int(match[1]) for line in lines if (match := re.search(r"Xid \(.*?\): (\d+)", line))}
    serious = sorted(numbers - _APPLICATION_XIDS)
    if serious:
        yield "machine", f"Xid {', '.join(map(str, serious))}"


@_gpu_rule("ecc")
def _ecc(gpu: Gpu) -> str | None:
    seen = []
    if gpu.uncorrected_errors:
        seen.append(f"{gpu.uncorrected_errors} uncorrected since the driver was loaded")
    if gpu.remap_failed:
        seen.append("remapping of rows has failed")
    if gpu.retired_pages_pending:
        seen.append("pages or rows wait to be replaced")
    return ", ".join(seen) or None


@_gpu_rule("throttle-thermal")
def _throttle_thermal(gpu: Gpu) -> str | None:
    reasons = {"sw_thermal", "hw_thermal"} & set(gpu.slowdowns)
    return f"{', '.join(sorted(reasons))} at {gpu.temperature_c} °C" if reasons else None


@_gpu_rule("throttle-power")
def _throttle_power(gpu: Gpu) -> str | None:
    if "sw_power_cap" not in gpu.slowdowns:
        return None
    now, limit = gpu.power_watts.get("now"), gpu.power_watts.get("limit")
    return f"sw_power_cap at {now} W of {limit} W"


@_gpu_rule("throttle-hardware")
def _throttle_hardware(gpu: Gpu) -> str | None:
    reasons = {"hw_slowdown", "hw_power_brake"} & set(gpu.slowdowns)
    # Hardware slows down for heat too, which it then says.
    if not reasons or "hw_thermal" in gpu.slowdowns:
        return None
    return ", ".join(sorted(reasons))


@_gpu_rule("pcie-narrow")
def _pcie_narrow(gpu: Gpu) -> str | None:
    # An idle link lowers its generation to save power, never its width.
    width, most = gpu.pcie.get("width"), gpu.pcie.get("max_width")
    return f"x{width} of x{most}" if width and most and width < most else None


@_gpu_rule("nvlink-down")
def _nvlink_down(gpu: Gpu) -> str | None:
    if not any(gpu.nvlinks) or all(gpu.nvlinks):
        return None
    down = [str(number) for number, is_up in enumerate(gpu.nvlinks) if not is_up]
    return f"link {', '.join(down)} of {len(gpu.nvlinks)}"


@_gpu_rule("exclusive-mode")
def _exclusive(gpu: Gpu) -> str | None:
    if gpu.compute_mode != "exclusive process" or not gpu.processes:
        return None
    return f"compute mode exclusive process, held by process {gpu.processes[0].pid}"


@_gpu_rule("compute-prohibited")
def _prohibited(gpu: Gpu) -> str | None:
    return "compute mode prohibited" if gpu.compute_mode == "prohibited" else None


@_gpu_rule("mig-empty")
def _mig_empty(gpu: Gpu) -> str | None:
    return "MIG is on, no instance is there" if gpu.mig and not gpu.mig_devices else None


@_gpu_rule("mem-held")
def _mem_held(gpu: Gpu) -> str | None:
    held = sum(process.memory_bytes or 0 for process in gpu.processes)
    if not gpu.memory_bytes or held < _HELD_SHARE * gpu.memory_bytes:
        return None
    names = ", ".join(f"{process.name or 'process'} ({process.pid})" for process in gpu.processes)
    return f"{held / 2**30:.1f} of {gpu.memory_bytes / 2**30:.1f} GiB by {names}"


@_gpu_rule("persistence-off")
def _persistence_off(gpu: Gpu) -> str | None:
    return "persistence mode off" if gpu.persistence is False and not gpu.processes else None


# --- Frameworks


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
    is_here = bool(evidence.inventory.gpus) or bool(_nvidia_cards(evidence))
    return is_here and set(probe.result.get("wanted", ())) != {"cpu"}


@_rule("torch-cpu-build")
def _torch_cpu_build(evidence: Evidence) -> Hits:
    for probe in _of(evidence, "torch"):
        build = probe.result.get("build")
        if (
            build
            and not build.get("cuda")
            and not build.get("hip")
            and _should_use_gpu(probe, evidence)
        ):
            yield "torch", f"version {probe.result.get('version')}"


@_rule("driver-old")
def _driver_old(evidence: Evidence) -> Hits:
    most = evidence.inventory.driver.cuda
    for probe in evidence.probes:
        built = _result(probe, "build", "cuda")
        # Within a major version, newer builds run on older drivers (CUDA minor version
        # compatibility).
        if most and built and int(str(built).split(".")[0]) > int(most.split(".")[0]):
            yield probe.framework, f"built for CUDA {built}, the driver has {most}"


@_rule("arch-missing")
def _arch_missing(evidence: Evidence) -> Hits:
    for probe in _of(evidence, "torch"):
        architectures = _result(probe, "build", "architectures") or ()
        numbers = [
            (match[1], int(match[2]))
            for name in architectures
            if (match := re.fullmatch(r"(sm|compute)_(\d+)[af]?", name))
        ]
        for gpu in evidence.inventory.gpus:
            if gpu.capability is None or not numbers:
                continue
            wanted = 10 * gpu.capability[0] + gpu.capability[1]
            # Machine code runs on its own major version, from its minor one on; PTX on all later.
            runs = any(
                (number // 10 == wanted // 10 if kind == "sm" else True) and number <= wanted
                for kind, number in numbers
            )
            if not runs:
                yield "torch", f"{gpu.name} is sm_{wanted}, the build has {' '.join(architectures)}"


@_rule("no-visible")
def _no_visible(evidence: Evidence) -> Hits:
    value = evidence.inventory.environment.get("CUDA_VISIBLE_DEVICES")
    gpus = evidence.inventory.gpus
    if value is None or not gpus:
        return
    names = [name.strip() for name in value.split(",")]
    known = [gpu.uuid or "" for gpu in gpus] + [u for gpu in gpus for u in gpu.mig_devices]

    def is_here(name: str) -> bool:
        if name.isdecimal():
            return int(name) < len(gpus)
        return bool(name) and any(uuid.startswith(name) for uuid in known)

    if not all(is_here(name) for name in names):
        yield "machine", f"CUDA_VISIBLE_DEVICES={value!r}, the driver has {len(gpus)}"


@_rule("tf-cpu-build")
def _tf_cpu_build(evidence: Evidence) -> Hits:
    for probe in _of(evidence, "tensorflow"):
        if _result(probe, "build", "with_cuda") is False and _should_use_gpu(probe, evidence):
            yield "tensorflow", f"version {probe.result.get('version')}, built without CUDA"


@_rule("tf-memory-all")
def _tf_memory_all(evidence: Evidence) -> Hits:
    variables = evidence.inventory.environment
    if variables.get("TF_FORCE_GPU_ALLOW_GROWTH", "").lower() != "true":
        for probe in _of(evidence, "tensorflow"):
            if any(device["kind"] == "gpu" for device in probe.result.get("devices", ())):
                yield "tensorflow", "TF_FORCE_GPU_ALLOW_GROWTH is not set"


@_rule("jax-cpu")
def _jax_cpu(evidence: Evidence) -> Hits:
    for probe in _of(evidence, "jax"):
        if _result(probe, "build", "plugins") == {} and _should_use_gpu(probe, evidence):
            yield "jax", f"version {probe.result.get('version')} without a CUDA plugin"


@_rule("jax-preallocate")
def _jax_preallocate(evidence: Evidence) -> Hits:
    variables = evidence.inventory.environment
    if not {"XLA_PYTHON_CLIENT_PREALLOCATE", "XLA_PYTHON_CLIENT_MEM_FRACTION"} & variables.keys():
        for probe in _of(evidence, "jax"):
            if any(device["kind"] == "gpu" for device in probe.result.get("devices", ())):
                yield "jax", "XLA_PYTHON_CLIENT_PREALLOCATE is not set"


@_rule("ld-path-shadow")
def _ld_path_shadow(evidence: Evidence) -> Hits:
    search = evidence.inventory.environment.get("LD_LIBRARY_PATH", "")
    directories = [part.rstrip("/") for part in search.split(":") if part]
    for probe in evidence.probes:
        for path in probe.result.get("libraries", ()):
            shadows = any(path.startswith(f"{directory}/") for directory in directories)
            is_drivers = "libcuda.so" in path or "libnvidia-ml" in path
            if shadows and not is_drivers and "site-packages" not in path:
                yield probe.framework, path


@_rule("mxnet-cpu-build")
def _mxnet_cpu_build(evidence: Evidence) -> Hits:
    for probe in _of(evidence, "mxnet"):
        if _result(probe, "build", "cuda") is False and _should_use_gpu(probe, evidence):
            yield "mxnet", f"version {probe.result.get('version')}, feature CUDA is off"


@_rule("chainer-cupy")
def _chainer_cupy(evidence: Evidence) -> Hits:
    for probe in _of(evidence, "chainer"):
        if (
            _result(probe, "build", "cupy") is None
            and "build" in probe.result
            and _should_use_gpu(probe, evidence)
        ):
            yield "chainer", "cupy is not installed"


@_rule("silent-cpu")
def _silent_cpu(evidence: Evidence) -> Hits:
    if not evidence.inventory.gpus:
        return
    for probe in evidence.probes:
        devices = probe.result.get("devices", ())
        is_on_cpu = bool(devices) and all(device["kind"] == "cpu" for device in devices)
        if probe.outcome == "done" and is_on_cpu and _should_use_gpu(probe, evidence):
            yield probe.framework, f"the driver has {len(evidence.inventory.gpus)}, it sees none"


def _measured(evidence: Evidence) -> Iterator[tuple[Probe, Mapping[str, Any]]]:
    for probe in evidence.probes:
        for device in probe.result.get("devices", ()):
            yield probe, device


@_rule("wrong-result")
def _wrong_result(evidence: Evidence) -> Hits:
    for probe, device in _measured(evidence):
        for kind in ("matmul", "convolution"):
            judged = device.get(kind)
            if judged is not None and not judged["ok"]:
                error = f"{judged['error']:.1e}, more than {judged['tolerance']:.0e}"
                yield f"{probe.framework} on {device['name']}", f"{kind} is off by {error}"
        training = device.get("training")
        if training is not None and not training["ok"]:
            losses = ", ".join(f"{loss:.3f}" for loss in training["losses"])
            yield f"{probe.framework} on {device['name']}", f"the loss does not fall: {losses}"


def _shares(evidence: Evidence) -> Iterator[tuple[str, float, str]]:
    """Yield where, which share of its nominal matrix rate a chip reaches, and that in words."""
    for probe, device in _measured(evidence):
        chip = find_chip(device.get("chip"))
        for kind in ("bf16", "fp16"):
            nominal = getattr(chip, kind) if chip else None
            rate = (device.get("flops") or {}).get(kind)
            if nominal and rate:
                words = f"{rate / 1e12:.0f} of {nominal:g} TFLOP/s in {kind}"
                yield f"{probe.framework} on {device['name']}", rate / nominal / 1e12, words


@_rule("very-slow-compute")
def _very_slow_compute(evidence: Evidence) -> Hits:
    for where, share, words in _shares(evidence):
        if share < _VERY_SLOW:
            yield where, words


@_rule("slow-compute")
def _slow_compute(evidence: Evidence) -> Hits:
    for where, share, words in _shares(evidence):
        if _VERY_SLOW <= share < _SLOW:
            yield where, words


@_rule("slow-memory")
def _slow_memory(evidence: Evidence) -> Hits:
    for probe, device in _measured(evidence):
        chip = find_chip(device.get("chip"))
        rate = (device.get("copies") or {}).get("memory")
        if chip and rate and rate < _SLOW * chip.bandwidth * 1e9:
            words = f"{rate / 1e9:.0f} of {chip.bandwidth:g} GB/s"
            yield f"{probe.framework} on {device['name']}", words


@_rule("slow-copies")
def _slow_copies(evidence: Evidence) -> Hits:
    for probe, device in _measured(evidence):
        copies = device.get("copies") or {}
        for direction in ("to_device", "from_device"):
            rate = copies.get(direction)
            if rate and rate < _SLOW_COPIES:
                words = direction.replace("_", " the ")
                yield f"{probe.framework} on {device['name']}", f"{rate / 1e9:.1f} GB/s {words}"


@_rule("probe-crashed")
def _probe_crashed(evidence: Evidence) -> Hits:
    for probe in evidence.probes:
        if probe.outcome == "crashed":
            yield probe.framework, probe.detail


@_rule("probe-hung")
def _probe_hung(evidence: Evidence) -> Hits:
    for probe in evidence.probes:
        if probe.outcome == "hung" and "all_reduce" not in probe.result:
            yield probe.framework, probe.detail


@_rule("probe-no-result")
def _probe_no_result(evidence: Evidence) -> Hits:
    for probe in evidence.probes:
        if probe.outcome == "no result":
            yield probe.framework, probe.detail


@_rule("import-failed")
def _import_failed(evidence: Evidence) -> Hits:
    for probe in evidence.probes:
        if probe.outcome == "failed" and probe.result.get("stage") == "import":
            yield probe.framework, probe.detail


@_rule("probe-failed")
def _probe_failed(evidence: Evidence) -> Hits:
    for probe in evidence.probes:
        if probe.outcome == "failed" and probe.result.get("stage") != "import":
            yield probe.framework, probe.detail


# --- Containers, clusters, collectives


@_rule("no-gpus-flag")
def _no_gpus_flag(evidence: Evidence) -> Hits:
    inventory = evidence.inventory
    has_nodes = any(name.startswith("nvidia") for name in inventory.container.device_nodes)
    is_loaded = "nvidia" in inventory.driver.modules
    if _is_confined(evidence) and is_loaded and not has_nodes and not inventory.gpus:
        yield "machine", f"in {inventory.container.kind}: the module nvidia, and no /dev/nvidia*"


@_rule("driver-caps")
def _driver_caps(evidence: Evidence) -> Hits:
    inventory = evidence.inventory
    if not _is_confined(evidence) or "nvidiactl" not in inventory.container.device_nodes:
        return
    if (
        inventory.driver.library is None
        or "NOT FOUND" in (inventory.driver.nvml_error or "").upper()
    ):
        value = inventory.environment.get("NVIDIA_DRIVER_CAPABILITIES", "not set")
        yield "machine", f"/dev/nvidiactl is here, libraries are not; the variable is {value}"


@_rule("shm-small")
def _shm_small(evidence: Evidence) -> Hits:
    size = evidence.inventory.limits.shm_bytes
    if size is not None and size < _SMALL_SHM:
        yield "machine", f"/dev/shm has {size / 2**20:.0f} MiB"  # noqa: S108 - nothing is put there


@_rule("memlock")
def _memlock(evidence: Evidence) -> Hits:
    limits = evidence.inventory.limits
    if limits.infiniband and limits.memlock_bytes is not None:
        yield "machine", f"{limits.memlock_bytes / 2**20:.1f} MiB"


@_rule("wsl-libcuda")
def _wsl_libcuda(evidence: Evidence) -> Hits:
    inventory = evidence.inventory
    is_wsl = inventory.container.kind == "wsl" and "dxg" in inventory.container.device_nodes
    if is_wsl and inventory.driver.library is None:
        yield "machine", "/dev/dxg is here, libcuda.so.1 is not found"


@_rule("cgroup-cpu")
def _cgroup_cpu(evidence: Evidence) -> Hits:
    cpus, gpus = evidence.inventory.limits.cpus, evidence.inventory.gpus
    if gpus and cpus is not None and cpus < 2 * len(gpus):
        yield "machine", f"{cpus:g} CPUs for {len(gpus)} GPUs"


def _together(evidence: Evidence, kind: str) -> Hits:
    for probe in evidence.probes:
        judged = probe.result.get("all_reduce")
        if judged is not None and judged.get("problem") == kind:
            yield probe.framework, judged["detail"]


@_rule("all-reduce-wrong")
def _all_reduce_wrong(evidence: Evidence) -> Hits:
    yield from _together(evidence, "wrong")


@_rule("all-reduce-hung")
def _all_reduce_hung(evidence: Evidence) -> Hits:
    yield from _together(evidence, "hung")
