"""What a check has seen, before any conclusion: the machine, its GPUs, and what probes said."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - pydantic reads it
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from tarmac.checks.amd import Amd
from tarmac.checks.engines import Engines
from tarmac.checks.kernel_reading import KernelLog
from tarmac.checks.network import Network
from tarmac.checks.ranked import Ranks  # noqa: TC001 - pydantic reads it
from tarmac.checks.soaked import Soak  # noqa: TC001 - pydantic reads it
from tarmac.checks.under_load import UnderLoad  # noqa: TC001 - pydantic reads it
from tarmac.machine import Gpu, NvlinkPair, PciePath  # noqa: TC001 - pydantic reads them


class _Facts(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PciCard(_Facts):
    """A display or compute card on the bus, driver or not.

    Attributes:
        address: PCI address of the card, such as ``0000:01:00.0``; ``built in`` for Apple's chips.
        vendor: ``nvidia``, ``amd``, ``intel`` or ``apple``.
        device: The vendor's number of it, e.g. ``0x2330``; Apple's name of its chip.
        driver: The kernel's driver that holds it.
        memory_bytes: Its own memory, as AMD's driver says.
        used_bytes: What of that is in use, as AMD's driver says.
        busy: Share of time that it computes, in percent, as AMD's driver says.
        link: Speed and width of its PCIe link, now and at most, in the kernel's words.
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
        cuda: The newest CUDA that it runs, ``13.0``.
        nvml_error: Why NVML does not start; None where it does.
        module_version: The loaded kernel module's version.
        modules: Loaded kernel modules that matter: ``nvidia``, ``nvidia_uvm``, ``nouveau``.
        library: The libcuda.so.1 that would be loaded, or None.
    """

    version: str | None = None
    cuda: str | None = None
    nvml_error: str | None = None
    module_version: str | None = None
    modules: tuple[str, ...] = ()
    library: str | None = None


class Container(_Facts):
    """What confines this process.

    Attributes:
        kind: ``docker``, ``podman``, ``kubernetes``, ``apptainer``, ``lxc`` or another that the
            system names, ``wsl``, or None.
        device_nodes: Names under /dev that belong to GPUs.
    """

    kind: str | None = None
    device_nodes: tuple[str, ...] = ()


class Limits(_Facts):
    """What this process may use; None is unlimited or unknown.

    Attributes:
        cpus: CPUs that the affinity mask and the cgroup allow.
        memory_bytes: Memory limit of the cgroup, in bytes.
        shm_bytes: Size of ``/dev/shm``, in bytes.
        memlock_bytes: Memory that the process may lock, in bytes.
        infiniband: Whether there are InfiniBand devices, which need it.
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
    """How cards are joined to the machine and to each other.

    Attributes:
        pcie: How each card is joined to its processor, where the kernel tells.
        nvlink_pairs: The GPUs that NVLink joins, as NVIDIA's driver says.
        num_nvswitches: NVIDIA's switches for NVLink on the bus.
    """

    pcie: tuple[PciePath, ...] = ()
    nvlink_pairs: tuple[NvlinkPair, ...] = ()
    num_nvswitches: int = 0

    def path_of(self, address: str | None) -> PciePath | None:
        """Return how the card of an address is joined to its processor."""
        return next((path for path in self.pcie if path.address == address), None)


class Upkeep(_Facts):
    """What decides which commands work on this machine.

    Attributes:
        distribution: Its name in os-release, ``ubuntu``; empty where it has none.
        like: Those that it descends from.
        is_root: Whether this is root, who needs no sudo.
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
    """The machine, seen without any framework.

    Attributes:
        environment: The variables that steer GPUs, of those that are set.
        kernel_log: Lines of the kernel's log that matter, since the start of the machine.
        kernel: How that log was read.
        amd: AMD's GPUs, and what computing on them needs.
        engines: What could start a container here, where there are GPUs to give.
        libraries: CUDA's, cuDNN's and NCCL's libraries that a program of this Python would load,
            name to path.
        missing_instructions: Instruction sets that framework builds use (``avx``, ``avx2``,
            ``fma``) and this x86 CPU lacks.
        topology: How cards are joined to the machine and to each other.
        upkeep: What decides which commands work here.
        network: What it has to reach other machines by.
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
        """What of the machine's memory this process may use."""
        return min(self.host.memory_bytes, self.limits.memory_bytes or self.host.memory_bytes)

    @property
    def is_confined(self) -> bool:
        """Whether this is a container."""
        return self.container.kind not in (None, "wsl")


Outcome = Literal[
    "done", "failed", "crashed", "hung", "no result", "not installed", "not started", "interrupted"
]


class Probe(_Facts):
    """What the probe of a framework said, and how its process ended.

    Attributes:
        framework: As the user names it.
        where: The interpreter, image or environment it ran in.
        outcome: How the process ended.
        detail: The signal, the time limit, or what stood in the result's place.
        seconds: Wall-clock seconds that the probe took.
        result: What it wrote down; see any of the probes.
        printed: The last of what it printed, up to 4,000 characters.
        printed_bytes: All that it printed.
        left_behind: Processes that it left, and that were ended.
        seen_on_gpus: Indices of the GPUs on which the driver saw its process.
        image: The container image that it ran in, None outside of one.
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
        """What it is called in verdicts and findings: ``keras on jax (/opt/venv/bin/python)``."""
        backend = (self.result.get("build") or {}).get("backend")
        name = f"{self.framework} on {backend}" if backend else self.framework
        return name if self.where == "this Python" else f"{name} ({self.where})"

    @property
    def text(self) -> str:
        """Everything it said, for patterns to look at."""
        error = self.result.get("error") or {}
        notes = "\n".join(self.result.get("notes", ()))
        return "\n".join((error.get("traceback", ""), notes, self.printed))


class Evidence(_Facts):
    """All that a check has seen.

    Attributes:
        under_load: Each GPU that computed while a probe measured; none where nothing was measured.
    """

    inventory: Inventory
    probes: tuple[Probe, ...] = ()
    texts: tuple[str, ...] = ()
    under_load: tuple[UnderLoad, ...] = ()
    soak: Soak | None = None
    ranks: Ranks | None = None
