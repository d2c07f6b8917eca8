"""What options can be, for their help and for shells.

Each is what a room takes, which a test compares: importing the rooms would make ``--help`` slow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tarmac.errors import unknown_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from click.shell_completion import CompletionItem

FRAMEWORKS = ("torch", "tensorflow", "keras", "jax", "mxnet", "chainer", "horovod")

# Of a check's report.
FORMATS = ("text", "json", "brief", "nagios", "junit", "prometheus")
FAIL_ON = ("failure", "warning", "note")

EXECUTORS = ("local", "slurm", "kubernetes", "ray")
# What `tarmac convert` writes: formats of job files, and what clusters are given.
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

# Of a run.
STATUSES = ("running", "queued", "detached", "completed", "succeeded", "interrupted", "failed")

# Of `tarmac top`.
EVENTS = ("idle", "finding", "finished", "stalled")


# Not generic in click 8.2.
class Choice(click.ParamType):  # type: ignore[type-arg]
    """One of the names that Tarmac has, or that installed packages provide.

    They are looked up when they are needed, so that importing a command costs nothing.

    Args:
        names: Names that Tarmac itself provides, in the order of the help.
        group: The entry points of packages that provide others; None where they cannot.
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
        """Return ``[a|b|c]``, and ``{a|b|c}`` where it is required, as click does."""
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
            RequestError: It is none; with the nearest and all valid ones.
        """
        names = self._names()
        if value not in names:
            what = "choice" if param is None else param.opts[0]
            raise unknown_name(what, str(value), dict.fromkeys(names, ""))
        return str(value)

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's signature
        param: click.Parameter,  # noqa: ARG002 - likewise
        incomplete: str,
    ) -> list[CompletionItem]:
        """Offer the names."""
        from click.shell_completion import CompletionItem

        return [CompletionItem(name) for name in self._names() if name.startswith(incomplete)]
