"""The genetic algorithm: generations, parents, children, and what is never trained twice."""

from __future__ import annotations

import collections

import optuna
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from optuna.trial import TrialState

from tarmac.studies import Choices, EvolutionSampler, Numbers, Space
from tarmac.studies.ledger import GENERATION
from tarmac.testing.stand_in import StandIn, accuracy_of
from tarmac.testing.stand_in import search_without_networks as search

optuna.logging.set_verbosity(optuna.logging.ERROR)


def by_generation(study):
    found = collections.defaultdict(list)
    for trial in study.optuna.get_trials():
        found[trial.system_attrs[GENERATION]].append(trial)
    return found


def survivors(study, generation):
    attributes = study.storage.get_study_system_attrs(study.optuna._study_id)
    return set(attributes.get(f"EvolutionSampler:parent:{generation}", ()))


def test_a_generation_is_its_survivors_and_its_children_and_no_more(make_study):
    study = make_study(generations=6, population=20)
    assert search(study) == "6 generations are done"
    generations = by_generation(study)
    assert sorted(generations) == [0, 1, 2, 3, 4, 5]
    for generation, trials in generations.items():
        assert len(trials) + len(survivors(study, generation)) == 20
    assert len(generations[0]) == 20


def test_no_network_is_trained_twice(make_study):
    study = make_study(generations=10, population=20)
    evaluator = StandIn()
    search(study, evaluator)
    keys = [study.space.key(candidate.settings) for candidate in evaluator.seen]
    assert len(set(keys)) == len(keys) > 100


def test_the_best_are_parents_with_the_value_that_is_their_own(make_study):
    study = make_study(generations=4, population=10, random_select=0.0)
    search(study)
    trials = study.optuna.get_trials()
    for generation in (1, 2, 3):
        kept = survivors(study, generation)
        pool = [
            trial
            for trial in trials
            if trial.system_attrs[GENERATION] == generation - 1
            or trial._trial_id in survivors(study, generation - 1)
        ]
        best = sorted(pool, key=lambda trial: -trial.value)[:4]
        reused = {
            number
            for trial in trials
            if trial.system_attrs[GENERATION] == generation - 1
            for number in trial.user_attrs.get("reused", ())
        }
        if not reused:
            assert kept == {trial._trial_id for trial in best}
        assert len(kept) == 4
    for trial in trials:
        assert trial.value == accuracy_of(study.settings_of(trial))


def test_children_have_their_genes_from_their_parents_except_one_mutated(make_study):
    study = make_study(generations=8, population=20, random_select=0.0, mutate=0.5)
    search(study)
    trials = study.optuna.get_trials()
    mutated = 0
    for trial in trials:
        origin = trial.user_attrs["origin"]
        if origin == "random":
            continue
        pair, _, change = origin.partition(", ")
        parents = [trials[int(number)] for number in pair.split(" x ")]
        assert len({parent.number for parent in parents}) == 2
        foreign = [
            name
            for name, value in trial.params.items()
            if value not in [parent.params[name] for parent in parents]
        ]
        assert set(foreign) <= ({change.removesuffix(" mutated")} if change else set())
        mutated += bool(change)
    assert mutated > 20


def test_a_known_network_joins_the_generation_and_its_place_goes_to_another(make_study):
    small = {"a": Choices((1, 2, 3)), "b": Choices((1, 2, 3)), "c": Choices((1, 2))}
    study = make_study(small, generations=4, population=6)
    search(study)
    reused = [
        number
        for trial in study.optuna.get_trials()
        for number in trial.user_attrs.get("reused", ())
    ]
    assert reused
    for trial in study.optuna.get_trials():
        for number in trial.user_attrs.get("reused", ()):
            earlier = study.optuna.get_trials()[number]
            assert earlier.system_attrs[GENERATION] < trial.system_attrs[GENERATION]


def test_a_search_ends_when_every_network_was_tried(make_study):
    study = make_study({"a": Choices((1, 2, 3)), "b": Choices((1, 2))}, population=4, retain=0.5)
    assert search(study) == "all 6 networks of the space were tried"
    assert len(study.optuna.get_trials()) == 6


@pytest.mark.parametrize("at_once", [None, 100])
def test_failed_networks_count_as_members_and_are_never_parents(make_study, at_once):
    study = make_study(generations=5, population=10)
    evaluator = StandIn(
        fail=lambda candidate: "out of memory" if candidate.settings["neurons"] >= 512 else None
    )
    search(study, evaluator, at_once=at_once)
    generations = by_generation(study)
    assert len(generations) == 5
    for generation, trials in generations.items():
        kept = survivors(study, generation)
        assert len(trials) + len(kept) == 10
        states = {trial.state for trial in study.optuna.get_trials() if trial._trial_id in kept}
        assert states <= {TrialState.COMPLETE}
    assert any(trial.state == TrialState.FAIL for trial in study.optuna.get_trials())


def test_losers_that_were_stopped_count_as_members(make_study):
    study = make_study(generations=5, population=12, prune="halving", epochs=9)
    search(study)
    states = collections.Counter(trial.state for trial in study.optuna.get_trials())
    assert states[TrialState.PRUNED] > states[TrialState.COMPLETE] > 0
    for generation, trials in by_generation(study).items():
        assert len(trials) + len(survivors(study, generation)) == 12


def test_the_same_seed_is_the_same_search_and_another_is_not(make_study):
    found = []
    for seed in (3, 3, 4):
        study = make_study(generations=4, population=8, seed=seed)
        search(study)
        found.append([(trial.params, trial.value) for trial in study.optuna.get_trials()])
    assert found[0] == found[1] != found[2]


def test_a_whole_generation_at_once_is_the_same_search(make_study):
    found = []
    for at_once in (None, 100, 3):
        study = make_study(generations=4, population=8)
        search(study, at_once=at_once)
        found.append([trial.params for trial in study.optuna.get_trials()])
    assert found[0] == found[1] == found[2]


@settings(max_examples=15)
@given(
    st.fixed_dictionaries(
        {
            "population_size": st.integers(2, 9),
            "retain": st.floats(0.2, 0.9),
            "random_select": st.floats(0, 1),
            "mutate": st.floats(0, 1),
            "seed": st.integers(0, 2**20),
        }
    ),
    st.booleans(),
)
def test_optunas_own_loop_breeds_whole_generations_too(fields, conditional):
    when = {"a": (1, 2)} if conditional else {}
    space = Space(
        {"a": Choices((1, 2, 3, 4)), "b": Numbers(0.0, 1.0, when=when), "c": Choices(("x", "y"))}
    )
    study = optuna.create_study(direction="maximize", sampler=EvolutionSampler(space, **fields))
    population = fields["population_size"]

    def objective(trial):
        values = space.suggest(trial)
        if values["a"] == 4:
            raise ValueError
        return values["a"] + values.get("b", 0.5)

    study.optimize(objective, n_trials=30, catch=ValueError)
    attributes = study._storage.get_study_system_attrs(study._study_id)
    generations = collections.Counter(trial.system_attrs[GENERATION] for trial in study.trials)
    keys = [space.key(trial.params) for trial in study.trials]
    assert len(set(keys)) == len(keys)
    last = max(generations)
    for generation, count in generations.items():
        kept = len(attributes.get(f"EvolutionSampler:parent:{generation}", ()))
        assert kept <= population - 1
        assert count == population - kept if generation < last else count <= population - kept


def test_several_objectives_keep_the_front(make_study):
    study = make_study(generations=5, population=10, objective="val_accuracy,params")
    search(study)
    from tarmac.studies.winner import front_of

    best = max(study.optuna.get_trials(), key=lambda trial: trial.values[0])
    front = front_of(study)
    assert front[0].number == best.number
    sizes = [trial.values[1] for trial in front]
    assert sizes == sorted(sizes, reverse=True)
