"""``tarmac search --on``: a search with workers on a cluster, followed from this machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tarmac.cli.output import outlives_output
from tarmac.errors import Interrupted, quoted

if TYPE_CHECKING:
    from tarmac.studies import StudyWriter, Workers


def search_there(
    study: StudyWriter,
    workers: Workers,
    storage: str | None,
    log_to: Sequence[str],
    *,
    as_json: bool,
) -> None:
    """Search with workers on a cluster; the first Ctrl-C detaches, the second ends the workers."""
    from tarmac.cli.stopping import Stopping
    from tarmac.cli.views.search import reporter_for
    from tarmac.jobs import find_executor
    from tarmac.studies import search_on, tracked

    kind = find_executor(workers.on)
    go_on = f"tarmac search --resume {quoted(study.path)} --on {workers.on}"

    def warn() -> None:
        message = f"the workers continue in {kind.title}; Ctrl-C again within 5 s cancels them"
        click.echo(message, err=True)

    with (
        outlives_output(unless=as_json),
        Stopping(outlives=kind.outlives, warn=warn) as signals,
        reporter_for(quiet=as_json) as reporter,
        # This process, which follows the search, calls the trackers: workers know of none.
        tracked(study, reporter, log_to) as tracking,
    ):
        end = search_on(
            study,
            workers,
            tracking,
            stop=lambda: signals.came,
            detach=signals.detaches,
            storage=storage,
        )
    if end == "detached":
        raise Interrupted(
            f"detached from {study.name}; its workers continue",
            hint=f"See it: tarmac search show {quoted(study.path)}\nResume here: {go_on} --workers "
            f"{workers.count}",
        )
