"""Choices of options, for help and for shells.

A test compares the choices with the packages that define them: importing those packages would make
``--help`` slow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from tarmac.errors import unknown_name

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

FRAMEWORKS = ("torch", "tensorflow", "keras", "jax", "mxnet", "chainer", "horovod")

# Formats of a check's report, and levels of its findings.
FORMATS = ("text", "json", "brief", "nagios", "junit", "prometheus")
FAIL_ON = ("failure", "warning", "note")

EXECUTORS = ("local", "slurm", "kubernetes", "ray")
# Targets of `tarmac convert`: formats of job files, and submissions to clusters.
CONVERTED = ("tarmac", "hkube", "skypilot", *EXECUTORS[1:])
RUNNER_PLACES = ("here", "engine")

PRECISIONS = ("auto", "fp32", "tf32", "bf16", "fp16", "fp64")
STRATEGIES = ("auto", "single", "ddp", "fsdp", "towers")
FEEDS = ("auto", "resident", "prefetch", "direct")
FUSED = ("auto", "on", "off")
COMPILE = ("auto", "on", "off")
SCALES = ("none", "linear", "sqrt")
VALIDATION_SPLITS = ("auto", "random", "last", "own")
TRACKERS = ("wandb", "mlflow")
CHECKPOINTS = ("best", "last")
EXPORTS = ("onnx", "torch", "tensorboard")

METHODS = ("evolve", "brute", "random", "tpe", "cmaes", "nsga2")
PRUNING_RULES = ("none", "halving", "median")
OBJECTIVES = ("val_accuracy", "val_loss", "params", "seconds", "epochs")

# Statuses of a run of any kind.
STATUSES = ("running", "queued", "detached", "completed", "succeeded", "interrupted", "failed")

# Events of `tarmac top --on`.
EVENTS = ("idle", "finding", "finished", "stalled")


# ParamType is not generic in click 8.2.
class Choice(click.ParamType):  # type: ignore[type-arg]
    """One of the names that Tarmac or installed packages provide.

    Names are looked up on use, so that importing a command costs nothing.

    Args:
        names: Names that Tarmac itself provides, in the order of the help.
        group: Entry point group by which packages provide more names. None: no more names.
    """

    name = "choice"

    def __init__(self, names: Sequence[str], group: str | None = None) -> None:
        self._own = names
        self._group = group

    def _names(self) -> tuple[str, ...]:
        if self._group is None:
            return tuple(self._own)
        from tarmac.extensions import names_with_provided

        return names_with_provided(self._group, self._own)

    def get_metavar(
        self,
        param: click.Parameter,
        ctx: click.Context,  # noqa: ARG002 - click's signature
    ) -> str:
        """Return ``[a|b|c]``, or ``{a|b|c}`` for a required argument, as click does."""
        names = "|".join(self._names())
        is_required = param.required and param.param_type_name == "argument"
        return f"{{{names}}}" if is_required else f"[{names}]"

    def convert(
        self,
        value: Any,
        param: click.Parameter | None,
        ctx: click.Context | None,  # noqa: ARG002 - click's signature
    ) -> str:
        """Return the name.

        Raises:
            RequestError: The name is unknown; the message has the nearest and all valid names.
        """
        names = self._names()
        if value not in names:
            what = "choice" if param is None else param.opts[0]
            raise unknown_name(what, str(value), dict.fromkeys(names, ""))
        return str(value)

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's signature
        param: click.Parameter,  # noqa: ARG002 - click's signature
        incomplete: str,
    ) -> list[CompletionItem]:
        """Return the names that complete a text."""
        from click.shell_completion import CompletionItem

        return [CompletionItem(name) for name in self._names() if name.startswith(incomplete)]
