"""The machine as its kernel, its files and NVIDIA's driver describe it, without any framework."""

from __future__ import annotations

import contextlib
import ctypes.util
import os
import platform
import re
import resource
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from tarmac.check._evidence import Container, Driver, Host, Inventory, Limits, PciCard
from tarmac.check._nvml import open_nvml, read_gpus
from tarmac.devices import find_devices

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["identify_machine", "read_inventory"]

_VENDORS = {"0x10de": "nvidia", "0x1002": "amd", "0x8086": "intel"}

# PCI class 0x03 is display controllers, with 0x0302 for those without a screen; 0x1200 is
# processing accelerators (pci.ids).
_CARD_CLASSES = ("0x03", "0x1200")

_VARIABLES = re.compile(
    "(CUDA|NVIDIA|NCCL|GLOO|XLA|TF|JAX|PYTORCH|TORCH|HIP|ROCR|KERAS|HOROVOD|MXNET|OMP)_.*"
    "|LD_LIBRARY_PATH"
)
# Values that may name persons or secrets are not ours to show.
_HIDDEN = re.compile("TOKEN|KEY|SECRET|PASSWORD|CREDENTIAL")

_MODULES = ("nvidia", "nvidia_uvm", "nvidia_peermem", "nouveau", "amdgpu")
_LIBRARIES = ("libcuda", "libcudart", "libcublas", "libcudnn", "libnccl", "libnvidia-ml")


def read_inventory(
    root: Path = Path("/"), environment: Mapping[str, str] | None = None
) -> Inventory:
    """Describe this machine.

    Args:
        root: Where ``proc``, ``sys`` and ``dev`` are; for tests.
        environment: By default this process's.
    """
    variables = os.environ if environment is None else environment
    with open_nvml() as nvml:
        started = not isinstance(nvml, str)
        gpus = read_gpus() if started else ()
        version, cuda = (nvml.version, nvml.cuda) if not isinstance(nvml, str) else (None, None)
        nvml_error = nvml if isinstance(nvml, str) else None
    return Inventory(
        host=_read_host(root),
        driver=Driver(
            version=version,
            cuda=cuda,
            nvml_error=nvml_error,
            module_version=_module_version(root),
            modules=_modules(root),
            library=ctypes.util.find_library("cuda"),
        ),
        gpus=gpus,
        cards=_cards(root),
        container=_container(root, variables),
        limits=_limits(root),
        environment={
            name: "(set)" if _HIDDEN.search(name) else value
            for name, value in sorted(variables.items())
            if _VARIABLES.fullmatch(name)
        },
        kernel_log=_kernel_log(),
        libraries=_libraries(),
    )


def identify_machine(root: Path = Path("/")) -> tuple[str | None, str | None]:
    """Return this start's boot id and the driver module's version, without asking the driver."""
    return _text(root / "proc/sys/kernel/random/boot_id"), _module_version(root)


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def _read_host(root: Path) -> Host:
    (cpu,) = find_devices("cpu")
    release = _text(root / "etc/os-release") or ""
    name = re.search('^PRETTY_NAME="?(.*?)"?$', release, re.MULTILINE)
    return Host(
        cpu=cpu.name,
        cores=psutil.cpu_count() or 1,
        memory_bytes=cpu.memory_bytes,
        disk_free_bytes=shutil.disk_usage(Path.cwd()).free,
        kernel=platform.release(),
        system=name[1] if name else platform.system(),
        boot_id=_text(root / "proc/sys/kernel/random/boot_id"),
    )


def _module_version(root: Path) -> str | None:
    loaded = _text(root / "sys/module/nvidia/version")
    if loaded is not None:
        return loaded
    described = re.search(
        r"\s(\d+\.\d+(?:\.\d+)?)\s", _text(root / "proc/driver/nvidia/version") or ""
    )
    return described[1] if described else None


def _modules(root: Path) -> tuple[str, ...]:
    lines = (_text(root / "proc/modules") or "").splitlines()
    loaded = {line.split()[0] for line in lines if line}
    return tuple(name for name in _MODULES if name in loaded)


def _cards(root: Path) -> tuple[PciCard, ...]:
    found = []
    for device in sorted((root / "sys/bus/pci/devices").glob("*")):
        vendor = _VENDORS.get(_text(device / "vendor") or "")
        kind = _text(device / "class") or ""
        if vendor is None or not kind.startswith(_CARD_CLASSES):
            continue
        driver = None
        with contextlib.suppress(OSError):
            driver = (device / "driver").readlink().name
        memory = _text(device / "mem_info_vram_total")
        found.append(
            PciCard(
                address=device.name,
                vendor=vendor,
                device=_text(device / "device") or "",
                driver=driver,
                memory_bytes=int(memory) if memory else None,
            )
        )
    return tuple(found)


def _container(root: Path, environment: Mapping[str, str]) -> Container:
    kind = None
    if "KUBERNETES_SERVICE_HOST" in environment:
        kind = "kubernetes"
    elif (root / "run/.containerenv").exists():
        kind = "podman"
    elif (root / ".dockerenv").exists():
        kind = "docker"
    elif "microsoft" in (_text(root / "proc/version") or "").lower():
        kind = "wsl"
    names = [
        str(path.relative_to(root / "dev"))
        for pattern in ("nvidia*", "kfd", "dri/render*", "dxg")
        for path in sorted((root / "dev").glob(pattern))
    ]
    return Container(kind=kind, device_nodes=tuple(names))


def _limits(root: Path) -> Limits:
    def limit(number: int) -> int | None:
        soft, _ = resource.getrlimit(number)
        return None if soft == resource.RLIM_INFINITY else soft

    shm = None
    with contextlib.suppress(OSError):
        shm = shutil.disk_usage(root / "dev/shm").total
    return Limits(
        cpus=_cpus(root),
        shm_bytes=shm,
        memlock_bytes=limit(resource.RLIMIT_MEMLOCK),
        open_files=limit(resource.RLIMIT_NOFILE),
        infiniband=any((root / "sys/class/infiniband").glob("*")),
    )


def _cpus(root: Path) -> float:
    """Return how many CPUs this process may use, by its affinity and its cgroup's quota."""
    allowed = float(len(psutil.Process().cpu_affinity()))
    quota, _, period = (_text(root / "sys/fs/cgroup/cpu.max") or "max").partition(" ")
    if quota == "max":
        return allowed
    return min(allowed, int(quota) / int(period))


def _kernel_log() -> tuple[str, ...]:
    """Return the last lines of NVIDIA's driver in the kernel's log, where we may read it."""
    try:
        done = subprocess.run(
            ["dmesg"], capture_output=True, text=True, timeout=5, check=False, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    lines = [line for line in done.stdout.splitlines() if "NVRM" in line]
    return tuple(lines[-50:])


def _libraries() -> dict[str, str]:
    """Return CUDA's libraries in the loader's cache, name to path."""
    program = shutil.which("ldconfig") or "/sbin/ldconfig"
    try:
        done = subprocess.run(
            [program, "-p"], capture_output=True, text=True, timeout=5, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    pairs = (line.strip().split(" => ") for line in done.stdout.splitlines() if " => " in line)
    named = {name.split()[0]: path for name, path in pairs}
    return {name: path for name, path in named.items() if name.split(".so")[0] in _LIBRARIES}
