"""The state of a machine for a monitor: each GPU with its processes, and the host."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class LiveProcess:
    """A process on a GPU; None stands for unknown values.

    Attributes:
        pid: PID as this process sees it; None if the driver's PID is of another PID namespace.
        driver_pid: PID that the driver reports.
        kind: ``compute``, ``graphics`` or ``both``.
        memory_bytes: GPU memory that the process holds, in bytes.
        sm_ratio: Recent share of the GPU's multiprocessors that it kept busy, 0 to 1.
    """

    pid: int | None
    driver_pid: int
    kind: str = "compute"
    memory_bytes: int | None = None
    sm_ratio: float | None = None


@dataclasses.dataclass(frozen=True)
class LiveGpu:
    """A GPU or MIG slice at one moment; None stands for unknown values.

    Attributes:
        index: Driver's index of the GPU; for a slice, that of its GPU.
        uuid: UUID of the GPU or slice.
        name: Name of the chip or slice.
        parent_uuid: UUID of the GPU that contains this MIG slice. None for a whole GPU.
        pci_address: PCI address as the kernel writes it, such as ``0000:9c:00.0``.
        utilization_ratio: Share of the last moment in which a kernel ran, 0 to 1.
        tensor_ratio: Share of that moment in which tensor cores worked, if the driver counts it
            (GPM).
        memory_used_bytes: Used memory in bytes, without the driver's own reserve.
        throttle_reasons: Current reasons for low clocks, named as in `Gpu.slowdowns`.
        throttled_s: Seconds of throttling since the driver was loaded, by ``power`` and
            ``thermal``.
        energy_joules: Energy in joules since the driver was loaded.
        corrected_errors: Corrected ECC errors since the driver was loaded.
        row_remaps: Number of memory rows replaced so far.
        processes: Processes on the GPU, of all users.
        error: Reason why it cannot be read; then only index, UUID and other constants are known.
    """

    index: int
    uuid: str
    name: str
    parent_uuid: str | None = None
    maker: str = "nvidia"
    pci_address: str | None = None
    utilization_ratio: float | None = None
    memory_utilization_ratio: float | None = None
    tensor_ratio: float | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    power_watts: float | None = None
    power_limit_watts: float | None = None
    temperature_c: float | None = None
    memory_temperature_c: float | None = None
    fan_ratio: float | None = None
    sm_clock_mhz: int | None = None
    max_sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    pcie_generation: int | None = None
    pcie_width: int | None = None
    max_pcie_generation: int | None = None
    max_pcie_width: int | None = None
    pcie_sent_bytes_per_s: float | None = None
    pcie_received_bytes_per_s: float | None = None
    energy_joules: float | None = None
    throttle_reasons: tuple[str, ...] = ()
    throttled_s: dict[str, float] = dataclasses.field(default_factory=dict)
    corrected_errors: int | None = None
    uncorrected_errors: int | None = None
    row_remaps: int | None = None
    processes: tuple[LiveProcess, ...] = ()
    error: str | None = None


@dataclasses.dataclass(frozen=True)
class LiveHost:
    """The host beside its GPUs, limited to what this process may use.

    Attributes:
        name: Host name of this machine.
        cpu_count: Number of usable cores, by affinity and the control group's quota.
        cpu_ratio: Share of ``cpu_count`` in use since the last reading, 0 to 1.
        throttled_ratio: Share of the CPU quota's periods that were throttled since the last
            reading, 0 to 1.
        memory_used_bytes: Memory in use: the control group's if it has a limit, else the host's.
    """

    name: str
    cpu_count: float | None = None
    cpu_ratio: float | None = None
    load_1m: float | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    throttled_ratio: float | None = None
