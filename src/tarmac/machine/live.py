"""What a monitor reads of a machine at one moment: each GPU, what runs on it, and the host."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class LiveProcess:
    """A process on a GPU; None stands for what the driver does not tell.

    Attributes:
        pid: As this process sees it; None where the driver names it in another PID namespace.
        driver_pid: As the driver names it.
        kind: ``compute``, ``graphics`` or ``both``.
        memory_bytes: GPU memory that the process holds, in bytes.
        sm_ratio: Share of the GPU's multiprocessors that it kept busy lately, 0 to 1.
    """

    pid: int | None
    driver_pid: int
    kind: str = "compute"
    memory_bytes: int | None = None
    sm_ratio: float | None = None


@dataclasses.dataclass(frozen=True)
class LiveGpu:
    """A GPU, or a MIG slice of one, at one moment; None stands for what it does not tell.

    Attributes:
        index: The driver's; of a slice, that of its GPU.
        uuid: Its own; of a slice, the slice's.
        name: The chip's, or the slice's.
        parent_uuid: UUID of the GPU that contains this MIG slice. None for a whole GPU.
        pci_address: As the kernel writes it, such as ``0000:9c:00.0``.
        utilization_ratio: Share of the last moment in which a kernel ran, 0 to 1.
        tensor_ratio: Share of it in which tensor cores worked, where the driver counts it (GPM).
        memory_used_bytes: Without what the driver reserves for itself.
        throttle_reasons: Current reasons for low clocks, named as in `Gpu.slowdowns`.
        throttled_s: Seconds since the driver was loaded, by ``power`` and ``thermal``.
        energy_joules: Since the driver was loaded.
        corrected_errors: ECC, since the driver was loaded.
        row_remaps: Memory rows replaced in its life.
        processes: What runs on it, of anybody.
        error: Why it cannot be read; then nothing else is known but its index and UUID.
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
    """The machine beside its GPUs, or as much of it as this process may use.

    Attributes:
        name: Host name of this machine.
        cpu_count: Cores that may be used: affinity and the control group's quota.
        cpu_ratio: Share of ``cpu_count`` in use since the last reading, 0 to 1.
        throttled_ratio: Share of the quota's periods since the last reading in which it ran out.
        memory_used_bytes: Memory in use: the control group's if it has a limit, else the host's.
    """

    name: str
    cpu_count: float | None = None
    cpu_ratio: float | None = None
    load_1m: float | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    throttled_ratio: float | None = None
