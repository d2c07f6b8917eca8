"""Output of `tarmac check --verbose`: devices, and where each operation ran."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tarmac.checks import describe_devices

if TYPE_CHECKING:
    from tarmac.checks import Report

_DEVICES = ("device", "name", "compute capability", "memory")
_OPERATIONS = ("operation", "asked for", "ran on")


def print_placements(report: Report) -> None:
    """Print the devices of each framework that computed, and where each operation ran."""
    for probe in report.probes:
        devices = describe_devices(probe, report.inventory)
        if not devices:
            continue
        version = probe.result.get("version") or ""
        click.secho(f"{probe.label} {version}".rstrip(), bold=True)
        rows = [
            (
                device.device,
                device.name or "-",
                device.capability or "-",
                f"{device.memory_bytes / 2**30:.0f} GiB" if device.memory_bytes else "-",
            )
            for device in devices
        ]
        _print_table(_DEVICES, rows)
        placements = probe.result.get("placements", ())
        if placements:
            _print_table(
                _OPERATIONS,
                [(row["operation"], row["device"], row["ran_on"]) for row in placements],
            )


def _print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for number, row in enumerate((head, *rows)):
        cells = (f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        click.secho(f"  {'  '.join(cells).rstrip()}", dim=number == 0)
