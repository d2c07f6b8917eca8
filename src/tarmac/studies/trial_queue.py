"""Which network is next: planned in generations or asked for one by one, claimed by one process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optuna.trial import FrozenTrial, TrialState

from tarmac.studies.evaluation.interface import Candidate
from tarmac.studies.ledger import GENERATION
from tarmac.studies.methods.interface import GenerationSampler
from tarmac.studies.methods.registry import find_method
from tarmac.studies.request import DEFAULT_GENERATIONS
from tarmac.studies.space import seeded

if TYPE_CHECKING:
    from optuna.study import Study as OptunaStudy

    from tarmac.studies.reporter import Reporter
    from tarmac.studies.study.writer import StudyWriter

__all__ = ["TrialQueue"]

# Known networks in a row that a sampler may name before a random new one is tried.
_MOST_REPEATS = 20
# A trial that has taken its process with it so often is not begun again.
_MOST_ATTEMPTS = 5


class TrialQueue:
    """Hands out a study's networks, each to one process.

    A trial is ``WAITING`` when it is planned, ``RUNNING`` under the name of the process that has
    claimed it, and ``WAITING`` again when that process is found dead or gives it up. All of this is
    done while the study's lock is held, so several processes may share a study.

    Args:
        study: Whose networks.
        owner: This process's name among the study's leases.
        reporter: Is told of generations.
    """

    def __init__(self, study: StudyWriter, owner: str, reporter: Reporter) -> None:
        request = study.request
        self._study = study
        self._owner = owner
        self._reporter = reporter
        self._optuna: OptunaStudy = study.optuna
        self._told: set[int] = set()
        self._method = find_method(request.method)
        sampler = self._method.make_sampler(study.space, request.method_options, study.ledger)
        self._optuna.sampler = sampler
        self._generations = sampler if isinstance(sampler, GenerationSampler) else None
        self.why_over: str | None = None

    def next(self) -> Candidate | None:
        """Claim the next network.

        Returns:
            It; None where none is to be had now. `why_over` then says whether there will be one.
        """
        with self._study.lock:
            ledger = self._study.ledger
            ledger.refresh()
            self._free_dead()
            waiting = ledger.in_state(TrialState.WAITING)
            if not waiting and self._generations is not None:
                self._plan(self._generations)
                waiting = ledger.in_state(TrialState.WAITING)
            if waiting:
                self.why_over = None
                return self._claim(waiting[0])
            if self._generations is None and self._is_open():
                return self._ask()
            return None

    @property
    def is_idle(self) -> bool:
        """Whether no trial is claimed, by this process or another that lives."""
        with self._study.lock:
            self._study.ledger.refresh()
            return not self._study.ledger.in_state(TrialState.RUNNING, TrialState.WAITING)

    def give_up(self, number: int) -> None:
        """Let a trial that is claimed be done again, by whoever comes; it was not to blame."""
        with self._study.lock:
            ledger = self._study.ledger
            ledger.refresh()
            trial = ledger.trials[number]
            if trial.state == TrialState.RUNNING and trial.user_attrs.get("owner") == self._owner:
                attempts = int(trial.user_attrs.get("attempts", 1)) - 1
                self._study.mark(number, "attempts", attempts)
                self._study.set_state(number, TrialState.WAITING)

    def give_up_all(self) -> list[int]:
        """Give up all that this process has claimed; return their numbers."""
        self._study.ledger.refresh()
        mine = [
            trial.number
            for trial in self._study.ledger.in_state(TrialState.RUNNING)
            if trial.user_attrs.get("owner") == self._owner
        ]
        for number in mine:
            self.give_up(number)
        return mine

    def _free_dead(self) -> None:
        """Let the trials of processes that have died be done again."""
        ledger = self._study.ledger
        alive = {self._owner, *self._study.leases.living()}
        for trial in ledger.in_state(TrialState.RUNNING):
            if trial.user_attrs.get("owner") in alive:
                continue
            attempts = int(trial.user_attrs.get("attempts", 0))
            if self._study.space.problems(trial.params):
                self._fail(trial.number, "the search was ended while it asked for this network")
            elif attempts >= _MOST_ATTEMPTS:
                self._fail(
                    trial.number,
                    f"the process that trained it died, {attempts} times in a row",
                )
            else:
                self._study.set_state(trial.number, TrialState.WAITING)
        ledger.refresh()

    def _plan(self, sampler: GenerationSampler) -> None:
        """Add a generation's networks, once the one before is finished."""
        request, ledger = self._study.request, self._study.ledger
        if ledger.in_state(TrialState.RUNNING):
            return
        generation = max(0, ledger.last_generation)
        while self.why_over is None:
            num_children = sampler.num_children(self._optuna, generation)
            place = len(ledger.of_generation(generation))
            if place and place >= num_children:
                self._say_done(generation)
                generation += 1
                if generation >= self._num_generations:
                    self.why_over = f"{generation} generations are done"
                continue
            if place == 0:
                survivors = len(sampler.get_parent_population(self._optuna, generation))
                self._reporter.planned(generation, num_children, survivors)
            while place < num_children:
                if request.trials is not None and len(ledger.trials) >= request.trials:
                    self.why_over = f"{request.trials} trainings were asked for"
                    break
                child = sampler.breed(self._optuna, generation, place)
                if child is None:
                    self.why_over = f"all {len(ledger.by_key)} networks of the space were tried"
                    break
                self._add(generation, place, child.values, child.origin, child.reused)
                place += 1
            return

    @property
    def _num_generations(self) -> float:
        most = self._study.request.most_generations
        return float("inf") if most is None else most

    def _say_done(self, generation: int) -> None:
        if generation not in self._told:
            self._told.add(generation)
            self._reporter.generation_done(self._study, generation)

    def _add(
        self,
        generation: int,
        place: int,
        values: dict[str, bool | int | float | str],
        origin: str,
        reused: tuple[int, ...],
    ) -> None:
        """Add a trial with all that is known of it, as one line of the journal."""
        distributions = self._study.space.distributions()
        attributes = {"generation": generation, "place": place, "origin": origin}
        trial = FrozenTrial(
            number=-1,
            state=TrialState.WAITING,
            value=None,
            datetime_start=None,
            datetime_complete=None,
            params=values,
            distributions={name: distributions[name] for name in values},
            user_attrs=attributes | ({"reused": list(reused)} if reused else {}),
            system_attrs={GENERATION: generation},
            intermediate_values={},
            trial_id=-1,
        )
        self._study.add_trial(trial)

    def _is_open(self) -> bool:
        """Whether one more network may be asked for."""
        request, ledger = self._study.request, self._study.ledger
        size = self._study.space.size
        if size is not None and len(ledger.by_key) >= size:
            self.why_over = f"all {size} networks of the space were tried"
            return False
        limit = request.trials
        if limit is None and request.budget is None and not self._method.tries_all:
            limit = (request.generations or DEFAULT_GENERATIONS) * request.population
        trained = sum("same_as" not in trial.user_attrs for trial in ledger.trials)
        if limit is not None and trained >= limit:
            self.why_over = f"{limit} trainings were asked for"
            return False
        return True

    def _ask(self) -> Candidate | None:
        """Ask the sampler for a network that is not known yet."""
        ledger, space = self._study.ledger, self._study.space
        for _ in range(_MOST_REPEATS):
            trial = self._optuna.ask()
            values = space.suggest(trial)
            known = ledger.by_key.get(space.key(values))
            if known is None:
                return self._claim_asked(trial.number)
            self._repeat(trial.number, known)
        rng = seeded(self._study.request.seed, len(ledger.trials), "unseen")
        drawn = space.draw_unseen(ledger.by_key, rng)
        if drawn is None:
            self.why_over = f"all {len(ledger.by_key)} networks of the space were tried"
            return None
        self._optuna.enqueue_trial(drawn, user_attrs={"origin": "random"})
        trial = self._optuna.ask()
        space.suggest(trial)
        return self._claim_asked(trial.number)

    def _repeat(self, number: int, known: int) -> None:
        """Tell the sampler what is known of a network, instead of training it again."""
        ledger = self._study.ledger
        ledger.refresh()
        trial = ledger.trials[known]
        self._study.mark(number, "same_as", known)
        if trial.state == TrialState.COMPLETE:
            self._study.tell(number, trial.values, TrialState.COMPLETE)
        else:
            # It failed, was stopped, or is still being trained: there is no value to tell.
            self._study.tell(number, None, TrialState.FAIL)

    def _claim_asked(self, number: int) -> Candidate:
        self._study.ledger.refresh()
        self._own(number)
        return self._candidate(number)

    def _claim(self, trial: FrozenTrial) -> Candidate:
        self._study.set_state(trial.number, TrialState.RUNNING)
        self._own(trial.number)
        return self._candidate(trial.number)

    def _own(self, number: int) -> None:
        attempts = int(self._study.ledger.trials[number].user_attrs.get("attempts", 0))
        self._study.mark(number, "attempts", attempts + 1)
        self._study.mark(number, "owner", self._owner)
        self._study.ledger.refresh()

    def _candidate(self, number: int) -> Candidate:
        request, trial = self._study.request, self._study.ledger.trials[number]
        assert request.epochs is not None
        return Candidate(
            number=number,
            settings=self._study.settings_of(trial),
            seed=request.seed,
            epochs=request.epochs,
            patience=request.patience,
        )

    def _fail(self, number: int, why: str) -> None:
        self._study.mark(number, "error", why)
        self._study.tell(number, None, TrialState.FAIL)
