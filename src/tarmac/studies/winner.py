"""The winner of a study, chosen from its trials alone, and the command line that trains it."""

from __future__ import annotations

import shlex
import statistics
from typing import TYPE_CHECKING

from optuna.trial import FrozenTrial, TrialState

from tarmac.files import foreign_python_owner
from tarmac.studies.objectives import best_first, front
from tarmac.studies.study.record import Winner
from tarmac.training import show_setting

if TYPE_CHECKING:
    from tarmac.studies.study.study import Study

# Subdirectory of a study for the run of its winner.
BEST = "best"

# Number of other seeds that a finalist is trained from.
NUM_SEEDS = 2


def front_of(study: Study) -> list[FrozenTrial]:
    """Return the Pareto-optimal trials, best first by the first objective."""
    ranked = _ranked(study)
    return [ranked[index] for index in front([trial.values for trial in ranked], study.maximize)]


def front_numbers(study: Study) -> tuple[int, ...]:
    """Return the trial numbers of `front_of`; empty for a single objective."""
    return tuple(trial.number for trial in front_of(study)) if len(study.maximize) > 1 else ()


def choose_winner(study: Study) -> Winner | None:
    """Return the best trial by the first objective, the earliest of equals; None without any.

    If the best trials were trained from other seeds too, their means decide.
    """
    confirmed = study.record.confirmed
    # Finalists that failed from another seed cannot win.
    left = [
        trial for trial in finalists(study) if len(confirmed.get(trial.number, ())) == NUM_SEEDS
    ]
    means = [[statistics.fmean((trial.values[0], *confirmed[trial.number]))] for trial in left]
    if left:
        best = left[best_first(means, study.maximize[:1])[0]]
    elif ranked := _ranked(study):
        best = ranked[0]
    else:
        return None
    return Winner(
        number=best.number,
        settings=study.settings_of(best),
        values=dict(zip(study.request.objective, best.values, strict=True)),
        epochs=int(best.user_attrs["epochs"]),
        confirmed=confirmed.get(best.number, ()),
    )


def train_line(study: Study, winner: Winner) -> str:
    """Return the command line that trains a winner on all training data."""
    words = ["tarmac", "train", study.request.workload]
    options = dict(winner.settings)
    words += ["--epochs", str(winner.epochs), "--seed", str(study.request.seed)]
    for name, option in (("learning_rate", "--lr"), ("batch_size", "--batch-size")):
        if name in options:
            words += [option, str(options.pop(name))]
    if (monitor := monitor_of(study)) is not None:
        words += ["--monitor", monitor]
    if study.request.train_size is not None:
        words += ["--train-size", str(whole_size(study))]
        split = study.record.validation_split
        if split == "last" or study.request.validation_split != "auto":
            words += ["--validation-split", split]
    for name, value in options.items():
        text = str(value).lower() if isinstance(value, bool) else show_setting(value)
        words += ["--set", f"{name}={text}"]
    return shlex.join(words)


def train_caution(study: Study) -> str | None:
    """Return a warning about `train_line`; None if only trusted Python would run."""
    reference = study.request.workload
    owner = foreign_python_owner(reference, study.path / "study.json")
    if owner is None:
        return None
    return f"this line runs code that {owner} may have chosen: read {reference} first"


def monitor_of(study: Study) -> str | None:
    """Return the metric that the winner's training monitors, ``loss:min``; None in old studies."""
    judged = study.record.judged_by
    return None if study.request.monitor is None else f"{judged.metric}:{judged.direction}"


def whole_size(study: Study) -> int:
    """Return the number of training samples when none are held out."""
    record = study.record
    held_out = 0 if record.validation_split == "own" else record.validation_size
    return record.train_size + held_out


def finalists(study: Study) -> list[FrozenTrial]:
    """Return the trials to train from other seeds, best first; empty if none is requested."""
    return _ranked(study)[: study.request.confirm]


def _ranked(study: Study) -> list[FrozenTrial]:
    """Return the completed trials, each network once, best first by the first objective."""
    complete = [
        trial
        for trial in study.ledger.trials
        if trial.state == TrialState.COMPLETE and "same_as" not in trial.user_attrs
    ]
    order = best_first([[trial.values[0]] for trial in complete], study.maximize[:1])
    return [complete[index] for index in order]
