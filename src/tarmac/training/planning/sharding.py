"""Checks of what a sharding strategy cannot train, before anything starts."""

from __future__ import annotations

from tarmac.errors import RequestError
from tarmac.training.engine.strategy import StrategySpec
from tarmac.workloads import Muon, Optimizer, Recipe, TorchOptimizer

# These optimizers read a whole tensor, or call operations that DTensors lack. All others passed a
# comparison with unsharded training.
_NOT_BY_PARTS = ("torch.optim.Adafactor", "torch.optim.Muon", "torch.optim.Rprop")


def check_sharding(strategy: StrategySpec, recipe: Recipe, *, compiled: bool) -> None:
    """Raise a RequestError if the strategy shards the model and cannot train the recipe.

    Args:
        strategy: Strategy of the training; one that does not shard the model trains any recipe.
        recipe: Recipe of the training, with its optimizers and any moving average.
        compiled: Whether the model is compiled.
    """
    if not strategy.shards_model:
        return
    optimizers = [recipe.optimizer, *(g.optimizer for g in recipe.parameter_groups.values())]
    whole = next((o.name for o in optimizers if _wants_whole_tensors(o)), None)
    refused = {
        "keep a moving average of weights (ema)": recipe.ema is not None,
        f"train by {whole}, which does not update a tensor part by part": whole is not None,
        "compile the model": compiled,
    }
    for what, is_asked in refused.items():
        if is_asked:
            raise RequestError(
                f"{strategy.name} cannot {what}",
                hint="Leave it out, or use --strategy ddp.",
            )


def _wants_whole_tensors(optimizer: Optimizer) -> bool:
    is_refused = isinstance(optimizer, TorchOptimizer) and optimizer.name in _NOT_BY_PARTS
    return is_refused or isinstance(optimizer, Muon)
