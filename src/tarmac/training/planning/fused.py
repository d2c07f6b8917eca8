"""Chooses whether the fused kernels compute the steps, by rule, and says why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tarmac.errors import RequestError
from tarmac.kernels import MAX_CLASSES, UnfitNetworkError, read_architecture, why_not
from tarmac.workloads import Scale

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import nn

    from tarmac.machine import Device
    from tarmac.workloads import Recipe

__all__ = ["choose_fused"]

# What other choices have to be.
_CHOICES = {
    "strategy": ("single",),
    "feed": ("resident",),
    "compile": ("off",),
    "accumulate": ("1",),
    "precision": ("fp32", "tf32", "bf16"),
}

# What Triton 3.6 and 3.7 compile for: Ampere and later.
_SINCE = (8, 0)


def choose_fused(
    request: str,
    model: nn.Module,
    recipe: Recipe,
    device: Device,
    *,
    others: dict[str, str],
    missing: Callable[[], str | None] = why_not,
) -> tuple[bool, str]:
    """Choose whether the fused kernels compute the steps: wherever they can.

    Args:
        request: ``"auto"``, ``"on"`` or ``"off"``.
        model: What is trained.
        recipe: How.
        device: Where.
        others: What else was chosen: ``strategy``, ``feed``, ``precision``, ``compile`` (``on`` or
            ``off``) and ``accumulate``.
        missing: Says what Triton lacks here; asked only where it decides.

    Returns:
        Whether they do, and the reason in words.

    Raises:
        RequestError: Another request, or ``on`` where they cannot.
    """
    if request not in ("auto", "on", "off"):
        raise RequestError(f"fused is {request!r}, expected auto, on or off")
    if request == "off":
        return False, "as asked"
    against = _against(model, recipe, device, others) or missing()
    if against is None:
        return True, "as asked" if request == "on" else "a multilayer perceptron on one GPU"
    if request == "on":
        raise RequestError(f"the fused kernels cannot train this: {against}")
    return False, against


def _against(
    model: nn.Module, recipe: Recipe, device: Device, others: dict[str, str]
) -> str | None:
    """Return what speaks against the kernels in what is trained, or None."""
    if device.type != "cuda":
        return "the device is no GPU"
    if device.compute_capability is not None and device.compute_capability < _SINCE:
        return f"{device.name} is older than what Triton compiles for"
    for name, values in _CHOICES.items():
        if others[name] not in values:
            return f"{name} is {others[name]}"
    return _against_network(model, recipe)


def _against_network(model: nn.Module, recipe: Recipe) -> str | None:
    if type(recipe.preprocess) is not Scale:
        return "its preprocessing is a function of its own"
    try:
        sizes = read_architecture(model).sizes
    except UnfitNetworkError as error:
        return str(error)
    return None if sizes[-1] <= MAX_CLASSES else f"it tells {sizes[-1]} classes apart"
