"""The strategies by name: Tarmac's own, and those of installed packages.

A new one is a class that keeps the `Strategy` contract, and a `StrategySpec` for it: a row below,
or an object that an entry point of the group ``tarmac.strategies`` names. The checks in
``tarmac.testing.strategies`` hold it to the contract.
"""

from __future__ import annotations

from importlib.metadata import entry_points

from tarmac.errors import RequestError, TarmacError
from tarmac.training.engine.all_reduce import AllReduce
from tarmac.training.engine.strategy import StrategySpec
from tarmac.training.engine.towers import Towers

__all__ = ["find_strategy", "strategy_names"]

_GROUP = "tarmac.strategies"

_OWN = {
    spec.name: spec
    for spec in (
        StrategySpec(name="single", build=AllReduce, max_devices=1, runner=AllReduce.runner),
        StrategySpec(name="ddp", build=AllReduce, process_per_device=True, runner=AllReduce.runner),
        StrategySpec(name="towers", build=Towers, copies_model=True, syncs_batchnorm=False),
    )
}


def strategy_names() -> tuple[str, ...]:
    """Return the names of Tarmac's own strategies, then of those that packages provide."""
    provided = {point.name for point in entry_points(group=_GROUP)}
    return (*_OWN, *sorted(provided - _OWN.keys()))


def find_strategy(name: str) -> StrategySpec:
    """Find a strategy.

    Args:
        name: One of `strategy_names`.

    Raises:
        RequestError: There is none of that name, or what a package provides is no `StrategySpec`
            of that name.
        TarmacError: The package that should provide it failed to import.
    """
    if name in _OWN:
        return _OWN[name]
    for point in entry_points(group=_GROUP, name=name):
        try:
            spec = point.load()
        except Exception as error:
            raise TarmacError(
                f"strategy {name!r} of {point.value} failed to load: "
                f"{type(error).__name__}: {error}"
            ) from error
        if not isinstance(spec, StrategySpec) or spec.name != name:
            raise RequestError(
                f"strategy {name!r}: {point.value} is {spec!r}, expected a StrategySpec named so"
            )
        return spec
    *others, last = ("auto", *strategy_names())
    raise RequestError(f"strategy is {name!r}, expected {', '.join(others)} or {last}")
