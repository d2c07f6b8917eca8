"""Progress of a search: a live table on a terminal, a plain line per trial elsewhere."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from optuna.trial import FrozenTrial
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tarmac.cli.console import make_console
from tarmac.runs import JudgedBy
from tarmac.studies import Silent, by_generation, summarize
from tarmac.wording import counted, in_one_line

if TYPE_CHECKING:
    from tarmac.studies import Progress, Reporter, Study

_MAX_RUNNING_SHOWN = 12


@contextlib.contextmanager
def reporter_for(*, quiet: bool) -> Iterator[Reporter]:
    """Yield the reporter for a terminal or for other output.

    Args:
        quiet: Whether to suppress all progress output.
    """
    console = make_console()
    if quiet:
        yield Silent()
    elif not console.is_terminal:
        yield _Plain(console)
    else:
        live = _Live(console)
        with live.shown:
            yield live


def generation_table(study: Study) -> Table:
    """Return the generations as a table."""
    name = "generation" if study.has_generations else "trials"
    columns = ("survived", "trained", "best", "mean", "worst", "stopped", "failed", "known")
    table = Table(name, *columns, box=None)
    for group in by_generation(study):
        table.add_row(
            group.name,
            str(group.survivors or ""),
            str(group.trained),
            *(_value(value) for value in (group.best, group.mean, group.worst)),
            *(str(count or "") for count in (group.pruned, group.failed, group.reused)),
        )
    return table


def totals_line(study: Study) -> str:
    """Return a line with the totals of a study so far."""
    totals = summarize(study)
    is_open = study.record.status == "running" and totals.expected
    trained = counted(totals.trained, "network")
    if is_open:
        trained = f"{totals.trained:,} of about {counted(totals.expected, 'network')}"
    parts = [f"{trained} trained, {totals.distinct:,} distinct"]
    if totals.saved:
        parts.append(f"{counted(totals.saved, 'training')} saved")
    if totals.pruned:
        parts.append(f"{totals.pruned:,} stopped early")
    if totals.failed:
        parts.append(f"{totals.failed:,} failed")
    return ", ".join(parts)


def trial_line(study: Study, trial: FrozenTrial) -> str:
    """Return a line with a trial's settings and results."""
    row = study.row(trial)
    made = ", ".join(f"{name}={_value(value)}" for name, value in trial.params.items())
    values = "  ".join(f"{name} {_value(value)}" for name, value in row["values"].items())
    took = f"{counted(row['epochs'], 'epoch')}  {row['seconds']:.1f} s" if "seconds" in row else ""
    if "same_as" in row:
        took = f"known from {row['same_as']}"
    where = "" if row["generation"] is None else f"generation {row['generation']}  "
    parts = [f"{trial.number:>4}  {where}{row['state']:<8}", values, took, made]
    if row.get("error"):
        parts.append(str(row["error"]))
    return "  ".join(part for part in parts if part)


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if value.is_integer() and abs(value) > 1 else f"{value:.4g}"
    return "" if value is None else str(value)


class _Plain(Silent):
    """A reporter with a line per trial and per generation."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def say(self, text: str) -> None:
        """Print a line without markup, which Rich would find in some settings."""
        self._console.print(text, markup=False)

    def began(self, study: Study, where: str) -> None:
        request = study.request
        self.say(
            f"{study.record.name}: {request.method} over "
            f"{counted(study.space.size, 'network')} of "
            f"{request.workload}, judged by {', '.join(request.objective)} on "
            f"{study.record.held_out}; at most {counted(request.epochs, 'epoch')} "
            f"on {study.record.train_size:,}, seed {request.seed}"
        )
        self.say(f"trains   {where}")
        self.say(in_one_line(f"study    {study.path}"))
        if study.ledger.trials:
            self.say(f"so far   {totals_line(study)}")

    def noted(self, text: str) -> None:
        self.say(f"note: {text}")

    def trial_done(self, study: Study, trial: FrozenTrial) -> None:
        self.say(trial_line(study, trial))

    def generation_done(self, study: Study, generation: int) -> None:
        group = next(entry for entry in by_generation(study) if entry.name == str(generation))
        saved = f", {group.reused} trainings saved" if group.reused else ""
        self.say(
            f"generation {generation}: {group.survivors} survived, {group.trained} trained{saved}; "
            f"best {_value(group.best)}, mean {_value(group.mean)}, worst {_value(group.worst)}"
        )

    def retraining(
        self,
        study: Study,  # noqa: ARG002 - the reporter's signature
        epoch: int,
        metrics: Mapping[str, float],  # noqa: ARG002 - the reporter's signature
    ) -> None:
        if epoch == 0:
            self.say("the winner is retrained on all training data")

    def ended(self, study: Study) -> None:
        if study.record.why_ended:
            self.say(f"ended, {study.record.why_ended}: {totals_line(study)}")


class _Live(_Plain):
    """A live table, below a line for each important event."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self.shown = Live(console=console, refresh_per_second=4, transient=True)
        self._study: Study | None = None
        self._judged = JudgedBy()
        self._running: dict[int, str] = {}
        self._began = time.monotonic()
        self._had = 0
        self._retraining = ""

    def began(self, study: Study, where: str) -> None:
        super().began(study, where)
        self._study = study
        self._judged = study.record.judged_by
        study.ledger.refresh()
        self._had = summarize(study).trained
        self._began = time.monotonic()
        self._draw()

    def started(
        self,
        number: int,
        settings: Mapping[str, object],  # noqa: ARG002 - the reporter's signature
    ) -> None:
        self._running[number] = ""
        self._draw()

    def epoch_done(self, progress: Progress) -> None:
        name = self._judged.of("val")
        value = progress.metrics[name]
        self._running[progress.number] = f"epoch {progress.epoch}  {name} {value:.4f}"
        self._draw()

    def trial_done(self, study: Study, trial: FrozenTrial) -> None:
        self._running.pop(trial.number, None)
        if "error" in trial.user_attrs:
            self.say(trial_line(study, trial))
        self._draw()

    def generation_done(
        self,
        study: Study,  # noqa: ARG002 - the reporter's signature
        generation: int,  # noqa: ARG002 - the reporter's signature
    ) -> None:
        self._draw()

    def retraining(
        self,
        study: Study,
        epoch: int,
        metrics: Mapping[str, float],
    ) -> None:
        name = study.record.judged_by.metric
        best = f"epoch {epoch}  {name} {metrics[name]:.4f}" if metrics else ""
        self._retraining = f"retraining the winner on all training data  {best}"
        self._draw()

    def ended(self, study: Study) -> None:
        self.shown.update(Text(""))
        if study.ledger.trials:
            self._console.print(generation_table(study))
        super().ended(study)

    def _draw(self) -> None:
        study = self._study
        if study is None:
            return
        lines = [totals_line(study) + self._left(study)]
        for number, text in [*self._running.items()][:_MAX_RUNNING_SHOWN]:
            made = ", ".join(
                f"{name}={_value(value)}"
                for name, value in study.ledger.trials[number].params.items()
            )
            lines.append(f"  {number:>4}  {made}  {text}")
        if len(self._running) > _MAX_RUNNING_SHOWN:
            lines.append(f"        and {len(self._running) - _MAX_RUNNING_SHOWN} more")
        if self._retraining:
            lines.append(self._retraining)
        self.shown.update(Group(generation_table(study), Text("\n".join(lines))))

    def _left(self, study: Study) -> str:
        """Return an estimate of the time left, from the trainings of this session."""
        totals = summarize(study)
        spent = time.monotonic() - self._began
        done = totals.trained - self._had
        left = []
        if totals.expected and done:
            left.append(max(0, totals.expected - totals.trained) * spent / done)
        budget = study.request.budget
        if budget is not None:
            left.append(max(0.0, budget - study.record.elapsed_s - spent))
        if not left:
            return ""
        minutes, seconds = divmod(int(min(left)), 60)
        hours, minutes = divmod(minutes, 60)
        return f", about {f'{hours}:' if hours else ''}{minutes:02}:{seconds:02} left"
