"""The page of a search: its progress, costs, parameter importances and winner."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from tarmac.errors import quoted
from tarmac.masking import masked_command, masked_text
from tarmac.pages.bars import Bar, bars
from tarmac.pages.components import Tile, chip, facts, flat, message, paragraph, pre, table, tiles
from tarmac.pages.numbers import UNKNOWN, heading, metric, moment, worded
from tarmac.pages.page import Page, Section
from tarmac.pages.parameters import Dimension, Tried, parallel, shown_networks, slice_plot
from tarmac.pages.plots import Point, Series, scatter
from tarmac.pages.redaction import without_secrets
from tarmac.pages.scales import Axis
from tarmac.pages.states import STATES
from tarmac.wording import counted

if TYPE_CHECKING:
    from tarmac.studies import Network, Study, Survey, Totals, Winner

    _Values = Mapping[int, Sequence[float]]

# With more networks, settings in the text of each scatter point make the page too large.
_MAX_MADE = 250
_MAX_TRIALS = 100
_MAX_GENERATIONS = 200
_MAX_FAILURES = 12
# Limits the page's size for a space with many parameters.
_MAX_SLICES = 24

_TRIAL_STATES = {"complete": "ok", "failed": "bad", "pruned": "warn", "running": "busy"}


def search_page(run: Path, storage: str | None = None) -> Page:
    """Return the page of a search.

    Args:
        run: Directory of the study, with ``study.json``.
        storage: URL of the database, if the study stores it without its password. Default: the
            study's own URL.

    Raises:
        RequestError: The run is no study, or of a newer Tarmac; or a required package or password
            is missing.
        TarmacError: The study is damaged, or its storage cannot be read.
    """
    from tarmac.studies import find_study, summarize, survey  # noqa: PLC0415 - loads Optuna

    study = find_study(str(run), storage=storage)
    seen = survey(study)
    totals = summarize(study)
    request = study.request
    return Page(
        title=study.name,
        subtitle=f"A search of {request.workload} by {request.method} over "
        f"{counted(study.space.size, 'network')}, seed {request.seed}, "
        f"begun {moment(study.record.created_at)}",
        status=study.status,
        state=STATES.get(study.status, "plain"),
        head=_tiles(study, seen, totals),
        sections=[*_sections(study, seen)],
    )


def _tiles(study: Study, seen: Survey, totals: Totals) -> Markup:
    name, best = study.request.objective[0], study.best
    value = best.values.get(name) if best is not None else None
    if value is None and seen.steps:
        value = seen.steps[-1].best
    is_open = study.record.status == "running" and totals.expected
    expected = f" of about {totals.expected:,}" if is_open else ""
    figures = [
        Tile(f"Best {name}", worded(value), "" if best is None else f"network {best.number}"),
        Tile("Networks trained", f"{totals.trained:,}{expected}", f"{totals.distinct:,} distinct"),
        Tile("Trainings saved", f"{totals.saved:,}", "the network was known"),
        Tile("Stopped early", f"{totals.pruned:,}"),
        Tile("Failed", f"{totals.failed:,}", state="bad" if totals.failed else "plain"),
        Tile(
            "Took", worded(study.record.elapsed_s, "s"), f"{worded(totals.seconds, 's')} training"
        ),
    ]
    judged = study.record.judged_by
    test = None if best is None else best.tested(judged)
    if test is not None:
        name = judged.of("test")
        figures.insert(1, Tile(heading(name), metric(name, test), state="ok"))
    return tiles(figures)


def _sections(study: Study, seen: Survey) -> Iterator[Section]:
    rows = study.trials
    yield Section("outcome", "Result", _outcome(study))
    if failures := _failures(rows):
        yield Section("failures", "What failed", failures)
    if not seen.networks:
        words = "No network has been trained to its end yet."
        hint = f"tarmac search --resume {shlex.quote(str(study.path))}"
        commands = [] if study.status == "running" else [hint]
        yield Section("progress", "Fitness", message("plain", words, commands=commands))
    else:
        yield from _plots(study, seen)
    if generations := _generations(study):
        title = "Generations" if study.has_generations else "Trials in groups"
        yield Section("generations", title, generations)
    values = {network.number: network.values for network in seen.networks}
    if study.record.front:
        yield Section("front", "Pareto front", *_front(study, rows, values))
    yield Section("trials", "Trials", *_trials(study, rows, values))
    yield Section("asked", "Request", _asked(study))


def _plots(study: Study, seen: Survey) -> Iterator[Section]:
    name, maximize = study.request.objective[0], study.maximize[0]
    along = "generation" if study.has_generations else "trial"
    title = "Fitness per generation" if study.has_generations else "Fitness by trial"
    yield Section("progress", title, _progress(study, seen, Axis(along, is_whole=True)))
    if any(network.num_parameters is not None for network in seen.networks):
        note = "The line joins the networks that no other beats in both."
        yield Section("cost", "Cost against fitness", _cost(study, seen), note)
    if len(study.request.objective) > 1:
        yield Section("objectives", "Objectives against each other", _objectives(study, seen))
    tried = [Tried(network.number, network.values[0], network.params) for network in seen.networks]
    shown = shown_networks(tried, maximize=maximize, dimensions=len(seen.axes))
    few = ""
    if len(shown) < len(tried):
        few = f"{len(shown):,} of {len(tried):,} networks: the best, and evenly spaced others."
    dimensions = [
        Dimension(axis.name, axis.is_log, axis.choices, axis.low, axis.high) for axis in seen.axes
    ]
    value = Dimension(name)
    yield Section(
        "parallel",
        "Parallel coordinates",
        parallel("parallel-plot", "", shown, dimensions, value=value),
        few,
    )
    note = "What share of the differences each parameter explains, by fANOVA"
    note += f", of {seen.num_judged:,} evenly spaced networks." * (seen.num_judged < len(tried))
    yield Section("importance", "Importance", _importance(seen), note.rstrip(".") + ".")
    ordered = sorted(dimensions, key=lambda dimension: -seen.importances.get(dimension.name, 0.0))
    slices = Markup("").join(
        slice_plot(f"slice-{number}", dimension, shown, value)
        for number, dimension in enumerate(ordered[:_MAX_SLICES])
    )
    note = f"{name} over each parameter, what matters most first; the later, the stronger."
    body = Markup('<div class="side-by-side">{}</div>').format(slices)
    yield Section("slices", "Slices", body, note)


def _outcome(study: Study) -> Markup:
    from tarmac.studies import choose_winner, train_caution, train_line  # noqa: PLC0415 - loads Optuna

    record = study.record
    body = Markup("")
    if record.error:
        body += message("bad", masked_text(record.error))
    if record.why_ended:
        body += paragraph(f"Ended: {record.why_ended}.")
    winner = study.best or choose_winner(study)
    if winner is None:
        return body + message("plain", "There is no winner yet.")
    body += _winner(study, winner)
    body += paragraph("Command that trains the same network again:")
    if (caution := train_caution(study)) is not None:
        body += message("warn", caution)
    return body + pre(train_line(study, winner))


def _winner(study: Study, winner: Winner) -> Markup:
    values = ", ".join(f"{name} {worded(value)}" for name, value in winner.values.items())
    is_final = study.best is not None
    judged = study.record.judged_by
    tests = {judged.of("test"): winner.tested(judged), "test_loss": winner.test_loss}
    pairs: list[tuple[str, object]] = [
        ("Winner" if is_final else "Best so far", f"network {winner.number}"),
        ("Judged by", values),
        ("Epochs", winner.epochs),
        ("From other seeds", ", ".join(map(worded, winner.confirmed))),
        *((heading(name), metric(name, value)) for name, value in tests.items()),
        ("Its training", winner.run),
    ]
    made = [(k, str(v)) for k, v in without_secrets(dict(winner.settings)).items()]
    return facts(pairs) + Markup("<h3>Its settings</h3>") + facts(made)


def _progress(study: Study, seen: Survey, along: Axis) -> Markup:
    points = [
        Point(float(network.place), network.values[0], _hover(network, seen))
        for network in _some(seen.networks, study)
    ]
    lines = [Series("best so far", [(step.place, step.best) for step in seen.steps], "step")]
    if study.has_generations:
        means = [(float(step.place), step.mean) for step in seen.steps]
        lines.append(Series("mean of the new", means, "dashed"))
    value = Axis(study.request.objective[0])
    return scatter("progress-plot", "", points, x=along, y=value, lines=lines)


def _cost(study: Study, seen: Survey) -> Markup:
    front = [seen.networks[index] for index in seen.front]
    points = [
        Point(
            float(network.num_parameters),
            network.values[0],
            _hover(network, seen),
            weight=network.seconds,
        )
        for network in _some(seen.networks, study)
        if network.num_parameters is not None
    ]
    line = [(float(network.num_parameters or 0), network.values[0]) for network in front]
    return scatter(
        "cost-plot",
        "",
        points,
        x=Axis("parameters", is_log=True),
        y=Axis(study.request.objective[0]),
        lines=[Series("front", line, "step")],
        weight=Axis("seconds of training", unit="s"),
    )


def _objectives(study: Study, seen: Survey) -> Markup:
    first, *others = study.request.objective
    front = {*study.record.front}
    return Markup("").join(
        scatter(
            f"objective-{number}",
            "",
            [
                Point(
                    network.values[number],
                    network.values[0],
                    _hover(network, seen),
                    state="ok" if network.number in front else "plain",
                )
                for network in _some(seen.networks, study)
            ],
            x=Axis(name),
            y=Axis(first),
        )
        for number, name in enumerate(others, start=1)
    )


def _some(networks: Sequence[Network], study: Study) -> Sequence[Network]:
    """Return all networks, or the best by the first objective and evenly spaced others."""
    by_number = {network.number: network for network in networks}
    tried = [Tried(network.number, network.values[0], {}) for network in networks]
    kept = shown_networks(tried, maximize=study.maximize[0])
    return [by_number[number] for number in sorted(network.number for network in kept)]


def _hover(network: Network, seen: Survey) -> str:
    words = f"network {network.number}: {worded(network.values[0])}"
    if len(seen.networks) > _MAX_MADE:
        return words
    made = ", ".join(f"{name} {_setting(value)}" for name, value in network.params.items())
    return f"{words}; {made}"


def _importance(seen: Survey) -> Markup:
    if not seen.importances:
        return message("plain", seen.why_no_importances)
    rows = [Bar(name, [share], worded(share, "ratio")) for name, share in seen.importances.items()]
    return bars("importance-plot", "", rows, label="parameter")


def _failures(rows: Sequence[dict[str, Any]]) -> Markup:
    """Return a table of the reasons of failed trials, with equal reasons grouped."""
    counts: Counter[str] = Counter()
    first: dict[str, int] = {}
    for row in rows:
        if row["state"] == "failed":
            words = masked_text(str(row.get("error") or "no reason is recorded"))
            counts[words] += 1
            first.setdefault(words, row["number"])
    shown = [
        [f"{count:,}", f"{first[words]}", words]
        for words, count in counts.most_common(_MAX_FAILURES)
    ]
    if not shown:
        return Markup("")
    return table(["networks", "the first", "why"], shown, label="Why networks failed")


def _generations(study: Study) -> Markup:
    from tarmac.studies import by_generation  # noqa: PLC0415 - loads Optuna

    groups = by_generation(study)
    name = "generation" if study.has_generations else "trials"
    columns = [name, "survived", "trained", "best", "mean", "worst", "stopped", "failed", "known"]
    rows = [
        [
            group.name,
            f"{group.survivors:,}",
            f"{group.trained:,}",
            *(worded(value) for value in (group.best, group.mean, group.worst)),
            *(f"{count:,}" for count in (group.pruned, group.failed, group.reused)),
        ]
        for group in groups[-_MAX_GENERATIONS:]
    ]
    return table(columns, rows, label=name, numbers=range(1, 9)) if rows else Markup("")


def _front(study: Study, rows: Sequence[dict[str, Any]], values: _Values) -> tuple[Markup, str]:
    by_number = {row["number"]: row for row in rows}
    known = [by_number[number] for number in study.record.front if number in by_number]
    shown = known[:_MAX_TRIALS]
    note = "Networks that no other beats in everything, the best by the first objective first."
    if len(shown) < len(known):
        note += (
            f" {len(shown):,} of {len(known):,}. See all: tarmac search export {quoted(study.name)}"
        )
    return _rows(study, shown, values, "Networks that no other beats"), note


def _trials(study: Study, rows: Sequence[dict[str, Any]], values: _Values) -> tuple[Markup, str]:
    sign = -1 if study.maximize[0] else 1
    complete = [row for row in rows if row["number"] in values]
    complete.sort(key=lambda row: (sign * values[row["number"]][0], row["number"]))
    others = [row for row in rows if row["number"] not in values]
    shown = [*complete, *others][:_MAX_TRIALS]
    note = "The best first."
    if len(shown) < len(rows):
        all_of_them = f"tarmac search export {quoted(study.name)}"
        note = f"The best {len(shown):,} of {len(rows):,}. All: {all_of_them}"
    return _rows(study, shown, values, "Trials"), note


def _rows(study: Study, rows: Sequence[dict[str, Any]], values: _Values, label: str) -> Markup:
    objectives, names = study.request.objective, [*study.space.parameters]
    columns = ["network", "state", *objectives, "epochs", "took", "origin", *names]
    unknown = (None,) * len(objectives)
    cells = [
        [
            str(row["number"]),
            chip(row["state"], _TRIAL_STATES.get(row["state"], "plain")),
            *map(worded, values.get(row["number"], unknown)),
            worded(row.get("epochs")),
            worded(row.get("seconds"), "s"),
            f"as {row['same_as']}" if "same_as" in row else str(row.get("origin") or UNKNOWN),
            *(_setting(row["params"].get(name)) for name in names),
        ]
        for row in rows
    ]
    return table(columns, cells, label=label, numbers=range(2, 4 + len(objectives)))


def _asked(study: Study) -> Markup:
    request = study.request.model_dump(mode="json", exclude={"space", "datasets", "storage"})
    space = [
        [name, _range(parameter), _when(parameter)]
        for name, parameter in study.record.space.items()
    ]
    command = shlex.join(masked_command(study.record.command))
    body = pre(command) if command else Markup("")
    body += table(["parameter", "values", "where"], space, label="The space")
    body += Markup("<h3>The search</h3>") + facts(flat(without_secrets(request)))
    if settings := flat(without_secrets(dict(study.record.settings))):
        body += Markup("<h3>All networks</h3>") + facts(settings)
    samples = [
        ("Trains on", counted(study.record.train_size, "sample")),
        ("Judged on", study.record.held_out),
        *sorted(study.record.versions.items()),
    ]
    return body + Markup("<h3>Where it ran</h3>") + facts(samples)


def _range(parameter: dict[str, Any]) -> str:
    if "values" in parameter:
        return ", ".join(map(_setting, parameter["values"]))
    words = f"{_setting(parameter['low'])} to {_setting(parameter['high'])}"
    words += f" in steps of {_setting(parameter['step'])}" if parameter.get("step") else ""
    return words + (", logarithmic" if parameter.get("log") else "")


def _when(parameter: dict[str, Any]) -> str:
    conditions = parameter.get("when", {}).items()
    words = [f"{name} is {' or '.join(map(_setting, values))}" for name, values in conditions]
    return " and ".join(words) or "always"


def _setting(value: object) -> str:
    if value is None:
        return UNKNOWN
    return f"{value:.4g}" if isinstance(value, float) else str(value)
