"""The views of runs and of their parts: tasks, a search's trainings, ranks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tarmac.monitor.drawing.belonging import HostFacts, OwnedWork, all_work
from tarmac.monitor.drawing.columns import Column, choose, heading, table_line
from tarmac.monitor.drawing.lines import Row, Span
from tarmac.monitor.drawing.look import Look, View
from tarmac.monitor.drawing.quantities import (
    UNKNOWN,
    count,
    decimal,
    duration,
    watt_hours,
    whole,
)
from tarmac.monitor.drawing.states import work_state
from tarmac.monitor.drawing.work_lines import (
    progress,
    rank_row,
    state_words,
    waits_text,
    warning_rows,
)

if TYPE_CHECKING:
    from tarmac.monitor.snapshot import Snapshot

COLUMNS = (
    Column("state", "S", 1, 0),
    Column("name", "RUN", 12, 0, stretches=True, comfort=30),
    Column("kind", "KIND", 8, 6),
    Column("workload", "WORKLOAD", 14, 11),
    Column("user", "USER", 8, 10),
    Column("host", "HOST", 10, 8),
    Column("gpus", "GPUS", 5, 3),
    Column("done", "DONE", 9, 0, is_right=True),
    Column("loss", "LOSS", 7, 4, is_right=True),
    Column("metric", "METRIC", 7, 5, is_right=True),
    Column("speed", "SAMPLES/S", 9, 3, is_right=True),
    Column("left", "LEFT", 6, 2, is_right=True),
    Column("saved", "SAVED", 6, 7, is_right=True),
    Column("waits", "WAITS", 9, 5),
    Column("retries", "RETRY", 5, 10, is_right=True),
    Column("energy", "ENERGY", 8, 9, is_right=True),
    Column("note", "NOTE", 20, 8),
)


def runs_view(snapshot: Snapshot, look: Look) -> View:
    """Return the view of trainings, searches and jobs of all hosts, without tasks."""
    shown = [owned for owned in all_work(snapshot.hosts) if owned.work.kind != "task"]
    return _view(snapshot, look, shown)


def tasks_view(snapshot: Snapshot, look: Look) -> View:
    """Return the view of tasks, trainings of searches, and ranks, each below its parent."""
    owned_work = all_work(snapshot.hosts)
    wholes = {owned.work.parent for owned in owned_work}
    shown = [
        owned
        for owned in owned_work
        if owned.work.parent is not None
        or owned.work.id in wholes
        or owned.work.kind == "task"
        or owned.work.ranks
    ]
    return _view(snapshot, look, shown, has_ranks=True)


def _view(
    snapshot: Snapshot, look: Look, shown: Sequence[OwnedWork], *, has_ranks: bool = False
) -> View:
    facts = {id(host): HostFacts(host) for host in snapshot.hosts}
    empty = set(look.hidden)
    if len(snapshot.hosts) == 1:
        empty.add("host")
    unknown = (
        ("metric", all(owned.work.metric is None for owned in shown)),
        ("energy", all(owned.work.energy_joules is None for owned in shown)),
        ("retries", all(not owned.work.retries for owned in shown)),
        ("note", all(not _note(owned).text for owned in shown)),
    )
    empty.update(key for key, is_empty in unknown if is_empty)
    columns = choose(COLUMNS, look.width, empty)
    rows: list[Row] = []
    for owned in shown:
        rows += _rows_of(owned, facts, columns, look, has_ranks=has_ranks)
    return View(heading(columns), tuple(rows))


def _rows_of(
    owned: OwnedWork,
    facts: dict[int, HostFacts],
    columns: Sequence[Column],
    look: Look,
    *,
    has_ranks: bool,
) -> Iterator[Row]:
    work = owned.work
    indent = "  " * owned.depth
    labels = [facts[id(host)].labels_of(work) for host in owned.hosts]
    name = work.id
    if owned.depth and work.parent is not None:
        name = name.removeprefix(f"{work.parent}/")
    note = _note(owned)
    cells = {
        "state": work_state(work.state),
        "name": Span(indent + look.clean(name), "strong" if owned.depth == 0 else ""),
        "kind": Span(work.kind),
        "workload": Span(look.clean(work.workload)),
        "user": Span(look.clean(work.user)),
        "host": Span(look.clean(",".join(host.host.name for host in owned.hosts))),
        "gpus": Span(";".join(dict.fromkeys(labels)) if len(labels) == 1 else _many(labels)),
        "done": Span(progress(work)),
        "loss": Span(decimal(work.loss), _loss_tone(work.loss)),
        "metric": Span(decimal(work.metric)),
        "speed": Span(count(work.samples_per_s)),
        "left": Span(duration(work.eta_s)),
        "saved": Span(duration(work.checkpoint_age_s)),
        "waits": Span(waits_text(work), "warn" if waits_text(work) != UNKNOWN else "dim"),
        "retries": Span(whole(work.retries)),
        "energy": Span(watt_hours(work.energy_joules)),
        "note": Span(look.clean(note.text) if note.text else "", note.tone),
    }
    line = table_line(columns, cells, ascii_only=look.ascii_only)
    yield Row(("work", owned.hosts[0].host.name, work.id), line, owned.depth)
    if not has_ranks or work.parent is None:
        yield from warning_rows(work, look, owned.depth)
    if has_ranks:
        for rank in work.ranks:
            yield rank_row(rank, look, owned.depth + 1)


def _loss_tone(loss: float | None) -> str:
    return "bad" if loss is not None and not math.isfinite(loss) else ""


def _note(owned: OwnedWork) -> Span:
    state = state_words(owned.work)
    if state.text and state.tone != "free":
        return state
    return Span(owned.work.note or state.text, "dim")


def _many(labels: Sequence[str]) -> str:
    return f"{len(labels)} hosts"
