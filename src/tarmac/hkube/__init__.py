"""HKube: workloads as its algorithms, and its algorithms and pipelines run here.

What its documentation does not say is as in kube-HPC/hkube at 261d3d06.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from tarmac.distribution import explained_imports

if TYPE_CHECKING:
    from tarmac.hkube.clusters import run_errand
    from tarmac.hkube.extended_json import to_json, write_json
    from tarmac.hkube.hosting import Ending, Work
    from tarmac.hkube.running import (
        RESULT,
        Observer,
        PipelineEnd,
        PipelinePlan,
        Silent,
        asked_of_cluster,
        forecast,
        plan_pipeline,
        prepare_pipeline,
        run_pipeline,
        work_on_pipeline,
    )
    from tarmac.hkube.serving import serve

__all__ = [
    "RESULT",
    "Ending",
    "Observer",
    "PipelineEnd",
    "PipelinePlan",
    "Silent",
    "Work",
    "asked_of_cluster",
    "forecast",
    "plan_pipeline",
    "prepare_pipeline",
    "run_errand",
    "run_pipeline",
    "serve",
    "to_json",
    "work_on_pipeline",
    "write_json",
]

# Where a name is at home, of those that are not of `tarmac.hkube.running`.
_PARTS = {
    "Ending": "tarmac.hkube.hosting",
    "Work": "tarmac.hkube.hosting",
    "run_errand": "tarmac.hkube.clusters",
    "serve": "tarmac.hkube.serving",
    "to_json": "tarmac.hkube.extended_json",
    "write_json": "tarmac.hkube.extended_json",
}


def __getattr__(name: str) -> object:
    """Import a part when its name is first used: each needs other packages."""
    if name not in __all__:
        raise AttributeError(f"module 'tarmac.hkube' has no attribute {name!r}")
    with explained_imports():
        return getattr(importlib.import_module(_PARTS.get(name, "tarmac.hkube.running")), name)
