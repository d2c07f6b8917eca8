"""The feeds of `loader.py` as workloads: `tarmac train FILE:arrays_0`, `:jpegs_2`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))

from _loader_task import BATCH_SIZE, EPOCHS, LEARNING_RATE, TASKS
from torch.utils.data import DataLoader

from tarmac.data import Dataset
from tarmac.workloads import SGD, Recipe, Workload


def _workload(name: str, workers: int) -> Workload:
    task = TASKS[name]

    def dataset() -> Dataset:
        train = DataLoader(task.dataset(task.count, 0), num_workers=workers)
        return Dataset(name, train, task.dataset(BATCH_SIZE, 1), num_classes=10)

    return Workload(
        name=f"bench-loader-{name}-{workers}",
        summary=f"images by a loader of {workers} workers",
        dataset=dataset,
        model=task.network,
        recipe=Recipe(
            optimizer=SGD(learning_rate=LEARNING_RATE, momentum=0.9, nesterov=True),
            batch_size=BATCH_SIZE,
            epochs=EPOCHS,
        ),
    )


arrays_0, arrays_2 = (_workload("arrays", workers) for workers in (0, 2))
jpegs_0, jpegs_2 = (_workload("jpegs", workers) for workers in (0, 2))
