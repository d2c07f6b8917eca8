"""Trainings whose output is in an object store, on a real server of its protocol."""

from __future__ import annotations

import os
import shutil
import signal

import pytest

pytest.importorskip("obstore", reason="object stores are an extra")

from forked import run_python
from tarmac.errors import TarmacError
from tarmac.hkube.protocol import Message
from tarmac.runs import Run
from tarmac.training import fetch_run


def test_weights_and_events_are_in_the_store_that_the_variables_of_tensorflow_name(
    s3, served_here, worker
):
    served_here()
    done = worker.ask("t", {"epochs": 1, "output": "s3://bucket/folder/"})
    assert done.command == "done"
    assert done.data["output"] == "s3://bucket/folder/t/model.safetensors"
    found = s3.list_objects_v2(Bucket="bucket", Prefix="folder/t/")["Contents"]
    names = {each["Key"].removeprefix("folder/t/") for each in found}
    assert {"model.safetensors", "run.json", "metrics.jsonl"} < names
    assert any(name.startswith("events.out.tfevents.") for name in names)


def test_a_stopped_task_goes_on_on_another_machine(s3, served_here, worker, tmp_path):
    asked = {"epochs": 60, "train_size": 256, "output": "s3://bucket/other"}
    asked |= {"devices": "cpu", "precision": "fp32"}
    here = served_here()
    worker.begin("t", asked)
    worker.hear("progress")
    worker.say("stop", {"forceStop": True})
    assert worker.hear_next() == Message("stopped")
    # Another task whose name begins like it.
    assert worker.ask("t2", asked).command == "done"
    whole = Run.open(tmp_path / "runs" / "t2").model.read_bytes()
    shutil.rmtree(tmp_path / "runs")
    done = worker.ask("t", asked)
    assert done.command == "done"
    assert "t resumes from its newest checkpoint" in here.lines
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["t"]
    body = s3.get_object(Bucket="bucket", Key="other/t/model.safetensors")["Body"].read()
    assert body == whole
    shutil.rmtree(tmp_path / "runs")
    assert worker.ask("t", asked) == done


def test_a_store_that_does_not_answer_as_it_should_is_named_before_anything_is_trained(
    s3, served_here, worker, tmp_path
):
    here = served_here()
    told = worker.ask("t", {"epochs": 1, "output": "s3://missing/folder"})
    assert told.command == "errorMessage"
    assert "s3://missing/folder/t" in told.error["message"]
    assert "hunter2" not in str(told) + str(here.lines)
    assert not (tmp_path / "runs" / "t").exists()


# Killed as soon as a checkpoint is whole in the store, before anything else is.
KILLED = """
import os, signal, sys
import tarmac
from tarmac.training.session import upload

upload.LOOK_INTERVAL_S = 0.01
write = upload.write_object

def write_object(uri, *others):
    write(uri, *others)
    if "/checkpoints/epoch-" in uri and "epoch-00001" not in uri:
        os.kill(os.getpid(), signal.SIGKILL)

upload.write_object = write_object
options = {"devices": "cpu", "precision": "fp32", "train_size": 64}
tarmac.train("digits-mlp", epochs=100, output="s3://bucket/killed", name="t", **options)
"""


def test_a_task_whose_pod_was_killed_goes_on_in_another_one_with_the_same_bits(
    s3, served_here, worker, tmp_path
):
    environment = {**os.environ, "TARMAC_RUNS": str(tmp_path / "lost"), "OMP_NUM_THREADS": "1"}
    killed = run_python("-c", KILLED, env=environment)
    assert killed.returncode == -signal.SIGKILL
    asked = {"epochs": 100, "devices": "cpu", "precision": "fp32", "train_size": 64}
    here = served_here()
    undisturbed = worker.ask("whole", asked)
    done = worker.ask("t", asked | {"output": "s3://bucket/killed"})
    assert done.command == "done"
    assert done.data["loss"] == undisturbed.data["loss"]
    begun = here.lines.index("t was started before, and is copied from s3://bucket/killed/t")
    assert here.lines[begun + 1] == "t resumes from its newest checkpoint"
    body = s3.get_object(Bucket="bucket", Key="killed/t/model.safetensors")["Body"].read()
    assert body == Run.open(tmp_path / "runs" / "whole").model.read_bytes()


def test_what_a_store_holds_is_written_into_the_runs_directory_alone(s3, tmp_path):
    s3.put_object(Bucket="bucket", Key="evil/t/run.json", Body=b"{}")
    s3.put_object(Bucket="bucket", Key="evil/t/a/../../../../x", Body=b"")
    with pytest.raises(TarmacError, match="invalid path"):
        fetch_run("s3://bucket/evil/t", tmp_path / "runs" / "t")
    assert not [*tmp_path.iterdir()]
