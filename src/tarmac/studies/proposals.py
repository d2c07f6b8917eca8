"""Proposals of networks to train: by generation, or one at a time from an Optuna sampler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from optuna.trial import FrozenTrial, TrialState

from tarmac.studies.ledger import GENERATION
from tarmac.studies.methods.interface import Child, GenerationSampler
from tarmac.studies.request import DEFAULT_GENERATIONS
from tarmac.studies.space import seeded
from tarmac.wording import counted

if TYPE_CHECKING:
    from tarmac.studies.reporter import Reporter
    from tarmac.studies.study.writer import StudyWriter

# Maximum number of known networks in a row from a sampler, before a random new network is drawn.
_MAX_REPEATS = 20


class Proposals(Protocol):
    """A source of new trials; callers hold the study's lock.

    Attributes:
        why_over: Reason why no more trials will come; None while more may come.
    """

    why_over: str | None

    @property
    def is_spent(self) -> bool:
        """Whether no more trials will come, whatever the result of the running ones."""
        ...

    @property
    def num_left(self) -> int | None:
        """Number of trials to claim before the next proposal; None for any number."""
        ...

    def propose(self) -> int | None:
        """Add trials, if the method is ready for more.

        Returns:
            Number of a trial that is running already and has no owner; None if waiting trials, or
            none, were added.
        """
        ...


def make_proposals(study: StudyWriter, reporter: Reporter) -> Proposals:
    """Return the proposals of a study's method.

    Args:
        study: The study, which this process may write.
        reporter: Reporter that receives the start and end of each generation.
    """
    sampler = study.method.make_sampler(study.space, study.request.method_options, study.ledger)
    study.optuna.sampler = sampler
    if isinstance(sampler, GenerationSampler):
        return _Generations(study, sampler, reporter)
    return _OneByOne(study)


class _Generations:
    """Proposals of a generation, once the previous generation is finished."""

    def __init__(self, study: StudyWriter, sampler: GenerationSampler, reporter: Reporter) -> None:
        self._study = study
        self._sampler = sampler
        self._reporter = reporter
        self._told: set[int] = set()
        self.why_over: str | None = None

    @property
    def is_spent(self) -> bool:
        """Whether the last generation is planned."""
        request, ledger = self._study.request, self._study.ledger
        if self.why_over is not None:
            return True
        if request.trials is not None and len(ledger.trials) >= request.trials:
            return True
        generation = ledger.last_generation
        if generation + 1 < self._num_generations:
            return False
        num_children = self._sampler.num_children(self._study.optuna, generation)
        return len(ledger.of_generation(generation)) >= num_children

    @property
    def num_left(self) -> int:
        """Number of waiting networks in the generation."""
        return len(self._study.ledger.in_state(TrialState.WAITING))

    def propose(self) -> None:
        """Add a generation's networks as waiting trials, once the previous one is finished."""
        request, ledger, sampler = self._study.request, self._study.ledger, self._sampler
        if ledger.in_state(TrialState.RUNNING):
            return
        generation = max(0, ledger.last_generation)
        while self.why_over is None:
            num_children = sampler.num_children(self._study.optuna, generation)
            place = len(ledger.of_generation(generation))
            if place and place >= num_children:
                self._say_done(generation)
                generation += 1
                if generation >= self._num_generations:
                    self.why_over = f"{generation} generations are done"
                continue
            if place == 0:
                survivors = len(sampler.get_parent_population(self._study.optuna, generation))
                self._reporter.planned(generation, num_children, survivors)
            while place < num_children:
                if request.trials is not None and len(ledger.trials) >= request.trials:
                    self.why_over = _asked(request.trials)
                    break
                child = sampler.breed(self._study.optuna, generation, place)
                if child is None:
                    self.why_over = _all_tried(len(ledger.by_key))
                    break
                self._add(generation, place, child)
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

    def _add(self, generation: int, place: int, child: Child) -> None:
        """Add a trial with all its fields, as one line of the journal."""
        distributions = self._study.space.distributions()
        attributes = {"generation": generation, "place": place, "origin": child.origin}
        trial = FrozenTrial(
            number=-1,
            state=TrialState.WAITING,
            value=None,
            datetime_start=None,
            datetime_complete=None,
            params=child.values,
            distributions={name: distributions[name] for name in child.values},
            user_attrs=attributes | ({"reused": list(child.reused)} if child.reused else {}),
            system_attrs={GENERATION: generation},
            intermediate_values={},
            trial_id=-1,
        )
        self._study.add_trial(trial)


class _OneByOne:
    """Proposals of a single network for each call."""

    def __init__(self, study: StudyWriter) -> None:
        self._study = study
        self.why_over: str | None = None

    @property
    def is_spent(self) -> bool:
        """Whether the limit of trainings is reached, or all networks are known."""
        return self.why_over is not None or not self._is_open()

    @property
    def num_left(self) -> int | None:
        """Number of networks left to propose, plus the waiting ones; None for any number."""
        ledger, limit, size = self._study.ledger, self._limit, self._study.space.size
        waiting = len(ledger.in_state(TrialState.WAITING))
        ends = [] if limit is None else [limit - self._num_trained]
        if size is not None:
            ends.append(size - len(ledger.by_key))
        return waiting + min(ends) if ends else None

    def propose(self) -> int | None:
        """Ask the sampler for an unknown network; return the number of its running trial."""
        if not self._is_open():
            return None
        ledger, space = self._study.ledger, self._study.space
        for _ in range(_MAX_REPEATS):
            trial = self._study.optuna.ask()
            values = space.suggest(trial)
            known = ledger.by_key.get(space.key(values))
            if known is None:
                return trial.number
            self._repeat(trial.number, known)
        rng = seeded(self._study.request.seed, len(ledger.trials), "unseen")
        drawn = space.draw_unseen(ledger.by_key, rng)
        if drawn is None:
            self.why_over = _all_tried(len(ledger.by_key))
            return None
        self._study.optuna.enqueue_trial(drawn, user_attrs={"origin": "random"})
        trial = self._study.optuna.ask()
        space.suggest(trial)
        return trial.number

    def _is_open(self) -> bool:
        """Return whether another network may be proposed; set `why_over` if not."""
        size, limit = self._study.space.size, self._limit
        if size is not None and len(self._study.ledger.by_key) >= size:
            self.why_over = _all_tried(size)
            return False
        if limit is not None and self._num_trained >= limit:
            self.why_over = _asked(limit)
            return False
        return True

    @property
    def _limit(self) -> int | None:
        request = self._study.request
        if request.trials is None and request.budget is None and not self._study.method.tries_all:
            return (request.generations or DEFAULT_GENERATIONS) * request.population
        return request.trials

    @property
    def _num_trained(self) -> int:
        return sum("same_as" not in trial.user_attrs for trial in self._study.ledger.trials)

    def _repeat(self, number: int, known: int) -> None:
        """Give the sampler the known result of a network, instead of training it again."""
        ledger = self._study.ledger
        ledger.refresh()
        trial = ledger.trials[known]
        # A known trial that failed, was pruned, or is still running has no value.
        has_value = trial.state == TrialState.COMPLETE
        state = TrialState.COMPLETE if has_value else TrialState.FAIL
        values = trial.values if has_value else None
        self._study.tell(number, state, values, {"same_as": known})


def _asked(limit: int) -> str:
    return f"{counted(limit, 'training')} {'was' if limit == 1 else 'were'} requested"


def _all_tried(size: int) -> str:
    if size == 1:
        return "the one network of the space was tried"
    return f"all {counted(size, 'network')} of the space were tried"
