"""The connection to a cluster, from this machine or from a runner's pod."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from tarmac.files import expanded
from tarmac.tasks.runner_notes import RUNNER_JOB

if TYPE_CHECKING:
    from tarmac.kubernetes import Cluster


def connect_to(
    kubeconfig: str, context: str, namespace: str, *, patience_s: float | None = None
) -> Cluster:
    """Connect to the cluster that options name; a runner's pod connects to its own cluster.

    Args:
        kubeconfig: Path of the kubeconfig; empty for kubectl's own choice.
        context: Context of the kubeconfig; empty for its current context.
        namespace: Namespace of the runs; empty for the context's.
        patience_s: Most seconds for one request; None for the default of `connect`.

    Raises:
        RequestError: There is no cluster to connect to.
    """
    # Imports httpx, which takes a tenth of a second and which no other executor needs.
    from tarmac.kubernetes import connect  # noqa: PLC0415

    is_pod = RUNNER_JOB in os.environ and "KUBERNETES_SERVICE_HOST" in os.environ
    patience: dict[str, Any] = {} if patience_s is None else {"patience_s": patience_s}
    return connect(
        kubeconfig=expanded(kubeconfig) if kubeconfig and not is_pod else None,
        context=(context or None) if not is_pod else None,
        namespace=namespace or None,
        **patience,
    )
