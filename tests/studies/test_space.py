"""Spaces: which configurations there are, and which of them are the same network."""

from __future__ import annotations

import random

import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.studies import Choices, Numbers, Space


def parameters():
    choices = st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True).map(
        lambda values: Choices(tuple(values))
    )
    whole = st.tuples(st.integers(1, 20), st.integers(0, 30), st.booleans()).map(
        lambda drawn: Numbers(drawn[0], drawn[0] + drawn[1], None, drawn[2], True)
    )
    steps = st.integers(0, 8).map(lambda count: Numbers(0.0, count * 0.25, 0.25 if count else None))
    return st.one_of(choices, whole, steps)


@st.composite
def spaces(draw):
    """Up to four parameters, each perhaps used only for some values of the one before."""
    found = {}
    for name in "abcd"[: draw(st.integers(1, 4))]:
        one = draw(parameters())
        if found and draw(st.booleans()):
            other, before = list(found.items())[-1]
            values = draw(st.lists(st.sampled_from(list(before.all())), min_size=1, max_size=2))
            fields = {key: getattr(one, key) for key in one.__dataclass_fields__}
            one = type(one)(**{**fields, "when": {other: tuple(values)}})
        found[name] = one
    return Space(found)


@given(spaces(), st.integers())
def test_what_is_drawn_is_in_the_space(space, seed):
    drawn = space.draw(random.Random(seed))
    assert space.problems(drawn) == []
    assert space.problems({**drawn, next(iter(drawn)): "elsewhere"}) != []


@given(spaces())
def test_the_size_is_the_number_of_different_keys(space):
    walked = list(space.walk())
    assert len({space.key(values) for values in walked}) == len(walked) == space.size


@given(spaces(), st.integers())
def test_a_key_ignores_what_a_configuration_does_not_use(space, seed):
    rng = random.Random(seed)
    drawn = space.draw(rng)
    everything = {name: one.draw(rng) for name, one in space.parameters.items()} | drawn
    assert space.key(everything) == space.key(drawn)
    assert space.key(dict(reversed(drawn.items()))) == space.key(drawn)


@given(spaces())
def test_a_space_survives_its_record(space):
    again = Space.from_record(space.to_record())
    assert again.fingerprint == space.fingerprint
    assert again.size == space.size
    assert list(again.walk()) == list(space.walk())


@given(spaces(), st.integers(0, 2**16))
def test_all_networks_are_found_before_none_is_left(space, seed):
    rng = random.Random(seed)
    seen = {}
    while (drawn := space.draw_unseen(seen, rng, tries=3)) is not None:
        assert space.key(drawn) not in seen
        seen[space.key(drawn)] = drawn
        if len(seen) > 300:
            return
    assert len(seen) == space.size


@given(spaces(), st.integers(0, 1000))
def test_optuna_draws_from_the_same_space(space, seed):
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=seed))
    assert space.problems(space.suggest(study.ask())) == []


def test_the_published_space_has_672_networks(published):
    assert published.size == 672
    assert not published.is_conditional


def test_numbers_without_a_step_have_no_end(published):
    assert Space({"x": Numbers(0.0, 1.0)}).size is None
    assert Space({"x": Numbers(1e-4, 1e-1, None, True)}).size is None
    assert Space({"x": Numbers(3.0, 3.0)}).size == 1


def test_a_logarithmic_range_is_drawn_by_its_orders_of_magnitude():
    one = Numbers(1e-4, 1.0, None, True)
    rng = random.Random(0)
    drawn = [one.draw(rng) for _ in range(2000)]
    assert 0.45 < sum(value < 1e-2 for value in drawn) / 2000 < 0.55
    ends = Numbers(1, 3, None, True, True)
    assert {ends.draw(rng) for _ in range(200)} == {1, 2, 3}


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"b": Choices((1,), {"a": (2,)})}, "but a is not in the space"),
        ({"a": Choices((1,)), "b": Choices((1,), {"a": (2,)})}, "which a never is"),
        (
            {"a": Choices((1,), {"b": (1,)}), "b": Choices((1,), {"a": (1,)})},
            "the conditions of a, b depend on one another",
        ),
    ],
)
def test_a_condition_that_cannot_be_is_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        Space(parameters)


def test_another_space_has_another_fingerprint(published):
    other = {**published.parameters, "layers": Choices((1, 2, 3))}
    assert Space(other).fingerprint != published.fingerprint
    assert Space(dict(published.parameters)).fingerprint == published.fingerprint
