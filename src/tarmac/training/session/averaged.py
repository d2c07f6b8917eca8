"""The weights of a checkpoint as the training scores them, including a moving average."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import SafetensorError
from torch import nn

from tarmac.errors import TarmacError, short_reason
from tarmac.training.engine.parameters import Parameters
from tarmac.training.initial import read_weights
from tarmac.training.tensor_files import open_tensors
from tarmac.workloads import Recipe

# Name of `Update`'s average, below the checkpoint's prefix of the optimizer.
_AVERAGE = "optimizer/ema.values"


def read_scored_weights(
    path: Path, model: nn.Module, recipe: Recipe, precision: str
) -> dict[str, torch.Tensor]:
    """Read the weights that validation and the test set scored, by name, on the CPU.

    Args:
        path: A file of weights, or a run's checkpoint, which may hold an average beside them.
        model: Model of the run's workload on the CPU, with any values; it is changed.
        recipe: Recipe of the run; its ``ema`` says whether the run keeps an average.
        precision: Precision of the run, on which the order of parameters in the average depends.

    Raises:
        RequestError: The file does not exist, or holds no weights.
        TarmacError: The file is damaged, or was made with another recipe or for another model.
    """
    weights = read_weights(path)
    average = None if recipe.ema is None else _average(path)
    if average is None:
        return weights
    model.to(dtype=average.dtype)
    # Use the memory format of `Replica`.
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # undeclared
    parameters = Parameters(
        model,
        weight_decay=recipe.weight_decay,
        owners=tuple(recipe.parameter_groups),
        default_decays=recipe.default_decays,
        bf16=precision == "bf16",
        fp16=precision == "fp16",
        dtype=average.dtype,
    )
    if parameters.values.shape != average.shape:
        raise TarmacError(f"checkpoint {path} was made for another model")
    parameters.values.copy_(average)
    shown = parameters.state_dict()
    trained = {name for group in parameters.groups for name in group.views}
    return {name: shown[name] if name in trained else value for name, value in weights.items()}


def _average(path: Path) -> torch.Tensor | None:
    if path.suffix != ".safetensors":
        return None
    try:
        with open_tensors(path) as file:
            names = set(file.keys())
            return file.get_tensor(_AVERAGE) if _AVERAGE in names else None
    except (SafetensorError, OSError, ValueError) as error:
        raise TarmacError(f"weights {path} cannot be read: {short_reason(error)}") from error
