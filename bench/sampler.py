"""The genetic sampler: what an ask costs, and how many different networks its trainings try.

    python bench/sampler.py [--seeds 20] [--most 10000]

No network is trained: the value of each of the 672 networks of the published search is a sum of one
random number per gene, so that better networks resemble one another. Peers are Optuna's NSGA-II and
TPE with their defaults, in memory as ours, and the published procedure itself.
"""

from __future__ import annotations

import argparse
import dataclasses
import random
import statistics
import tempfile
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import optuna

from _harness import Spread, table, write_results
from tarmac.studies import Choices, EvolutionSampler, Numbers, Silent, Space
from tarmac.studies.request import make_request
from tarmac.studies.study.writer import StudyWriter
from tarmac.studies.trial_queue import TrialQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PUBLISHED = Space(
    {
        "neurons": Choices((64, 128, 256, 512, 768, 1024)),
        "layers": Choices((1, 2, 3, 4)),
        "activation": Choices(("relu", "elu", "tanh", "sigmoid")),
        "optimizer": Choices(("rmsprop", "adam", "sgd", "adagrad", "adadelta", "adamax", "nadam")),
    }
)
# As many as 10 generations of 20 train, survivors not counted.
TRAININGS = 117
# For the cost of an ask the space must not run out.
WIDE = Space(
    {
        "rate": Numbers(1e-5, 1.0, None, True),
        "width": Numbers(8, 4096, None, True, True),
        "dropout": Numbers(0.0, 0.9),
        "kind": Choices(("relu", "elu", "tanh", "sigmoid")),
    }
)
WINDOW = 50


def objective_of(seed: int) -> Callable[[Mapping[str, Any]], float]:
    """Return the value of a network, for one draw of the genes' numbers."""
    rng = random.Random(seed)
    numbers = {
        (name, value): rng.gauss(0, 1)
        for name, one in PUBLISHED.parameters.items()
        for value in one.all()
    }
    return lambda values: sum(numbers[pair] for pair in values.items())


@dataclasses.dataclass(frozen=True)
class Tried:
    """What some trainings tried: how many different networks, and the best one's rank of 672."""

    distinct: int
    rank: int


def tried(values: list[dict[str, Any]], seed: int) -> Tried:
    """Judge a list of trainings."""
    score = objective_of(seed)
    best = max(map(score, values))
    rank = 1 + sum(score(one) > best for one in PUBLISHED.walk())
    return Tried(len({PUBLISHED.key(one) for one in values}), rank)


def by_optuna(sampler: optuna.samplers.BaseSampler, seed: int) -> Tried:
    """Let a sampler ask for as many trainings as the evolution has."""
    study = optuna.create_study(direction="maximize", sampler=sampler)
    score = objective_of(seed)
    study.optimize(lambda trial: score(PUBLISHED.suggest(trial)), n_trials=TRAININGS)
    return tried([trial.params for trial in study.trials], seed)


def as_published(seed: int) -> Tried:
    """Do what harvitronix's optimizer.py does in its last version, which mutates children."""
    rng = random.Random(seed)
    score = objective_of(seed)
    population = [PUBLISHED.draw(rng) for _ in range(20)]
    trained: list[dict[str, Any]] = list(population)
    for _ in range(9):
        ranked = sorted(population, key=score, reverse=True)
        parents = ranked[:8] + [one for one in ranked[8:] if rng.random() < 0.1]
        children: list[dict[str, Any]] = []
        while len(children) < 20 - len(parents):
            one, other = rng.sample(parents, 2)
            child = {name: rng.choice((one, other))[name] for name in one}
            if rng.random() < 0.2:
                name = rng.choice([*child])
                child[name] = PUBLISHED.parameters[name].draw(rng)
            children.append(child)
        trained += children
        population = parents + children
    return tried(trained[:TRAININGS], seed)


def ask_costs(sampler: optuna.samplers.BaseSampler, counts: list[int]) -> dict[str, float]:
    """Return milliseconds for an ask, with tell, by the number of trials that there are."""
    study = optuna.create_study(direction="maximize", sampler=sampler)
    found: dict[str, float] = {}
    started = time.perf_counter()
    marks: list[float] = []
    for _ in range(max(counts)):
        trial = study.ask()
        values = WIDE.suggest(trial)
        study.tell(trial, float(values["dropout"]))
        marks.append(time.perf_counter())
    for count in counts:
        found[str(count)] = (marks[count - 1] - marks[count - 1 - WINDOW]) / WINDOW * 1e3
    found["total_s"] = marks[-1] - started
    return found


def queue_costs(counts: list[int]) -> dict[str, float]:
    """Return the same for a study in its journal, as a search does it: claims and all."""
    with tempfile.TemporaryDirectory() as name:
        request = make_request({"workload": "none", "epochs": 1, "trials": max(counts)})
        study = StudyWriter.create(
            Path(name), "bench", request, WIDE, {}, train_size=1, validation_size=1
        )
        marks: list[float] = []
        started = time.perf_counter()
        with study.leases.work() as owner:
            queue = TrialQueue(study, owner, Silent())
            while (candidate := queue.next()) is not None:
                study.optuna.tell(candidate.number, float(candidate.settings["dropout"]))
                marks.append(time.perf_counter())
    found = {
        str(count): (marks[count - 1] - marks[count - 1 - WINDOW]) / WINDOW * 1e3
        for count in counts
    }
    return found | {"total_s": marks[-1] - started}


def main() -> None:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--most", type=int, default=10_000)
    given = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore")
    samplers: dict[str, Callable[[int, Space], optuna.samplers.BaseSampler]] = {
        "EvolutionSampler": lambda seed, space: EvolutionSampler(space, seed=seed),
        "NSGA-II, population 20": lambda seed, _: optuna.samplers.NSGAIISampler(
            seed=seed, population_size=20
        ),
        "TPE": lambda seed, _: optuna.samplers.TPESampler(seed=seed),
    }
    seeds = range(given.seeds)
    found = {
        name: [by_optuna(make(seed, PUBLISHED), seed) for seed in seeds]
        for name, make in samplers.items()
    }
    found["as published"] = [as_published(seed) for seed in seeds]
    counts = [count for count in (100, 1000, 10_000) if count <= given.most]
    costs = {"Tarmac's search, in a journal": queue_costs(counts)}
    for name, make in samplers.items():
        # TPE's cost per ask grows with the trials: 10,000 of them take a quarter of an hour.
        costs[name] = ask_costs(make(0, WIDE), counts[:2] if name == "TPE" else counts)
    rows = [
        [
            name,
            Spread.of([one.distinct for one in all_]).show(0),
            f"{statistics.median(one.distinct for one in all_) / TRAININGS:.2f}",
            Spread.of([one.rank for one in all_]).show(0),
        ]
        for name, all_ in found.items()
    ]
    cost_rows = [
        [
            name,
            *(f"{cost[str(n)]:.2f}" if str(n) in cost else "-" for n in counts),
            f"{cost['total_s']:.1f} s for {max(int(n) for n in cost if n.isdecimal()):,}",
        ]
        for name, cost in costs.items()
    ]
    text = (
        f"Of {TRAININGS} trainings in a space of 672 networks, {given.seeds} seeds; medians, with "
        "the lowest and highest in brackets.\n\n"
        f"{table(['', 'distinct networks', 'per training', 'rank of the best'], rows)}\n\n"
        f"Milliseconds for an ask and its tell, mean of the last {WINDOW} before so many trials; "
        "four parameters, three of them continuous. The peers and EvolutionSampler keep their "
        "trials in memory.\n\n"
        f"{table(['', *(f'{n:,} trials' for n in counts), 'in all'], cost_rows)}"
    )
    data = {name: [dataclasses.asdict(one) for one in all_] for name, all_ in found.items()}
    write_results("sampler", {"seeds": given.seeds, "tried": data, "cost": costs}, text)


if __name__ == "__main__":
    main()
