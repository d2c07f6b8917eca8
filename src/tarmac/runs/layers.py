"""``layers.json``: the layers of a run's model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, NonNegativeInt

from tarmac.files import read_versioned, write_text

LAYERS = "layers.json"

_SCHEMA_VERSION = 1


class Layer(BaseModel):
    """A layer of a model: a module without others in it, or with parameters of its own.

    Attributes:
        name: Path of the layer in the model: ``blocks.0.norm``.
        kind: Class name of the module, such as ``Linear``.
        shape: Output shape without the batch. None if it returns no tensor, another module uses its
            parameters, or ``torch.jit`` compiled it.
        parameters: Number of the layer's own parameters; shared ones count in the first layer only.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    kind: str
    shape: tuple[NonNegativeInt, ...] | None
    parameters: NonNegativeInt


class _Layers(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: int = _SCHEMA_VERSION
    layers: tuple[Layer, ...]


def layer_rows(layers: Iterable[Layer]) -> list[tuple[str, str, str, str]]:
    """Return a row of texts per layer: its name, kind, output shape and parameter count."""
    return [
        (
            layer.name,
            layer.kind,
            "" if layer.shape is None else " x ".join(map(str, layer.shape)),
            f"{layer.parameters:,}" if layer.parameters else "",
        )
        for layer in layers
    ]


def write_layers(run: Path, layers: Sequence[Layer]) -> None:
    """Write the layers of a model into the directory of its run.

    Raises:
        StorageError: The layers cannot be written.
    """
    text = _Layers(layers=tuple(layers)).model_dump_json()
    write_text(run / LAYERS, text + "\n")


def read_layers(run: Path) -> tuple[Layer, ...]:
    """Read the layers of a run's model.

    Args:
        run: Directory of the run, with ``layers.json``.

    Raises:
        RequestError: The run has no layers, as from an older Tarmac, or a newer Tarmac wrote them.
        TarmacError: The file of layers is damaged.
    """
    return read_versioned(run / LAYERS, _Layers, _SCHEMA_VERSION, "run with layers").layers
