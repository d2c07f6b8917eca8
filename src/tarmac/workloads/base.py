"""The interface of a workload: a model, its data, a recipe, and the result it should reach."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from numbers import Integral
from typing import TYPE_CHECKING, Any, Protocol

from tarmac.errors import RequestError
from tarmac.workloads.monitoring import monitored
from tarmac.workloads.naming import Named, check_kind
from tarmac.workloads.objectives import Classification, Objective
from tarmac.workloads.optimizers import PLAIN_OPTIMIZERS, Optimizer
from tarmac.workloads.schedules import Constant, Plateau, Schedule

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch
    from torch import nn

    from tarmac.data import Dataset
    from tarmac.workloads.ema import Ema
    from tarmac.workloads.expectation import Expectation


class Preprocess(Protocol):
    """Turns raw samples into what the model takes, on the device, in training and evaluation."""

    def __call__(self, inputs: Any, *, training: bool, dtype: torch.dtype) -> Any:
        """Return the model's input; a dictionary becomes its keyword arguments.

        Args:
            inputs: ``[batch, *sample_shape]`` of the data's type, or a dictionary of such where the
                data have one. Unsigned 16-bit integers come as int32.
            training: Whether to augment. Random draws come from PyTorch's default generator of
                the device, which the seed sets and a checkpoint holds.
            dtype: The floating-point type to return.
        """
        ...


@dataclasses.dataclass(frozen=True)
class Scale(metaclass=Named):
    """Maps raw values to ``(value * factor - mean) / std``.

    Attributes:
        factor: 1/255 brings the bytes of an image to [0, 1].
        mean: Mean to subtract after the multiplication. Default 0.
        std: Standard deviation to divide the difference by. Default 1.
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


@dataclasses.dataclass(frozen=True)
class ByType(Scale):
    """Brings bytes to [0, 1] as `Scale` does, and leaves others as they are.

    Floats become those of the training's precision, and integers int64, as layers take indices.
    Of a dictionary each array is taken by its own type.
    """

    def __call__(self, inputs: Any, *, training: bool, dtype: torch.dtype) -> Any:
        """Return ``inputs``, of the same shape."""
        import torch  # noqa: PLC0415 - recipes are read by commands that need no framework

        if isinstance(inputs, Mapping):
            return {
                name: self(value, training=training, dtype=dtype) for name, value in inputs.items()
            }
        if inputs.dtype == torch.uint8:
            return super().__call__(inputs, training=training, dtype=dtype)
        if inputs.is_floating_point():
            return inputs.to(dtype)
        return inputs if inputs.dtype == torch.bool else inputs.long()


class Augment(Protocol):
    """Changes training samples by draws that are a function of the seed, the epoch and the sample.

    So a sample's draws may depend on those of earlier epochs, as an alternating flip's do, and they
    are the same on any number of devices, with any feed, and after a stop.
    """

    def draw(self, num_samples: int, *, seed: int, epoch: int) -> torch.Tensor:
        """Return an epoch's draws, int64 ``[num_samples, draws of each]`` on the CPU.

        Args:
            num_samples: Number of samples in the training set.
            seed: Seed that the training was started with.
            epoch: Number of the epoch, from 0.
        """
        ...

    def apply(self, inputs: torch.Tensor, draws: torch.Tensor) -> torch.Tensor:
        """Return changed samples, on the device; what `Preprocess` gets in training.

        Args:
            inputs: ``[batch, *sample_shape]`` of the data's type, such as uint8.
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
class ParameterGroup(metaclass=Named):
    """How some parameters are trained, where that is not as all others.

    Attributes:
        optimizer: Theirs. ``--lr`` and ``--scale-lr`` change its rate in the ratio in which they
            change the recipe's.
        schedule: Scales its rate; None for the recipe's schedule.
    """

    optimizer: Optimizer
    schedule: Schedule | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recipe(metaclass=Named):
    """How a model is trained.

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
        preprocess: Turns raw samples into the model's input; by default, `ByType`.
        weight_decay: From patterns of parameter names (``"local3.weight"``, ``"*.weight"``) to the
            factor of a penalty ``factor / 2 * sum(w^2)`` on the loss; with `AdamW`, to that of its
            decoupled decay. Others have what their optimizer says, which is none but for AdamW.
        label_smoothing: Share of the target spread evenly over all classes; of `Classification`.
        test_views: What the model sees of a sample in evaluation; None for the sample itself.
        clip_norm: The gradient of a step, that of all devices and all parameters as one vector, is
            scaled to this Euclidean norm where its own is larger; 0 for not at all.
        clip_value: Then each of its elements is held within plus and minus this; 0 for not at all.
        ema: The average of the weights that is scored and written; None for the weights themselves.
        samples_per_epoch: An epoch takes so many of the samples, drawn anew from the seed and none
            twice in it, as of all windows of a text; None for all.
        cpu_batch_size: Taken on a CPU instead of ``batch_size`` where nobody asks for another; None
            for the same.
        monitor: Metric that patience, the best checkpoint and searches go by, such as ``val_loss``;
            ``NAME:max`` or ``NAME:min`` where nobody says which end is better. None for what the
            objective is judged by.
    """

    optimizer: Optimizer
    batch_size: int
    epochs: int
    drop_last: bool = False
    schedule: Schedule = dataclasses.field(default_factory=Constant)
    preprocess: Preprocess = dataclasses.field(default_factory=ByType)
    weight_decay: Mapping[str, float] = dataclasses.field(default_factory=dict)
    label_smoothing: float = 0.0
    parameter_groups: Mapping[str, ParameterGroup] = dataclasses.field(default_factory=dict)
    augment: Augment | None = None
    test_views: TestViews | None = None
    clip_norm: float = 0.0
    clip_value: float = 0.0
    ema: Ema | None = None
    samples_per_epoch: int | None = None
    cpu_batch_size: int | None = None
    monitor: str | None = None

    def __post_init__(self) -> None:
        check_kind("optimizer", self.optimizer, Optimizer, "Adam(1e-3)")
        check_kind("schedule", self.schedule, Schedule, "Cosine()")
        for name in ("batch_size", "epochs", "samples_per_epoch", "cpu_batch_size"):
            value = getattr(self, name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, Integral):
                raise RequestError(f"{name} is {value!r}, expected a whole number")
            if value < 1:
                raise RequestError(f"{name} is {value}, expected at least 1")
            # NumPy's whole numbers have no place in records.
            object.__setattr__(self, name, int(value))
        if not 0 <= self.label_smoothing < 1:
            raise RequestError(
                f"label_smoothing is {self.label_smoothing}, expected at least 0 and below 1"
            )
        for name in ("clip_norm", "clip_value"):
            if not getattr(self, name) >= 0:
                raise RequestError(f"{name} is {getattr(self, name)}, expected at least 0")
        for pattern, group in self.parameter_groups.items():
            if not isinstance(group, ParameterGroup):
                raise RequestError(
                    f"parameter_groups[{pattern!r}] is a {type(group).__name__}, expected a "
                    "ParameterGroup"
                )

    def epoch_size(self, available: int) -> int:
        """Return how many of the samples that are there an epoch takes."""
        return min(available, self.samples_per_epoch or available)

    def learning_rates(self, progress: float) -> tuple[float, ...]:
        """Return the rates at ``progress`` from 0 to 1: the recipe's, then each group's."""
        own = ((group.optimizer, group.schedule) for group in self.parameter_groups.values())
        return tuple(
            optimizer.learning_rate * (schedule or self.schedule).factor(progress)
            for optimizer, schedule in ((self.optimizer, self.schedule), *own)
        )

    def rate_factors(self, losses: Sequence[float]) -> tuple[float, ...]:
        """Return what schedules that follow the losses multiply each of `learning_rates` with.

        Args:
            losses: Losses of the completed epochs: on validation data, or in training without such
                data.
        """
        groups = (group.schedule or self.schedule for group in self.parameter_groups.values())
        return tuple(
            schedule.factor_after(losses) if isinstance(schedule, Plateau) else 1.0
            for schedule in (self.schedule, *groups)
        )

    @property
    def default_decays(self) -> tuple[float, ...]:
        """The weight decay that no pattern gives: the recipe's optimizer's, then each group's."""
        own = (group.optimizer.default_decay for group in self.parameter_groups.values())
        return (self.optimizer.default_decay, *own)

    def with_learning_rate(self, rate: float, *, published: Recipe | None = None) -> Recipe:
        """Return a recipe of another rate; those of parameter groups keep their ratio to it.

        Args:
            rate: New learning rate of ``optimizer``, above 0.
            published: Recipe whose ratios between rates are kept. Default: this recipe. With the
                same recipe, a rate gives the same bits, whatever rates came before.
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
        """What a step written for plain recipes does not know, in words."""
        is_plain = isinstance(self.optimizer, PLAIN_OPTIMIZERS)
        features = {
            f"the optimizer {self.optimizer.name}": not is_plain,
            "the schedule Plateau": isinstance(self.schedule, Plateau),
            "drop_last": self.drop_last,
            "parameter_groups": bool(self.parameter_groups),
            "augment": self.augment is not None,
            "test_views": self.test_views is not None,
            "clip_norm": bool(self.clip_norm),
            "clip_value": bool(self.clip_value),
            "ema": self.ema is not None,
            "samples_per_epoch": self.samples_per_epoch is not None,
        }
        return tuple(name for name, is_asked in features.items() if is_asked)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Workload(metaclass=Named):
    """A model, its data, a recipe, and the result it is expected to reach.

    Attributes:
        name: As in ``tarmac train NAME``.
        summary: One line for lists.
        dataset: A registered dataset's name, or a function that returns one of your own.
        model: Builds the network. Its keyword parameters with defaults are what ``--set`` may
            change, e.g. ``def model(hidden: int = 512)``. It is called with PyTorch's generator
            seeded, and returns for a preprocessed batch what ``objective`` takes: logits
            ``[batch, num_classes]``. A batch that is a dictionary is given as keyword arguments.
            Keyword-only parameters ``sample_shape`` and ``num_classes`` without defaults get the
            dataset's; of a dictionary of inputs, a dictionary of shapes. So does ``target_shape``,
            that of one target.
        recipe: How it is trained.
        recipes: Instead of ``recipe``, by the names of other datasets.
        objective: The loss, the metrics, and what counts.
        optimizers: What ``--set optimizer=NAME`` may choose, each of another kind.
        expectation: What it reaches; None where nothing is known.
        took: How long its recipe took on a machine where that was measured, and when; empty where
            it was not.
        initialise: Sets weights from data (Kraehenbuehl et al., arXiv 1511.06856), once, before the
            first step: it is called with the model on the CPU and preprocessed, unaugmented fp32
            samples ``[at most initialise_samples, ...]``, the first of the training set. A
            parameter ``targets`` gets theirs.
        initialise_samples: The most samples that ``initialise`` gets; at least 1.
    """

    name: str
    summary: str
    dataset: str | Callable[[], Dataset]
    model: Callable[..., nn.Module]
    recipe: Recipe
    recipes: Mapping[str, Recipe] = dataclasses.field(default_factory=dict)
    objective: Objective = dataclasses.field(default_factory=Classification)
    optimizers: Mapping[str, Optimizer] = dataclasses.field(default_factory=dict)
    expectation: Expectation | None = None
    took: str = ""
    initialise: Callable[..., None] | None = None
    initialise_samples: int = 1000

    def __post_init__(self) -> None:
        check_kind("recipe", self.recipe, Recipe, "Recipe(optimizer=Adam(1e-3), ...)")
        check_kind("objective", self.objective, Objective, 'Regression("mse")')
        if not callable(self.model):
            raise RequestError(f"model is {self.model!r}, expected a function that builds a module")
        if self.initialise_samples < 1:
            raise RequestError(
                f"initialise_samples is {self.initialise_samples}, expected at least 1"
            )
        if self.recipe.monitor is None:
            return
        if self.expectation is not None and self.expectation.metric is None:
            # A bound is of the metric that its writer had in mind.
            expected = dataclasses.replace(self.expectation, metric=self.objective.judged_by)
            object.__setattr__(self, "expectation", expected)
        object.__setattr__(self, "objective", monitored(self.objective, self.recipe.monitor))
