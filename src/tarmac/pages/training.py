"""The page of one training: its request, its result and its curves over time."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from markupsafe import Markup

from tarmac.errors import TarmacError
from tarmac.files import moment_after
from tarmac.masking import masked_text
from tarmac.pages.components import Tile, details, facts, message, paragraph, table, tiles
from tarmac.pages.curves import curves, gpu_lanes, marks_of, share_waited, speed, time_axis, waits
from tarmac.pages.epochs import Epochs, read_epochs
from tarmac.pages.log import tails_of_ranks
from tarmac.pages.numbers import known, metric, moment, worded
from tarmac.pages.page import Page, Section
from tarmac.pages.pictures import pictures
from tarmac.pages.plots import Mark
from tarmac.pages.scales import Axis
from tarmac.pages.states import STATES
from tarmac.pages.training_facts import check_before, environment, request
from tarmac.runs import (
    LAYERS,
    JudgedBy,
    Run,
    RunRecord,
    Samples,
    layer_rows,
    name_words,
    read_all_samples,
    read_layers,
)
from tarmac.wording import counted

# Shares of a training's time, with the same limits as `tarmac top`.
_WAITS_MUCH, _WAITS_SOME = 0.20, 0.05

_SHOWN_EVENTS = 40
_SHOWN_LAYERS = 200


def training_page(path: Path) -> Page:
    """Return the page of a training.

    Args:
        path: Directory of the training, with ``run.json``.

    Raises:
        RequestError: The path is no training, or of a newer Tarmac.
        TarmacError: The record of the training is damaged.
    """
    run = Run.open(path)
    record = run.record
    epochs = read_epochs(run)
    hosts = read_all_samples(path)
    x, marks = time_axis(record, epochs, hosts), marks_of(hosts)
    sections = [
        Section("result", "Result", _result(run, epochs)),
        *_curves(epochs, record, hosts, x, marks),
        *_waits(epochs),
        *_energy(record, epochs),
        *pictures(path),
        Section("events", "Events", _events(run, hosts)),
        *_network(path),
        Section("asked", "Request", request(record)),
        Section("environment", "Where it ran", environment(record)),
        *check_before(path, record.created_at),
    ]
    return Page(
        title=run.name,
        subtitle=_subtitle(record),
        sections=sections,
        status=run.status,
        state=STATES.get(run.status, "plain"),
        head=tiles([*_tiles(run, epochs)]),
    )


def verdict(record: RunRecord) -> tuple[str, str]:
    """Return the text of a training's expectation, and the state for its result."""
    expected = record.expectation
    if not expected:
        return "", "plain"
    met = expected.get("met")
    state = "plain" if met is None else "ok" if met else "bad"
    return str(expected.get("text") or ""), state


def _subtitle(record: RunRecord) -> str:
    device = record.device.get("name") or record.device.get("type") or "an unknown device"
    count = record.parallel.world_size if record.parallel else 1
    where = f"{count} x {device}" if count > 1 else f"{device}"
    data = record.dataset.get("name") or "unknown data"
    return f"A training of {record.workload} on {data}, on {where}, {moment(record.created_at)}"


def _tiles(run: Run, epochs: Epochs) -> Iterator[Tile]:
    record, last = run.record, epochs.rows[-1].values if epochs.rows else {}
    _, state = verdict(record)
    judged = record.judged_by
    held_out, test = judged.of("val"), judged.of("test")
    if (value := known(record.metrics.get(test))) is not None:
        words = {"ok": "as expected", "bad": "not as expected"}.get(state, "")
        yield Tile(name_words(test), metric(test, value), words or _better(judged), state)
    elif held_out in last:
        yield Tile(name_words(held_out), metric(held_out, last[held_out]), "so far")
    elif judged.metric in last and judged.metric != "loss":
        trained = judged.of("train")
        yield Tile(name_words(trained), metric(trained, last[judged.metric]), "so far")
    if "loss" in last:
        yield Tile("training loss", worded(last["loss"]), "of the last epoch")
    num_epochs = known(record.configuration.get("epochs"))
    done = epochs.rows[-1].number if epochs.rows else 0
    yield Tile("epochs", f"{done:,}", "" if num_epochs is None else f"of {num_epochs:,.0f}")
    yield Tile("took", worded(record.elapsed_s or None, "s"), _sessions(record))
    speeds = sorted(
        row.values["samples_per_s"] for row in epochs.rows if "samples_per_s" in row.values
    )
    if speeds:
        yield Tile("samples a second", worded(speeds[len(speeds) // 2]), "median of epochs")
    waited = share_waited(epochs)
    if waited:
        name, share = waited[0]
        state = "bad" if share > _WAITS_MUCH else "warn" if share > _WAITS_SOME else "ok"
        yield Tile("waited", worded(share, "ratio"), f"of the time, {name}", state)
    if record.energy_joules is not None:
        yield Tile("energy", _energy_words(record.energy_joules), "of its GPUs")
    if record.mfu is not None:
        yield Tile("model FLOPs used", worded(record.mfu, "ratio"), "of what the chip can do")


def _better(judged: JudgedBy) -> str:
    """Return a note on a metric if smaller values are better, since readers assume the reverse."""
    return "" if judged.more_is_better else "smaller is better"


def _sessions(record: RunRecord) -> str:
    count = len(record.sessions)
    return f"in {count} sessions" if count > 1 else ""


def _result(run: Run, epochs: Epochs) -> Markup:
    record = run.record
    text, state = verdict(record)
    parts = []
    again = [f"tarmac train --resume {shlex.quote(str(run.path))}"]
    if record.error:
        parts.append(message("bad", f"It failed: {masked_text(record.error)}", commands=again))
        parts.append(tails_of_ranks(run.path, record.error))
    elif run.status == "interrupted":
        words = "It was interrupted. It resumes from its newest checkpoint:"
        parts.append(message("warn", words, commands=again))
    elif run.status == "running":
        parts.append(message("plain", "It is still running. This page shows the state so far."))
    if text:
        expected = record.expectation or {}
        source = expected.get("source")
        is_judged = expected.get("met") is not None
        parts.append(message(state, text if is_judged else f"Expected in the test: {text}"))
        if source:
            parts.append(paragraph(f"Source of what is expected: {source}."))
    if record.stopped_early:
        parts.append(message("plain", f"It ended early: {record.stopped_early}"))
    if epochs.problem:
        parts.append(message("warn", epochs.problem))
    if record.metrics:
        parts.append(facts((name, metric(name, value)) for name, value in record.metrics.items()))
    if not parts:
        parts.append(paragraph("There are no metrics yet."))
    return Markup("").join(parts)


def _curves(
    epochs: Epochs, record: RunRecord, hosts: Sequence[Samples], x: Axis, marks: Sequence[Mark]
) -> Iterator[Section]:
    strips = gpu_lanes(hosts, x, marks)
    drawn = curves(epochs, record, x, marks) + strips + speed(epochs, x, marks)
    if not drawn:
        return
    note = "All over one axis of time."
    if epochs.is_estimated:
        note += " End times of epochs are sums of their durations."
    if not strips:
        note += f" {_why_no_samples(record)}"
    yield Section("curves", "Curves", drawn, note)


def _why_no_samples(record: RunRecord) -> str:
    if record.configuration.get("sampling") is False:
        return "GPUs and host were not sampled: --no-sampling."
    if record.status == "running":
        return "There are no samples of GPUs and host yet."
    return "There are no samples of GPUs and host: it was too short, or made by an older Tarmac."


def _waits(epochs: Epochs) -> Iterator[Section]:
    drawn = waits(epochs)
    if drawn:
        shares = (f"{worded(share, 'ratio')} {name}" for name, share in share_waited(epochs))
        yield Section("waits", "Waits", drawn, f"Of all epochs' time: {', '.join(shares)}.")


def _energy(record: RunRecord, epochs: Epochs) -> Iterator[Section]:
    throttled = record.throttled_s or {}
    known_facts: list[tuple[str, object]] = []
    if record.energy_joules is not None:
        joules = record.energy_joules
        known_facts.append(("used by its GPUs", _energy_words(joules)))
        # The energy covers the time in sessions only, as does `elapsed_s`.
        if record.elapsed_s > 0:
            known_facts.append(("on average", worded(joules / record.elapsed_s, "W")))
        if epochs.rows:
            known_facts.append(("per epoch", _energy_words(joules / len(epochs.rows))))
    for why, seconds in throttled.items():
        known_facts.append((f"clocks lowered for {why}", worded(seconds, "s")))
    if record.mfu is not None:
        known_facts.append(("model FLOPs used", worded(record.mfu, "ratio")))
    if known_facts:
        yield Section("energy", "Energy", facts(known_facts))


def _energy_words(joules: float) -> str:
    watt_hours = joules / 3600
    return worded(watt_hours, "Wh") if watt_hours < 1000 else worded(watt_hours / 1000, "kWh")


def _network(path: Path) -> Iterator[Section]:
    """Yield the section on the model's layers, which older versions of Tarmac did not store."""
    if not (path / LAYERS).is_file():
        return
    try:
        layers = read_layers(path)
    except TarmacError as error:
        yield Section("network", "Network", message("warn", f"It cannot be read: {error.message}"))
        return
    rows = layer_rows(layers)
    shown = table(
        ["layer", "kind", "returns", "parameters"],
        rows[:_SHOWN_LAYERS],
        label="Layers of the model",
        numbers=(2, 3),
    )
    if len(rows) > _SHOWN_LAYERS:
        more = paragraph(f"{len(rows) - _SHOWN_LAYERS:,} more are in {LAYERS}.")
        shown = details("network-layers", f"{len(rows):,} layers", shown + more)
    total = sum(layer.parameters for layer in layers)
    yield Section("network", "Network", shown, f"{counted(total, 'parameter')}.")


def _events(run: Run, hosts: Sequence[Samples]) -> Markup:
    rows = sorted(_told(run, hosts), key=lambda row: row[0])
    more = len(rows) - _SHOWN_EVENTS
    shown = table(
        ["after", "what", "which", "at"],
        [
            [worded((at - run.record.created_at).total_seconds(), "s"), what, why, moment(at)]
            for at, what, why in rows[-_SHOWN_EVENTS:]
        ],
        label="Events of the training",
    )
    return shown + (paragraph(f"{more} earlier ones are left out.") if more > 0 else Markup(""))


def _told(run: Run, hosts: Sequence[Samples]) -> Iterator[tuple[datetime, str, str]]:
    record = run.record
    for number, session in enumerate(record.sessions):
        what = "went on" if number else "began"
        yield session.started_at, what, f"process {session.pid}"
    for event in hosts[0].events if hosts else ():
        # The record has the sessions' starts and the end.
        at = moment_after(event.at_s, record.created_at)
        if event.kind == "workers_lost" and at is not None:
            yield at, "workers lost, and restarted", event.text
    for checkpoint in run.checkpoints.glob("*.safetensors"):
        with contextlib.suppress(OSError):
            written = moment_after(checkpoint.stat().st_mtime)
            if written is not None:
                yield written, "checkpoint", checkpoint.stem
    if record.ended_at is not None:
        yield (
            record.ended_at,
            record.status,
            record.stopped_early or masked_text(record.error or ""),
        )
