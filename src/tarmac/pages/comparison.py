"""The page of several runs of one kind: their differences, results and curves."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from markupsafe import Markup

from tarmac.pages.components import chip, message, paragraph, table
from tarmac.pages.epochs import Epochs, read_epochs
from tarmac.pages.figure import plot_id
from tarmac.pages.numbers import UNKNOWN, heading, unit_of, worded
from tarmac.pages.numbers import metric as metric_words
from tarmac.pages.page import Page, Section
from tarmac.pages.plots import Series, line_plot
from tarmac.pages.redaction import without_secrets
from tarmac.pages.scales import Axis
from tarmac.pages.states import STATES
from tarmac.runs import TRAINING, Comparison, Run, RunKind, RunSummary, compare

_SPEED = "samples_per_s"


def comparison_page(kind: RunKind, paths: Sequence[Path]) -> Page:
    """Return the page of several runs side by side.

    Args:
        kind: Kind of all the runs, such as `TRAINING`.
        paths: Directories of the runs, in the order to show.

    Raises:
        RequestError: A run is of a newer Tarmac.
        TarmacError: The record of a run is damaged.
    """
    names = _names(paths)
    facts = [kind.facts(path) for path in paths]
    summaries = [kind.summarize(path) for path in paths]
    compared = compare([*zip(names, facts, strict=True)])
    sections = [
        Section("runs", "Runs", _runs(names, summaries, compared, kind)),
        Section("differences", "Differences", _differences(compared)),
        *(_curves(names, paths, compared) if kind is TRAINING else ()),
    ]
    return Page(
        title=f"{len(paths)} {'searches' if kind.name == 'search' else f'{kind.name}s'} compared",
        subtitle=", ".join(names),
        sections=sections,
    )


def _names(paths: Sequence[Path]) -> list[str]:
    """Return distinct names of the runs: their directories' names, or else their paths."""
    short = [path.resolve().name for path in paths]
    if len(set(short)) == len(short):
        return short
    return [f"{number}: {path}" for number, path in enumerate(paths, start=1)]


def _runs(
    names: Sequence[str], summaries: Sequence[RunSummary], compared: Comparison, kind: RunKind
) -> Markup:
    metrics = [name for name in compared.metrics if any(compared.metrics[name])]
    best = {name: compared.best(name) for name in metrics}
    rows = []
    for place, (name, summary) in enumerate(zip(names, summaries, strict=True)):
        cells: list[str | Markup] = [
            Markup('<i class="swatch s{}" aria-hidden="true"></i>{}').format(place % 8, name),
            chip(summary.status, STATES.get(summary.status, "plain")),
            worded(summary.elapsed_s, "s"),
        ]
        for metric in metrics:
            text = metric_words(metric, compared.metrics[metric][place])
            cells.append(Markup("<b>{}</b>").format(text) if place in best[metric] else text)
        rows.append(cells)
    took = "from start to end" if kind.name == "job" else "took"
    columns = ["run", "status", took, *(name.replace("_", " ") for name in metrics)]
    shown = table(columns, rows, label="Runs", numbers=range(2, len(columns)))
    return shown + (paragraph("The best of a column is bold.") if any(best.values()) else "")


def _differences(compared: Comparison) -> Markup:
    if not compared.differences:
        return paragraph("Neither their settings nor their machines differ.")
    rows = [
        [key, *(_value(key, value) for value in values)]
        for key, values in compared.differences.items()
    ]
    return table(["setting", *compared.names], rows, label="Settings that differ")


def _value(key: str, value: object) -> str:
    if value is None:
        return UNKNOWN
    shown = without_secrets(value, key.rpartition(".")[2])
    if isinstance(shown, (dict, list)):
        return json.dumps(shown, ensure_ascii=False, default=str)
    return str(shown)


def _curves(names: Sequence[str], paths: Sequence[Path], compared: Comparison) -> Iterator[Section]:
    read: dict[str, Epochs] = {}
    problems = Markup("")
    for name, path in zip(names, paths, strict=True):
        read[name] = read_epochs(Run.open(path))
        if read[name].problem:
            problems += message("warn", read[name].problem)
    judges = [judged for judged in compared.judged_by if judged is not None]
    scores = dict.fromkeys(name for judged in judges for name in judged.scores)
    by_epoch = Markup("").join(_overlaid(read, [*scores], over_time=False))
    by_time = Markup("").join(_overlaid(read, [*scores], over_time=True))
    if by_epoch or problems:
        yield Section("by-epoch", "By epoch", problems + by_epoch)
    if by_time:
        note = "Since each run was made: what is fastest to a result."
        yield Section("by-time", "By time", by_time, note)


def _overlaid(
    read: Mapping[str, Epochs], scores: Sequence[str], *, over_time: bool
) -> Iterator[Markup]:
    x = Axis("epoch", is_whole=True)
    if over_time:
        x = Axis("time since each run was made", "s", low=0.0)
    titles = {f"val_{name}": heading(f"val_{name}") for name in scores}
    titles |= {name: heading(f"train_{name}") for name in scores}
    titles[_SPEED] = "Samples a second"
    for name, title in titles.items():
        # Over time, training curves add nothing to the curves of held-out data.
        if over_time and name in ("loss", _SPEED):
            continue
        series = [
            Series(
                run,
                epochs.points(name)
                if over_time
                else [(row.number, row.values.get(name)) for row in epochs.rows],
                colour=place,
            )
            for place, (run, epochs) in enumerate(read.items())
            if epochs.has(name)
        ]
        if series:
            key = f"{'time' if over_time else 'epoch'}-{plot_id(name)}"
            yield line_plot(key, title, series, x=x, y=Axis(title.lower(), unit_of(name)))
