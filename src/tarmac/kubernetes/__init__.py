"""A client of the Kubernetes API: kubeconfig, requests, watches and explanations of states.

This package knows nothing of job files. A `NoAnswer` is no answer; a `Refused` is a denial.

Example::

    with connect(namespace="team-a") as cluster, cluster.watch("Pod", "app=x") as pods:
        pods.wait_for_change(10)
        print(pods.look())
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tarmac.lazy import lazy_names

if TYPE_CHECKING:
    from tarmac.kubernetes.answers import Listed as Listed
    from tarmac.kubernetes.answers import NoAnswer as NoAnswer
    from tarmac.kubernetes.answers import Object as Object
    from tarmac.kubernetes.answers import Refused as Refused
    from tarmac.kubernetes.answers import Right as Right
    from tarmac.kubernetes.answers import Version as Version
    from tarmac.kubernetes.answers import in_form as in_form
    from tarmac.kubernetes.bounds import why_out_of_bounds as why_out_of_bounds
    from tarmac.kubernetes.cluster import Cluster as Cluster
    from tarmac.kubernetes.cluster import connect as connect
    from tarmac.kubernetes.events import explain_creation as explain_creation
    from tarmac.kubernetes.events import explain_event as explain_event
    from tarmac.kubernetes.events import explain_quota as explain_quota
    from tarmac.kubernetes.jobs import JOB_ENDS as JOB_ENDS
    from tarmac.kubernetes.jobs import JobState as JobState
    from tarmac.kubernetes.jobs import explain_job as explain_job
    from tarmac.kubernetes.kubeconfig import NoKubeconfigError as NoKubeconfigError
    from tarmac.kubernetes.look import Look as Look
    from tarmac.kubernetes.manifests import JOBSET_RIGHTS as JOBSET_RIGHTS
    from tarmac.kubernetes.manifests import RIGHTS as RIGHTS
    from tarmac.kubernetes.manifests import as_yaml as as_yaml
    from tarmac.kubernetes.manifests import check_daemon_set as check_daemon_set
    from tarmac.kubernetes.manifests import problem_detector_set as problem_detector_set
    from tarmac.kubernetes.manifests import role_for as role_for
    from tarmac.kubernetes.manifests import setup as setup
    from tarmac.kubernetes.nodes import ClusterNode as ClusterNode
    from tarmac.kubernetes.overlays import Fault as Fault
    from tarmac.kubernetes.overlays import faults_of as faults_of
    from tarmac.kubernetes.overlays import merged as merged
    from tarmac.kubernetes.pod_rows import DISRUPTIONS as DISRUPTIONS
    from tarmac.kubernetes.pod_rows import ENDS as ENDS
    from tarmac.kubernetes.pod_rows import WAITS as WAITS
    from tarmac.kubernetes.pod_rows import Cause as Cause
    from tarmac.kubernetes.pod_security import container_context as container_context
    from tarmac.kubernetes.pod_security import default_user as default_user
    from tarmac.kubernetes.pod_security import home_variables as home_variables
    from tarmac.kubernetes.pod_security import pod_context as pod_context
    from tarmac.kubernetes.pods import UNFIT as UNFIT
    from tarmac.kubernetes.pods import PodState as PodState
    from tarmac.kubernetes.pods import explain_pod as explain_pod
    from tarmac.kubernetes.quantities import is_gpu as is_gpu
    from tarmac.kubernetes.quantities import quantity as quantity
    from tarmac.kubernetes.refusals import REFUSALS as REFUSALS
    from tarmac.kubernetes.refusals import Explained as Explained
    from tarmac.kubernetes.refusals import explain_refusal as explain_refusal
    from tarmac.kubernetes.refusals import lacking_right as lacking_right
    from tarmac.kubernetes.survey import ClusterFindings as ClusterFindings
    from tarmac.kubernetes.survey import survey_cluster as survey_cluster
    from tarmac.kubernetes.watch import Watch as Watch
    from tarmac.kubernetes.workloads import explain_workload as explain_workload
    from tarmac.kubernetes.workloads import job_of_workload as job_of_workload
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
