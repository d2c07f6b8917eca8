"""The evidence of a check, before any conclusion: the machine, its GPUs and the probes' results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from tarmac.checks.amd import Amd
from tarmac.checks.engines import Engines
from tarmac.checks.kernel_reading import KernelLog
from tarmac.checks.network import Network
from tarmac.checks.ranked import Ranks
from tarmac.checks.soaked import Soak
from tarmac.checks.under_load import UnderLoad
from tarmac.machine import Gpu, NvlinkPair, PciePath


class _Facts(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PciCard(_Facts):
    """A display or compute card on the bus, with or without a driver.

    Attributes:
        address: PCI address of the card, such as ``0000:01:00.0``; ``built in`` for Apple's chips.
        vendor: ``nvidia``, ``amd``, ``intel`` or ``apple``.
        device: PCI device ID, such as ``0x2330``; the chip's name for Apple.
        driver: Kernel driver that is bound to the card; None without one.
        memory_bytes: Memory of the card in bytes, from AMD's driver only.
        used_bytes: Memory in use in bytes, from AMD's driver only.
        busy: Share of time that the card computes, in percent, from AMD's driver only.
        link: Speed and width of the PCIe link, ``now`` and ``max``, as the kernel prints them.
    """

    address: str
    vendor: str
    device: str
    driver: str | None = None
    memory_bytes: int | None = None
    used_bytes: int | None = None
    busy: int | None = None
    link: Mapping[str, str] = {}


class Driver(_Facts):
    """NVIDIA's driver.

    Attributes:
        version: Version of the driver, as NVML reports it.
        cuda: Newest CUDA version that the driver supports, such as ``13.0``.
        nvml_error: Reason why NVML does not start; None where it does.
        module_version: Version of the loaded kernel module.
        modules: Loaded kernel modules that matter: ``nvidia``, ``nvidia_uvm``, ``nouveau``.
        library: Path of the libcuda.so.1 that would be loaded, or None.
    """

    version: str | None = None
    cuda: str | None = None
    nvml_error: str | None = None
    module_version: str | None = None
    modules: tuple[str, ...] = ()
    library: str | None = None


class Container(_Facts):
    """The container that this process runs in, if any.

    Attributes:
        kind: ``docker``, ``podman``, ``kubernetes``, ``apptainer``, ``wsl``, or systemd's name of
            another kind, such as ``lxc``; None outside of a container.
        device_nodes: Names under /dev that belong to GPUs.
    """

    kind: str | None = None
    device_nodes: tuple[str, ...] = ()


class Limits(_Facts):
    """Resource limits of this process; None is unlimited or unknown.

    Attributes:
        cpus: CPUs that the affinity mask and the cgroup allow.
        memory_bytes: Memory limit of the cgroup, in bytes.
        shm_bytes: Size of ``/dev/shm``, in bytes.
        memlock_bytes: Memory that the process may lock, in bytes.
        open_files: Number of files that the process may hold open.
        infiniband: Whether there are InfiniBand devices, which need locked memory.
    """

    cpus: float | None = None
    memory_bytes: int | None = None
    shm_bytes: int | None = None
    memlock_bytes: int | None = None
    open_files: int | None = None
    infiniband: bool = False


class Host(_Facts):
    """The machine itself."""

    cpu: str
    cores: int
    memory_bytes: int
    disk_free_bytes: int
    kernel: str
    system: str
    boot_id: str | None = None


class Topology(_Facts):
    """The links of cards to the machine and to each other.

    Attributes:
        pcie: PCIe path from each card to its processor, where the kernel reports one.
        nvlink_pairs: Pairs of GPUs that NVLink joins, as NVIDIA's driver reports them.
        num_nvswitches: Number of NVIDIA's NVSwitches on the bus.
    """

    pcie: tuple[PciePath, ...] = ()
    nvlink_pairs: tuple[NvlinkPair, ...] = ()
    num_nvswitches: int = 0

    def path_of(self, address: str | None) -> PciePath | None:
        """Return the PCIe path of the card at an address; None where it is unknown."""
        return next((path for path in self.pcie if path.address == address), None)


class Upkeep(_Facts):
    """The facts that decide which commands work on this machine.

    Attributes:
        distribution: ``ID`` in os-release, such as ``ubuntu``; empty where it is missing.
        like: Distributions that it descends from, ``ID_LIKE`` in os-release.
        is_root: Whether this user is root and needs no sudo.
        processor: Machine architecture, such as ``x86_64`` or ``aarch64``.
        scheduler: Scheduler whose job this process belongs to: ``slurm``, ``pbs`` or ``lsf``. None
            outside of a job.
    """

    distribution: str = ""
    like: tuple[str, ...] = ()
    is_root: bool = False
    processor: str = "x86_64"
    scheduler: str | None = None


class Inventory(_Facts):
    """The facts about a machine, read without any framework.

    Attributes:
        environment: Set environment variables that affect GPUs, from name to value.
        kernel_log: Lines of the kernel's log that matter, since the start of the machine.
        kernel: How the kernel's log was read.
        amd: AMD's GPUs, and what computing on them needs.
        engines: Container engines of this machine; read only where there are GPUs.
        libraries: CUDA, cuDNN and NCCL libraries that a program of this Python would load, from
            name to path.
        missing_instructions: Instruction sets that framework builds use (``avx``, ``avx2``,
            ``fma``) and this x86 CPU lacks.
        topology: Links of cards to the machine and to each other.
        upkeep: Facts that decide which commands work here.
        network: Network interfaces, and ports of InfiniBand and RoCE.
    """

    host: Host
    driver: Driver = Driver()
    gpus: tuple[Gpu, ...] = ()
    cards: tuple[PciCard, ...] = ()
    container: Container = Container()
    limits: Limits = Limits()
    environment: Mapping[str, str] = {}
    kernel_log: tuple[str, ...] = ()
    kernel: KernelLog = KernelLog()
    amd: Amd = Amd()
    engines: Engines = Engines()
    libraries: Mapping[str, str] = {}
    missing_instructions: tuple[str, ...] = ()
    topology: Topology = Topology()
    upkeep: Upkeep = Upkeep()
    network: Network = Network()

    @property
    def nvidia_cards(self) -> list[str]:
        """The addresses of NVIDIA's cards on the bus."""
        return [card.address for card in self.cards if card.vendor == "nvidia"]

    @property
    def usable_memory_bytes(self) -> int:
        """The part of the machine's memory that this process may use, in bytes."""
        return min(self.host.memory_bytes, self.limits.memory_bytes or self.host.memory_bytes)

    @property
    def is_confined(self) -> bool:
        """Whether this process runs in a container; WSL is none."""
        return self.container.kind not in (None, "wsl")


Outcome = Literal[
    "done", "failed", "crashed", "hung", "no result", "not installed", "not started", "interrupted"
]


class Probe(_Facts):
    """The result of a framework's probe, and the end of its process.

    Attributes:
        framework: Name of the framework, such as ``torch``.
        where: Interpreter, image or environment that the probe ran in.
        outcome: How the probe's process ended.
        detail: Signal, time limit, or the reason why there is no result.
        seconds: Wall-clock seconds that the probe took.
        result: Result that the probe wrote; see any of the probes.
        printed: End of its printed output, up to 4,000 characters.
        printed_bytes: Number of bytes that the probe printed in all.
        left_behind: Number of processes that the probe left running; they were killed.
        seen_on_gpus: Indices of the GPUs on which the driver saw its process.
        image: Container image that the probe ran in; None outside of a container.
    """

    framework: str
    where: str
    outcome: Outcome
    detail: str = ""
    seconds: float = 0.0
    result: Mapping[str, Any] = {}
    printed: str = ""
    printed_bytes: int = 0
    left_behind: int = 0
    seen_on_gpus: tuple[int, ...] = ()
    image: str | None = None

    @property
    def label(self) -> str:
        """The name in verdicts and findings, such as ``keras on jax (/opt/venv/bin/python)``."""
        backend = (self.result.get("build") or {}).get("backend")
        name = f"{self.framework} on {backend}" if backend else self.framework
        return name if self.where == "this Python" else f"{name} ({self.where})"

    @property
    def text(self) -> str:
        """All text of the probe, for patterns to search: traceback, notes and printed output."""
        error = self.result.get("error") or {}
        notes = "\n".join(self.result.get("notes", ()))
        return "\n".join((error.get("traceback", ""), notes, self.printed))


class Evidence(_Facts):
    """All facts that a check has gathered.

    Attributes:
        under_load: Readings of each GPU that computed while a probe measured; empty where no probe
            measured.
    """

    inventory: Inventory
    probes: tuple[Probe, ...] = ()
    texts: tuple[str, ...] = ()
    under_load: tuple[UnderLoad, ...] = ()
    soak: Soak | None = None
    ranks: Ranks | None = None
