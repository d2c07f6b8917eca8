"""The interface of a workload: a model, its data, a recipe, and the result it should reach."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any, Protocol

from tarmac.errors import RequestError
from tarmac.workloads.ema import Ema
from tarmac.workloads.expectation import Expectation
from tarmac.workloads.monitoring import monitored
from tarmac.workloads.naming import Named, check_kind
from tarmac.workloads.objectives import Classification, Objective
from tarmac.workloads.optimizers import PLAIN_OPTIMIZERS, Optimizer
from tarmac.workloads.schedules import Constant, Plateau, Schedule

if TYPE_CHECKING:
    import torch
    from torch import nn

    from tarmac.data import Dataset


class Preprocess(Protocol):
    """A function that turns raw samples into the model's input, on the device."""

    def __call__(self, inputs: Any, *, training: bool, dtype: torch.dtype) -> Any:
        """Return the model's input; a dictionary becomes its keyword arguments.

        Args:
            inputs: ``[batch, *sample_shape]`` of the dataset's dtype, or a dictionary of such
                tensors. Unsigned 16-bit integers come as int32.
            training: Whether to augment. Random draws must use PyTorch's default generator of the
                device, which the seed sets and a checkpoint stores.
            dtype: The floating-point type to return.
        """
        ...


@dataclasses.dataclass(frozen=True)
class Scale(metaclass=Named):
    """A linear map of raw values: ``(value * factor - mean) / std``.

    Attributes:
        factor: Factor of the raw values. Default 1/255, which scales bytes to [0, 1].
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
        training: bool,  # noqa: ARG002 - scaling is the same in training and evaluation
        dtype: torch.dtype,
    ) -> torch.Tensor:
        """Return ``inputs`` scaled, of the same shape."""
        scaled = inputs.to(dtype).mul_(self.factor / self.std)
        return scaled.sub_(self.mean / self.std) if self.mean else scaled


@dataclasses.dataclass(frozen=True)
class ByType(Scale):
    """A conversion by dtype: `Scale` for bytes, a cast for other numbers.

    Bytes are scaled to [0, 1]. Floats are cast to the training's precision, and integers to int64,
    as layers expect for indices. In a dictionary, each tensor is converted by its own dtype.
    """

    def __call__(self, inputs: Any, *, training: bool, dtype: torch.dtype) -> Any:
        """Return ``inputs`` converted, of the same shape."""
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
    """A random change of training samples, determined by the seed, the epoch and the sample.

    So a sample's draws may depend on earlier epochs, as those of an alternating flip do. The draws
    are the same on any number of devices, with any feed, and after a resume.
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
        """Return the changed samples, on the device; they are passed to `Preprocess`.

        Args:
            inputs: ``[batch, *sample_shape]`` of the dataset's dtype, such as uint8.
            draws: Draws of the same samples, int64 ``[batch, draws of each]``.
        """
        ...


class TestViews(Protocol):
    """Several views of a sample for evaluation: test-time augmentation."""

    def __call__(self, inputs: torch.Tensor) -> Sequence[tuple[float, torch.Tensor]]:
        """Return pairs of a weight and a view of a preprocessed batch, of the batch's shape.

        The prediction is the weighted sum of the views' logits.
        """
        ...


@dataclasses.dataclass(frozen=True, kw_only=True)
class ParameterGroup(metaclass=Named):
    """A separate optimizer and schedule for some parameters.

    Attributes:
        optimizer: Optimizer of these parameters. ``--lr`` and ``--scale-lr`` change its rate by the
            same factor as the recipe's rate.
        schedule: Schedule that scales its rate. None: the recipe's schedule.
    """

    optimizer: Optimizer
    schedule: Schedule | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recipe(metaclass=Named):
    """The settings of a training: optimizer, schedule, batches and regularization.

    Attributes:
        optimizer: Optimizer of all parameters outside ``parameter_groups``.
        batch_size: Samples per step, at least 1. The last batch of an epoch may be smaller.
        epochs: Passes over the training set, at least 1.
        drop_last: Whether an incomplete last batch of an epoch is dropped. Default False.
        schedule: Schedule that scales the learning rate over the whole training.
        parameter_groups: Patterns of parameter names (``"*.bias"``), each with its own optimizer
            and schedule. The first matching pattern applies. ``optimizer`` and ``schedule`` apply
            to parameters without a match.
        augment: Random change of training samples before preprocessing. None: no change.
        preprocess: Function that turns raw samples into the model's input. Default `ByType`.
        weight_decay: Patterns of parameter names (``"local3.weight"``, ``"*.weight"``), each with
            the factor of a penalty ``factor / 2 * sum(w^2)`` on the loss. With `AdamW` it is the
            factor of the decoupled decay. Other parameters have the default of their optimizer: 0,
            except for AdamW.
        label_smoothing: Share of the target that is spread evenly over all classes, for
            `Classification`. At least 0 and below 1.
        test_views: Views of a sample for evaluation. None: the sample itself.
        clip_norm: Maximum Euclidean norm of a step's gradient, over all devices and parameters. A
            larger gradient is scaled down. 0: no limit.
        clip_value: Maximum absolute value of each gradient element, applied after ``clip_norm``.
            0: no limit.
        ema: Moving average of the weights that is scored and written. None: the weights themselves.
        samples_per_epoch: Samples per epoch, drawn without replacement in each epoch from the seed,
            for example from all windows of a text. None: all samples.
        cpu_batch_size: Default batch size on a CPU. None: ``batch_size``.
        monitor: Metric for patience, the best checkpoint and searches, such as ``val_loss``.
            ``NAME:max`` or ``NAME:min`` if the better direction is unknown. None: the metric in
            ``judged_by`` of the objective.
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
            # NumPy integers cannot be written to records.
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
        """Return the number of samples per epoch, at most ``available``."""
        return min(available, self.samples_per_epoch or available)

    def learning_rates(self, progress: float) -> tuple[float, ...]:
        """Return the rates at ``progress`` from 0 to 1: the recipe's, then each group's."""
        own = ((group.optimizer, group.schedule) for group in self.parameter_groups.values())
        return tuple(
            optimizer.learning_rate * (schedule or self.schedule).factor(progress)
            for optimizer, schedule in ((self.optimizer, self.schedule), *own)
        )

    def rate_factors(self, losses: Sequence[float]) -> tuple[float, ...]:
        """Return the factors of `learning_rates` from schedules that follow the losses.

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
        """The optimizers' default weight decays: the recipe's, then each group's."""
        own = (group.optimizer.default_decay for group in self.parameter_groups.values())
        return (self.optimizer.default_decay, *own)

    def with_learning_rate(self, rate: float, *, published: Recipe | None = None) -> Recipe:
        """Return the recipe with another rate; parameter groups keep their ratio to it.

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
        """Names of the recipe's features that a step for plain recipes does not support."""
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
        name: Name in ``tarmac train NAME``.
        summary: Description for lists, in one line.
        dataset: Name of a dataset, or a function that returns a `Dataset`.
        model: Function that builds the network, called after PyTorch's generator is seeded.
            ``--set`` may change its keyword parameters with defaults, e.g.
            ``def model(hidden: int = 512)``. Keyword-only parameters ``sample_shape``,
            ``num_classes`` and ``target_shape`` without defaults get the dataset's values. For a
            dictionary of inputs, ``sample_shape`` is a dictionary of shapes. The network takes a
            preprocessed batch and returns what ``objective`` takes, such as logits
            ``[batch, num_classes]``. A batch that is a dictionary becomes keyword arguments.
        recipe: Settings of the training.
        recipes: Recipes that replace ``recipe``, by the names of other datasets.
        objective: Loss, metrics, and the metric that judges a training.
        optimizers: Optimizers by name for ``--set optimizer=NAME``, each of another class.
        expectation: Result that the workload is known to reach. None: unknown.
        took: Measured durations of the recipe, each as ``SECONDS s on MACHINE, DATE``.
        initialise: Function that sets weights from data once, before the first step (Kraehenbuehl
            et al., arXiv 1511.06856). It gets the model on the CPU and the first training samples,
            preprocessed, not augmented, fp32 ``[at most initialise_samples, ...]``. A parameter
            named ``targets`` gets their targets.
        initialise_samples: Maximum number of samples for ``initialise``, at least 1. Default 1000.
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
    took: tuple[str, ...] = ()
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
            # The bounds apply to the objective's own metric, not to the monitored one.
            expected = dataclasses.replace(self.expectation, metric=self.objective.judged_by)
            object.__setattr__(self, "expectation", expected)
        object.__setattr__(self, "objective", monitored(self.objective, self.recipe.monitor))
