"""Try a workload's model on its data before a training begins."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from tarmac.data import Dataset, Subset, in_one_line
from tarmac.errors import RequestError, TarmacError
from tarmac.runs import Layer
from tarmac.training.engine.blocks import find_blocks
from tarmac.training.engine.columns import samples_of
from tarmac.training.engine.model import build_model, name_with_settings, replicate
from tarmac.training.engine.prediction import call_model
from tarmac.training.engine.scoring import Scoring, in_precision
from tarmac.training.engine.set_scores import SetScores
from tarmac.training.engine.strategy import StrategySpec
from tarmac.training.layers import recording_layers
from tarmac.training.plan import Setting
from tarmac.training.planning.flops import count_forward_flops
from tarmac.training.planning.vocabulary import check_next_tokens, check_tokens
from tarmac.workloads import Classification, NextToken, Workload

# A training step's backward pass does two products for each one of the forward pass.
_STEP_OVER_FORWARD = 3
# Far above the rounding error of fp32 sums over many classes.
_SUM_TOLERANCE = 1e-3


@dataclasses.dataclass(frozen=True, kw_only=True)
class Trial:
    """A model that is built once to inform the plan's choices, and is not trained.

    Attributes:
        sample_flops: A training step's matrix work for one sample, in FLOP.
        layers: Layers of the model, as it defines them.
        num_parameters: Number of parameters in the model, including frozen parameters.
        has_batch_norm: Whether the model has batch normalisations.
        returns_probabilities: Whether a Classification's model returns probabilities, not logits.
        model: The model, on the CPU.
        sample: One preprocessed sample ``[1, ...]``, or a dictionary of such samples.
    """

    sample_flops: int
    layers: tuple[Layer, ...]
    num_parameters: int
    has_batch_norm: bool
    returns_probabilities: bool
    model: nn.Module
    sample: Any

    def check_blocks(self, name: str) -> None:
        """Raise a RequestError if the model of a workload has no blocks to compute again."""
        if not find_blocks(self.model):
            raise RequestError(
                f"activation_checkpointing needs repeated blocks, but {name} has none",
                hint="Blocks are children of one class in a ModuleList or Sequential.",
            )

    def check_one_sample(self) -> None:
        """Raise a RequestError if the model cannot train on a slice of one sample.

        A batch normalisation of features without positions cannot: one value has no variance.
        """
        if not self.has_batch_norm:
            return
        with torch.random.fork_rng(devices=[]):
            try:
                call_model(self.model.train(), self.sample)
            except ValueError as error:
                raise RequestError(
                    "a step leaves a device with a single sample, too few for batch "
                    f"normalisation: {error}",
                    hint="Use another --batch-size or --train-size, fewer --devices, or "
                    "--sync-batchnorm.",
                ) from error


def try_model(
    workload: Workload,
    arguments: Mapping[str, Setting],
    dataset: Dataset,
    *,
    strategy: StrategySpec | None = None,
) -> Trial:
    """Build a model, and check that it fits its data and the requested strategy.

    Raises:
        RequestError: The model refuses a setting or the data, or cannot be copied for a strategy
            that needs copies.
    """
    with torch.random.fork_rng(devices=[]):
        model = build_model(workload, arguments, seed=0)
        if strategy is not None and strategy.copies_model:
            replicate(model, workload.name, strategy.name)
        count, inputs, targets = first_samples(workload, dataset)
        check_tokens(model, inputs, dataset)
        with recording_layers(model) as layers:
            forward, output = count_forward_flops(model, inputs)
        _check_sizes(model, name_with_settings(workload, arguments))
        _check_output(workload, dataset, output, inputs if targets is None else targets, count)
    return Trial(
        sample_flops=_STEP_OVER_FORWARD * forward // count,
        layers=tuple(layers),
        num_parameters=sum(p.numel() for p in model.parameters()),
        has_batch_norm=any(isinstance(layer, _BatchNorm) for layer in model.modules()),
        returns_probabilities=isinstance(workload.objective, Classification)
        and _are_probabilities(output),
        model=model,
        sample=_first(inputs),
    )


def _check_sizes(model: nn.Module, name: str) -> None:
    """Raise a RequestError if a layer has no inputs or no outputs, as with ``hidden=0``.

    Such a layer would compute only its bias. Vectors without elements are allowed as placeholders.
    """
    for parameter_name, parameter in model.named_parameters():
        if parameter.ndim > 1 and not parameter.numel():
            shape = " x ".join(map(str, parameter.shape))
            raise RequestError(f"{name}: {parameter_name} has no elements, its shape is {shape}")


def first_samples(workload: Workload, dataset: Dataset) -> tuple[int, Any, Any]:
    """Return the number of samples of the trial, the preprocessed samples, and their targets."""
    count = min(2, len(dataset.train))
    raw, targets = samples_of(Subset.whole(dataset.train), 0, count)
    return count, workload.recipe.preprocess(raw, training=False, dtype=torch.float32), targets


def _logits_in(output: Any, expected: list[int | None]) -> str | None:
    """Return the Python statement that returns the part of an output with the shape of logits."""
    if hasattr(output, "logits"):
        return "return output.logits"
    parts: Iterable[tuple[Any, Any]] = output.items() if isinstance(output, Mapping) else ()
    if isinstance(output, tuple | list):
        parts = enumerate(output)
    fitting = (key for key, part in parts if list(getattr(part, "shape", ())) == expected)
    return next((f"return output[{key!r}]" for key in fitting), None)


def _check_output(
    workload: Workload, dataset: Dataset, output: Any, targets: Any, count: int
) -> None:
    """Raise a RequestError if the objective cannot be computed from the model's output."""
    if isinstance(workload.objective, Classification):
        expected = [count, dataset.num_classes]
        shape = list(getattr(output, "shape", ()))
        if shape != expected:
            returned = f"shape {shape}" if shape else f"a {type(output).__name__}"
            raise RequestError(
                f"the model returns {returned} for {count} samples, expected logits {expected}",
                hint=(logits := _logits_in(output, expected)) and f"Return them alone: {logits}",
            )
    scoring = Scoring(workload.objective)
    weights = None if dataset.train.weights is None else torch.ones(count)
    is_weighted = any(split.weights is not None for split in dataset.parts().values())
    if is_weighted and scoring.set_metrics:
        raise RequestError(
            f"samples have weights, which metric {next(iter(scoring.set_metrics))} does not "
            "support: it is computed over all samples together",
            hint="Use a function that returns a value for each sample, or data without weights.",
        )
    output = in_precision(output, torch.float32)
    if isinstance(workload.objective, NextToken) and isinstance(output, torch.Tensor):
        check_next_tokens(dataset, output.shape[-1:].numel(), workload.objective.ignore_index)
    try:
        loss = scoring.loss(_with_gradient(output), targets, weights, count)
        scoring.metrics(output, targets, weights, count)
        SetScores(scoring.set_metrics, torch.device("cpu")).check(output, targets)
    except TarmacError:
        raise
    # A user's loss or metric may raise any error.
    except Exception as error:
        raise RequestError(
            f"the objective {workload.objective.kind} refuses what the model returns for {count} "
            f"samples: {in_one_line(error)}",
            hint="Its loss and metrics receive the model's output and the targets.",
        ) from error
    if not loss.requires_grad:
        raise RequestError(
            "the loss has no gradient: it does not depend on the model's output, or only through "
            "operations that cannot be differentiated, such as .detach(), comparisons or integers",
            hint="Compute it from the model's output with operations that PyTorch can "
            "differentiate.",
        )


def _are_probabilities(output: torch.Tensor) -> bool:
    """Return whether all rows of an output are non-negative and sum to 1, as softmax's do."""
    rows = output.detach().float()
    is_one = (rows.sum(1) - 1).abs() < _SUM_TOLERANCE
    return bool((rows >= 0).all() and is_one.all())


def _with_gradient(output: Any) -> Any:
    """Return a model's output with floating-point tensors that require a gradient."""
    if isinstance(output, torch.Tensor):
        # Clone, as a function may write into the tensor, which a leaf does not allow.
        is_float = output.is_floating_point()
        return output.detach().requires_grad_().clone() if is_float else output
    if isinstance(output, Mapping):
        return {name: _with_gradient(value) for name, value in output.items()}
    if isinstance(output, tuple | list):
        return tuple(_with_gradient(value) for value in output)
    return output


def _first(inputs: Any) -> Any:
    if isinstance(inputs, Mapping):
        return {name: value[:1] for name, value in inputs.items()}
    return inputs[:1]
