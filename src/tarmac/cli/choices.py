"""What options can be, for their help and for shells.

Each is what a room takes, which a test compares: importing the rooms would make ``--help`` slow.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from click.shell_completion import CompletionItem

__all__ = [
    "COMPILE",
    "FEEDS",
    "FRAMEWORKS",
    "METHODS",
    "OBJECTIVES",
    "PRECISIONS",
    "PRUNERS",
    "SCALES",
    "STRATEGIES",
    "ExtensibleChoice",
]

FRAMEWORKS = ("torch", "tensorflow", "keras", "jax", "mxnet", "chainer", "horovod")

PRECISIONS = ("auto", "fp32", "bf16", "fp64")
STRATEGIES = ("auto", "single", "ddp", "towers")
FEEDS = ("auto", "resident", "prefetch", "direct")
COMPILE = ("auto", "on", "off")
SCALES = ("none", "linear", "sqrt")

METHODS = ("evolve", "brute", "random", "tpe", "cmaes", "nsga2")
PRUNERS = ("none", "halving", "median")
OBJECTIVES = ("val_accuracy", "val_loss", "params", "seconds", "epochs")


# Not generic in click 8.2.
class ExtensibleChoice(click.ParamType):  # type: ignore[type-arg]
    """Names that Tarmac has, then those that installed packages provide.

    They are looked up when they are needed, so that importing a command costs nothing.

    Args:
        names: Tarmac's own.
        group: The packages' entry points.
    """

    name = "choice"

    def __init__(self, names: Sequence[str], group: str) -> None:
        self._names = names
        self._group = group

    def _choice(self) -> click.Choice[str]:
        provided = {point.name for point in entry_points(group=self._group)}
        return click.Choice((*self._names, *sorted(provided - {*self._names})))

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:
        """Return ``[a|b|c]``."""
        return self._choice().get_metavar(param, ctx)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name, or refuse it and list the valid ones."""
        return self._choice().convert(value, param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Offer the names."""
        return self._choice().shell_complete(ctx, param, incomplete)
