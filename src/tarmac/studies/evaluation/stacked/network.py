"""Resolve candidates to networks whose values are all known."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import torch

from tarmac.data import Dataset
from tarmac.errors import RequestError
from tarmac.kernels import Architecture, UnfitNetworkError, read_architecture
from tarmac.studies.evaluation.interface import Candidate
from tarmac.studies.evaluation.stacked.updates import Rule
from tarmac.training import (
    Setting,
    apply_settings,
    bind_dataset,
    build_model,
    why_not_plain_classes,
)
from tarmac.workloads import ByType, Recipe, Scale, Workload

# Architectures without weights, by the model's arguments.
Outlines = dict[frozenset[tuple[str, "Setting"]], Architecture]

# Settings of candidates that are options of a training.
_OPTIONS = ("learning_rate", "batch_size")


@dataclasses.dataclass(frozen=True)
class Shape:
    """The properties that the networks of a batched product share.

    Attributes:
        sizes: Features of each layer; see `Architecture`.
        batch_size: Number of samples per step.
        preprocess: Scaling of the raw samples.
        label_smoothing: Share of the target spread over all classes.
        weight_decay: Weight decay by pattern of parameter names; the first match counts.
        names: Names of each layer's weight and bias; empty without weight decay.
    """

    sizes: tuple[int, ...]
    batch_size: int
    preprocess: Scale
    label_smoothing: float
    weight_decay: tuple[tuple[str, float], ...]
    names: tuple[tuple[str, str], ...]

    @property
    def mixing_key(self) -> tuple[object, ...]:
        """What networks of other widths and depths must share to train in one stack.

        Networks without hidden layers only train beside each other.
        """
        ends = (self.sizes[0], self.sizes[-1], len(self.sizes) > 2)
        return (*ends, self.batch_size, self.preprocess, self.label_smoothing)

    def __str__(self) -> str:
        """Return ``784-512-512-10, batches of 128``."""
        return f"{'-'.join(map(str, self.sizes))}, batches of {self.batch_size}"


@dataclasses.dataclass(frozen=True)
class Network:
    """A candidate with every value resolved.

    Attributes:
        candidate: Candidate that the network is resolved from.
        shape: Properties that it shares with all networks of its stack.
        rule: Rule that updates its parameters.
        activations: Name of the activation, by hidden layer.
        dropouts: Dropout probability, by hidden layer.
        num_parameters: Number of weights and biases.
    """

    candidate: Candidate
    shape: Shape
    rule: Rule
    activations: tuple[str, ...]
    dropouts: tuple[float, ...]
    num_parameters: int
    _workload: Workload
    _arguments: Mapping[str, Setting]

    def build(self) -> Architecture:
        """Build the network with its initial weights: those of `tarmac.training` with its seed."""
        return _build(self._workload, self._arguments, self.candidate.seed)


def can_stack(
    workload: Workload, dataset: Dataset, settings: Mapping[str, Setting] | None = None
) -> str | None:
    """Return why a workload's networks cannot be stacked, in words; None if they can.

    Args:
        workload: Workload whose networks are to be stacked.
        dataset: Dataset that the workload trains on.
        settings: Settings of the network to try. Default: none.

    Raises:
        RequestError: A setting is invalid.
    """
    changed, arguments = configure(workload, dataset, settings or {})
    try:
        _scaling_of(changed, dataset)
        _outline(changed, arguments, 0, None)
    except UnfitNetworkError as error:
        return str(error)
    return None


def resolve(
    candidate: Candidate,
    workload: Workload,
    dataset: Dataset,
    settings: Mapping[str, Setting],
    known: Outlines | None = None,
) -> Network:
    """Resolve a candidate to a network.

    Args:
        candidate: Candidate to resolve, with its own settings.
        workload: Workload that its settings change.
        dataset: Dataset that the workload trains on.
        settings: Settings of all candidates; a candidate's own settings override them.
        known: Cache of the workload's outlines; this network's outline is added.

    Raises:
        RequestError: A setting is invalid.
        UnfitNetworkError: The network cannot be stacked.
    """
    changed, arguments = configure(workload, dataset, {**settings, **candidate.settings})
    if candidate.epochs < 1:
        raise RequestError(f"epochs is {candidate.epochs}, expected at least 1")
    recipe = changed.recipe
    preprocess = _scaling_of(changed, dataset)
    outline = _outline(changed, arguments, candidate.seed, known)
    expected = (_flat_size(dataset), dataset.num_classes)
    if (outline.sizes[0], outline.sizes[-1]) != expected:
        raise RequestError(
            f"the model takes {outline.sizes[0]} values and returns {outline.sizes[-1]}, expected "
            f"{expected[0]} and {expected[1]} for {dataset.name}"
        )
    shape = Shape(
        sizes=outline.sizes,
        batch_size=recipe.batch_size,
        preprocess=preprocess,
        label_smoothing=recipe.label_smoothing,
        weight_decay=tuple(recipe.weight_decay.items()),
        names=tuple(outline.names) if recipe.weight_decay else (),
    )
    return Network(
        candidate=candidate,
        shape=shape,
        rule=Rule(recipe.optimizer, recipe.schedule, candidate.epochs),
        activations=outline.activations,
        dropouts=outline.dropouts,
        num_parameters=outline.num_parameters,
        _workload=changed,
        _arguments=arguments,
    )


def configure(
    workload: Workload, dataset: Dataset, settings: Mapping[str, Setting]
) -> tuple[Workload, Mapping[str, Setting]]:
    """Return a workload with a network's settings applied, and its model's arguments.

    Raises:
        RequestError: A setting is invalid.
    """
    others = {name: value for name, value in settings.items() if name not in _OPTIONS}
    changed, arguments = apply_settings(workload, others)
    if isinstance(changed.dataset, str) and changed.dataset != dataset.name:
        raise RequestError(f"dataset is {changed.dataset!r}, but the search is on {dataset.name!r}")
    return bind_dataset(_with_options(changed, settings), dataset), arguments


def _scaling_of(workload: Workload, dataset: Dataset) -> Scale:
    """Return the preprocessing of a workload that stacks can train.

    Raises:
        UnfitNetworkError: Stacks do not support a feature of the workload or its dataset.
    """
    scaling = workload.recipe.preprocess
    if not isinstance(scaling, Scale) or type(scaling) not in (Scale, ByType):
        raise UnfitNetworkError(
            "its preprocessing is a function of its own, which may draw at random"
        )
    if workload.initialise is not None:
        raise UnfitNetworkError("its weights are set from the data")
    if names := workload.recipe.beyond_plain_steps:
        raise UnfitNetworkError(f"its recipe has {', '.join(names)}")
    why = why_not_plain_classes(workload.objective, dataset)
    if why is not None:
        raise UnfitNetworkError(why)
    return scaling


def _with_options(workload: Workload, settings: Mapping[str, Setting]) -> Workload:
    recipe: Recipe = workload.recipe
    if "learning_rate" in settings:
        rate = _number("learning_rate", settings["learning_rate"])
        optimizer = dataclasses.replace(recipe.optimizer, learning_rate=rate)
        recipe = dataclasses.replace(recipe, optimizer=optimizer)
    if "batch_size" in settings:
        size = _number("batch_size", settings["batch_size"])
        if size != int(size):
            raise RequestError(f"batch_size is {size}, expected a whole number")
        recipe = dataclasses.replace(recipe, batch_size=int(size))
    return dataclasses.replace(workload, recipe=recipe)


def _number(name: str, value: Setting) -> float:
    try:
        return float(value)  # type: ignore[arg-type]  # None is a TypeError
    except (TypeError, ValueError) as error:
        raise RequestError(f"{name} is {value!r}, expected a number") from error


def _outline(
    workload: Workload, arguments: Mapping[str, Setting], seed: int, known: Outlines | None
) -> Architecture:
    """Read a network's architecture without drawing its weights, which takes most of the time."""
    key = frozenset(arguments.items())
    if known is not None and key in known:
        return known[key]
    try:
        with torch.device("meta"):
            outline = _build(workload, arguments, seed)
    except (UnfitNetworkError, RequestError, NotImplementedError, TypeError):
        # A model may read values, which the meta device does not have, or choose the device of its
        # weights itself. Only an error of the real model is the user's.
        return _build(workload, arguments, seed)
    # Without values the outline depends on the arguments alone.
    if known is not None:
        known[key] = outline
    return outline


def _build(workload: Workload, arguments: Mapping[str, Setting], seed: int) -> Architecture:
    with torch.random.fork_rng(devices=[]):
        return read_architecture(build_model(workload, arguments, seed))


def _flat_size(dataset: Dataset) -> int:
    size = 1
    for length in dataset.train.arrays[0].shape[1:]:
        size *= length
    return size
