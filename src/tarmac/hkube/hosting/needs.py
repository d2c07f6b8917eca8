"""The resources of a task together with the tasks that wait for it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping

from tarmac.hkube.hosting.interface import Work
from tarmac.jobs import Task


def callers_of(work: Work) -> Iterator[Work]:
    """Yield the tasks whose algorithms wait for a task, nearest first."""
    caller = work.caller
    while caller is not None:
        yield caller
        caller = caller.caller


def beside_callers(work: Work, templates: Mapping[str, Task]) -> Task:
    """Return a task with the resources of a task and its callers, which all hold theirs at once.

    Args:
        work: Task that has a caller.
        templates: Tasks planned from the algorithms' jobs, by algorithm name.
    """
    callers = [*callers_of(work)]
    task = templates[work.algorithm]
    every = [
        templates[caller.algorithm].resources for caller in callers if caller.algorithm in templates
    ]
    every.append(task.resources)
    gpus = sum(needs.gpus for needs in every)
    together = task.resources.model_copy(
        update={
            "cpus": sum(needs.cpus for needs in every),
            "memory": sum(needs.memory or 0 for needs in every) or None,
            # Fractions of a GPU may share one GPU.
            "gpus": gpus if gpus <= 1 else float(math.ceil(gpus)),
        }
    )
    names = ", ".join(caller.name for caller in callers)
    return dataclasses.replace(
        task, name=f"{work.name} beside {names}, which started it", resources=together
    )
