"""Placement groups: the distinct nodes of one attempt, reserved together or not at all."""

from __future__ import annotations

import contextlib
import importlib
import time
from typing import Any

from tarmac.executors.ray.demand import Demand

# A group's resources are free within moments, except those of a lost node.
_REMOVED_WITHIN_S = 30.0
_LOOK_EVERY_S = 0.05


class Group:
    """A placement group of one attempt.

    Args:
        ray: The imported package ``ray``.
        demand: Resources and labels of each node.
        excluded: Ids of nodes that the group must avoid.

    Attributes:
        handle: Ray's object for the placement group.
        ready: `concurrent.futures.Future` that is done once all nodes are held.
    """

    def __init__(self, ray: Any, demand: Demand, excluded: tuple[str, ...] = ()) -> None:
        self._ray = ray
        self._util = importlib.import_module("ray.util.placement_group")
        labels = {**demand.labels}
        if excluded:
            labels["ray.io/node-id"] = f"!in({','.join(excluded)})"
        selectors = {"bundle_label_selector": [labels] * demand.nodes} if labels else {}
        # Ray requires at least one resource in a bundle.
        bundle = demand.amounts() or {"CPU": 0.0001}
        self.handle = self._util.placement_group(
            [bundle] * demand.nodes, strategy="STRICT_SPREAD", **selectors
        )
        self.ready = self.handle.ready().future()

    def strategy(self, rank: int) -> Any:
        """Return the scheduling strategy for a task on one of the group's nodes."""
        strategies = importlib.import_module("ray.util.scheduling_strategies")
        return strategies.PlacementGroupSchedulingStrategy(
            self.handle, placement_group_bundle_index=rank
        )

    def give_up(self) -> None:
        """Stop waiting for nodes."""
        self._util.remove_placement_group(self.handle)

    def remove(self) -> None:
        """Remove the group, and wait until its resources are free."""
        with contextlib.suppress(self._ray.exceptions.RayError):
            self._util.remove_placement_group(self.handle)
            end = time.monotonic() + _REMOVED_WITHIN_S
            while time.monotonic() < end:
                if self._util.placement_group_table(self.handle).get("state") == "REMOVED":
                    return
                time.sleep(_LOOK_EVERY_S)
