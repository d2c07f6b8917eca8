"""A GPU as NVIDIA's driver describes it."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - pydantic reads it

from pydantic import BaseModel, ConfigDict


class _Facts(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class GpuProcess(_Facts):
    """A process that holds memory on a GPU.

    Attributes:
        pid: As the machine numbers it, which a container may not.
        name: Name of the program, without arguments. None if the PID is unknown in this container.
        memory_bytes: None where the driver does not say.
    """

    pid: int
    name: str | None
    memory_bytes: int | None


class MigDevice(_Facts):
    """An instance of a partitioned GPU (MIG).

    Attributes:
        uuid: UUID of the instance, as ``CUDA_VISIBLE_DEVICES`` takes it.
        name: What the driver calls it, e.g. ``NVIDIA H200 MIG 1g.18gb``.
        memory_bytes: Memory in all; None where the driver does not say.
        used_bytes: What of that is in use; None where the driver does not say.
    """

    uuid: str
    name: str | None = None
    memory_bytes: int | None = None
    used_bytes: int | None = None


class Fabric(_Facts):
    """What a GPU says of the NVLink fabric that it belongs to.

    Attributes:
        state: ``not started``, ``in progress`` or ``completed``.
        status: NVML's code of how joining it ended, once that is completed; 0 is success.
        troubles: What is not well with it, e.g. ``degraded bandwidth``.
    """

    state: str
    status: int = 0
    troubles: tuple[str, ...] = ()


class Gpu(_Facts):
    """A GPU as the driver describes it; None stands for what it does not tell.

    Attributes:
        index: The driver's, which CUDA_VISIBLE_DEVICES does not change.
        error: Why it could not be asked, e.g. ``GPU is lost``.
        pcie: Generation and width, now and at most.
        nvlinks: For each link, whether it is up.
        corrected_errors: ECC errors since the driver was loaded.
        uncorrected_errors: ECC errors since the driver was loaded.
        sm_clock_mhz: Now and at most.
        memory_clock_mhz: Now and at most.
        slowdowns: The driver's reasons for low clocks: ``sw_power_cap``, ``sw_thermal``,
            ``hw_slowdown``, ``hw_thermal``, ``hw_power_brake``.
        retired_pages: Pages taken out of use in its life, since Ampere rows that were replaced.
        retired_pages_pending: Whether pages or rows wait for a reset to be replaced.
        mig: Whether it is partitioned, so that only its instances compute.
        mig_devices: MIG instances of the GPU. Empty if it has none.
        recovery_action: What the driver asks to be done before it is used again: ``none``,
            ``reset``, ``reboot``, ``drain P2P``, ``drain and reset``.
        pcie_replays: Packets sent again since the driver was loaded.
        nvlink_errors: Errors of all links since then: ``crc``, ``replay``, ``recovery``.
        fabric: None where it belongs to none.
        sram_threshold_exceeded: Whether its on-chip memory has had more errors than NVIDIA allows.
        remapped_rows: Rows of memory replaced in its life, by ``corrected`` and ``uncorrected``
            errors; before Ampere there are none.
        inforom_valid: Whether its store of settings and past errors passes its checksums.
        temperature_limits_c: ``operating`` is the highest it is made to work at, ``memory`` that of
            its memory; at ``slowdown`` and ``shutdown`` its hardware acts.
        default_power_watts: The power limit that it comes with.
        application_clocks_mhz: Those of its SMs ``now`` and by ``default``.
        vbios: Version of the video BIOS, as the driver reports it.
        board: PCI's number of its maker and model.
        virtualization: ``none``, ``passthrough``, ``vgpu``, ``vgpu host`` or ``vsga host``.
        licensed: Whether a vGPU has the licence that it needs.
        unseen_bytes: Memory in use beyond the driver's own that no process holds which it lists
            here, which in a container leaves out those of others.
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
        """What it is called in verdicts and findings: ``GPU 0``."""
        return f"GPU {self.index}"
