"""HKube: workloads served as HKube algorithms, and HKube algorithms and pipelines run here.

Behavior that HKube's documentation leaves open follows kube-HPC/hkube at 261d3d06.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tarmac.distribution import explained_imports
from tarmac.lazy import lazy_names

if TYPE_CHECKING:
    from tarmac.hkube.clusters import run_errand as run_errand
    from tarmac.hkube.extended_json import to_json as to_json
    from tarmac.hkube.extended_json import write_json as write_json
    from tarmac.hkube.hosting import Ending as Ending
    from tarmac.hkube.hosting import Work as Work
    from tarmac.hkube.running import RESULT as RESULT
    from tarmac.hkube.running import Observer as Observer
    from tarmac.hkube.running import PipelineEnd as PipelineEnd
    from tarmac.hkube.running import PipelinePlan as PipelinePlan
    from tarmac.hkube.running import Silent as Silent
    from tarmac.hkube.running import asked_of_cluster as asked_of_cluster
    from tarmac.hkube.running import forecast as forecast
    from tarmac.hkube.running import plan_pipeline as plan_pipeline
    from tarmac.hkube.running import prepare_pipeline as prepare_pipeline
    from tarmac.hkube.running import run_pipeline as run_pipeline
    from tarmac.hkube.running import work_on_pipeline as work_on_pipeline
    from tarmac.hkube.serving import serve as serve
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, explained_imports)
