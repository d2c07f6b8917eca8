"""Runs pipelines in a run's directory: what drives them, its journal, and how to go on."""

from tarmac.hkube.running.api import run_pipeline as run_pipeline
from tarmac.hkube.running.observer import Observer as Observer
from tarmac.hkube.running.observer import Silent as Silent
from tarmac.hkube.running.outcome import RESULT as RESULT
from tarmac.hkube.running.outcome import PipelineEnd as PipelineEnd
from tarmac.hkube.running.plan import PipelinePlan as PipelinePlan
from tarmac.hkube.running.plan import forecast as forecast
from tarmac.hkube.running.plan import plan_pipeline as plan_pipeline
from tarmac.hkube.running.verb import asked_of_cluster as asked_of_cluster
from tarmac.hkube.running.verb import prepare_pipeline as prepare_pipeline
from tarmac.hkube.running.verb import work_on_pipeline as work_on_pipeline
