"""What the benchmarks share: the machine's facts, a child's time and memory, results' files."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

RESULTS = Path(__file__).parent / "results"
# There is no script beside the interpreter where Tarmac runs from source.
TARMAC = (sys.executable, "-m", "tarmac")
# The variable by which `gpu.py` tells what PyTorch calls the GPU: containers may lack NVML.
GPU_NAME = "TARMAC_GPU_NAME"


@dataclasses.dataclass(frozen=True)
class Child:
    """A process that has ended: its wall time, its peak memory, and the last line it printed."""

    seconds: float
    peak_rss_bytes: int
    result: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Spread:
    """Several measurements of one thing."""

    values: tuple[float, ...]

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Keep all values."""
        return cls(tuple(values))

    @property
    def median(self) -> float:
        """The middle value."""
        return statistics.median(self.values)

    def show(self, digits: int = 2) -> str:
        """Return ``median (lowest to highest)``."""
        low, high = min(self.values), max(self.values)
        return f"{self.median:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def run_child(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Child:
    """Run a program to its end and measure it from outside.

    Its standard output must end with a JSON object.

    Raises:
        RuntimeError: It failed; its own words are in the message.
    """
    # Files, because a child that fills one pipe while the other is read would wait for ever.
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as complaints:
        started = time.perf_counter()
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=complaints,
            env={**_surroundings(), **(environment or {})},
        )
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        complaints.seek(0)
        out, errors = output.read(), complaints.read()
    if process.returncode != 0:
        raise RuntimeError(
            f"{' '.join(command)} exited with {process.returncode}:\n{errors[-2000:]}"
        )
    return Child(seconds, usage.ru_maxrss * 1024, json.loads(out[out.index("{") :]))


def _surroundings() -> dict[str, str]:
    """Return this process's variables, without the one that makes every start compile anew."""
    return {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


def machine_facts() -> dict[str, Any]:
    """Describe the machine: what a figure means nothing without."""
    cpuinfo = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    name = re.search(r"model name\s*: (.*)", cpuinfo)
    flags = set(re.findall(r"\b(?:amx_bf16|avx512_bf16|avx512f|avx2)\b", cpuinfo))
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "cpu": name.group(1) if name else platform.machine(),
        "cores": os.cpu_count(),
        "features": sorted(flags),
        "python": platform.python_version(),
        "kernel": platform.release(),
        # Of the last minute, the benchmark's own included: far above it, others were at work too.
        "load": round(os.getloadavg()[0], 1),
        **gpu_facts(),
    }


def gpu_facts() -> dict[str, Any]:
    """Describe the first GPU and what uses it; its name at most where NVML is missing.

    Clocks are in MHz, power in W, memory in GiB. ``gpu_others`` is the number of processes that
    compute on it, other than this one and those that it has started.
    """
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:
        # The package or the driver is missing, or the driver is not of the kernel's version.
        return {"gpu": os.environ[GPU_NAME], **torch_facts()} if GPU_NAME in os.environ else {}
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(_first_gpu())

        def ask(name: str, *arguments: Any) -> Any:
            with contextlib.suppress(pynvml.NVMLError, AttributeError):
                return getattr(pynvml, name)(*arguments)
            return None

        memory = ask("nvmlDeviceGetMemoryInfo", handle)
        cuda = ask("nvmlSystemGetCudaDriverVersion_v2")
        limit = ask("nvmlDeviceGetPowerManagementLimit", handle)
        running = ask("nvmlDeviceGetComputeRunningProcesses", handle)
        clock, most = ("nvmlDeviceGetClockInfo", "nvmlDeviceGetMaxClockInfo")
        facts = {
            "gpu": ask("nvmlDeviceGetName", handle),
            "gpu_memory": None if memory is None else round(memory.total / 2**30, 1),
            "gpu_memory_used": None if memory is None else round(memory.used / 2**30, 2),
            "gpu_clocks": {
                "sm": ask(clock, handle, pynvml.NVML_CLOCK_SM),
                "sm_max": ask(most, handle, pynvml.NVML_CLOCK_SM),
                "memory": ask(clock, handle, pynvml.NVML_CLOCK_MEM),
                "memory_max": ask(most, handle, pynvml.NVML_CLOCK_MEM),
            },
            "gpu_power_limit": None if limit is None else limit / 1000,
            "gpu_others": None if running is None else _others(p.pid for p in running),
            "driver": ask("nvmlSystemGetDriverVersion"),
            "driver_cuda": None if cuda is None else f"{cuda // 1000}.{cuda % 1000 // 10}",
        }
    except pynvml.NVMLError:
        return {}
    finally:
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()
    return facts | torch_facts()


def torch_facts() -> dict[str, str | None]:
    """Return PyTorch's version and its CUDA's, without importing it."""
    facts: dict[str, str | None] = {}
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        facts["torch"] = importlib.metadata.version("torch")
    if (spec := importlib.util.find_spec("torch")) is not None and spec.origin is not None:
        versions = Path(spec.origin).with_name("version.py")
        with contextlib.suppress(OSError):
            found = re.search(r"^cuda\b.*= '([\d.]+)'", versions.read_text(), re.MULTILINE)
            facts["cuda"] = found.group(1) if found else None
    return facts


def _first_gpu() -> int:
    """Return the index of the GPU that PyTorch calls the first, where a number says it."""
    first = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0]
    return int(first) if first.isdigit() else 0


def _others(pids: Iterable[int]) -> int:
    import psutil

    own = {os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))}
    return len(set(pids) - own)


def machine_slug(*, gpu: bool = False) -> str:
    """Return a short name of the machine for the results' files.

    Args:
        gpu: Whether the figures are a GPU's, where there is one: its name then stands for all.
    """
    facts = machine_facts()
    if gpu and facts.get("gpu"):
        return _words(facts["gpu"])
    unit = "-amx" if "amx_bf16" in facts["features"] else ""
    return f"{_words(facts['cpu'])}{unit}-{facts['cores']}-core"


def _words(name: str) -> str:
    return re.sub("-+", "-", re.sub(r"\(.*?\)|[^\w]+", "-", name)).strip("-").lower()


def results_files(
    name: str, data: Mapping[str, Any], text: str, *, gpu: bool = False
) -> dict[str, str]:
    """Return figures as JSON and as a page, with the machine's facts, by file name."""
    facts = machine_facts()
    stem = f"{name}-{machine_slug(gpu=gpu)}"
    header = "\n".join(f"- {key}: {value}" for key, value in facts.items())
    return {
        f"{stem}.json": json.dumps({"machine": facts, **data}, indent=2) + "\n",
        f"{stem}.md": f"# {name}\n\n{header}\n\n{text.rstrip()}\n",
    }


def write_results(name: str, data: Mapping[str, Any], text: str, *, gpu: bool = False) -> None:
    """Write a benchmark's figures to its results, and print the page."""
    RESULTS.mkdir(exist_ok=True)
    for file, content in results_files(name, data, text, gpu=gpu).items():
        (RESULTS / file).write_text(content)
        if file.endswith(".md"):
            print(content)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
