"""The executor ``kubernetes``: chunks of tasks are Indexed Jobs."""

from tarmac.executors.kubernetes.kind import KUBERNETES, KubernetesExecutor

__all__ = ["KUBERNETES", "KubernetesExecutor"]
