"""A training is told to a real MLflow server on this machine, and read back through its client."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from waiting import wait_until

pytestmark = pytest.mark.frameworks


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[str]:
    """A server of the whole package, in an environment of its own."""
    # Not at the top: every run of the tests imports this file, and few start this server.
    pytest.importorskip("mlflow")
    pytest.importorskip("torch")
    directory = tmp_path_factory.mktemp("mlflow")
    uv = shutil.which("uv") or pytest.skip("uv makes the environment")
    python = directory / "venv" / "bin" / "python"
    subprocess.run([uv, "venv", "-q", "-p", sys.executable, directory / "venv"], check=True)
    subprocess.run([uv, "pip", "install", "-q", "-p", python, "mlflow"], check=True, timeout=900)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [python.with_name("mlflow"), "server", "--host", "127.0.0.1", "--port", str(port)]
    store = ["--backend-store-uri", f"sqlite:///{directory}/mlflow.db", "--workers", "1"]
    process = subprocess.Popen([*command, *store], cwd=directory, start_new_session=True)
    url = f"http://127.0.0.1:{port}"
    try:
        _await(f"{url}/health", process)
        yield url
    finally:
        os.killpg(process.pid, 15)
        process.wait(60)


def _await(url: str, process: subprocess.Popen[bytes]) -> None:
    def answers() -> bool:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return True
        except OSError:
            return False

    wait_until(answers, "the server's answer", seconds=180, unless=process.poll)


@pytest.mark.timeout(1200)
def test_a_real_server_has_what_the_run_has(server, tmp_path: Path, monkeypatch):
    from mlflow import MlflowClient

    from tarmac.training import resume, train

    monkeypatch.setenv("MLFLOW_TRACKING_URI", server)
    small = {"epochs": 2, "train_size": 256, "devices": "cpu", "log_to": ["mlflow"]}
    begun = train("digits-mlp", output=tmp_path, interrupted=lambda: True, **small)
    client = MlflowClient(server)
    experiment = client.get_experiment_by_name("tarmac")
    (found,) = client.search_runs([experiment.experiment_id])
    assert found.info.status == "KILLED"
    run = resume(begun.path)
    (found,) = client.search_runs([experiment.experiment_id])
    assert found.info.status == "FINISHED"
    assert found.info.run_name == run.name
    assert run.record.tracked["mlflow"].endswith(found.info.run_id)
    assert found.data.params["epochs"] == "2"
    assert found.data.params["settings.hidden"] == "128"
    assert found.data.tags["workload"] == "digits-mlp"
    points = client.get_metric_history(found.info.run_id, "loss")
    assert [(point.step, point.value) for point in points] == [
        (row["epoch"], row["loss"]) for row in run.history
    ]
    assert found.data.metrics["test_accuracy"] == run.metrics["test_accuracy"]
