"""`tarmac check` in full, as a gate, and what NVML says, in the form that tests read."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from _harness import TARMAC, machine_slug
from gpu_stages._tarmac import run_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpu_stages._report import Report


def run(report: Report) -> None:
    """Check, twice, and record the card."""
    with report.part("nvml"):
        text = "\n".join(_nvml_lines()) + "\n"
        print(text)
        report.file(f"tests/checks/machines/{machine_slug(gpu=True)}.txt", text)
    with report.part("gate"):
        gate = [*TARMAC, "check", "torch", "--quick", "--json", "--require", "gpus>=1"]
        answer = run_json(report, gate, limit_s=60)
        report.keep("gate_s", answer["process_s"])
    with report.part("deep"):
        page = report.scratch / "check.html"
        command = [*TARMAC, "check", "--json", "--deep", "--html", str(page), "--timeout", "60"]
        answer = run_json(report, command, codes=(0, 1))
        import json

        report.artifact("check.json").write_text(json.dumps(answer, indent=1))
        frameworks = answer.get("frameworks", [])
        report.keep("frameworks", [_short(verdict) for verdict in frameworks])
        report.keep("seconds", answer["process_s"])
        report.keep("exit_code", answer["exit_code"])
        if answer["exit_code"] != 0:
            raise RuntimeError(f"tarmac check found failures: {_codes(answer)}")


def _short(verdict: dict[str, Any]) -> dict[str, Any]:
    """Keep a verdict's plain values."""
    plain = (str, int, float, bool, type(None))
    return {name: value for name, value in verdict.items() if isinstance(value, plain)}


def _codes(answer: dict[str, Any]) -> list[str]:
    return [finding.get("code", "") for finding in answer.get("findings", [])]


def _nvml_lines() -> Iterator[str]:
    """Yield what NVML says of the first GPU, as the stand-in of the tests reads it.

    What it does not support has no line. The UUID is not told: it is this card's alone.
    """
    import pynvml as nv

    nv.nvmlInit()
    handle = nv.nvmlDeviceGetHandleByIndex(0)

    def ask(name: str, *arguments: Any) -> Any:
        try:
            return getattr(nv, name)(handle, *arguments)
        except (nv.NVMLError, AttributeError) as error:
            print(f"{name}: {error}", file=sys.stderr)
            return None

    def words(value: Any) -> str | None:
        if value is None:
            return None
        many = value if isinstance(value, list | tuple) else [value]
        return " ".join(str(int(one)) if isinstance(one, bool) else str(one) for one in many)

    yield f"driver {nv.nvmlSystemGetDriverVersion()}"
    yield f"cuda {nv.nvmlSystemGetCudaDriverVersion_v2()}"
    yield "count 1"
    memory = ask("nvmlDeviceGetMemoryInfo")
    use = ask("nvmlDeviceGetUtilizationRates")
    links = [ask("nvmlDeviceGetNvLinkState", link) for link in range(18)]
    counter = nv.NVML_VOLATILE_ECC
    power_limit = ask("nvmlDeviceGetPowerManagementLimit")
    slowdowns = ask("nvmlDeviceGetCurrentClocksEventReasons")
    values = {
        "name": ask("nvmlDeviceGetName"),
        "uuid": "GPU-00000000-0000-0000-0000-000000000000",
        "address": ask("nvmlDeviceGetPciInfo").busId,
        "memory": None if memory is None else memory.total,
        "used": None if memory is None else memory.used,
        "capability": ask("nvmlDeviceGetCudaComputeCapability"),
        "mig": ask("nvmlDeviceGetMigMode"),
        "pcie": ask("nvmlDeviceGetCurrPcieLinkGeneration"),
        "width": ask("nvmlDeviceGetCurrPcieLinkWidth"),
        "max_pcie": ask("nvmlDeviceGetMaxPcieLinkGeneration"),
        "max_width": ask("nvmlDeviceGetMaxPcieLinkWidth"),
        "nvlinks": "".join(str(link) for link in links if link is not None) or None,
        "ecc": ask("nvmlDeviceGetEccMode"),
        "corrected": ask("nvmlDeviceGetTotalEccErrors", 0, counter),
        "uncorrected": ask("nvmlDeviceGetTotalEccErrors", 1, counter),
        "remapped": ask("nvmlDeviceGetRemappedRows"),
        "clock": ask("nvmlDeviceGetClockInfo", nv.NVML_CLOCK_SM),
        "max_clock": ask("nvmlDeviceGetMaxClockInfo", nv.NVML_CLOCK_SM),
        "memory_clock": ask("nvmlDeviceGetClockInfo", nv.NVML_CLOCK_MEM),
        "max_memory_clock": ask("nvmlDeviceGetMaxClockInfo", nv.NVML_CLOCK_MEM),
        "slowdowns": None if slowdowns is None else hex(slowdowns),
        "power": ask("nvmlDeviceGetPowerUsage"),
        "power_limit": power_limit,
        "temperature": ask("nvmlDeviceGetTemperature", nv.NVML_TEMPERATURE_GPU),
        "utilization": None if use is None else (use.gpu, use.memory),
        "persistence": ask("nvmlDeviceGetPersistenceMode"),
        "compute_mode": ask("nvmlDeviceGetComputeMode"),
    }
    for name, value in values.items():
        if (text := words(value)) is not None:
            yield f"0.{name} {text}"
    nv.nvmlShutdown()
