"""Errors for unknown or wrong arguments of a class, with suggestions."""

from __future__ import annotations

import difflib
import inspect
from typing import Any

from tarmac.errors import RequestError

# Names of arguments in other libraries, and Tarmac's name or the class that takes the argument.
_OURS = {
    "alpha": "rho",
    "batch": "batch_size",
    "betas": "beta1 and beta2",
    "epsilon": "eps",
    "label_smoothing": "label_smoothing of the Recipe",
    "learning_rate_init": "learning_rate",
    "loss_fn": "objective",
    "lr": "learning_rate",
    "lr_scheduler": "schedule",
    "max_grad_norm": "clip_norm",
    "num_epochs": "epochs",
    "scheduler": "schedule",
    "weight_decay": "weight_decay of the Recipe, or of AdamW",
}


class Named(type):
    """A metaclass that answers unknown keyword arguments with the valid arguments."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Make an instance.

        Raises:
            TypeError: An argument is unknown or missing.
        """
        parameters = inspect.signature(cls.__init__).parameters  # type: ignore[misc]
        takes_any = any(it.kind is it.VAR_KEYWORD for it in parameters.values())
        unknown = [name for name in kwargs if name not in parameters]
        if unknown and not takes_any:
            raise TypeError(_words(cls.__name__, unknown[0], [*parameters.values()][1:]))
        return super().__call__(*args, **kwargs)


def check_kind(name: str, value: object, kind: type, example: str) -> None:
    """Raise a RequestError unless the value is an instance of ``kind``."""
    if isinstance(value, type) or not isinstance(value, kind):
        shown = f"the class {value.__name__}" if isinstance(value, type) else repr(value)
        raise RequestError(f"{name} is {shown}, expected a value such as {example}")


def _words(kind: str, name: str, parameters: list[inspect.Parameter]) -> str:
    names = [parameter.name for parameter in parameters]
    ours = _OURS.get(name)
    nearest = difflib.get_close_matches(name, names, n=1)
    if ours is not None and (ours in names or " " in ours):
        meant = f", which is {ours} here"
    else:
        meant = f", did you mean {nearest[0]!r}?" if nearest else ""
    shown = [
        it.name
        if it.default is it.empty or not isinstance(it.default, int | float | str)
        else f"{it.name}={it.default}"
        for it in parameters
    ]
    return f"{kind}() has no argument {name!r}{meant}\nIt takes: {', '.join(shown)}"
