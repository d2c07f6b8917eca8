"""A GPU as NVIDIA's driver describes it."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict


class _Facts(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class GpuProcess(_Facts):
    """A process that holds memory on a GPU.

    Attributes:
        pid: PID of the process on the host, which may differ in a container.
        name: Name of the program, without arguments. None if the PID is unknown in this container.
        memory_bytes: Memory that the process holds, in bytes; None if unknown.
    """

    pid: int
    name: str | None
    memory_bytes: int | None


class MigDevice(_Facts):
    """An instance of a partitioned GPU (MIG).

    Attributes:
        uuid: UUID of the instance, as ``CUDA_VISIBLE_DEVICES`` takes it.
        name: Driver's name of the instance, e.g. ``NVIDIA H200 MIG 1g.18gb``.
        memory_bytes: Total memory in bytes; None if unknown.
        used_bytes: Used memory in bytes; None if unknown.
    """

    uuid: str
    name: str | None = None
    memory_bytes: int | None = None
    used_bytes: int | None = None


class Fabric(_Facts):
    """The state of the NVLink fabric that a GPU belongs to.

    Attributes:
        state: State of joining the fabric: ``not started``, ``in progress`` or ``completed``.
        status: NVML's result code of joining, once it is completed; 0 is success.
        troubles: Problems of the fabric, e.g. ``degraded bandwidth``.
    """

    state: str
    status: int = 0
    troubles: tuple[str, ...] = ()


class Gpu(_Facts):
    """A GPU as the driver describes it; None stands for unknown values.

    Attributes:
        index: Driver's index, which CUDA_VISIBLE_DEVICES does not change.
        error: Reason why the GPU did not answer, e.g. ``GPU is lost``.
        pcie: Generation and width of the PCIe link, current and maximum.
        nvlinks: Whether each NVLink is up.
        corrected_errors: ECC errors since the driver was loaded.
        uncorrected_errors: ECC errors since the driver was loaded.
        sm_clock_mhz: Clock of the SMs in MHz, ``now`` and ``max``.
        memory_clock_mhz: Clock of the memory in MHz, ``now`` and ``max``.
        slowdowns: The driver's reasons for low clocks: ``sw_power_cap``, ``sw_thermal``,
            ``hw_slowdown``, ``hw_thermal``, ``hw_power_brake``.
        retired_pages: Number of retired memory pages; since Ampere, of replaced rows.
        retired_pages_pending: Whether pages or rows wait for a reset to be replaced.
        mig: Whether it is partitioned, so that only its instances compute.
        mig_devices: MIG instances of the GPU. Empty if it has none.
        recovery_action: Action that the driver requires before further use: ``none``, ``reset``,
            ``reboot``, ``drain P2P``, ``drain and reset``.
        pcie_replays: PCIe packets sent again since the driver was loaded.
        nvlink_errors: Errors of all NVLinks since the driver was loaded: ``crc``, ``replay``,
            ``recovery``.
        fabric: NVLink fabric of the GPU; None without one.
        sram_threshold_exceeded: Whether its SRAM has had more errors than NVIDIA allows.
        remapped_rows: Number of memory rows replaced so far, by ``corrected`` and ``uncorrected``
            errors; empty before Ampere.
        inforom_valid: Whether the infoROM, with settings and past errors, passes its checksums.
        temperature_limits_c: Limits in degrees Celsius: highest ``operating`` temperature of the
            GPU and of its ``memory``; its hardware acts at ``slowdown`` and ``shutdown``.
        default_power_watts: Default power limit in watts.
        application_clocks_mhz: Application clocks of the SMs in MHz, ``now`` and ``default``.
        vbios: Version of the video BIOS, as the driver reports it.
        board: PCI subsystem ID, for the board's maker and model.
        virtualization: ``none``, ``passthrough``, ``vgpu``, ``vgpu host`` or ``vsga host``.
        licensed: Whether a vGPU has the licence that it needs.
        unseen_bytes: Used memory in bytes, beyond the driver's own, that no listed process holds.
            In a container, processes of other containers are not listed.
    """

    index: int
    name: str | None = None
    uuid: str | None = None
    address: str | None = None
    error: str | None = None
    memory_bytes: int | None = None
    used_bytes: int | None = None
    capability: tuple[int, int] | None = None
    pcie: Mapping[str, int] = {}
    nvlinks: tuple[bool, ...] = ()
    ecc: bool | None = None
    corrected_errors: int | None = None
    uncorrected_errors: int | None = None
    remap_failed: bool | None = None
    retired_pages: int | None = None
    retired_pages_pending: bool | None = None
    sm_clock_mhz: Mapping[str, int] = {}
    memory_clock_mhz: Mapping[str, int] = {}
    slowdowns: tuple[str, ...] = ()
    power_watts: Mapping[str, float] = {}
    temperature_c: int | None = None
    utilization: int | None = None
    persistence: bool | None = None
    compute_mode: str | None = None
    mig: bool | None = None
    mig_devices: tuple[MigDevice, ...] = ()
    processes: tuple[GpuProcess, ...] = ()
    recovery_action: str | None = None
    pcie_replays: int | None = None
    nvlink_errors: Mapping[str, int] = {}
    fabric: Fabric | None = None
    sram_threshold_exceeded: bool | None = None
    remapped_rows: Mapping[str, int] = {}
    inforom_valid: bool | None = None
    temperature_limits_c: Mapping[str, int] = {}
    default_power_watts: float | None = None
    application_clocks_mhz: Mapping[str, int] = {}
    vbios: str | None = None
    board: str | None = None
    virtualization: str | None = None
    licensed: bool | None = None
    unseen_bytes: int | None = None

    @property
    def label(self) -> str:
        """Name of the GPU in verdicts and findings: ``GPU 0``."""
        return f"GPU {self.index}"

    @property
    def is_exclusive(self) -> bool:
        """Whether its compute mode allows one process at a time."""
        return self.compute_mode == "exclusive process"
