"""The machine as its kernel, files and NVIDIA's driver describe it, without any framework."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import resource
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil

from tarmac.checks.amd import read_amd
from tarmac.checks.engines import Engines, read_engines
from tarmac.checks.evidence import (
    Container,
    Driver,
    Host,
    Inventory,
    Limits,
    PciCard,
    Topology,
    Upkeep,
)
from tarmac.checks.kernel_reading import DEFAULT_HOURS, read_kernel_log
from tarmac.checks.libraries import find_libraries
from tarmac.checks.network import read_network
from tarmac.machine import (
    Gpu,
    NvlinkPair,
    NvmlProblem,
    count_nvswitches,
    name_cpu,
    open_nvml,
    read_limits,
    read_module_version,
    read_pcie_path,
)
from tarmac.masking import is_secret_name
from tarmac.process_ids import boot_id

_VENDORS = {"0x10de": "nvidia", "0x1002": "amd", "0x8086": "intel"}

# Vendors whose cards' own PCIe bridges are known.
_JUDGED = ("nvidia", "amd")

# PCI class 0x03 is display controllers, with 0x0302 for those without a display; 0x1200 is
# processing accelerators (pci.ids).
_CARD_CLASSES = ("0x03", "0x1200")

_VARIABLES = re.compile(
    "(CUDA|NVIDIA|NCCL|GLOO|XLA|TF|JAX|PYTORCH|TORCH|HIP|ROCR|KERAS|HOROVOD|MXNET|OMP)_.*"
    "|HSA_.*|GPU_DEVICE_ORDINAL|ZE_AFFINITY_MASK|LD_LIBRARY_PATH|LD_PRELOAD"
    "|COMPUTE_PROFILE|OPENCL_PROFILE|NSIGHT_CUDA_DEBUGGER"
)

# The scheduler that sets each of these variables in its jobs.
_SCHEDULERS = {"SLURM_JOB_ID": "slurm", "PBS_JOBID": "pbs", "LSB_JOBID": "lsf"}

_MODULES = ("nvidia", "nvidia_uvm", "nvidia_peermem", "nouveau", "amdgpu")


def read_inventory(
    root: Path = Path("/"),
    environment: Mapping[str, str] | None = None,
    *,
    xid_hours: float = DEFAULT_HOURS,
) -> Inventory:
    """Read the facts about this machine.

    Args:
        root: Directory that has ``proc``, ``sys`` and ``dev``; for tests. Default: ``/``.
        environment: Environment variables to read. Default: this process's.
        xid_hours: Age up to which errors in the kernel's log count, in hours.
    """
    variables = os.environ if environment is None else environment
    gpus: tuple[Gpu, ...] = ()
    pairs: tuple[NvlinkPair, ...] = ()
    with open_nvml() as nvml:
        if isinstance(nvml, NvmlProblem):
            driver = Driver(nvml_error=nvml.text)
        else:
            driver, gpus = (
                Driver(version=nvml.version, cuda=nvml.cuda),
                nvml.read_gpus(with_health=True),
            )
            pairs = nvml.read_nvlink_pairs()
    libraries = find_libraries(variables)
    kernel_log, kernel = read_kernel_log(xid_hours, root)
    cards = _cards(root)
    # Asking an engine takes a tenth of a second, and only commands about GPUs need the answer.
    has_gpus = bool(gpus) or any(card.vendor == "nvidia" for card in cards)
    return Inventory(
        host=_read_host(root),
        driver=driver.model_copy(
            update={
                "module_version": read_module_version(root),
                "modules": _modules(root),
                "library": libraries.get("libcuda.so.1"),
            }
        ),
        gpus=gpus,
        cards=cards,
        container=_container(root, variables),
        limits=_limits(root),
        environment={
            name: "(set)" if is_secret_name(name) else value
            for name, value in sorted(variables.items())
            if _VARIABLES.fullmatch(name)
        },
        kernel_log=kernel_log,
        kernel=kernel,
        amd=read_amd(root),
        engines=read_engines(root) if has_gpus else Engines(),
        libraries=libraries,
        missing_instructions=_missing_instructions(root),
        topology=_topology(root, cards, pairs),
        upkeep=_upkeep(root, variables),
        network=read_network(root),
    )


def identify_machine(root: Path = Path("/")) -> tuple[str | None, str | None]:
    """Return the boot ID and the driver module's version, from the kernel's files alone."""
    return _boot_id(root), read_module_version(root)


def _boot_id(root: Path) -> str | None:
    try:
        return boot_id(root)
    except OSError:
        return None


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def _read_host(root: Path) -> Host:
    release = _text(root / "etc/os-release") or ""
    name = re.search('^PRETTY_NAME="?(.*?)"?$', release, re.MULTILINE)
    return Host(
        cpu=name_cpu(),
        cores=psutil.cpu_count() or 1,
        memory_bytes=psutil.virtual_memory().total,
        disk_free_bytes=shutil.disk_usage(Path.cwd()).free,
        kernel=platform.release(),
        system=name[1] if name else platform.system(),
        boot_id=_boot_id(root),
    )


def _missing_instructions(root: Path) -> tuple[str, ...]:
    # Only x86 has "flags": other CPUs have "Features" or "isa", and other framework builds.
    flags = re.search(r"^flags\s*:(.*)$", _text(root / "proc/cpuinfo") or "", re.MULTILINE)
    if flags is None:
        return ()
    has = set(flags[1].split())
    return tuple(name for name in ("avx", "avx2", "fma") if name not in has)


def _upkeep(root: Path, environment: Mapping[str, str]) -> Upkeep:
    # Values may be quoted:
    # https://www.freedesktop.org/software/systemd/man/latest/os-release.html
    release = _text(root / "etc/os-release") or ""
    fields = dict(re.findall("^(ID|ID_LIKE)=[\"']?(.*?)[\"']?$", release, re.MULTILINE))
    return Upkeep(
        distribution=fields.get("ID", ""),
        like=tuple(fields.get("ID_LIKE", "").split()),
        is_root=os.geteuid() == 0,
        processor=platform.machine(),
        scheduler=next((name for key, name in _SCHEDULERS.items() if key in environment), None),
    )


def _modules(root: Path) -> tuple[str, ...]:
    lines = (_text(root / "proc/modules") or "").splitlines()
    loaded = {line.split()[0] for line in lines if line}
    return tuple(name for name in _MODULES if name in loaded)


def _cards(root: Path) -> tuple[PciCard, ...]:
    cards = []
    for device in sorted((root / "sys/bus/pci/devices").glob("*")):
        vendor = _VENDORS.get(_text(device / "vendor") or "")
        kind = _text(device / "class") or ""
        if vendor is None or not kind.startswith(_CARD_CLASSES):
            continue
        driver = None
        with contextlib.suppress(OSError):
            driver = (device / "driver").readlink().name
        links = {
            "now": _link(device, "current"),
            "max": _link(device, "max"),
        }
        cards.append(
            PciCard(
                address=device.name,
                vendor=vendor,
                device=_text(device / "device") or "",
                driver=driver,
                memory_bytes=_number(device / "mem_info_vram_total"),
                used_bytes=_number(device / "mem_info_vram_used"),
                busy=_number(device / "gpu_busy_percent"),
                link={key: link for key, link in links.items() if link},
            )
        )
    return (*cards, *_apples(root))


def _topology(root: Path, cards: tuple[PciCard, ...], pairs: tuple[NvlinkPair, ...]) -> Topology:
    paths = [read_pcie_path(card.address, root) for card in cards if card.vendor in _JUDGED]
    return Topology(
        pcie=tuple(path for path in paths if path is not None),
        nvlink_pairs=pairs,
        num_nvswitches=count_nvswitches(root),
    )


def _number(path: Path) -> int | None:
    text = _text(path)
    return int(text) if text and text.isdecimal() else None


def _link(device: Path, when: str) -> str | None:
    speed, width = (_text(device / f"{when}_link_{what}") for what in ("speed", "width"))
    return f"{speed} x{width}" if speed and width else None


def _apples(root: Path) -> Iterator[PciCard]:
    """Yield Apple's GPU, which is on no bus: the firmware names the chip that it is part of."""
    names = (_text(root / "proc/device-tree/compatible") or "").split("\0")
    chip = next((name for name in names if re.fullmatch(r"apple,t\d+", name)), None)
    if chip is not None:
        modules = (_text(root / "proc/modules") or "").splitlines()
        driver = "asahi" if any(line.startswith("asahi ") for line in modules) else None
        yield PciCard(address="built in", vendor="apple", device=chip, driver=driver)


def _container(root: Path, environment: Mapping[str, str]) -> Container:
    kind = None
    if "KUBERNETES_SERVICE_HOST" in environment:
        kind = "kubernetes"
    elif {"APPTAINER_CONTAINER", "SINGULARITY_CONTAINER"} & environment.keys():
        kind = "apptainer"
    elif (root / "run/.containerenv").exists():
        kind = "podman"
    elif (root / ".dockerenv").exists():
        kind = "docker"
    elif named := _text(root / "run/systemd/container"):
        # systemd writes the kind of its container there (https://systemd.io/CONTAINER_INTERFACE).
        kind = named
    elif "microsoft" in (_text(root / "proc/version") or "").lower():
        kind = "wsl"
    names = [
        str(path.relative_to(root / "dev"))
        for pattern in ("nvidia*", "nvidia-caps/*", "kfd", "dri/render*", "dxg")
        for path in sorted((root / "dev").glob(pattern))
    ]
    return Container(kind=kind, device_nodes=tuple(names))


def _limits(root: Path) -> Limits:
    def limit(number: int) -> int | None:
        soft, _ = resource.getrlimit(number)
        return None if soft == resource.RLIM_INFINITY else soft

    own = read_limits(root)
    return Limits(
        cpus=own.cpus,
        memory_bytes=own.memory_bytes,
        shm_bytes=own.shm_bytes,
        memlock_bytes=limit(resource.RLIMIT_MEMLOCK),
        open_files=limit(resource.RLIMIT_NOFILE),
        infiniband=any((root / "sys/class/infiniband").glob("*")),
    )
