"""Pipelines as pure functions: what references stand for, which tasks follow from which results."""

from tarmac.hkube.pipelines.interface import NodeFailure as NodeFailure
from tarmac.hkube.pipelines.interface import NodeForecast as NodeForecast
from tarmac.hkube.pipelines.interface import NodeTask as NodeTask
from tarmac.hkube.pipelines.interface import NodeTasks as NodeTasks
from tarmac.hkube.pipelines.state import PipelineState as PipelineState
