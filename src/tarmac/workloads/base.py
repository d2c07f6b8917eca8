"""The interface of a workload: a model, its data, a recipe, and the result it should reach."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Protocol

from tarmac.errors import RequestError
from tarmac.workloads.schedules import Constant, Schedule

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import torch
    from torch import nn

    from tarmac.data import Dataset
    from tarmac.workloads.optimizers import Optimizer

__all__ = ["Expectation", "Preprocess", "Recipe", "Scale", "Verdict", "Workload"]


class Preprocess(Protocol):
    """Turns raw samples into what the model takes, on the device, in training and evaluation."""

    def __call__(self, inputs: torch.Tensor, *, training: bool, dtype: torch.dtype) -> torch.Tensor:
        """Return the model's input.

        Args:
            inputs: uint8 ``[batch, *sample_shape]``.
            training: Whether to augment. Random draws come from PyTorch's default generator of
                the device, which the seed sets and a checkpoint holds.
            dtype: The floating-point type to return.
        """
        ...


@dataclasses.dataclass(frozen=True)
class Scale:
    """Maps raw values to ``(value * factor - mean) / std``.

    Attributes:
        factor: 1/255 brings the bytes of an image to [0, 1].
        mean: Subtracted after scaling.
        std: Divides the result.
    """

    factor: float = 1 / 255
    mean: float = 0.0
    std: float = 1.0

    def __call__(
        self,
        inputs: torch.Tensor,
        *,
        training: bool,  # noqa: ARG002 - the same in training and evaluation, which is the point
        dtype: torch.dtype,
    ) -> torch.Tensor:
        """Return ``inputs`` scaled, of the same shape."""
        scaled = inputs.to(dtype).mul_(self.factor / self.std)
        return scaled.sub_(self.mean / self.std) if self.mean else scaled


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recipe:
    """How a model is trained, by cross-entropy on classes.

    Attributes:
        optimizer: With every value written out.
        batch_size: Samples per step; the last batch of an epoch may be smaller.
        epochs: Passes over the training set.
        schedule: Scales the learning rate over the whole training.
        preprocess: Turns raw samples into the model's input.
        weight_decay: From patterns of parameter names (``"local3.weight"``, ``"*.weight"``) to the
            factor of a penalty ``factor / 2 * sum(w^2)`` on the loss. Others have none.
        label_smoothing: Share of the target spread evenly over all classes.
    """

    optimizer: Optimizer
    batch_size: int
    epochs: int
    schedule: Schedule = dataclasses.field(default_factory=Constant)
    preprocess: Preprocess = dataclasses.field(default_factory=Scale)
    weight_decay: Mapping[str, float] = dataclasses.field(default_factory=dict)
    label_smoothing: float = 0.0

    def __post_init__(self) -> None:
        for name in ("batch_size", "epochs"):
            if getattr(self, name) < 1:
                raise RequestError(f"{name} is {getattr(self, name)}, expected at least 1")
        if not 0 <= self.label_smoothing < 1:
            raise RequestError(
                f"label_smoothing is {self.label_smoothing}, expected at least 0 and below 1"
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether a result is what was expected, in a word and in a sentence."""

    met: bool
    text: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Expectation:
    """The test accuracy that a workload is known to reach with its own recipe and data.

    Attributes:
        at_least: The lowest accuracy expected, in [0, 1].
        at_most: The highest; None where more is simply better.
        source: Who says so.
    """

    at_least: float
    at_most: float | None = None
    source: str = ""

    def __str__(self) -> str:
        """Return the range in words: ``at least 0.99``."""
        if self.at_most is None:
            return f"at least {self.at_least:g}"
        return f"{self.at_least:g} to {self.at_most:g}"

    def judge(self, accuracy: float) -> Verdict:
        """Compare a reached test accuracy with the expectation."""
        low = accuracy < self.at_least
        high = self.at_most is not None and accuracy > self.at_most
        word = "below what was expected" if low else "above what was expected" if high else ""
        word = word or "as expected"
        return Verdict(
            met=not (low or high), text=f"test accuracy {accuracy:.4f}, expected {self}: {word}"
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Workload:
    """A model, its data, a recipe, and the result it is expected to reach.

    Attributes:
        name: As in ``tarmac train NAME``.
        summary: One line for lists.
        dataset: A registered dataset's name, or a function that returns one of your own.
        model: Builds the network. Its keyword parameters with defaults are what ``--set`` may
            change, e.g. ``def model(hidden: int = 512)``. It is called with PyTorch's generator
            seeded, returns logits ``[batch, num_classes]`` for a preprocessed batch.
            Keyword-only parameters ``sample_shape`` and ``num_classes`` without defaults get the
            dataset's.
        recipe: How it is trained.
        recipes: Instead of ``recipe``, by the names of other datasets.
        optimizers: What ``--set optimizer=NAME`` may choose, each of another kind.
        expectation: The accuracy it reaches; None where none is known.
    """

    name: str
    summary: str
    dataset: str | Callable[[], Dataset]
    model: Callable[..., nn.Module]
    recipe: Recipe
    recipes: Mapping[str, Recipe] = dataclasses.field(default_factory=dict)
    optimizers: Mapping[str, Optimizer] = dataclasses.field(default_factory=dict)
    expectation: Expectation | None = None
