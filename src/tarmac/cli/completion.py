"""Shell completion of arguments and of options' values."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from tarmac.cli.choices import FRAMEWORKS, OBJECTIVES
from tarmac.run_kinds import KIND_NAMES, RECORDS

if TYPE_CHECKING:
    Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def complete_files(
    _ctx: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Let the shell complete a path."""
    return [CompletionItem(incomplete, type="file")]


def complete_frameworks(
    _ctx: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Offer the frameworks that can be checked."""
    return _beginning(incomplete, FRAMEWORKS)


def complete_codes(
    _ctx: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Offer the codes of the failures that a check knows."""
    from tarmac.checks import read_catalogue

    return _beginning(incomplete, read_catalogue())


def complete_objectives(
    _ctx: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Offer the next of several objectives, separated by commas."""
    before, comma, last = incomplete.rpartition(",")
    return [CompletionItem(before + comma + item.value) for item in _beginning(last, OBJECTIVES)]


def complete_datasets(
    _ctx: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Offer the datasets."""
    from tarmac import data

    return _beginning(incomplete, data.names())


def complete_workloads(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Offer the workloads, and files, which may have one."""
    from tarmac.workloads import workload_names

    # Paths first: click's script for bash drops what comes before them.
    return [
        *complete_files(ctx, parameter, incomplete),
        *_beginning(incomplete, workload_names()),
    ]


def _complete_runs(*kinds: str) -> Complete:
    # Reading each record would delay the shell.
    records = [RECORDS[kind] for kind in kinds]

    def complete(
        ctx: click.Context, parameter: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from tarmac.runs import default_output

        root = Path(ctx.params.get("output") or default_output())
        names = {path.parent.name for record in records for path in root.glob(f"[!.]*/{record}")}
        named = _beginning(incomplete, ["latest", *sorted(names)])
        return named or complete_files(ctx, parameter, incomplete)

    return complete


complete_trainings = _complete_runs("training")
complete_jobs = _complete_runs("job")
complete_studies = _complete_runs("search")
complete_any_run = _complete_runs(*KIND_NAMES)


def _beginning(incomplete: str, names: Iterable[str]) -> list[CompletionItem]:
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]
