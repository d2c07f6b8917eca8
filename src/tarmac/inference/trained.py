"""A run's model with its weights, ready for predictions."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from tarmac import data, runs
from tarmac.data import Columns, Dataset, Split, Subset
from tarmac.errors import RequestError
from tarmac.inference.parts import Part, parts_of
from tarmac.machine import find_devices
from tarmac.runs import Run
from tarmac.training import (
    Checkpoint,
    apply_settings,
    bind_dataset,
    build_model,
    find_weights,
    fit_weights,
    input_record,
    predict,
    read_scored_weights,
    samples_of,
    threads_within_limits,
    workload_of,
)
from tarmac.workloads import Classification, Workload


class Asked(torch.nn.Module):
    """A model for raw samples: preprocessing, test views and the trained module, as scored.

    Args:
        model: Trained module that the workload builds.
        workload: Workload with the recipe that turns raw samples into the model's input.
    """

    def __init__(self, model: nn.Module, workload: Workload) -> None:
        super().__init__()
        self.model = model
        self._preprocess = workload.recipe.preprocess
        self._views = workload.recipe.test_views
        self.eval()

    def forward(self, inputs: Any) -> Any:
        """Return the model's output for raw samples, in fp32."""
        taken = self._preprocess(inputs, training=False, dtype=torch.float32)
        return predict(self.model, taken, self._views)


@dataclasses.dataclass(frozen=True)
class Trained:
    """A run's model.

    Attributes:
        run: Run that trained the model.
        workload: Workload with the run's settings applied.
        weights: File that the weights were read from.
        scored_model: Model that takes raw samples, on ``device``.
        parts: Parts of each input sample.
        classes: Class names in the order of the class numbers; empty if the data name none.
        device: Device of the model, as PyTorch names it.
    """

    run: Run
    workload: Workload
    weights: Path
    scored_model: Asked
    parts: tuple[Part, ...]
    classes: tuple[str, ...]
    device: str

    @property
    def classifies(self) -> bool:
        """Whether the model's outputs are logits of classes."""
        return isinstance(self.workload.objective, Classification)

    def columns_as_inputs(self, columns: Mapping[str, NDArray[Any]]) -> Any:
        """Return a batch as the preprocessing takes it: a tensor, or a dictionary of tensors."""
        own = dict(columns) if self.parts[0].name else columns[""]
        inputs, _ = samples_of(Subset.whole(Split(own)), 0, len(next(iter(columns.values()))))
        if isinstance(inputs, dict):
            return {name: tensor.to(self.device) for name, tensor in inputs.items()}
        return inputs.to(self.device)

    @torch.no_grad()
    @threads_within_limits()
    def outputs(self, columns: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Return the model's outputs for samples: arrays ``[num_samples, ...]`` by name.

        A single tensor is named ``output``; the items of a tuple are ``output_0``, ``output_1``.

        Args:
            columns: Array ``[num_samples, *shape]`` of each part, by name.
        """
        return named_outputs(self.scored_model(self.columns_as_inputs(columns)))


def named_outputs(output: Any) -> dict[str, NDArray[Any]]:
    """Return a model's output as arrays by name; see `Trained.outputs`."""
    if isinstance(output, torch.Tensor):
        return {"output": _array(output)}
    if isinstance(output, dict):
        return {str(name): _array(value) for name, value in output.items()}
    if isinstance(output, tuple | list):
        return {f"output_{index}": _array(value) for index, value in enumerate(output)}
    raise RequestError(
        f"the model returns a {type(output).__name__}, expected a tensor, or a tuple or a "
        "dictionary of them"
    )


def open_trained(
    reference: str | Path | Run,
    *,
    device: str = "auto",
    output: Path | None = None,
    workload: str | Workload | None = None,
    checkpoint: Checkpoint = "last",
) -> Trained:
    """Load a run's model. The data are needed only if the run's record does not describe them.

    Args:
        reference: The run: its directory, its name, the beginning of its name or ``"latest"``. For
            an incomplete run, the newest checkpoint is loaded.
        device: Device to compute on; see `tarmac.machine.find_devices`. Only the first is used.
        output: Directory of the runs. Default: ``TARMAC_RUNS``, or ``./runs``.
        workload: The run's workload, if it was passed to `tarmac.train` as a value.
        checkpoint: ``last`` or ``best``, which is the best on held-out data. Default ``last``.

    Raises:
        RequestError: The run does not exist, has no weights, its workload has changed since, or
            this machine lacks the device.
        TarmacError: A file of the run is damaged.
    """
    run = reference if isinstance(reference, runs.Run) else runs.resolve(str(reference), output)
    file = find_weights(str(run.path), checkpoint=checkpoint)
    bound, described, model = _build(run, workload_of(run, workload))
    weights = read_weights_of(run, workload, file)
    model.load_state_dict(fit_weights(file, weights, model.state_dict(), partial=False).weights)
    place = find_devices(device)[0].torch_name
    parts = parts_of(input_record(described.train.inputs))
    if described.features:
        parts = (dataclasses.replace(parts[0], features=described.features),)
    return Trained(
        run=run,
        workload=bound,
        weights=file,
        scored_model=Asked(model, bound).to(place),
        parts=parts,
        classes=described.classes,
        device=place,
    )


def load_model(
    reference: str | Path | Run,
    *,
    device: str = "auto",
    output: Path | None = None,
    workload: str | Workload | None = None,
    checkpoint: Checkpoint = "last",
) -> nn.Module:
    """Return the trained module that a run's workload builds, in evaluation mode.

    The module takes preprocessed samples. For a module that takes raw samples, use the
    ``scored_model`` of `open_trained`.

    Args:
        reference: The run: its directory, its name, the beginning of its name or ``"latest"``. For
            an incomplete run, the newest checkpoint is loaded.
        device: Device of the weights; see `tarmac.machine.find_devices`. Only the first is used.
        output: Directory of the runs. Default: ``TARMAC_RUNS``, or ``./runs``.
        workload: The run's workload, if it was passed to `tarmac.train` as a value.
        checkpoint: ``last`` or ``best``, which is the best on held-out data. Default ``last``.

    Raises:
        RequestError: The run does not exist, has no weights, its workload has changed since, or
            this machine lacks the device.
        TarmacError: A file of the run is damaged.
    """
    trained = open_trained(
        reference, device=device, output=output, workload=workload, checkpoint=checkpoint
    )
    return trained.scored_model.model


def read_weights_of(
    run: Run, workload: str | Workload | None, file: Path
) -> dict[str, torch.Tensor]:
    """Read a run's weights, by name, in the form that its training scores.

    Args:
        run: Run that the weights belong to.
        workload: The run's workload, if it was passed to `tarmac.train` as a value.
        file: File or directory of the weights, from `tarmac.training.find_weights`.

    Raises:
        RequestError: The workload has changed since the run.
        TarmacError: The file is damaged.
    """
    bound, _, model = _build(run, workload_of(run, workload))
    precision = str(run.record.configuration["precision"])
    return read_scored_weights(file, model, bound.recipe, precision)


def _build(run: Run, workload: Workload) -> tuple[Workload, Dataset, nn.Module]:
    """Return a run's workload with its settings, an outline of its data, and an untrained model."""
    settled, arguments = apply_settings(workload, run.record.configuration["settings"])
    described = _outline(run, settled)
    bound = bind_dataset(settled, described)
    with torch.random.fork_rng(devices=[]):
        model = build_model(bound, arguments, run.record.seed)
    return bound, described, model


def _outline(run: Run, workload: Workload) -> Dataset:
    """Return a stand-in with one sample of zeros, built from the run's record, or the dataset."""
    record = run.record.dataset
    if "inputs" not in record:
        # Older runs do not record their inputs.
        return (
            data.load(workload.dataset) if isinstance(workload.dataset, str) else workload.dataset()
        )
    columns = {
        part.name: np.zeros((1, *part.shape), part.dtype) for part in parts_of(record["inputs"])
    }
    num_classes = record["num_classes"]
    targets = np.zeros(1, np.int64)
    inputs: Columns = columns.get("", columns)
    split = Split(inputs, targets)
    return Dataset(
        str(record["name"]),
        split,
        split,
        num_classes,
        # Older runs do not record these names.
        features=tuple(record.get("features", ())),
        classes=tuple(record.get("classes", ())),
    )


def _array(value: torch.Tensor) -> NDArray[Any]:
    kept = value.float() if value.is_floating_point() else value
    array: NDArray[Any] = kept.cpu().numpy()
    return array
