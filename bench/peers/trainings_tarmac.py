"""The tasks of `trainings.py` as workloads: `tarmac train FILE:gpt`, `:resnet18`, `:table`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))

from _training_tasks import TASKS

from tarmac.data import Dataset, Split
from tarmac.workloads import SGD, AdamW, Classification, NextToken, Recipe, Regression, Workload


def _workload(name: str) -> Workload:
    task = TASKS[name]

    def dataset() -> Dataset:
        x, y, x_test, y_test = task.data()
        classes = 10 if task.kind == "images" else None
        return Dataset(name, Split(x, y), Split(x_test, y_test), num_classes=classes)

    optimizer = (
        AdamW(
            learning_rate=task.learning_rate,
            beta1=0.9,
            beta2=0.99,
            eps=1e-8,
            weight_decay=task.weight_decay,
        )
        if task.adamw
        else SGD(learning_rate=task.learning_rate, momentum=0.9, nesterov=True)
    )
    objective = {"tokens": NextToken(), "images": Classification(), "table": Regression("mse")}
    return Workload(
        name=f"bench-{name}",
        summary=f"{name}, as the peers train it",
        dataset=dataset,
        model=task.network,
        objective=objective[task.kind],
        recipe=Recipe(
            optimizer=optimizer,
            batch_size=task.batch_size,
            epochs=task.epochs,
            clip_norm=task.clip_norm,
        ),
    )


gpt, resnet18, table = (_workload(name) for name in TASKS)
