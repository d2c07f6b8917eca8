"""Reads stored reports, and compares them fact by fact."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import ValidationError

from tarmac.checks.evidence import Inventory
from tarmac.checks.report.model import SCHEMA_VERSION, Report
from tarmac.errors import RequestError
from tarmac.files import read_regular


def read_report(path: Path) -> Report:
    """Read a report that ``tarmac check --save`` or ``--json`` has written.

    Raises:
        RequestError: The file cannot be read, has no report, or has another schema version.
    """
    try:
        # `read_regular` guards against a run's file that is replaced by something endless. A pipe,
        # which a shell passes for `<(COMMAND)`, is read to its end.
        read = read_regular(path) if path.is_file() else path.read_bytes()
        content = json.loads(read.decode("utf-8-sig"))
    except OSError as error:
        raise RequestError(f"{path}: cannot be read: {error.strerror}") from error
    except json.JSONDecodeError as error:
        place = f"{path}:{error.lineno}:{error.colno}"
        raise RequestError(f"{place}: no JSON: {error.msg[0].lower()}{error.msg[1:]}") from error
    except (ValueError, RecursionError) as error:
        raise RequestError(f"{path}: no JSON: {error}") from error
    version = content.get("schema_version") if isinstance(content, dict) else None
    if version is None or "inventory" not in content:
        raise RequestError(
            f"{path}: not a report of tarmac check", hint="Make one: tarmac check --json > FILE"
        )
    if version != SCHEMA_VERSION:
        raise RequestError(
            f"{path}: of schema_version {version}, this Tarmac's is {SCHEMA_VERSION}",
            hint="Make it again with the same Tarmac: tarmac check --save FILE",
        )
    facts = {key: value for key, value in content.items() if key not in ("ok", "exit_code")}
    try:
        return Report.model_validate(facts)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise RequestError(f"{path}: incomplete report: {where}: {first['msg']}") from error


def hardware_facts(inventory: Inventory) -> dict[str, str]:
    """Return the facts about hardware and driver, none of which change under load."""
    gpus = inventory.gpus
    facts = {
        "driver": inventory.driver.version or "none",
        "GPUs": str(sum(gpu.error is None for gpu in gpus)),
        "GPU names": _tally(gpu.name for gpu in gpus),
        "GPU memory": _tally(_gib(gpu.memory_bytes) for gpu in gpus),
        "VBIOS": _tally(gpu.vbios for gpu in gpus),
        # An idle link lowers its generation, but never its width.
        "PCIe lanes": _tally(_text(gpu.pcie.get("width")) for gpu in gpus),
        "PCIe generation at most": _tally(_text(gpu.pcie.get("max_generation")) for gpu in gpus),
        "NVLinks up": _tally(str(sum(gpu.nvlinks)) for gpu in gpus),
        "memory": _gib(inventory.host.memory_bytes) or "unknown",
    }
    return {name: value for name, value in facts.items() if value}


def software_facts(report: Report) -> dict[str, str]:
    """Return the facts about a machine's settings, installed software and findings."""
    inventory = report.inventory
    codes = sorted({finding.code for finding in report.findings if finding.level != "note"})
    facts = {
        "CPU": inventory.host.cpu,
        "cores": str(inventory.host.cores),
        "system": inventory.host.system,
        "kernel": inventory.host.kernel,
        "CUDA": inventory.driver.cuda or "none",
        "ECC": _tally(_text(gpu.ecc) for gpu in inventory.gpus),
        "MIG": _tally(_text(gpu.mig) for gpu in inventory.gpus),
        "persistence": _tally(_text(gpu.persistence) for gpu in inventory.gpus),
        "compute mode": _tally(gpu.compute_mode for gpu in inventory.gpus),
        "power limit": _tally(_text(gpu.power_watts.get("limit")) for gpu in inventory.gpus),
        **{f"${name}": value for name, value in inventory.environment.items()},
        **{
            probe.label: str(probe.result.get("version") or probe.outcome)
            for probe in report.probes
        },
        "findings": ", ".join(codes) or "none",
    }
    return {name: value for name, value in facts.items() if value}


def differing_model(before: Inventory, now: Inventory) -> str:
    """Return in words why two inventories are of different machine models; empty where not.

    The models differ where the CPUs differ, or where both machines have GPUs and no GPU's name is
    common. A GPU more or less is no other model.
    """
    if before.host.cpu != now.host.cpu:
        return f"its CPU is {before.host.cpu}, this one's {now.host.cpu}"
    names = [{gpu.name for gpu in inventory.gpus if gpu.name} for inventory in (before, now)]
    if all(names) and not names[0] & names[1]:
        was, is_now = (", ".join(sorted(models)) for models in names)
        return f"its GPUs are {was}, this one's {is_now}"
    return ""


def odd_ones(values: Mapping[str, str]) -> tuple[str | None, dict[str, str]]:
    """Return the most common value, None in a tie, and the entries with another value."""
    counts = Counter(values.values()).most_common(2)
    if len(counts) == 2 and counts[0][1] == counts[1][1]:
        return None, dict(values)
    usual = counts[0][0]
    return usual, {name: value for name, value in values.items() if value != usual}


def _tally(values: Iterable[str | None]) -> str:
    counts = Counter(value for value in values if value is not None)
    return ", ".join(f"{count} x {value}" for value, count in sorted(counts.items()))


def _text(value: object) -> str | None:
    return None if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _gib(size: int | None) -> str | None:
    return None if size is None else f"{size / 2**30:.0f} GiB"
