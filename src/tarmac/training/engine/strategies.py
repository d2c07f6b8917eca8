"""The strategies by name: Tarmac's own, and those of installed packages.

A new strategy is a class that fulfils the `Strategy` contract, with a `StrategySpec`. The spec is a
row below, or an object that an entry point of the group ``tarmac.strategies`` names. The checks in
``tarmac.testing.strategies`` verify the contract.
"""

from __future__ import annotations

from torch import nn

from tarmac.errors import RequestError
from tarmac.extensions import load_provided, names_with_provided
from tarmac.training.engine.all_reduce import AllReduce
from tarmac.training.engine.strategy import Strategy, StrategySpec
from tarmac.training.engine.team import Team
from tarmac.training.engine.towers import Towers
from tarmac.training.plan import Plan

_GROUP = "tarmac.strategies"


def _fully_shard(plan: Plan, model: nn.Module, team: Team) -> Strategy:
    # Import here, as the other strategies do not need it.
    from tarmac.training.engine.fully_shard import FullyShard  # noqa: PLC0415

    return FullyShard(plan, model, team)


_OWN = {
    spec.name: spec
    for spec in (
        StrategySpec(name="single", build=AllReduce, max_devices=1, runner=AllReduce.runner),
        StrategySpec(name="ddp", build=AllReduce, process_per_device=True, runner=AllReduce.runner),
        StrategySpec(name="fsdp", build=_fully_shard, process_per_device=True, shards_model=True),
        StrategySpec(name="towers", build=Towers, copies_model=True, syncs_batchnorm=False),
    )
}


def strategy_names() -> tuple[str, ...]:
    """Return the names of Tarmac's own strategies, then of those that packages provide."""
    return names_with_provided(_GROUP, _OWN)


def find_strategy(name: str) -> StrategySpec:
    """Find a strategy.

    Args:
        name: Name of a strategy, from `strategy_names`.

    Raises:
        RequestError: No strategy has that name.
        TarmacError: See `load_provided`.
    """
    spec = _OWN.get(name) or load_provided(_GROUP, "strategy", name, StrategySpec)
    if spec is not None:
        return spec
    *others, last = ("auto", *strategy_names())
    raise RequestError(f"strategy is {name!r}, expected {', '.join(others)} or {last}")
