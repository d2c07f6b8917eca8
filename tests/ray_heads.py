"""Starts Ray's clusters for tests."""

from __future__ import annotations

from typing import Any

# The least that Ray takes.
OBJECT_STORE_BYTES = 78_643_200

# Ray gives a node 30 s to come, which a busy machine may not keep.
_TRIES = 3


def start_head(**what: Any) -> Any:
    """Return a cluster, as `ray.cluster_utils` has it, of a head alone."""
    from ray.cluster_utils import Cluster

    head = {"object_store_memory": OBJECT_STORE_BYTES, "include_dashboard": False, **what}
    for left in reversed(range(_TRIES)):
        cluster = Cluster()
        try:
            cluster.add_node(**head)
        except Exception:
            cluster.shutdown()
            if not left:
                raise
        else:
            return cluster
    raise AssertionError
