"""A cache of a study's trials: each refresh reads the new and the unfinished ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tarmac.errors import TarmacError

if TYPE_CHECKING:
    from optuna.storages import BaseStorage
    from optuna.trial import FrozenTrial, TrialState

    from tarmac.studies.space import Space

# Attribute of a trial with its generation. Optuna derives the name from its sampler's class name.
GENERATION = "EvolutionSampler:generation"
# Prefix of a study's attribute with the ids of the trials that survive into a generation.
SURVIVORS = "EvolutionSampler:parent:"


class Ledger:
    """A read-only index of a study's trials, by number, generation and network.

    Optuna's storages return all trials or a single one. Reading all trials for each query takes
    time that grows with the square of their number. Finished trials never change, so they are
    read once.

    Args:
        storage: Optuna's storage, which holds the trials.
        study_id: Number of the study in the storage.
        space: Search space, whose keys identify trials of the same network.
    """

    def __init__(self, storage: BaseStorage, study_id: int, space: Space) -> None:
        self._storage = storage
        self._study_id = study_id
        self._space = space
        self._ids: list[int] = []
        self._open: set[int] = set()
        self.trials: list[FrozenTrial] = []
        # The first trial of each network, by the space's key.
        self.by_key: dict[str, int] = {}
        self._numbers: dict[int, int] = {}
        self._generations: dict[int, dict[int, None]] = {}

    def refresh(self) -> None:
        """Read new trials, and unfinished ones again."""
        for number in sorted(self._open):
            self._keep(number, self._storage.get_trial(self._ids[number]))
        while True:
            try:
                trial_id = self._storage.get_trial_id_from_study_id_trial_number(
                    self._study_id, len(self._ids)
                )
            except KeyError:
                return
            trial = self._storage.get_trial(trial_id)
            self._numbers[trial_id] = len(self._ids)
            self._ids.append(trial_id)
            self.trials.append(trial)
            self._keep(trial.number, trial)

    def trial_id(self, number: int) -> int:
        """Return the id of a trial in the storage."""
        return self._ids[number]

    def of_generation(self, generation: int) -> Sequence[FrozenTrial]:
        """Return a generation's trials, in their order."""
        return [self.trials[number] for number in self._generations.get(generation, ())]

    def survivors(self, generation: int) -> list[FrozenTrial] | None:
        """Return the survivors that a generation starts with; None before they are chosen.

        Raises:
            TarmacError: A recorded survivor is not a trial of the study.
        """
        attributes = self._storage.get_study_system_attrs(self._study_id)
        ids = attributes.get(f"{SURVIVORS}{generation}")
        if ids is None:
            return None
        try:
            numbers = sorted(self._numbers[trial_id] for trial_id in ids)
        except (KeyError, TypeError):
            raise TarmacError(
                f"the study is damaged: no trial survives into generation {generation}"
            ) from None
        return [self.trials[number] for number in numbers]

    @property
    def last_generation(self) -> int:
        """The highest generation; -1 without any."""
        return max(self._generations, default=-1)

    def in_state(self, *states: TrialState) -> list[FrozenTrial]:
        """Return the unfinished trials in these states."""
        return [
            self.trials[number]
            for number in sorted(self._open)
            if self.trials[number].state in states
        ]

    @property
    def trained(self) -> list[FrozenTrial]:
        """The finished trials that were trained, without repeats of known networks."""
        return [
            trial
            for trial in self.trials
            if trial.state.is_finished() and "same_as" not in trial.user_attrs
        ]

    @property
    def usual_error(self) -> str:
        """The most frequent error of failed trials; empty where none failed."""
        errors = [str(e) for trial in self.trained if (e := trial.user_attrs.get("error"))]
        return max(errors, key=errors.count, default="")

    def _keep(self, number: int, trial: FrozenTrial) -> None:
        self.trials[number] = trial
        generation = trial.system_attrs.get(GENERATION)
        if isinstance(generation, int):
            self._generations.setdefault(generation, {})[number] = None
        # A trial has only some of its parameters while the sampler suggests them.
        if not self._space.problems(trial.params):
            self.by_key.setdefault(self._space.key(trial.params), number)
        if trial.state.is_finished():
            self._open.discard(number)
        else:
            self._open.add(number)
