"""The registry of search methods: Tarmac's own, and those of installed packages.

A package provides a method by an entry point of the group ``tarmac.search_methods`` whose value is
a `Method`.
"""

from __future__ import annotations

from tarmac.distribution import require
from tarmac.errors import unknown_name
from tarmac.extensions import load_provided, names_with_provided
from tarmac.studies.errors import FieldError
from tarmac.studies.ledger import Ledger
from tarmac.studies.methods import samplers
from tarmac.studies.methods.breeding import num_survivors_by_fitness
from tarmac.studies.methods.evolution import EvolutionSampler
from tarmac.studies.methods.interface import Method, MethodOptions
from tarmac.studies.space import Choices, Space

_GROUP = "tarmac.search_methods"


def _evolution(space: Space, options: MethodOptions, ledger: Ledger) -> EvolutionSampler:
    return EvolutionSampler(
        space,
        seed=options.seed,
        population_size=options.population,
        retain=options.retain,
        random_select=options.random_select,
        mutate=options.mutate,
        ledger=ledger,
    )


def _check_evolution(options: MethodOptions) -> None:
    size = options.population
    keeps = num_survivors_by_fitness(options.retain, size)
    hint = f"For example --retain {max(0.4, 1 / size):g}, or a larger --population."
    if keeps < 1:
        raise FieldError(
            ("retain",),
            f"retain is {options.retain:g}, which keeps none of a population of {size}",
            hint=hint,
        )
    if keeps >= size:
        raise FieldError(
            ("retain",),
            f"retain is {options.retain:g}, which keeps all of a population of {size} and leaves "
            "no room for children",
            hint=hint,
        )


def _check_finite(space: Space, num_objectives: int) -> None:  # noqa: ARG001 - Method's signature
    if space.size is not None:
        return
    endless = next(
        name for name, parameter in space.parameters.items() if parameter.size == float("inf")
    )
    raise FieldError(
        ("method",),
        f"method is brute, but {endless} has infinitely many values",
        hint=f"Give it a step: --set {endless}=LOW..HIGH:STEP, or name its values.",
    )


def _check_numbers(space: Space, num_objectives: int) -> None:
    require("cmaes")
    if all(isinstance(parameter, Choices) for parameter in space.parameters.values()):
        raise FieldError(
            ("method",),
            "method is cmaes, which searches over numbers, but every parameter has choices",
            hint="Use --method evolve or tpe, or ranges: --set KEY=LOW..HIGH",
        )
    if num_objectives > 1:
        raise FieldError(
            ("method",),
            f"method is cmaes, which supports one objective, not {num_objectives}",
            hint="Use --method evolve, nsga2 or tpe.",
        )


METHODS = (
    Method(
        name="evolve",
        summary="breed generations by a genetic algorithm",
        make_sampler=_evolution,
        breeds_generations=True,
        check_options=_check_evolution,
    ),
    Method(
        name="brute",
        summary="try every network",
        make_sampler=samplers.resumable(samplers.brute),
        tries_all=True,
        check_space=_check_finite,
    ),
    Method(
        name="random",
        summary="draw every network independently",
        make_sampler=samplers.resumable(samplers.random),
    ),
    Method(
        name="tpe",
        summary="model good and bad networks by tree-structured Parzen estimators",
        make_sampler=samplers.resumable(samplers.tpe),
    ),
    Method(
        name="cmaes",
        summary="adapt a normal distribution over numbers; choices are drawn at random",
        make_sampler=samplers.resumable(samplers.cmaes),
        check_space=_check_numbers,
    ),
    Method(
        name="nsga2",
        summary="evolve by non-dominated sorting, for several objectives",
        make_sampler=samplers.resumable(samplers.nsga2),
    ),
)
_BUILT_IN = {method.name: method for method in METHODS}


def method_names() -> tuple[str, ...]:
    """Return the names of Tarmac's methods, then those of installed packages."""
    return names_with_provided(_GROUP, _BUILT_IN)


def find_method(name: str) -> Method:
    """Find a method by name.

    Raises:
        FieldError: There is no method of that name.
        TarmacError: See `load_provided`.
    """
    method = _BUILT_IN.get(name) or load_provided(_GROUP, "method", name, Method)
    if method is None:
        summaries = dict.fromkeys(method_names(), "")
        summaries |= {key: built_in.summary for key, built_in in _BUILT_IN.items()}
        unknown = unknown_name("method", name, summaries)
        raise FieldError(("method",), unknown.message, hint=unknown.hint)
    return method
