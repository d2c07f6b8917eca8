"""A model's parameters as a few flat tensors, with half-precision copies for bf16 and fp16.

An optimizer then works in one operation for all layers instead of one per layer. A bf16 step casts
all weights once instead of once per layer. The numbers equal those of `torch.autocast` over fp32
weights: the same casts of the same values.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

import torch
from torch import nn

from tarmac.errors import RequestError
from tarmac.training.engine.loss_scale import LossScale

# The layers whose weights autocast casts to bf16 in every run. All other parameters, such as those
# of normalisations, stay in fp32.
_CAST_LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


# Groups begin at multiples of this many elements, so that vector loads stay aligned.
_ALIGNMENT = 16


@dataclasses.dataclass(frozen=True)
class Group:
    """Parameters that share an optimizer and a weight decay, in one flat tensor.

    Attributes:
        weight_decay: Factor of the L2 penalty, or of the decoupled decay if the optimizer has one.
        values: Values that the optimizer updates, ``[num_parameters]``.
        gradients: Gradients of ``values``, ``[num_parameters]``.
        owner: Index of the optimizer that updates the group: 0 for the recipe's own, then those of
            its parameter groups in order.
        shapes: Shapes of the parameters by name, in their order in ``values``.
        bf16: Whether the model computes in bf16.
        views: Values and gradients of each parameter by name, in its shape and memory order.
    """

    weight_decay: float
    values: torch.Tensor
    gradients: torch.Tensor
    owner: int = 0
    shapes: Mapping[str, torch.Size] = dataclasses.field(default_factory=dict)
    bf16: bool = False
    views: dict[str, tuple[torch.Tensor, torch.Tensor]] = dataclasses.field(default_factory=dict)


class Parameters:
    """The flat parameters of a model that is already on its device.

    Args:
        model: Model whose parameters become views of the flat tensors, or half-precision copies.
        weight_decay: Weight decay factors by pattern of parameter names; see `Recipe`.
        owners: Patterns of parameter names, one for each of the recipe's parameter groups.
        default_decays: Factors for names that match no pattern: `Recipe.default_decays`.
        bf16: Whether linear and convolution layers hold bf16 copies, of frozen weights too.
        fp16: Whether they hold fp16 copies; the loss must then be multiplied by `loss_scale`.
        dtype: Floating-point type of the flat tensors. Default float32.
        num_extra: Number of extra elements in ``reduced`` after the gradients, for other shared
            state.
        source: Parameters of another copy of the model on the same device, whose values are shared.
            Only the gradients are separate.

    Attributes:
        values: All groups' values in one tensor.
        reduced: All groups' gradients in one tensor, followed by ``extra``: the all-reduced data.
        extra: The elements of ``reduced`` after the gradients, ``[num_extra]``.
        groups: Groups, as views of ``values`` and ``reduced``.
        frozen: The parameters that are not trained, uncast.
        loss_scale: Scale of the loss in fp16; None in other precisions.

    Raises:
        RequestError: A pattern matches no parameter, or the model has nothing to train.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        weight_decay: Mapping[str, float],
        owners: Sequence[str] = (),
        default_decays: Sequence[float] = (),
        bf16: bool,
        fp16: bool = False,
        dtype: torch.dtype = torch.float32,
        num_extra: int = 0,
        source: Parameters | None = None,
    ) -> None:
        named = {name: p for name, p in model.named_parameters() if p.requires_grad}
        check_patterns(weight_decay, owners, tuple(named))
        cast = _names_to_cast(model) if bf16 or fp16 else frozenset[str]()
        self._model = model
        self._half = torch.float16 if fp16 else torch.bfloat16
        self._leaves: list[nn.Parameter] = []
        self._gradients: list[torch.Tensor] = []
        self._masters: dict[int, torch.Tensor] = {}
        self._copies: list[torch.Tensor] = []
        self._published: list[tuple[torch.Tensor, torch.Tensor]] = []
        self.groups: list[Group] = []
        keys = {name: key_of(name, owners, weight_decay, default_decays) for name in named}
        members = {
            # Parameters to cast come first, so that one copy publishes them all.
            key: sorted((n for n in named if keys[n] == key), key=lambda n: n not in cast)
            for key in sorted(set(keys.values()))
        }
        sizes = [_aligned(sum(named[n].numel() for n in names)) for names in members.values()]
        device = next(iter(named.values())).device
        num_values = sum(sizes)
        self.values = torch.zeros(num_values, dtype=dtype, device=device)
        if source is not None:
            self.values = source.values
        self.reduced = torch.zeros(num_values + num_extra, dtype=dtype, device=device)
        self.extra = self.reduced[num_values:]
        self.loss_scale = LossScale(device) if fp16 else None
        if source is not None:
            self.loss_scale = source.loss_scale
        starts = itertools.accumulate(sizes, initial=0)
        for start, ((owner, decay), names) in zip(starts, members.items(), strict=False):
            parameters = [named[name] for name in names]
            span = slice(start, start + sum(p.numel() for p in parameters))
            group = Group(
                decay,
                self.values[span],
                self.reduced[span],
                owner=owner,
                shapes={name: named[name].shape for name in names},
                bf16=bf16,
            )
            if source is None:
                flat = [_in_memory_order(p.detach()).reshape(-1) for p in parameters]
                group.values.copy_(torch.cat(flat))
            self.groups.append(group)
            num_cast = sum(named[name].numel() for name in names if name in cast)
            self._attach([(named[name], name in cast) for name in names], num_cast, source)
        self.frozen: list[torch.Tensor] = []
        self._frozen_copies: list[tuple[torch.Tensor, torch.Tensor]] = []
        for name, parameter in model.named_parameters():
            if not parameter.requires_grad:
                self._keep_frozen(parameter, is_cast=name in cast)

    @property
    def leaves(self) -> Sequence[nn.Parameter]:
        """Parameters by which to differentiate the loss, in the order of `take_gradients`."""
        return self._leaves

    @property
    def num_parameters(self) -> int:
        """The number of trained parameters."""
        return sum(group.values.numel() for group in self.groups)

    def differentiate(self, loss: torch.Tensor, *, add: bool = False) -> None:
        """Compute the gradients of a loss, or add them to the present gradients.

        Args:
            loss: Loss of the model's output, ``[]``.
            add: Whether to add to the present gradients instead of replacing them.
        """
        gradients = torch.autograd.grad(loss, self.leaves, allow_unused=True)
        self.take_gradients(gradients, add=add)

    def take_gradients(
        self, gradients: Sequence[torch.Tensor | None], *, add: bool = False
    ) -> None:
        """Copy the gradients of `leaves`, or add them to the present gradients.

        Args:
            gradients: Gradients of `leaves`; None for an unused parameter means zeros.
            add: Whether to add to the present gradients instead of replacing them.
        """
        used = [(to, g) for to, g in zip(self._gradients, gradients, strict=True) if g is not None]
        targets, taken = [to for to, _ in used], [g for _, g in used]
        if add:
            torch._foreach_add_(targets, taken)
            return
        if len(used) < len(gradients):
            torch._foreach_zero_(self._gradients)
        # With tensors of two types, such as bf16 of layers and fp32 of norms, one call for all
        # would copy each tensor separately.
        for dtype in dict.fromkeys(g.dtype for g in taken):
            chosen = [(to, g) for to, g in zip(targets, taken, strict=True) if g.dtype == dtype]
            torch._foreach_copy_([to for to, _ in chosen], [g for _, g in chosen])

    def clear_gradients(self) -> None:
        """Set all gradients to zero."""
        self.reduced[: len(self.values)].zero_()

    def publish(self) -> None:
        """Copy the updated values to the model's half-precision copies."""
        for copy, values in self._published:
            copy.copy_(values)

    def publish_frozen(self) -> None:
        """Copy changed values of ``frozen`` to the model's half-precision copies."""
        for copy, master in self._frozen_copies:
            copy.copy_(master)

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Return the model's parameters and buffers by name, uncast."""
        return {
            name: self._masters.get(id(value), value.detach())
            for name, value in self._model.state_dict(keep_vars=True).items()
        }

    def whole(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Yield the items of `state_dict`, with sharded tensors gathered."""
        yield from self.state_dict().items()

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Set every value of `state_dict` from ``state``, which has the same names and shapes."""
        for name, value in self.state_dict().items():
            value.copy_(state[name])
        self.publish_frozen()
        self.publish()

    def _attach(
        self,
        members: Sequence[tuple[nn.Parameter, bool]],
        num_cast: int,
        source: Parameters | None,
    ) -> None:
        group = self.groups[-1]
        if source is None:
            copy = group.values[:num_cast].to(self._half)
            if num_cast:
                self._published.append((copy, group.values[:num_cast]))
        else:
            copy = source._copies[len(self._copies)]
        self._copies.append(copy)
        start = 0
        for name, (parameter, is_cast) in zip(group.shapes, members, strict=True):
            span = slice(start, start + parameter.numel())
            start = span.stop
            master = _view_as(group.values[span], parameter)
            gradients = _view_as(group.gradients[span], parameter)
            group.views[name] = (master, gradients)
            self._gradients.append(gradients)
            parameter.data = _view_as(copy[span], parameter) if is_cast else master
            self._masters[id(parameter)] = master
            self._leaves.append(parameter)

    def _keep_frozen(self, parameter: nn.Parameter, *, is_cast: bool) -> None:
        """Keep a frozen parameter and, if it is to be cast, cast it once for all steps."""
        self.frozen.append(parameter.detach())
        if is_cast:
            master = parameter.detach().clone()
            parameter.data = master.to(self._half)
            self.frozen[-1] = self._masters[id(parameter)] = master
            self._frozen_copies.append((parameter.data, master))


def _aligned(num_elements: int) -> int:
    return -(-num_elements // _ALIGNMENT) * _ALIGNMENT


def _is_channels_last(tensor: torch.Tensor) -> bool:
    return tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last)


def _in_memory_order(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.permute(0, 2, 3, 1) if _is_channels_last(tensor) else tensor


def _view_as(flat: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """View a flat tensor with the shape and the memory format of another."""
    if not _is_channels_last(like):
        return flat.view(like.shape)
    out, channels, height, width = like.shape
    return flat.view(out, height, width, channels).permute(0, 3, 1, 2)


def _names_to_cast(model: nn.Module) -> frozenset[str]:
    """Return the parameters that belong only to layers whose weights are cast."""
    cast, other = set[int](), set[int]()
    for layer in model.modules():
        ids = {id(p) for p in layer.parameters(recurse=False)}
        (cast if isinstance(layer, _CAST_LAYERS) else other).update(ids)
    return frozenset(n for n, p in model.named_parameters() if id(p) in cast - other)


def key_of(
    name: str,
    owners: Sequence[str],
    weight_decay: Mapping[str, float],
    default_decays: Sequence[float],
) -> tuple[int, float]:
    """Return the index of a parameter's optimizer, and its weight decay.

    The index is that of the first matching pattern in ``owners``, from 1, or 0 for no match.
    """
    matching = (index for index, p in enumerate(owners, start=1) if fnmatchcase(name, p))
    owner = next(matching, 0)
    default = default_decays[owner] if default_decays else 0.0
    decays = (decay for pattern, decay in weight_decay.items() if fnmatchcase(name, pattern))
    return owner, next(decays, default)


def check_patterns(
    weight_decay: Iterable[str], owners: Iterable[str], names: Sequence[str]
) -> None:
    """Check a recipe's patterns against the names of the trained parameters.

    Raises:
        RequestError: A pattern matches no parameter, or the model has nothing to train.
    """
    if not names:
        raise RequestError("the model has no parameters to train")
    _check_matches("weight_decay", weight_decay, names)
    _check_matches("parameter_groups", owners, names)


def _check_matches(field: str, patterns: Iterable[str], names: Sequence[str]) -> None:
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise RequestError(
                f"{field} names {pattern!r}, which matches no parameter",
                hint=f"Parameters: {', '.join(names)}",
            )
