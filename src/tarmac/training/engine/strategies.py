"""The strategies by name: Tarmac's own, and those of installed packages.

A new one is a class that keeps the `Strategy` contract, and a `StrategySpec` for it: a row below,
or an object that an entry point of the group ``tarmac.strategies`` names. The checks in
``tarmac.testing.strategies`` hold it to the contract.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tarmac.errors import RequestError
from tarmac.extensions import load_provided, names_with_provided
from tarmac.training.engine.all_reduce import AllReduce
from tarmac.training.engine.strategy import StrategySpec
from tarmac.training.engine.towers import Towers

if TYPE_CHECKING:
    from torch import nn

    from tarmac.training.engine.strategy import Strategy
    from tarmac.training.engine.team import Team
    from tarmac.training.plan import Plan

_GROUP = "tarmac.strategies"


def _fully_shard(plan: Plan, model: nn.Module, team: Team) -> Strategy:
    # The other strategies need not wait for its import.
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
        RequestError: There is none of that name.
        TarmacError: See `load_provided`.
    """
    spec = _OWN.get(name) or load_provided(_GROUP, "strategy", name, StrategySpec)
    if spec is not None:
        return spec
    *others, last = ("auto", *strategy_names())
    raise RequestError(f"strategy is {name!r}, expected {', '.join(others)} or {last}")
