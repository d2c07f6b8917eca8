"""The genetic algorithm, as an Optuna sampler.

The module ``breeding`` has the algorithm; the ledger has the known networks. Three things differ
from the published procedure. Only children mutate, never a network with a score. A mutated gene
always takes another value. A known network is not trained again: its result joins the generation,
and another child takes its place.

Example:
    >>> space = Space({"x": Numbers(0, 1)})
    >>> study = optuna.create_study(sampler=EvolutionSampler(space, population_size=10))
    >>> study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=100)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optuna.samplers import BaseGASampler, RandomSampler
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from tarmac.studies.ledger import GENERATION, SURVIVORS, Ledger
from tarmac.studies.methods.breeding import Individual, Rules, make_child, select
from tarmac.studies.methods.interface import Child
from tarmac.studies.space import Space, seeded

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

# Maximum number of children in a row that are known networks, before a random one is drawn.
_TRIES = 50
_SCORED = (TrialState.COMPLETE, TrialState.PRUNED)


class EvolutionSampler(BaseGASampler):
    """A sampler that breeds networks in generations.

    Every draw depends only on seed, generation and place in the generation, so a resumed search
    draws the same networks. Trials of every state count as members of a generation. A failed trial
    is never a parent; a trial stopped early is a parent only by chance.

    Args:
        space: Search space; the objective asks `optuna.Trial` for its parameters.
        seed: Seed of all random draws. Default 0.
        population_size: Networks in a generation, including survivors. Default 20.
        retain: Share of the population that survives by its values, 0 to 1. Default 0.4.
        random_select: Probability that each other network survives, 0 to 1. Default 0.1.
        mutate: Probability that one gene of a child changes, 0 to 1. Default 0.2.
        ledger: Ledger of the study, to share the trials it has read. Default: a new ledger.
    """

    def __init__(
        self,
        space: Space,
        *,
        seed: int = 0,
        population_size: int = 20,
        retain: float = 0.4,
        random_select: float = 0.1,
        mutate: float = 0.2,
        ledger: Ledger | None = None,
    ) -> None:
        super().__init__(population_size=population_size)
        self._space = space
        self._seed = seed
        self._rules = Rules(population_size, retain, random_select, mutate)
        self._ledger = ledger
        self._parents: dict[int, list[FrozenTrial]] = {}
        self._independent = RandomSampler(seed=seed)

    def num_children(self, study: Study, generation: int) -> int:
        """Return the number of new networks in a generation; survivors are not trained again."""
        return max(
            1, self._rules.population_size - len(self.get_parent_population(study, generation))
        )

    def breed(self, study: Study, generation: int, place: int) -> Child | None:
        """Return the child at a place of a generation.

        Args:
            study: Study that has the trials of all earlier places.
            generation: Number of the generation, from 0.
            place: Place in the generation, from 0.

        Returns:
            The child; None if every network of the space is known.
        """
        rng = seeded(self._seed, generation, place)
        parents = [*map(_individual, self.get_parent_population(study, generation))]
        ledger = self._read(study)
        reused: list[int] = []
        for _ in range(_TRIES if parents else 0):
            values, origin = make_child(parents, self._space, self._rules.mutate, rng)
            known = ledger.by_key.get(self._space.key(values))
            if known is None:
                return Child(values, origin, tuple(reused))
            trial = ledger.trials[known]
            if (
                known not in reused
                and trial.state in _SCORED
                and trial.system_attrs.get(GENERATION) != generation
            ):
                reused.append(known)
        drawn = self._space.draw_unseen(ledger.by_key, rng)
        return None if drawn is None else Child(drawn, "random", tuple(reused))

    def select_parent(self, study: Study, generation: int) -> list[FrozenTrial]:
        """Return the survivors of the previous generation, by number."""
        rng = seeded(self._seed, generation, "select")
        ledger = self._read(study)
        before = {
            trial.number: trial for trial in self.get_parent_population(study, generation - 1)
        }
        for trial in self.get_population(study, generation - 1):
            before[trial.number] = trial
            for number in trial.user_attrs.get("reused", ()):
                before[number] = ledger.trials[number]
        scored = [
            _individual(before[number])
            for number in sorted(before)
            if before[number].state in _SCORED and before[number].values
        ]
        maximize = [direction == StudyDirection.MAXIMIZE for direction in study.directions]
        return [before[number] for number in select(scored, maximize, self._rules, rng)]

    def get_population(self, study: Study, generation: int) -> list[FrozenTrial]:
        """Return a generation's finished trials, of every state."""
        members = self._read(study).of_generation(generation)
        return [trial for trial in members if trial.state.is_finished()]

    def get_parent_population(self, study: Study, generation: int) -> list[FrozenTrial]:
        """Return the survivors that a generation starts with, chosen once for all processes."""
        if generation <= 0:
            return []
        if generation not in self._parents:
            ledger = self._read(study)
            survivors = ledger.survivors(generation)
            if survivors is None:
                survivors = self.select_parent(study, generation)
                study._storage.set_study_system_attr(
                    study._study_id,
                    f"{SURVIVORS}{generation}",
                    [ledger.trial_id(trial.number) for trial in survivors],
                )
            self._parents[generation] = survivors
        return self._parents[generation]

    def get_trial_generation(self, study: Study, trial: FrozenTrial) -> int:
        """Return a trial's generation; a new trial joins the last, or the next if that is full."""
        stored = trial.system_attrs.get(GENERATION)
        if stored is not None:
            return int(stored)
        ledger = self._read(study)
        generation = max(0, ledger.last_generation)
        if len(ledger.of_generation(generation)) >= self.num_children(study, generation):
            generation += 1
        study._storage.set_trial_system_attr(trial._trial_id, GENERATION, generation)
        return generation

    def infer_relative_search_space(
        self,
        study: Study,  # noqa: ARG002 - Optuna's signature
        trial: FrozenTrial,  # noqa: ARG002 - Optuna's signature
    ) -> dict[str, BaseDistribution]:
        """Return the distributions of all parameters with several values."""
        distributions = self._space.distributions()
        return {
            name: distribution
            for name, distribution in distributions.items()
            if not distribution.single()
        }

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return a child's parameters; empty if all networks are known, so Optuna draws them."""
        generation = self.get_trial_generation(study, trial)
        place = len(self._read(study).of_generation(generation)) - 1
        child = self.breed(study, generation, place)
        if child is None:
            return {}
        return {name: value for name, value in child.values.items() if name in search_space}

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """Return a random value for a parameter that the child does not have."""
        return self._independent.sample_independent(study, trial, param_name, param_distribution)

    def _read(self, study: Study) -> Ledger:
        if self._ledger is None:
            self._ledger = Ledger(study._storage, study._study_id, self._space)
        self._ledger.refresh()
        return self._ledger


def _individual(trial: FrozenTrial) -> Individual:
    return Individual(
        number=trial.number,
        genes=trial.params,
        values=tuple(trial.values),
        is_whole=trial.state == TrialState.COMPLETE,
    )
