"""Progress of a download: a bar on a terminal, a line per file elsewhere."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from tarmac.cli.console import make_console

if TYPE_CHECKING:
    from tarmac.data import Progress as Report


@contextlib.contextmanager
def download_progress(*, quiet: bool) -> Iterator[Report | None]:
    """Yield the callback for a download's progress; None if ``quiet``."""
    console = make_console()
    if quiet:
        yield None
        return
    started: set[str] = set()
    if not console.is_terminal:

        def line(done: int, total: int | None, file: str) -> None:  # noqa: ARG001 - the protocol
            if file not in started:
                started.add(file)
                size = f" ({total / 1e6:.1f} MB)" if total else ""
                console.print(f"fetching {file}{size}")

        yield line
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(*columns, TransferSpeedColumn(), console=console, transient=True) as bars:
        tasks = {}

        def bar(done: int, total: int | None, file: str) -> None:
            if file not in tasks:
                tasks[file] = bars.add_task(file, total=total)
            bars.update(tasks[file], completed=done, total=total)

        yield bar
