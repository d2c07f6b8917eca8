"""The interface of a workload: a model, its data, a recipe, and the result it should reach."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Protocol

from tarmac.errors import RequestError
from tarmac.workloads.schedules import Constant, Schedule

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import torch
    from torch import nn

    from tarmac.data import Dataset
    from tarmac.workloads.optimizers import Optimizer

__all__ = [
    "Augment",
    "Expectation",
    "ParameterGroup",
    "Preprocess",
    "Recipe",
    "Scale",
    "TestViews",
    "Verdict",
    "Workload",
]


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


class Augment(Protocol):
    """Changes training samples by draws that are a function of the seed, the epoch and the sample.

    So a sample's draws may depend on those of earlier epochs, as an alternating flip's do, and they
    are the same on any number of devices, with any feed, and after a stop.
    """

    def draw(self, num_samples: int, *, seed: int, epoch: int) -> torch.Tensor:
        """Return an epoch's draws, int64 ``[num_samples, draws of each]`` on the CPU.

        Args:
            num_samples: Of the training set.
            seed: The training's.
            epoch: From 0.
        """
        ...

    def apply(self, inputs: torch.Tensor, draws: torch.Tensor) -> torch.Tensor:
        """Return changed samples, on the device; what `Preprocess` gets in training.

        Args:
            inputs: uint8 ``[batch, *sample_shape]``.
            draws: int64 ``[batch, draws of each]``, those of the same samples.
        """
        ...


class TestViews(Protocol):
    """Shows the model several views of a sample in evaluation: test-time augmentation."""

    def __call__(self, inputs: torch.Tensor) -> Sequence[tuple[float, torch.Tensor]]:
        """Return views of a preprocessed batch, each of its shape and with its weight.

        The prediction is the sum of the views' logits, each times its weight.
        """
        ...


@dataclasses.dataclass(frozen=True, kw_only=True)
class ParameterGroup:
    """How some parameters are trained, where that is not as all others.

    Attributes:
        optimizer: Theirs. ``--lr`` and ``--scale-lr`` change its rate in the ratio in which they
            change the recipe's.
        schedule: Scales its rate; None for the recipe's schedule.
    """

    optimizer: Optimizer
    schedule: Schedule | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recipe:
    """How a model is trained, by cross-entropy on classes.

    Attributes:
        optimizer: With every value written out.
        batch_size: Samples per step; the last batch of an epoch may be smaller.
        epochs: Passes over the training set.
        drop_last: Whether the last samples of an epoch's order are left out where they do not fill
            a batch.
        schedule: Scales the learning rate over the whole training.
        parameter_groups: From patterns of parameter names (``"*.bias"``) to an optimizer and a
            schedule of their own. A parameter takes the first pattern that matches; ``optimizer``
            and ``schedule`` are for those that none does.
        augment: Changes training samples before they are preprocessed; None for not at all.
        preprocess: Turns raw samples into the model's input.
        weight_decay: From patterns of parameter names (``"local3.weight"``, ``"*.weight"``) to the
            factor of a penalty ``factor / 2 * sum(w^2)`` on the loss. Others have none.
        label_smoothing: Share of the target spread evenly over all classes.
        test_views: What the model sees of a sample in evaluation; None for the sample itself.
    """

    optimizer: Optimizer
    batch_size: int
    epochs: int
    drop_last: bool = False
    schedule: Schedule = dataclasses.field(default_factory=Constant)
    preprocess: Preprocess = dataclasses.field(default_factory=Scale)
    weight_decay: Mapping[str, float] = dataclasses.field(default_factory=dict)
    label_smoothing: float = 0.0
    parameter_groups: Mapping[str, ParameterGroup] = dataclasses.field(default_factory=dict)
    augment: Augment | None = None
    test_views: TestViews | None = None

    def __post_init__(self) -> None:
        for name in ("batch_size", "epochs"):
            if getattr(self, name) < 1:
                raise RequestError(f"{name} is {getattr(self, name)}, expected at least 1")
        if not 0 <= self.label_smoothing < 1:
            raise RequestError(
                f"label_smoothing is {self.label_smoothing}, expected at least 0 and below 1"
            )
        for pattern, group in self.parameter_groups.items():
            if not isinstance(group, ParameterGroup):
                raise RequestError(
                    f"parameter_groups[{pattern!r}] is a {type(group).__name__}, expected a "
                    "ParameterGroup"
                )

    def learning_rates(self, progress: float) -> tuple[float, ...]:
        """Return the rates at ``progress`` from 0 to 1: the recipe's, then each group's."""
        own = ((group.optimizer, group.schedule) for group in self.parameter_groups.values())
        return tuple(
            optimizer.learning_rate * (schedule or self.schedule).factor(progress)
            for optimizer, schedule in ((self.optimizer, self.schedule), *own)
        )

    def with_learning_rate(self, rate: float, *, published: Recipe | None = None) -> Recipe:
        """Return a recipe of another rate; those of parameter groups keep their ratio to it.

        Args:
            rate: Of ``optimizer``.
            published: Whose ratio is kept; this one's by default. From the same one the same rate
                gives the same bits, on whichever way it was come to.
        """
        source = published or self
        ratio = rate / source.optimizer.learning_rate
        groups = {}
        for pattern, group in self.parameter_groups.items():
            scaled = source.parameter_groups[pattern].optimizer.learning_rate * ratio
            optimizer = dataclasses.replace(group.optimizer, learning_rate=scaled)
            groups[pattern] = dataclasses.replace(group, optimizer=optimizer)
        optimizer = dataclasses.replace(self.optimizer, learning_rate=rate)
        return dataclasses.replace(self, optimizer=optimizer, parameter_groups=groups)

    @property
    def beyond_plain_steps(self) -> tuple[str, ...]:
        """The names of the fields that a step written for plain recipes does not know."""
        asked = {
            "drop_last": self.drop_last,
            "parameter_groups": bool(self.parameter_groups),
            "augment": self.augment is not None,
            "test_views": self.test_views is not None,
        }
        return tuple(name for name, is_asked in asked.items() if is_asked)


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
        initialise: Sets weights from data (Kraehenbuehl et al., arXiv 1511.06856), once, before the
            first step: it is called with the model on the CPU and preprocessed, unaugmented fp32
            samples ``[at most initialise_samples, ...]``, the first of the training set.
        initialise_samples: The most samples that ``initialise`` gets; at least 1.
    """

    name: str
    summary: str
    dataset: str | Callable[[], Dataset]
    model: Callable[..., nn.Module]
    recipe: Recipe
    recipes: Mapping[str, Recipe] = dataclasses.field(default_factory=dict)
    optimizers: Mapping[str, Optimizer] = dataclasses.field(default_factory=dict)
    expectation: Expectation | None = None
    initialise: Callable[[nn.Module, torch.Tensor], None] | None = None
    initialise_samples: int = 1000

    def __post_init__(self) -> None:
        if self.initialise_samples < 1:
            raise RequestError(
                f"initialise_samples is {self.initialise_samples}, expected at least 1"
            )
