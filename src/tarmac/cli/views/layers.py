"""The table of a model's layers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from tarmac.wording import counted, in_one_line

if TYPE_CHECKING:
    from tarmac.runs import Layer


def print_layers(workload: str, settings: Mapping[str, str], *, as_json: bool) -> None:
    """Print the layers of a workload's model, with the shapes that its data give.

    Args:
        workload: Name of a workload, or a file and a name in it.
        settings: Values of ``--set`` by their names.
        as_json: Whether to print JSON only.
    """
    from tarmac.training import Options, make_plan
    from tarmac.workloads import find_workload

    options = Options(settings=settings, devices="cpu")
    layers = make_plan(find_workload(workload), workload, options).layers
    if as_json:
        click.echo(json.dumps([layer.model_dump() for layer in layers], indent=2))
        return
    for line in layer_lines(layers):
        click.echo(line)


def layer_lines(layers: Sequence[Layer]) -> Iterator[str]:
    """Yield a line for each layer, and a line with the sum of the parameters."""
    from tarmac.runs import layer_rows

    rows = [tuple(map(in_one_line, row)) for row in layer_rows(layers)]
    head = ("layer", "kind", "returns", "parameters")
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for name, kind, shape, parameters in (head, *rows):
        start = f"{name:<{widths[0]}}  {kind:<{widths[1]}}  {shape:<{widths[2]}}"
        yield f"{start}  {parameters:>{widths[3]}}".rstrip()
    yield counted(sum(layer.parameters for layer in layers), "parameter")
