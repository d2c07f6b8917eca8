"""Runs for `report.py`: directories as a training, a job and a search would leave them."""

from __future__ import annotations

import base64
import json
import math
import random
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

GPUS, SAMPLES, MISTAKES = 8, 2000, 24


def make_training(output: Path, epochs: int) -> Path:
    """Write a run's directory."""
    from tarmac.runs import Run, Session

    run = Run.create(
        output,
        name=f"epochs-{epochs}",
        workload="mnist-mlp",
        command=["tarmac", "train", "mnist-mlp"],
        configuration={"workload": "mnist-mlp", "epochs": epochs},
        dataset={"name": "mnist", "sample_shape": [28, 28]},
        device={"type": "cuda", "index": 0, "name": "NVIDIA H100 80GB HBM3"},
        versions={"python": "3.12"},
        seed=0,
        git=None,
        expectation=None,
    )
    began = run.record.created_at
    run.update(
        status="completed",
        elapsed_s=epochs * 10.0,
        ended_at=began + timedelta(seconds=epochs * 10),
        sessions=[Session(started_at=began, pid=1).model_dump()],
        metrics={"test_accuracy": 0.98},
    )
    with (run.path / "metrics.jsonl").open("w") as file:
        for epoch in range(1, epochs + 1):
            row = {
                "epoch": epoch,
                "loss": math.exp(-epoch / epochs) + 0.01 * math.sin(epoch),
                "accuracy": 1 - 0.9 * math.exp(-3 * epoch / epochs),
                "val_loss": math.exp(-epoch / epochs) + 0.02 * math.sin(epoch),
                "val_accuracy": 0.99 - 0.9 * math.exp(-3 * epoch / epochs),
                "learning_rate": 0.1 * (1 - epoch / epochs),
                "samples_per_s": 1e6 + 1e4 * math.sin(epoch),
                "seconds": 9.5,
                "data_wait_s": 0.4 + 0.1 * math.sin(epoch),
            }
            file.write(json.dumps(row) + "\n")
    write_samples(run.path, epochs * 10.0)
    write_predictions(run.path)
    return run.path


def write_samples(run: Path, seconds: float) -> None:
    """Write samples of all GPUs."""
    gpus = [{"uuid": f"GPU-{n}", "index": n, "name": "NVIDIA H100 80GB HBM3"} for n in range(GPUS)]
    with (run / "samples.jsonl").open("w") as file:
        session = {"kind": "session", "at_s": 0.0, "host": "node", "cpu_count": 64.0, "gpus": gpus}
        file.write(json.dumps(session) + "\n")
        for place in range(SAMPLES):
            rows = {
                f"GPU-{n}": {
                    "utilization_ratio": 0.9 + 0.1 * math.sin(place / 9 + n),
                    "memory_used_bytes": 40 * 2**30,
                    "power_watts": 600 + 50 * math.sin(place / 7 + n),
                }
                for n in range(GPUS)
            }
            line = {"kind": "sample", "at_s": place * seconds / SAMPLES, "cpu_ratio": 0.5}
            file.write(json.dumps(line | {"gpus": rows}) + "\n")


def write_predictions(run: Path) -> None:
    """Write what a model of ten classes took for what."""
    pixels = base64.b64encode(bytes(place % 256 for place in range(784))).decode()
    mistake = {"index": 1, "target": 1, "predicted": 2, "confidence": 0.9, "pixels": pixels}
    content = {
        "schema_version": 1,
        "num_samples": 10_000,
        "num_test": 10_000,
        "confusion": [[980 if r == c else 2 for c in range(10)] for r in range(10)],
        "sample_shape": [28, 28],
        "mistakes": [mistake] * MISTAKES,
    }
    (run / "predictions.json").write_text(json.dumps(content))


def make_job(output: Path, tasks: int) -> Path:
    """Write the run of a sweep by an engine with two GPUs; one task of 50 has failed."""
    from tarmac.jobs import Job, create_run, plan_tasks, read_timeline

    specs = [
        {"name": "prepare", "command": "true"},
        {
            "name": "train",
            "needs": ["prepare"],
            "command": "true",
            "sweep": {"grid": {"seed": [*range(tasks)]}},
        },
    ]
    job = Job.model_validate({"name": f"tasks-{tasks}", "tasks": specs})
    run = create_run(job, output, tuple(plan_tasks(job, output)), output / "runs")
    at = read_timeline(run.path).began_at + 1
    lines: list[dict[str, Any]] = []

    def write(event: str, task: int, name: str, when: float, **values: object) -> None:
        lines.append({"event": event, "task": task, "name": name, "at": when, **values})

    def end(task: int, name: str, when: float, *, is_bad: bool) -> None:
        ending = {"outcome": "failed", "reason": "exit code 1", "cause": "exit", "exit_code": 1}
        if not is_bad:
            ending = {"outcome": "succeeded", "reason": "", "cause": None, "exit_code": 0}
        write("ended", task, name, when, **ending, seconds=1.0, attempts=1)

    write("started", 0, "prepare", at, attempt=1)
    end(0, "prepare", at + 10, is_bad=False)
    for seed in range(tasks):
        name, start = f"train[seed={seed}]", at + 10 + seed // 2
        write("queued", seed + 1, name, at + 10, attempt=1, place=f"80_{seed}")
        given = {"attempt": 1, "host": "node1", "gpus": [f"GPU-{seed % 2}"]}
        write("started", seed + 1, name, start, **given)
        end(seed + 1, name, start + 1, is_bad=seed % 50 == 7)
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (run.path / "journal.jsonl").write_text(text)
    return run.path


def make_search(output: Path, networks: int) -> Path:
    """Write a random search over ten parameters; its networks were never trained."""
    import optuna

    from tarmac.studies.request import make_request
    from tarmac.studies.space import Numbers, Space
    from tarmac.studies.study.writer import StudyWriter

    fields = {"workload": "mnist-mlp", "epochs": 2, "method": "random"}
    request = make_request({**fields, "objective": ("val_accuracy", "params")})
    space = Space({f"p{number}": Numbers(0.0, 1.0) for number in range(10)})
    made = StudyWriter.create(
        output,
        f"networks-{networks}",
        request,
        space,
        {},
        train_size=50_000,
        validation_size=10_000,
    )
    rng = random.Random(0)
    distributions = space.distributions()
    trials = []
    for number in range(networks):
        params = space.draw(rng)
        worth = 0.9 - 0.1 * abs(params["p0"] - 0.5) + rng.gauss(0, 0.01)
        trials.append(
            optuna.trial.create_trial(
                params=params,
                distributions=distributions,
                values=[worth, 1000.0 + number],
                user_attrs={"epochs": 2, "seconds": 1.5, "num_parameters": 100 * (1 + number % 9)},
            )
        )
    made.optuna.add_trials(trials)
    # Longer than the page shows.
    made.update(status="completed", front=tuple(range(0, networks, 4)), elapsed_s=1.5 * networks)
    return made.path
