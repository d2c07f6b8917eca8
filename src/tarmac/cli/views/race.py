"""Output of `tarmac check --race`."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from tarmac.wording import counted

if TYPE_CHECKING:
    from tarmac.checks import Race


def print_race(race: Race, *, as_json: bool) -> None:
    """Print a line for each device, or JSON only."""
    if as_json:
        click.echo(json.dumps(dataclasses.asdict(race), indent=2))
        return
    for line in _lines(race):
        click.echo(line)


def _lines(race: Race) -> Iterator[str]:
    yield (
        f"one training for {race.seconds:g} s on each device: Keras's network for MNIST, batches "
        f"of 256, fp32, by PyTorch {race.version}"
    )
    rows = []
    for racer in race.racers:
        is_cpu = racer.device == "cpu"
        threads = f", {counted(race.threads, 'thread')}" if is_cpu else ""
        times = "" if is_cpu else f"{racer.times:,.1f} times the CPU"
        if not racer.is_right:
            times = "its results differ from the CPU's: tarmac check torch"
        rows.append((racer.device, racer.chip + threads, f"{racer.images_per_s:,.0f}", times))
    names, chips, rates, _ = (max(map(len, column)) for column in zip(*rows, strict=True))
    for name, chip, rate, times in rows:
        yield f"  {name:<{names}}  {chip:<{chips}}  {rate:>{rates}} images/s  {times}".rstrip()
    if len(rows) == 1:
        yield "no GPU took part: this PyTorch sees none; tarmac check says why"
