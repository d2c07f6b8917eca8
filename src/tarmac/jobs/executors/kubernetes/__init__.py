"""Kubernetes as an executor: chunks of tasks are Indexed Jobs."""

from tarmac.jobs.executors.kubernetes.kind import KUBERNETES as KUBERNETES
from tarmac.jobs.executors.kubernetes.kind import KubernetesExecutor as KubernetesExecutor
