"""Pipeline runs in a run's directory: execution, journal and resume."""

from tarmac.hkube.running.api import run_pipeline
from tarmac.hkube.running.observer import Observer, Silent
from tarmac.hkube.running.outcome import RESULT, PipelineEnd
from tarmac.hkube.running.plan import PipelinePlan, forecast, plan_pipeline
from tarmac.hkube.running.verb import asked_of_cluster, prepare_pipeline, work_on_pipeline

__all__ = [
    "RESULT",
    "Observer",
    "PipelineEnd",
    "PipelinePlan",
    "Silent",
    "asked_of_cluster",
    "forecast",
    "plan_pipeline",
    "prepare_pipeline",
    "run_pipeline",
    "work_on_pipeline",
]
